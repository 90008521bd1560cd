// A core router of a core-stateless network with source routes (segment routing over MPLS labels).
//
// null_look_sort: no flows are told apart, packets say when they are due; the labels that the packet carries name the links; packets leave by deadline.
// Promise: To each flow that the edges have admitted: the bound that `add` answered there.
//
//     ashlar run conf/services/null_look_sort.click DEV0=eth0 DEV1=eth1 DEV2=eth2
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

// Labels 16 and 17 are the links; what is below them, another label or an IP packet, goes on. An IP packet without a label
// has no way here, and is dropped.
// A priority tag (VLAN 0) is removed. Frames to any station are taken.
FromDevice($DEV0) -> HostEtherFilter($DEV0:eth, DROP_OTHER false)
    -> Classifier(12/88b5) -> Strip(14) -> state :: DPSDecap;
state[0] -> no_label :: Discard;
state[1] -> next :: MPLSLookup(16 pop 10.0.1.2 0, 17 pop 10.0.2.2 1);

next[0] -> DeadlineQueue(1000, WIDTH $WIDTH) -> BandwidthShaper($LINK)
    -> DPSEncap(LINK $LINK, BIN $WIDTH) -> EtherEncap(0x88b5, $DEV1:eth, $NEXT1) -> ToDevice($DEV1);
next[1] -> DeadlineQueue(1000, WIDTH $WIDTH) -> BandwidthShaper($LINK)
    -> DPSEncap(LINK $LINK, BIN $WIDTH) -> EtherEncap(0x88b5, $DEV2:eth, $NEXT2) -> ToDevice($DEV2);
