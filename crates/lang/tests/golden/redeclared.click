q :: Queue(10);
Idle -> q -> Discard;
q :: Queue(20);
