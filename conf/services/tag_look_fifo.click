// A label-switched path without reservations.
//
// tag_look_fifo: flows are told by a tag in the packet; the next hop is looked up by what the packet or its flow says; packets leave first in, first out.
// Promise: Counts by label, and the way that the label has.
//
//     ashlar run conf/services/tag_look_fifo.click DEV0=eth0 DEV1=eth1 DEV2=eth2
//     ashlar set flows.add "100"
//
// docs/qos.md explains it.

define(
    $DEV0 eth0,                 // packets come by this port
    $DEV1 eth1,                 // and leave by one of these
    $DEV2 eth2,
    $NEXT1 02:00:00:00:01:02,   // the routers at the other ends of those
    $NEXT2 02:00:00:00:02:02
);

// A flow's PORT says of which link its rate is reserved; the label table has the way.
// A priority tag (VLAN 0) is removed. Frames to any station are taken.
FromDevice($DEV0) -> HostEtherFilter($DEV0:eth, DROP_OTHER false)
    -> Classifier(12/8847) -> Strip(14)
    -> flows :: FlowTable(BY label)
    -> next :: MPLSLookup(100 swap 200 10.0.1.2 0, 101 swap 201 10.0.2.2 1);
flows[1] -> next;

next[0] -> Queue(1000)
    -> MPLSEtherEncap($DEV1:eth, $NEXT1) -> ToDevice($DEV1);
next[1] -> Queue(1000)
    -> MPLSEtherEncap($DEV2:eth, $NEXT2) -> ToDevice($DEV2);
