elementclass Q { input -> Queue -> output || $n | input -> Queue($n) -> output }
Idle -> Q(1, 2) -> Discard;
