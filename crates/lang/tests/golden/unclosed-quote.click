src :: Print("hello);
dst :: Discard;
Idle -> src -> dst;
