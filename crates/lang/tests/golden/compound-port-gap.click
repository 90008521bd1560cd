elementclass Gap { input[0] -> Counter -> [0]output; input[3] -> Discard }
Idle -> Gap -> Discard;
