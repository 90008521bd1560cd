q :: ;
Idle -> q -> Discard;
