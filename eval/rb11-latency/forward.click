// Minimal forwarding over one memif and back, with all that bounds how long a packet waits for others.
FromDevice($IN, BURST $KP) -> ToDevice($OUT, BURST $KN, TIMEOUT $TIMEOUT);
