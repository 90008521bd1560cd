// (d) The same with multiple queues: each core has a receive queue of the port.
FromDevice($A, QUEUES 2, CORES 0-1) -> ToDevice($B);
