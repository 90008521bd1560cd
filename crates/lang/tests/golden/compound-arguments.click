elementclass Shaped { $rate, BURST $burst | input -> Queue($burst) -> Shaper($rate) -> output }
Idle -> Shaped(10) -> Discard;
Idle -> Shaped(BURST 5) -> Discard;
Idle -> Shaped(10, 20, BURST 5) -> Discard;
Idle -> { input -> output } (7) -> Discard;
