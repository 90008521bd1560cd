// A serial NIC and two cores: one for the receive path, one for the transmit path.
FromDevice($A, CORES 0) -> Queue(1024) -> ToDevice($B, CORES 1);
