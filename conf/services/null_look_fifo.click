// A source-routed network: each label of a packet names the next link (segment routing).
//
// null_look_fifo: no classification; the next hop is looked up by what the packet or its flow says; packets leave first in, first out.
// Promise: Nothing but the path: each packet takes the links that its labels name.
//
//     ashlar run conf/services/null_look_fifo.click DEV0=eth0 DEV1=eth1 DEV2=eth2
//     ashlar set next.add "19 pop 10.1.0.9 1"
//
// docs/qos.md explains it; lib/ip.click has the interfaces, and the addresses, which are arguments, too.

require(library lib/ip.click);

// IP packets without a label are routed by prefix, as those of the router itself.
// Port N leads to DEVN, 3 nowhere, and 4 to the router itself.
rt4 :: RadixIPLookup(ATTACHED here, NOROUTE 3, LOCAL 4);
rt6 :: LookupIP6Route(ATTACHED here, NOROUTE 3);
rt4[4], rt4[3], rt6[3] => Host($IP0) => rt4, rt6;
rt4[0], rt6[0] => i0 :: Interface($DEV0, $IP0, $IP6_0, $LL, $MTU0) => rt4, rt6;
rt4[1], rt6[1] => i1 :: Interface($DEV1, $IP1, $IP6_1, $LL, $MTU1) => rt4, rt6;
rt4[2], rt6[2] => i2 :: Interface($DEV2, $IP2, $IP6_2, $LL, $MTU2) => rt4, rt6;

// Labels 16 to 18 are the links: what is below them, another label or an IP packet, goes to the router at the other end.
i0[3], i1[3], i2[3] -> Classifier(12/8847) -> Strip(14)
    -> next :: MPLSLookup(16 pop 10.1.0.1 1, 17 pop 10.2.0.1 2, 18 pop 10.0.0.1 0, EXPIRED 3);
next[0] -> [3] i0;
next[1] -> [3] i1;
next[2] -> [3] i2;
next[3] -> Expired($IP0) => rt4, rt6;

i0[2] -> MPLSEtherType -> Queue(1000) -> [2] i0;
i1[2] -> MPLSEtherType -> Queue(1000) -> [2] i1;
i2[2] -> MPLSEtherType -> Queue(1000) -> [2] i2;
