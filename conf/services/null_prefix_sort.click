// A core router of a core-stateless network (core-stateless guaranteed service).
//
// null_prefix_sort: no flows are told apart, packets say when they are due; the next hop is found by the longest prefix of the destination; packets leave by deadline.
// Promise: To each flow that the edges have admitted: the bound that `add` answered there.
//
//     ashlar run conf/services/null_prefix_sort.click DEV0=eth0 DEV1=eth1 DEV2=eth2
//
// docs/qos.md explains it.

define(
    $DEV0 eth0,                 // packets come by this port
    $DEV1 eth1,                 // and leave by one of these
    $DEV2 eth2,
    $NEXT1 02:00:00:00:01:02,   // the routers at the other ends of those
    $NEXT2 02:00:00:00:02:02,
    $LINK 80Mbps,               // what the links can take of IP packets: Ethernet and the state add 54 bytes to each
    $WIDTH 1ms                  // of a bin: a packet is at most this late at a hop
);

// All ports lead to routers of the network, so what packets say is believed; conf/core-stateless-edge.click is its edge.
// A priority tag (VLAN 0) is removed. Frames to any station are taken.
FromDevice($DEV0) -> HostEtherFilter($DEV0:eth, DROP_OTHER false)
    -> Classifier(12/88b5) -> Strip(14) -> DPSDecap -> CheckIPHeader
    -> next :: DirectIPLookup(10.1.0.0/16 0, 10.2.0.0/16 1);

next[0] -> DecIPTTL -> DeadlineQueue(1000, WIDTH $WIDTH) -> BandwidthShaper($LINK)
    -> DPSEncap(LINK $LINK, BIN $WIDTH) -> EtherEncap(0x88b5, $DEV1:eth, $NEXT1) -> ToDevice($DEV1);
next[1] -> DecIPTTL -> DeadlineQueue(1000, WIDTH $WIDTH) -> BandwidthShaper($LINK)
    -> DPSEncap(LINK $LINK, BIN $WIDTH) -> EtherEncap(0x88b5, $DEV2:eth, $NEXT2) -> ToDevice($DEV2);
