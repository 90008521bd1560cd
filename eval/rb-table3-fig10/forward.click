// Minimal forwarding, with the packets that a poll finds.
FromDevice($IN, BURST $BURST) -> out :: ToDevice($OUT);
