elementclass Once { input -> Counter -> output }
o :: Once;
Idle -> o -> Discard;
o[2] -> Discard;
Idle -> [1]o;
