// Classes with guarantees: each DSCP has a bucket, a rate and a bound (for aggregates, as DiffServ has them).
//
// tag_prefix_sort: flows are told by a tag in the packet; the next hop is found by the longest prefix of the destination; packets leave by deadline.
// Promise: To each class that was set up: the bound that `add` answered.
//
//     ashlar run conf/services/tag_prefix_sort.click DEV0=eth0 DEV1=eth1 DEV2=eth2
//     ashlar set flows1.add "46 RATE 64kbps BURST 1600 PACKET 200 DELAY 20ms"
//
// docs/qos.md explains it.

define(
    $DEV0 eth0,                 // packets come by this port
    $DEV1 eth1,                 // and leave by one of these
    $DEV2 eth2,
    $NEXT1 02:00:00:00:01:02,   // the routers at the other ends of those
    $NEXT2 02:00:00:00:02:02,
    $LINK 80Mbps,               // what the links can take of IP packets: Ethernet adds 38 bytes to each
    $WIDTH 1ms                  // of a bin: a packet is at most this late at a hop
);

// A priority tag (VLAN 0) is removed. Frames to any station are taken.
FromDevice($DEV0) -> HostEtherFilter($DEV0:eth, DROP_OTHER false)
    -> Classifier(12/0800) -> Strip(14) -> CheckIPHeader
    -> next :: DirectIPLookup(10.1.0.0/16 0, 10.2.0.0/16 1);

next[0] -> DecIPTTL -> flows1 :: FlowTable(BY dscp, LINK $LINK, BIN $WIDTH)
    -> DeadlineQueue(1000, WIDTH $WIDTH)
    -> BandwidthShaper($LINK) -> EtherEncap(0x0800, $DEV1:eth, $NEXT1) -> ToDevice($DEV1);
next[1] -> DecIPTTL -> flows2 :: FlowTable(BY dscp, LINK $LINK, BIN $WIDTH)
    -> DeadlineQueue(1000, WIDTH $WIDTH)
    -> BandwidthShaper($LINK) -> EtherEncap(0x0800, $DEV2:eth, $NEXT2) -> ToDevice($DEV2);
