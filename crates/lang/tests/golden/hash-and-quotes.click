a :: Idle; # a comment?
"b" :: Idle;
c :: Idle → Discard;
