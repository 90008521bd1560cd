// Flows that were set up have a next hop of their own.
//
// match_look_fifo: flows are classified by addresses, ports and protocol; the next hop is looked up by what the packet or its flow says; packets leave first in, first out.
// Promise: Counts by flow, and the path that the flow was given.
//
//     ashlar run conf/services/match_look_fifo.click DEV0=eth0 DEV1=eth1 DEV2=eth2
//     ashlar set flows.add "10.0.0.1 1000 10.1.0.1 2000 udp PORT 1"
//
// docs/qos.md explains it; lib/ip.click has the interfaces, and the addresses, which are arguments, too.

define(
    $NEXT0 10.0.0.1,            // the routers, or hosts, at the other ends of the links
    $NEXT6_0 fd00::1,
    $NEXT1 10.1.0.1,
    $NEXT6_1 fd00:1::1,
    $NEXT2 10.2.0.1,
    $NEXT6_2 fd00:2::1
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
i0[0], i0[1], i1[0], i1[1], i2[0], i2[1] -> flows :: FlowTable(BY match, OTHER 3);
flows[0] -> NextHop($NEXT0, $NEXT6_0) => [0] i0, [1] i0;
flows[1] -> NextHop($NEXT1, $NEXT6_1) => [0] i1, [1] i1;
flows[2] -> NextHop($NEXT2, $NEXT6_2) => [0] i2, [1] i2;
flows[3] -> Routed => next, next6;

i0[2] -> Queue(1000) -> [2] i0;
i1[2] -> Queue(1000) -> [2] i1;
i2[2] -> Queue(1000) -> [2] i2;
