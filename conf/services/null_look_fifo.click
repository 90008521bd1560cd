// A source-routed network: each label of a packet names the next link (segment routing).
//
// null_look_fifo: no flows are told apart; the next hop is looked up by what the packet or its flow says; packets leave first in, first out.
// Promise: Nothing but the way: each packet takes the links that its labels name.
//
//     ashlar run conf/services/null_look_fifo.click DEV0=eth0 DEV1=eth1 DEV2=eth2
//
// docs/qos.md explains it.

define(
    $DEV0 eth0,                 // packets come by this port
    $DEV1 eth1,                 // and leave by one of these
    $DEV2 eth2,
    $NEXT1 02:00:00:00:01:02,   // the routers at the other ends of those
    $NEXT2 02:00:00:00:02:02
);

// Labels 16 and 17 are the links; what is below them, another label or an IP packet, goes on.
// A priority tag (VLAN 0) is removed. Frames to any station are taken.
FromDevice($DEV0) -> HostEtherFilter($DEV0:eth, DROP_OTHER false)
    -> Classifier(12/8847) -> Strip(14)
    -> next :: MPLSLookup(16 pop 10.0.1.2 0, 17 pop 10.0.2.2 1);

next[0] -> Queue(1000)
    -> MPLSEtherEncap($DEV1:eth, $NEXT1) -> ToDevice($DEV1);
next[1] -> Queue(1000)
    -> MPLSEtherEncap($DEV2:eth, $NEXT2) -> ToDevice($DEV2);
