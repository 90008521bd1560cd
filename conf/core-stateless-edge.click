// An edge router of a core-stateless network: it knows flows, polices them, and writes into packets when they are due, so that
// the routers inside need to know no flow (conf/services/null_prefix_sort.click).
//
//     ashlar run conf/core-stateless-edge.click OUTSIDE=eth0 CORE=eth1
//     ashlar set flows.add "10.0.0.1 1000 10.1.0.1 2000 udp RATE 64kbps BURST 1600 PACKET 200 HOPS 5 DELAY 50ms"
//
// HOPS counts this router, and all inside up to the one by which packets leave. docs/qos.md says what LINK may be here.

define(
    $OUTSIDE eth0,              // nobody is believed here
    $CORE eth1,                 // the network
    $HOST 02:00:00:00:00:02,    // the routers at the other ends of those
    $NEXT 02:00:00:00:01:02,
    $LINK 80Mbps,               // what the links can take of IP packets: Ethernet and the state add 54 bytes to each
    $WIDTH 1ms                  // of a bin: a packet is at most this late at a hop
);

// In. What comes with a state is forged: routers inside would believe it.
// Priority tags (VLAN 0) are removed. Frames to any station are taken.
FromDevice($OUTSIDE) -> HostEtherFilter($OUTSIDE:eth, DROP_OTHER false) -> from :: Classifier(12/88b5, 12/0800);
from[0] -> forged :: Discard;
from[1] -> Strip(14) -> CheckIPHeader -> DecIPTTL
    -> flows :: FlowTable(BY match, LINK $LINK, BIN $WIDTH)
    -> in :: DeadlineQueue(1000, WIDTH $WIDTH) -> BandwidthShaper($LINK)
    -> DPSEncap(LINK $LINK, BIN $WIDTH) -> EtherEncap(0x88b5, $CORE:eth, $NEXT) -> ToDevice($CORE);

// Out. The last link keeps the promise, too; behind it packets are as they came.
FromDevice($CORE) -> HostEtherFilter($CORE:eth, DROP_OTHER false) -> Classifier(12/88b5) -> Strip(14) -> DPSDecap -> CheckIPHeader -> DecIPTTL
    -> out :: DeadlineQueue(1000, WIDTH $WIDTH) -> BandwidthShaper($LINK)
    -> EtherEncap(0x0800, $OUTSIDE:eth, $HOST) -> ToDevice($OUTSIDE);
