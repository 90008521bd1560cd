// (b) Two paths, a core each, which receives and sends: nothing is shared.
FromDevice($A, CORES 0) -> ToDevice($B);
FromDevice($C, CORES 1) -> ToDevice($D);
