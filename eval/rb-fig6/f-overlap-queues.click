// (f) The same with multiple queues: each core has a transmit queue of that port.
c :: ToDevice($C);
FromDevice($A, CORES 0) -> c;
FromDevice($B, CORES 1) -> c;
