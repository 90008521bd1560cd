// Two flows, a core each: no queue, port or packet is shared.
FromDevice($IN0, CORES 0) -> ToDevice($OUT0);
FromDevice($IN1, CORES 1) -> ToDevice($OUT1);
