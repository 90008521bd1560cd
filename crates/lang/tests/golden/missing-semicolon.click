a :: Idle b :: Discard;
a -> b
c :: Idle;
c -> Discard Idle -> Discard;
