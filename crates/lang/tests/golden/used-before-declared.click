Idle -> q;
q :: Queue;
q -> Unqueue -> Discard;
