// IntServ with the next hop in the flow record.
//
// match_look_sort: flows are classified by addresses, ports and protocol; the next hop is looked up by what the packet or its flow says; packets leave by deadline.
// Promise: To each flow that was set up: guaranteed service (RFC 2212), the bound that `add` answered.
//
//     ashlar run conf/services/match_look_sort.click DEV0=eth0 DEV1=eth1 DEV2=eth2
//     ashlar set flows.add "10.0.0.1 1000 10.1.0.1 2000 udp PORT 1 RATE 64kbps BURST 1600 PACKET 200 DELAY 20ms"
//
// docs/qos.md explains it; lib/ip.click has the interfaces, and the addresses, which are arguments, too.

define(
    $NEXT0 10.0.0.1,            // the routers, or hosts, at the other ends of the links
    $NEXT6_0 fd00::1,
    $NEXT1 10.1.0.1,
    $NEXT6_1 fd00:1::1,
    $NEXT2 10.2.0.1,
    $NEXT6_2 fd00:2::1,
    $LINK 80Mbps,               // what the links can take of frames: Ethernet adds 24 bytes to each
    $WIDTH 1ms                  // of a bin: a packet is at most this late at a hop
);
require(library lib/ip.click);

// Port N leads to DEVN, 3 nowhere, and 4 to the router itself.
next :: DirectIPLookup(ATTACHED here, NOROUTE 3, LOCAL 4);
next6 :: LookupIP6Route(ATTACHED here, NOROUTE 3);
next[4], next[3], next6[3] => Host($IP0) => next, next6;

next[0], next6[0] => i0 :: Interface($DEV0, $IP0, $IP6_0, $LL, $MTU0);
next[1], next6[1] => i1 :: Interface($DEV1, $IP1, $IP6_1, $LL, $MTU1);
next[2], next6[2] => i2 :: Interface($DEV2, $IP2, $IP6_2, $LL, $MTU2);
i0[3], i1[3], i2[3] -> other :: Discard;       // neither IP nor ARP

// PORT N of a flow leads to NEXTN, without a route look-up. Packets of no flow are routed by prefix.
i0[0], i0[1], i1[0], i1[1], i2[0], i2[1] -> flows :: FlowTable(BY match, OTHER 3,
    LINK $LINK, OVERHEAD 14, BIN $WIDTH);
flows[0] -> NextHop($NEXT0, $NEXT6_0) => [0] i0, [1] i0;
flows[1] -> NextHop($NEXT1, $NEXT6_1) => [0] i1, [1] i1;
flows[2] -> NextHop($NEXT2, $NEXT6_2) => [0] i2, [1] i2;
flows[3] -> Routed => next, next6;

i0[2] -> order0 :: DeadlineQueue(1000, WIDTH $WIDTH) -> BandwidthShaper($LINK) -> [2] i0;
i1[2] -> order1 :: DeadlineQueue(1000, WIDTH $WIDTH) -> BandwidthShaper($LINK) -> [2] i1;
i2[2] -> order2 :: DeadlineQueue(1000, WIDTH $WIDTH) -> BandwidthShaper($LINK) -> [2] i2;
