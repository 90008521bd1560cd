// IntServ with the next hop in the flow record.
//
// match_look_sort: flows are told by addresses, ports and protocol; the next hop is looked up by what the packet or its flow says; packets leave by deadline.
// Promise: To each flow that was set up: guaranteed service (RFC 2212), the bound that `add` answered.
//
//     ashlar run conf/services/match_look_sort.click DEV0=eth0 DEV1=eth1 DEV2=eth2
//     ashlar set flows.add "10.0.0.1 1000 10.1.0.1 2000 udp RATE 64kbps BURST 1600 PACKET 200 DELAY 20ms"
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

// PORT of a flow is its next hop. Packets of no flow go by the first link.
// A priority tag (VLAN 0) is removed. Frames to any station are taken.
FromDevice($DEV0) -> HostEtherFilter($DEV0:eth, DROP_OTHER false)
    -> Classifier(12/0800) -> Strip(14) -> CheckIPHeader
    -> flows :: FlowTable(BY match, LINK $LINK, BIN $WIDTH);

flows[0] -> DecIPTTL -> DeadlineQueue(1000, WIDTH $WIDTH)
    -> BandwidthShaper($LINK) -> EtherEncap(0x0800, $DEV1:eth, $NEXT1) -> ToDevice($DEV1);
flows[1] -> DecIPTTL -> DeadlineQueue(1000, WIDTH $WIDTH)
    -> BandwidthShaper($LINK) -> EtherEncap(0x0800, $DEV2:eth, $NEXT2) -> ToDevice($DEV2);
