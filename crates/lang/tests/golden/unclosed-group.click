a :: Idle;
a -> ( -> Counter -> ;
b :: Discard;
