define($a $b, $b $a);
Idle -> Queue($a) -> Discard;
