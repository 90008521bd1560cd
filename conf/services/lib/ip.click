// Shared parts of the services of this folder: interfaces with ARP, Neighbour Discovery and ICMP, for IPv4 and IPv6.
// conf/ip-router.click explains the steps one by one. No redirects are sent: the path of a flow is the service's choice.

// Values for this router. `NAME=value` on the command line overrides them.
define(
    $DEV0 eth0,             // the ports: interfaces, PCI addresses, tap:NAME ...
    $IP0 10.0.0.254/24,     // the router's IPv4 address there, with the length of that network's prefix
    $IP6_0 fd00::fe/64,     // the same for IPv6
    $MTU0 $DEV0:mtu,        // longest packet: what the port takes

    $DEV1 eth1,
    $IP1 10.1.0.254/16,
    $IP6_1 fd00:1::fe/64,
    $MTU1 $DEV1:mtu,

    $DEV2 eth2,
    $IP2 10.2.0.254/16,
    $IP6_2 fd00:2::fe/64,
    $MTU2 $DEV2:mtu,

    $LL fe80::1             // link-local address, by which neighbours know the router; routers on one link differ in it
);

// The addresses of all interfaces: each has its own under the name `here`.
define($OURS */here);

// One interface and everything that belongs to it.
//   in 0, 1:  IPv4 and IPv6 packets to send by this interface
//   in 2:     frames to send, in the service's order: pulled
//   in 3:     packets to send that MPLSLookup has given a next hop: with labels, or without the last one
//   in 4, 5:  IPv4 and IPv6 packets that were received behind another header
//   out 0, 1: IPv4 and IPv6 packets to be routed: received packets, and messages about packets
//   out 2:    frames to send: the service puts them in order
//   out 3:    frames of other protocols that were received
// Inputs 3 to 5 may be left open. ARP and Neighbour Discovery do not wait in the service's order.
elementclass Interface { $device, $ip, $ip6, $ll, $mtu |

    AddressInfo(here $ip $ip6);
    first :: Queue(200) -> prio :: PrioSched -> ToDevice($device);      // ARP and Neighbour Discovery go first
    input[2] -> [1] prio;
    arp :: ARPQuerier(here, $device:eth, ENTRY_PACKET_CAPACITY 64);
    nd6 :: IP6NDSolicitor($ll, $device:eth);
    send6 :: FixIP6Src(here $ll);
    own6 :: Classifier(24/fe80%ffc0, -);        // packets of the router itself: to this link, or to be routed
    own6[0] -> send6;
    own6[1] -> [1] output;

    // ---- Arrival

    FromDevice($device)
        -> HostEtherFilter($device:eth)
        -> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, 12/86dd, -);
    kind[0] -> asked :: Tee -> ARPResponder(here $device:eth) -> first;
    asked[1], kind[1] -> [1] arp;
    kind[2] -> Strip(14) -> check4 :: CheckIPHeader(INTERFACES $OURS, BADSRC $OURS) -> [0] output;
    kind[3] -> Strip(14) -> check6 :: CheckIP6Header($OURS $ll)
        -> hop :: IP6HopByHop -> local6 :: IP6Local($OURS $ll) -> scope :: CheckIP6Forward -> hlim :: DecIP6HLIM
        -> [1] output;
    kind[4] -> [3] output;
    input[4] -> check4;
    input[5] -> check6;

    check4[2] -> ICMPError(here, parameterproblem, INTERFACES $OURS) -> [0] output;
    hop[1] -> ICMP6Error(here $ll $OURS, parameterproblem) -> own6;
    scope[1] -> ICMP6Error(here $ll, unreachable, scope) -> own6;
    hlim[1] -> ICMP6Error(here $ll, timeexceeded) -> own6;

    // IPv6 packets to this router: Neighbour Discovery, ping, and nothing else.
    local6[1] -> nd :: IP6ProtocolSwitch(icmp6 135, icmp6 133 134 136 137, -);
    nd[0] -> me6 :: IP6NDAdvertiser(here $ll $device:eth, ANYCAST here) -> first;
    nd[1], me6[1] -> [1] nd6;
    me6[2] -> nd6;
    nd[2] -> whole6 :: IP6Reassembler -> headers6 :: CheckIP6Extensions -> what6 :: IP6ProtocolSwitch(icmp6, udp, none, -);
    what6[0] -> CheckICMP6Header -> ICMP6PingResponder(here $ll) -> IP6Fragmenter(1280) -> own6;
    what6[1] -> ICMP6Error(here $ll $OURS, unreachable, port) -> own6;
    what6[2] -> Discard;
    whole6[1] -> ICMP6Error(here $ll $OURS, timeexceeded, reassembly) -> own6;
    whole6[2], headers6[1], what6[3] -> ICMP6Error(here $ll $OURS, parameterproblem) -> own6;

    // ---- Departure

    input[0] -> DropBroadcasts -> DropDirectedBroadcasts(here)
        -> options :: IPGWOptions(here, $OURS, SOURCE_ROUTES false)
        -> FixIPSrc(here) -> ttl :: DecIPTTL -> size :: IPFragmenter($mtu) -> arp -> [2] output;
    arp[1] -> first;                          // questions for neighbours
    options[1] -> ICMPError(here, parameterproblem, INTERFACES $OURS) -> [0] output;
    options[2] -> ICMPError(here, unreachable, srcroutefail, INTERFACES $OURS) -> [0] output;
    ttl[1] -> ICMPError(here, timeexceeded, transit, INTERFACES $OURS) -> [0] output;
    size[1] -> ICMPError(here, unreachable, needfrag, PMTU $mtu, INTERFACES $OURS) -> [0] output;
    arp[2] -> ICMPError(here, unreachable, host, INTERFACES $OURS) -> [0] output;

    input[1] -> send6 -> size6 :: CheckLength($mtu) -> nd6
        -> asks :: Classifier(20/3aff 54/87, -);        // nothing that is forwarded has hop limit 255
    asks[0] -> first;
    asks[1] -> [2] output;
    size6[1] -> ICMP6Error(here $ll, packettoobig, MTU $mtu) -> own6;
    nd6[1] -> ICMP6Error(here $ll, unreachable, address, BADADDRS $OURS) -> own6;

    input[3] -> labels :: CheckLength($mtu) -> MPLSNextHop -> arp;
    Idle -> labels;
}

// The router itself, and packets without a route.
//   in 0:     IPv4 packets to the router
//   in 1, 2:  IPv4 and IPv6 packets without a route
//   out 0, 1: answers, to be routed
elementclass Host { $ip |
    AddressInfo(us $ip);
    input[0] -> whole :: IPReassembler -> what :: Classifier(9/01, 9/11, -);
    what[0] -> CheckICMPHeader -> ICMPPingResponder -> [0] output;
    what[1] -> ICMPError(us, unreachable, port, INTERFACES $OURS) -> [0] output;
    what[2] -> ICMPError(us, unreachable, protocol, INTERFACES $OURS) -> [0] output;
    whole[1] -> ICMPError(us, timeexceeded, reassembly, INTERFACES $OURS) -> [0] output;
    input[1] -> ICMPError(us, unreachable, net, INTERFACES $OURS) -> [0] output;
    input[2] -> ICMP6Error($OURS, unreachable, noroute) -> [1] output;
}

// Next hop of a flow, by its record.
//   in:       IPv4 and IPv6 packets
//   out 0, 1: IPv4 and IPv6 packets for that neighbour
elementclass NextHop { $ip, $ip6 |
    input -> version :: Classifier(0/40%f0, -);
    version[0] -> MarkIPHeader -> SetIPAddress($ip) -> [0] output;
    version[1] -> MarkIP6Header -> SetIP6Address($ip6) -> [1] output;
}

// IPv4 and IPv6 packets of no flow, which are to be routed.
elementclass Routed {
    input -> version :: Classifier(0/40%f0, -);
    version[0] -> MarkIPHeader -> GetIPAddress(16) -> [0] output;
    version[1] -> MarkIP6Header -> GetIP6Address(24) -> [1] output;
}

// Labelled packets whose time to live has expired.
//   out 0, 1: answers, to be routed
elementclass Expired { $ip |
    AddressInfo(us $ip);
    input -> below :: MPLSPayload -> ICMPError(us, timeexceeded, MPLS true, INTERFACES $OURS) -> [0] output;
    below[1] -> ICMP6Error($OURS, timeexceeded, MPLS true) -> [1] output;
}

// Frames with the state of a core-stateless network.
//   out 0, 1: IPv4 and IPv6 packets, with the deadline that their state says
//   out 2:    packets with labels
elementclass State {
    input -> Classifier(12/88b5) -> Strip(14) -> state :: DPSDecap -> version :: Classifier(0/40%f0, 0/60%f0) -> output;
    version[1] -> [1] output;
    state[1] -> [2] output;
}
