// An IP router, in brief; conf/ip-router.click is the whole one.
//
// null_prefix_fifo: no classification; the next hop is found by the longest prefix of the destination; packets leave first in, first out.
// Promise: Nothing: best effort.
//
//     ashlar run conf/services/null_prefix_fifo.click DEV0=eth0 DEV1=eth1 DEV2=eth2
//     ashlar set next.add "198.51.100.0/24 via 10.1.0.1 dev eth1"
//
// docs/qos.md explains it; lib/ip.click has the interfaces, and the addresses, which are arguments, too.

require(library lib/ip.click);

// Port N leads to DEVN, 3 nowhere, and 4 to the router itself.
next :: DirectIPLookup(ATTACHED here, NOROUTE 3, LOCAL 4);
next6 :: LookupIP6Route(ATTACHED here, NOROUTE 3);
next[4], next[3], next6[3] => Host($IP0) => next, next6;

next[0], next6[0] => i0 :: Interface($DEV0, $IP0, $IP6_0, $LL, $MTU0) => next, next6;
next[1], next6[1] => i1 :: Interface($DEV1, $IP1, $IP6_1, $LL, $MTU1) => next, next6;
next[2], next6[2] => i2 :: Interface($DEV2, $IP2, $IP6_2, $LL, $MTU2) => next, next6;
i0[3], i1[3], i2[3] -> other :: Discard;       // neither IP nor ARP

i0[2] -> Queue(1000) -> [2] i0;
i1[2] -> Queue(1000) -> [2] i1;
i2[2] -> Queue(1000) -> [2] i2;
