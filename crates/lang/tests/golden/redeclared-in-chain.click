Idle -> c :: Counter -> c :: Counter -> Discard;
