elementclass { input -> output }
elementclass A :: { input -> output }
elementclass B;
Idle -> A -> Discard;
