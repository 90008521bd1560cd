q :: Queue;
r :: q(10);
Idle -> q(5) -> Discard;
