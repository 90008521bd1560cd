// Guarantees for classes of traffic on a fast link: frames from DEV0 leave by DEV1 in the order of their deadlines.
//
//     ashlar run conf/deadlines.click DEV0=eth0 DEV1=eth1 LINK=10Gbps --workers 2
//     ashlar set flows.add "46 RATE 100Mbps BURST 10000 PACKET 1500"     DSCP 46 has 100 Mbit/s
//     ashlar show flows.table
//
// Each worker sorts the packets of its own receive queue and sends them by its own transmit queue (MDSDeadlineQueue).
// docs/qos.md tells when one order for all workers is needed.

define($DEV0 eth0, $DEV1 eth1, $LINK 10Gbps);

FromDevice($DEV0, PROMISC true) -> class :: Classifier(12/0800, -);
class[0] -> Strip(14) -> check :: CheckIPHeader -> flows :: FlowTable(BY dscp, LINK $LINK) -> Unstrip(14)
    -> order :: MDSDeadlineQueue(1000) -> ToDevice($DEV1);
class[1] -> order;                              // without a deadline: after all others
check[1] -> Unstrip(14) -> order;

FromDevice($DEV1, PROMISC true) -> ToDevice($DEV0);
