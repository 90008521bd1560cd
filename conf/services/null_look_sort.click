// A core router of a core-stateless network with source routes (segment routing over MPLS labels).
//
// null_look_sort: no classification, packets say when they are due; the labels that the packet carries name the links; packets leave by deadline.
// Promise: To each flow that the edges have admitted: the bound that `add` answered there.
//
//     ashlar run conf/services/null_look_sort.click DEV0=eth0 DEV1=eth1 DEV2=eth2
//     ashlar set next.add "19 pop 10.1.0.9 1"
//
// docs/qos.md explains it; lib/ip.click has the interfaces, and the addresses, which are arguments, too.

define(
    $LINK 80Mbps,               // what the links can take of frames: Ethernet and the state add 40 bytes to each
    $WIDTH 1ms,                 // of a bin: a packet is at most this late at a hop
    $MTU 1484                   // longest packet: what the ports take, less the state's 16 bytes
);
require(library lib/ip.click);

// IP packets without a label are routed by prefix, as those of the router itself.
// Port N leads to DEVN, 3 nowhere, and 4 to the router itself.
rt4 :: RadixIPLookup(ATTACHED here, NOROUTE 3, LOCAL 4);
rt6 :: LookupIP6Route(ATTACHED here, NOROUTE 3);
rt4[4], rt4[3], rt6[3] => Host($IP0) => rt4, rt6;
rt4[0], rt6[0] => i0 :: Interface($DEV0, $IP0, $IP6_0, $LL, $MTU) => rt4, rt6;
rt4[1], rt6[1] => i1 :: Interface($DEV1, $IP1, $IP6_1, $LL, $MTU) => rt4, rt6;
rt4[2], rt6[2] => i2 :: Interface($DEV2, $IP2, $IP6_2, $LL, $MTU) => rt4, rt6;

// All ports lead to routers of the network, so what packets say is believed; conf/core-stateless-edge.click is its edge.
// A packet that says nothing is best effort.
i0[3] -> s0 :: State => [4] i0, [5] i0;
i1[3] -> s1 :: State => [4] i1, [5] i1;
i2[3] -> s2 :: State => [4] i2, [5] i2;

// Labels 16 to 18 are the links: what is below them, another label or an IP packet, goes to the router at the other end.
s0[2], s1[2], s2[2]
    -> next :: MPLSLookup(16 pop 10.1.0.1 1, 17 pop 10.2.0.1 2, 18 pop 10.0.0.1 0, EXPIRED 3);
next[0] -> [3] i0;
next[1] -> [3] i1;
next[2] -> [3] i2;
next[3] -> Expired($IP0) => rt4, rt6;

i0[2] -> MPLSEtherType -> order0 :: DeadlineQueue(1000, WIDTH $WIDTH) -> BandwidthShaper($LINK)
    -> due0 :: DPSFrameEncap(LINK $LINK, BIN $WIDTH) -> [2] i0;
i1[2] -> MPLSEtherType -> order1 :: DeadlineQueue(1000, WIDTH $WIDTH) -> BandwidthShaper($LINK)
    -> due1 :: DPSFrameEncap(LINK $LINK, BIN $WIDTH) -> [2] i1;
i2[2] -> MPLSEtherType -> order2 :: DeadlineQueue(1000, WIDTH $WIDTH) -> BandwidthShaper($LINK)
    -> due2 :: DPSFrameEncap(LINK $LINK, BIN $WIDTH) -> [2] i2;
