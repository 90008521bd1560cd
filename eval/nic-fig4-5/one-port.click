// One port, all its queues dealt to the cores.
FromDevice($A, QUEUES $QUEUES, CORES $CORES) -> ToDevice($B);
