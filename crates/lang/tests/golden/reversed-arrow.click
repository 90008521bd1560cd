a :: Idle; b :: Discard;
b <- a;
