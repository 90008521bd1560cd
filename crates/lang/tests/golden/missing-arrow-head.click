src :: Idle; dst :: Discard;
src - > dst;
