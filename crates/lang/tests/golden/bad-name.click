1/x :: Idle;
7 :: Idle;
my-queue :: Queue;
eth0.5 :: Idle;
