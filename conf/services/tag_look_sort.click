// MPLS with guarantees: a label is a flow with a bucket, a rate and a bound.
//
// tag_look_sort: flows are classified by a tag in the packet; the next hop is looked up by what the packet or its flow says; packets leave by deadline.
// Promise: To each label that was set up: no packet within its bucket takes longer than the bound that `add` answered.
//
//     ashlar run conf/services/tag_look_sort.click DEV0=eth0 DEV1=eth1 DEV2=eth2
//     ashlar set next.add "103 swap 203 10.1.0.1 1"
//     ashlar set flows.add "103 PORT 1 RATE 64kbps BURST 1600 PACKET 200 DELAY 20ms"
//
// docs/qos.md explains it; lib/ip.click has the interfaces, and the addresses, which are arguments, too.

define(
    $LINK 80Mbps,               // what the links can take of frames: Ethernet adds 24 bytes to each
    $WIDTH 1ms                  // of a bin: a packet is at most this late at a hop
);
require(library lib/ip.click);

// IP packets without a label are routed by prefix, as those of the router itself.
// Port N leads to DEVN, 3 nowhere, and 4 to the router itself.
rt4 :: RadixIPLookup(ATTACHED here, NOROUTE 3, LOCAL 4);
rt6 :: LookupIP6Route(ATTACHED here, NOROUTE 3);
rt4[4], rt4[3], rt6[3] => Host($IP0) => rt4, rt6;
rt4[0], rt6[0] => i0 :: Interface($DEV0, $IP0, $IP6_0, $LL, $MTU0) => rt4, rt6;
rt4[1], rt6[1] => i1 :: Interface($DEV1, $IP1, $IP6_1, $LL, $MTU1) => rt4, rt6;
rt4[2], rt6[2] => i2 :: Interface($DEV2, $IP2, $IP6_2, $LL, $MTU2) => rt4, rt6;

// A flow's PORT says of which link its rate is reserved; the label table has the next hop.
i0[3], i1[3], i2[3] -> Classifier(12/8847) -> Strip(14)
    -> flows :: FlowTable(BY label, LINK $LINK, OVERHEAD 14, BIN $WIDTH)
    -> next :: MPLSLookup(100 swap 200 10.1.0.1 1, 101 swap 201 10.2.0.1 2, 102 swap 202 10.0.0.1 0, EXPIRED 3);
flows[1], flows[2] -> next;
next[0] -> [3] i0;
next[1] -> [3] i1;
next[2] -> [3] i2;
next[3] -> Expired($IP0) => rt4, rt6;

i0[2] -> MPLSEtherType
    -> order0 :: DeadlineQueue(1000, WIDTH $WIDTH) -> BandwidthShaper($LINK) -> [2] i0;
i1[2] -> MPLSEtherType
    -> order1 :: DeadlineQueue(1000, WIDTH $WIDTH) -> BandwidthShaper($LINK) -> [2] i1;
i2[2] -> MPLSEtherType
    -> order2 :: DeadlineQueue(1000, WIDTH $WIDTH) -> BandwidthShaper($LINK) -> [2] i2;
