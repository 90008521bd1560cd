define($MTU 1500, $MTU 9000);
elementclass A { $n | define($n 4) input -> Queue($n) -> output }
