// (e) Overlapping paths: both cores receive for one port, whose one transmit queue belongs to core 0.
q :: Queue(1024) -> ToDevice($C, CORES 0);
FromDevice($A, CORES 0) -> q;
FromDevice($B, CORES 1) -> q;
