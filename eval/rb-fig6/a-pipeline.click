// (a) A packet is received by one core and sent by another: the two meet in a Queue.
FromDevice($A, CORES 0) -> Queue(1024) -> ToDevice($B, CORES 1);
