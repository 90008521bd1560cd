elementclass Bad {
  Idle -> input;
  output -> Discard;
  input -> output;
}
Idle -> Bad -> Discard;
