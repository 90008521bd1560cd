elementclass Twice {
  input -> Counter -> output;
a :: Idle -> Twice -> Discard;
