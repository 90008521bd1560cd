// A core router of a core-stateless network (core-stateless guaranteed service).
//
// null_prefix_sort: no classification, packets say when they are due; the next hop is found by the longest prefix of the destination; packets leave by deadline.
// Promise: To each flow that the edges have admitted: the bound that `add` answered there.
//
//     ashlar run conf/services/null_prefix_sort.click DEV0=eth0 DEV1=eth1 DEV2=eth2
//     ashlar set next.add "198.51.100.0/24 via 10.1.0.1 dev eth1"
//
// docs/qos.md explains it; lib/ip.click has the interfaces, and the addresses, which are arguments, too.

define(
    $LINK 80Mbps,               // what the links can take of frames: Ethernet and the state add 40 bytes to each
    $WIDTH 1ms,                 // of a bin: a packet is at most this late at a hop
    $MTU 1484                   // longest packet: what the ports take, less the state's 16 bytes
);
require(library lib/ip.click);

// Port N leads to DEVN, 3 nowhere, and 4 to the router itself.
next :: DirectIPLookup(ATTACHED here, NOROUTE 3, LOCAL 4);
next6 :: LookupIP6Route(ATTACHED here, NOROUTE 3);
next[4], next[3], next6[3] => Host($IP0) => next, next6;

next[0], next6[0] => i0 :: Interface($DEV0, $IP0, $IP6_0, $LL, $MTU) => next, next6;
next[1], next6[1] => i1 :: Interface($DEV1, $IP1, $IP6_1, $LL, $MTU) => next, next6;
next[2], next6[2] => i2 :: Interface($DEV2, $IP2, $IP6_2, $LL, $MTU) => next, next6;

// All ports lead to routers of the network, so what packets say is believed; conf/core-stateless-edge.click is its edge.
// A packet that says nothing is best effort.
i0[3] -> State => [4] i0, [5] i0;
i1[3] -> State => [4] i1, [5] i1;
i2[3] -> State => [4] i2, [5] i2;

i0[2] -> order0 :: DeadlineQueue(1000, WIDTH $WIDTH) -> BandwidthShaper($LINK)
    -> due0 :: DPSFrameEncap(LINK $LINK, BIN $WIDTH) -> [2] i0;
i1[2] -> order1 :: DeadlineQueue(1000, WIDTH $WIDTH) -> BandwidthShaper($LINK)
    -> due1 :: DPSFrameEncap(LINK $LINK, BIN $WIDTH) -> [2] i1;
i2[2] -> order2 :: DeadlineQueue(1000, WIDTH $WIDTH) -> BandwidthShaper($LINK)
    -> due2 :: DPSFrameEncap(LINK $LINK, BIN $WIDTH) -> [2] i2;
