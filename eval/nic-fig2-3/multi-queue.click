// A queue each way for each core.
FromDevice($A, QUEUES $CORES) -> ToDevice($B);
