// every one of these lines has a mistake
q :: Queue(10;
q :: ;
Idle -> -> Discard;
elementclass A { input -> [1]output }
x : Idle;
Idle -> { input -> nowhere[2] } -> Discard;
y :: Idle; y :: Idle;
