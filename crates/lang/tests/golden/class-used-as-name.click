Idle -> Counter -> Discard;
elementclass Twice { input -> Counter -> Counter -> output }
Counter :: Discard;
Twice :: Discard;
