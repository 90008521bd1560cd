a :: Idle };
b :: Idle ];
c :: Idle );
d :: Discard;
