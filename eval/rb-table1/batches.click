// Minimal forwarding with both batch sizes of RouteBricks' Table 1: packets taken from a port at a
// time (kp), and packets handed to a port at a time (kn).
FromDevice($IN, BURST $KP) -> ToDevice($OUT, BURST $KN, TIMEOUT $TIMEOUT);
