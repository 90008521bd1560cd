// MPLS with guarantees: a label is a flow with a bucket, a rate and a bound.
//
// tag_look_sort: flows are told by a tag in the packet; the next hop is looked up by what the packet or its flow says; packets leave by deadline.
// Promise: To each label that was set up: no packet within its bucket takes longer than the bound that `add` answered.
//
//     ashlar run conf/services/tag_look_sort.click DEV0=eth0 DEV1=eth1 DEV2=eth2
//     ashlar set flows.add "100 RATE 64kbps BURST 1600 PACKET 200 DELAY 20ms"
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

// A flow's PORT says of which link its rate is reserved; the label table has the way.
// A priority tag (VLAN 0) is removed. Frames to any station are taken.
FromDevice($DEV0) -> HostEtherFilter($DEV0:eth, DROP_OTHER false)
    -> Classifier(12/8847) -> Strip(14)
    -> flows :: FlowTable(BY label, LINK $LINK, BIN $WIDTH)
    -> next :: MPLSLookup(100 swap 200 10.0.1.2 0, 101 swap 201 10.0.2.2 1);
flows[1] -> next;

next[0] -> DeadlineQueue(1000, WIDTH $WIDTH)
    -> BandwidthShaper($LINK) -> MPLSEtherEncap($DEV1:eth, $NEXT1) -> ToDevice($DEV1);
next[1] -> DeadlineQueue(1000, WIDTH $WIDTH)
    -> BandwidthShaper($LINK) -> MPLSEtherEncap($DEV2:eth, $NEXT2) -> ToDevice($DEV2);
