g :: ( -> Counter -> );
Idle -> g -> Discard;
