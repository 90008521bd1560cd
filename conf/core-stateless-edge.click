// An edge router of a core-stateless network: it knows flows, polices them, and writes deadlines into packets.
// So the routers inside need to know no flow (conf/services/null_prefix_sort.click).
//
//     ashlar run conf/core-stateless-edge.click OUTSIDE=eth0 CORE=eth1
//     ashlar set flows.add "10.0.0.1 1000 10.1.0.1 2000 udp RATE 64kbps BURST 1600 PACKET 200 HOPS 5 DELAY 50ms"
//
// HOPS counts this router, and all inside up to the one by which packets leave. docs/qos.md says what LINK may be here.

define(
    $OUTSIDE eth0,              // no sender is trusted here
    $IP_OUTSIDE 10.0.0.254/24,  // the router's addresses there
    $IP6_OUTSIDE fd00::fe/64,
    $CORE eth1,                 // the network
    $IP_CORE 10.8.0.1/24,
    $IP6_CORE fd00:8::1/64,
    $NEXT 10.8.0.254,           // the core router at the other end of that link
    $NEXT6 fd00:8::fe,
    $LL_EDGE fe80::2,           // link-local address: routers on one link differ in it
    $PATH 16,                   // labels of a source route, the outermost first, such as 17/16
    $LINK 80Mbps,               // what the links can take of frames: Ethernet and the state add 40 bytes to each
    $WIDTH 1ms,                 // of a bin: a packet is at most this late at a hop
    $MTU 1484,                  // longest packet to the core: what the port takes, less the state's 16 bytes
    $MTU_PATH 1480              // the same with labels: four bytes less for each
);
require(library services/lib/ip.click);

// Port 0 leads outside, 1 to the core, 2 nowhere, and 3 to the router itself; 4 to the core with labels.
next :: DirectIPLookup(0.0.0.0/0 $NEXT 1, ATTACHED here, NOROUTE 2, LOCAL 3);
next6 :: LookupIP6Route(::/0 $NEXT6 1, ATTACHED here, NOROUTE 2);
next[3], next[2], next6[2] => Host($IP_CORE) => next, next6;
next[0], next6[0] => outside :: Interface($OUTSIDE, $IP_OUTSIDE, $IP6_OUTSIDE, $LL_EDGE, $OUTSIDE:mtu) => next, next6;
next[1], next6[1] => core :: Interface($CORE, $IP_CORE, $IP6_CORE, $LL_EDGE, $MTU) => next, next6;

// Where the core routes by labels (conf/services/null_look_sort.click): `ashlar set next.add "10.2.0.0/16 4"`.
next[4] -> FixIPSrc(core/here) -> ttl :: DecIPTTL -> size :: IPFragmenter($MTU_PATH)
    -> labels :: MPLSEncap($PATH) -> SetIPAddress($NEXT) -> [3] core;
next6[3] -> FixIP6Src(core/here) -> size6 :: CheckLength($MTU_PATH) -> labels;
ttl[1] -> ICMPError(core/here, timeexceeded, transit, INTERFACES $OURS) -> next;
size[1] -> ICMPError(core/here, unreachable, needfrag, PMTU $MTU_PATH, INTERFACES $OURS) -> next;
size6[1] -> ICMP6Error($OURS, packettoobig, MTU $MTU_PATH) -> next6;

// In. What comes with a state is forged: routers inside would believe it.
outside[3] -> from :: Classifier(12/88b5, -);
from[0] -> forged :: Discard;
from[1] -> other :: Discard;
core[2] -> MPLSEtherType -> flows :: FlowTable(BY match, LINK $LINK, MTU 1514, BIN $WIDTH)
    -> in :: DeadlineQueue(1000, WIDTH $WIDTH) -> BandwidthShaper($LINK) -> due :: DPSFrameEncap(LINK $LINK, BIN $WIDTH) -> [2] core;

// Out. The last link keeps the promise, too; behind it packets are as they came.
core[3] -> State => [4] core, [5] core;
outside[2] -> out :: DeadlineQueue(1000, WIDTH $WIDTH) -> BandwidthShaper($LINK) -> [2] outside;
