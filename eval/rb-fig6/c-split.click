// (c) One port for two cores, and it has one queue: the core that has it keeps half of the packets and hands the others on.
FromDevice($A, QUEUES 1, CORES 0) -> split :: RoundRobinSwitch;
split[0] -> ToDevice($B);
split[1] -> Queue(1024) -> ToDevice($C, CORES 1);
