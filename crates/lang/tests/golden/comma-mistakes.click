a, , b :: Idle;
c, :: Idle;
Idle -> Discard,;
