define :: Idle;
Idle -> require -> Discard;
