// The router of moves.py: a port with two queues, flows sorted by hash, and what a router with address translation does to a
// packet. Cutting it for the smallest link (RFC 791: 68 bytes), and putting it together again, four times, makes the work more than ten
// microseconds, so that a ring of a common network card holds what comes in the time that buckets may take to move (page.md).
FromDevice(in, QUEUES 2)
    // What CLASSIFY hash stands for, with as much room between workers as in a ring of the port.
    -> BucketByHash
    -> in@steer :: Steer(CAPACITY $RING)
    -> Strip(14)
    -> CheckIPHeader
    -> SetUDPChecksum
    -> flows :: FlowCounter
    -> nat :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0)
    -> rt :: RadixIPLookup(10.0.0.0/8 0, 10.2.0.0/16 192.0.2.254 0, 0.0.0.0/0 192.0.2.253 0)
    -> DecIPTTL
    -> IPFragmenter(68) -> IPReassembler -> IPFragmenter(68) -> IPReassembler
    -> IPFragmenter(68) -> IPReassembler -> IPFragmenter(68) -> IPReassembler
    // Nothing but what came may leave: a packet that was put together wrongly is one that is lost.
    -> CheckUDPHeader
    -> EtherEncap(0x0800, 02:00:00:00:00:02, 02:00:00:00:01:01)
    -> ToDevice(out);
