// An IP router, in brief; conf/ip-router.click is the whole one.
//
// null_prefix_fifo: no flows are told apart; the next hop is found by the longest prefix of the destination; packets leave first in, first out.
// Promise: Nothing: best effort.
//
//     ashlar run conf/services/null_prefix_fifo.click DEV0=eth0 DEV1=eth1 DEV2=eth2
//
// docs/qos.md explains it.

define(
    $DEV0 eth0,                 // packets come by this port
    $DEV1 eth1,                 // and leave by one of these
    $DEV2 eth2,
    $NEXT1 02:00:00:00:01:02,   // the routers at the other ends of those
    $NEXT2 02:00:00:00:02:02
);

// A priority tag (VLAN 0) is removed. Frames to any station are taken.
FromDevice($DEV0) -> HostEtherFilter($DEV0:eth, DROP_OTHER false)
    -> Classifier(12/0800) -> Strip(14) -> CheckIPHeader
    -> next :: DirectIPLookup(10.1.0.0/16 0, 10.2.0.0/16 1);

next[0] -> DecIPTTL -> Queue(1000)
    -> EtherEncap(0x0800, $DEV1:eth, $NEXT1) -> ToDevice($DEV1);
next[1] -> DecIPTTL -> Queue(1000)
    -> EtherEncap(0x0800, $DEV2:eth, $NEXT2) -> ToDevice($DEV2);
