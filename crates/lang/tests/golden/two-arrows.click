a :: Idle; b :: Discard;
a -> -> b;
c :: Counter;
