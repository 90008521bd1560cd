// The router of moves.py: a port with two queues, flows sorted by hash, and work that takes about a microsecond
// for a packet, so that records of all packets fit into memory.
elementclass Work { input -> SetUDPChecksum -> CheckUDPHeader -> SetUDPChecksum -> CheckUDPHeader -> output; }
// What CLASSIFY hash stands for, with as much room between workers as in the port's rings.
FromDevice(in, QUEUES 2)
    -> BucketByHash
    -> in@steer :: Steer(CAPACITY 4096)
    -> Strip(14) -> CheckIPHeader -> Work -> Work -> Unstrip(14)
    -> ToDevice(out);
