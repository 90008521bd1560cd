// One receive queue, and a software NIC behind it: core 0 sorts packets by a hash of their flow and hands on those of other cores.
FromDevice($A, QUEUES 1, CORES 0, CLASSIFY hash) -> ToDevice($B);
