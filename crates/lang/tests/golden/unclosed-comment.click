a :: Idle;
/* the rest is
   not read
b :: Discard;
