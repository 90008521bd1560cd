// An IP router with two interfaces, for IPv4 and IPv6 alike.
//
//     ashlar run conf/ip-router.click
//     ashlar run conf/ip-router.click DEV0=enp1s0 IP0=192.0.2.1 LEN0=24
//
// Every worker runs a copy of this graph on a receive queue of its own; tables are shared.
// Packets that cannot be forwarded are dropped under a name: `ashlar top` shows where and why.
// Change routes while packets flow:
//
//     ashlar set rt4.add "203.0.113.0/24 via 10.0.2.254 dev eth1"
//     ashlar set rt6.add "2001:db8::/32 via fe80::9 dev eth1"
//     ashlar show rt4.routes
//     ashlar show rt4.lookup 203.0.113.7

// Values for this router. `NAME=value` on the command line overrides them.
define(
    $DEV0 eth0,             // the port: an interface, a PCI address, tap:NAME ...
    $IP0 10.0.1.1,          // the router's IPv4 address there
    $LEN0 24,               // length of that network's prefix
    $IP6_0 fd00:1::1,       // the same for IPv6
    $LEN6_0 64,
    $LL0 fe80::1,           // link-local address, by which neighbours know the router
    $MTU0 $DEV0:mtu,        // longest packet: what the port takes, also after that has changed

    $DEV1 eth1,
    $IP1 10.0.2.1,
    $LEN1 24,
    $IP6_1 fd00:2::1,
    $LEN6_1 64,
    $LL1 fe80::1,
    $MTU1 $DEV1:mtu,

    $SOURCE_ROUTES false    // whether to follow IPv4 source routes, as RFC 1812 requires; few networks do
);

// The addresses of all interfaces: each has its own under the name `here`.
define($OURS */here);

// One interface and everything that belongs to it.
//   in 0, 1:  IPv4 and IPv6 packets to send by this interface
//   out 0, 1: IPv4 and IPv6 packets to be routed: received packets, and messages about packets
elementclass Interface { $number, $device, $ip, $ip6, $ll, $mtu |

    AddressInfo(here $ip $ip6);

    // Several paths below lead here.
    out :: ToDevice($device);           // one transmit queue per worker
    // Finds IPv4 neighbours; up to 64 packets may wait for each of them.
    arp :: ARPQuerier(here, $device:eth, ENTRY_PACKET_CAPACITY 64);
    nd6 :: IP6NDSolicitor($ll, $device:eth);            // finds IPv6 neighbours
    send6 :: FixIP6Src(here $ll);       // IPv6 packets on their last steps
    own6 :: Paint(0);                   // packets of the router itself

    // ---- Arrival

    FromDevice($device)                 // one receive queue per worker
        -> HostEtherFilter($device:eth) // frames to other stations are dropped
        -> kind :: Classifier(
            12/0806 20/0001,            // 0: ARP request
            12/0806 20/0002,            // 1: ARP reply
            12/0800,                    // 2: IPv4
            12/86dd);                   // 3: IPv6; other frames are dropped (no_match)

    kind[0] -> asked :: Tee -> ARPResponder(here $device:eth) -> out;    // ARP requests for our address
    asked[1] -> [1] arp;                // and thereby tells its own (RFC 826)
    kind[1] -> [1] arp;                 // a station answers

    kind[2] -> Paint($number)            // remember the interface
        -> Strip(14)                    // remove the Ethernet header
        // RFC 1812, 5.2.2 and 5.3.7. Nobody else may use our addresses as source.
        -> check4 :: CheckIPHeader(INTERFACES $OURS, BADSRC $OURS)
        -> [0] output;
    check4[2] -> ICMPError(here, parameterproblem, INTERFACES $OURS) -> [0] output;

    // ---- IPv4 packets to send

    input[0]
        -> DropBroadcasts               // never forward link-layer broadcasts (5.3.4)
        -> DropDirectedBroadcasts(here)        // nor directed broadcasts to this network (RFC 2644)
        -> back :: PaintTee($number)            // leaves by the interface it came from?
        -> options :: IPGWOptions(here, $OURS, SOURCE_ROUTES $SOURCE_ROUTES)
        -> FixIPSrc(here)               // our own messages have this address as source (4.3.2.4)
        -> ttl :: DecIPTTL
        -> size :: IPFragmenter($mtu)
        -> arp
        -> out;

    // Tell the source about a shorter path, if it is on this network (5.2.7.2).
    back[1] -> ICMPError(here, redirect, host, INTERFACES here) -> [0] output;
    // A broken option; a source route that leads nowhere.
    options[1] -> ICMPError(here, parameterproblem, INTERFACES $OURS) -> [0] output;
    options[2] -> ICMPError(here, unreachable, srcroutefail, INTERFACES $OURS) -> [0] output;
    // The TTL has expired: traceroute needs this message.
    ttl[1] -> ICMPError(here, timeexceeded, transit, INTERFACES $OURS) -> [0] output;
    // Too long, with DF set: path MTU discovery (RFC 1191).
    size[1] -> ICMPError(here, unreachable, needfrag, PMTU $mtu, INTERFACES $OURS) -> [0] output;
    // ARP queries; and packets to an address that does not answer.
    arp[1] -> out;
    arp[2] -> ICMPError(here, unreachable, host, INTERFACES $OURS) -> [0] output;

    // ---- IPv6

    kind[3] -> Paint($number)
        -> Strip(14)
        -> CheckIP6Header($OURS $ll)    // no other host may send with our addresses
        -> hop :: IP6HopByHop           // options for every router
        -> local6 :: IP6Local($OURS $ll)
        -> scope :: CheckIP6Forward     // link-local packets stay on their link
        -> hlim :: DecIP6HLIM           // not for our own packets
        -> [1] output;
    hop[1] -> ICMP6Error(here $ll $OURS, parameterproblem) -> own6;
    scope[1] -> ICMP6Error(here $ll, unreachable, scope) -> own6;
    hlim[1] -> ICMP6Error(here $ll, timeexceeded) -> own6;      // for traceroute

    // To this router: Neighbour Discovery first, because it must not come in fragments (RFC 6980).
    local6[1] -> nd :: IP6ProtocolSwitch(icmp6 135, icmp6 133 134 136 137, -);
    nd[0] -> me6 :: IP6NDAdvertiser(here $ll $device:eth, ANYCAST here) -> out;    // solicitations for our address
    me6[1] -> [1] nd6;                  // and tells its own
    me6[2] -> [0] nd6;                  // it did not: find the node, then answer
    nd[1] -> [1] nd6;                   // a node answers, or announces itself
    // If hosts should make addresses and find this router by themselves (RFC 4861, 6.2), give router
    // solicitations an output of their own, `nd :: IP6ProtocolSwitch(icmp6 135, icmp6 134 136 137, -, icmp6 133)`:
    //     nd[3] -> ra :: IP6RouterAdvertiser($ll, $device:eth, here) -> out; ra[1] -> [1] nd6;
    // A packet to one of our addresses is answered from it (RFC 4443, 2.2), whatever its link.
    nd[2] -> whole6 :: IP6Reassembler
        -> headers6 :: CheckIP6Extensions
        -> what6 :: IP6ProtocolSwitch(icmp6, udp, none, -);
    whole6[1] -> ICMP6Error(here $ll $OURS, timeexceeded, reassembly) -> own6;
    whole6[2] -> ICMP6Error(here $ll $OURS, parameterproblem) -> own6;
    headers6[1] -> ICMP6Error(here $ll $OURS, parameterproblem) -> own6;
    what6[0] -> CheckICMP6Header
        -> ICMP6PingResponder(here $ll) // ping; other ICMPv6 is dropped (not_echo)
        -> IP6Fragmenter(1280)          // fits every link (RFC 8200, 5)
        -> own6;
    what6[1] -> ICMP6Error(here $ll $OURS, unreachable, port) -> own6;     // no UDP service here
    what6[2] -> Discard;                // no next header: no payload (RFC 8200, 4.7)
    what6[3] -> ICMP6Error(here $ll $OURS, parameterproblem) -> own6;      // no other protocol either

    // Our own packets: those to link-local addresses leave by this link, others are routed.
    own6 -> where6 :: Classifier(24/fe80%ffc0, -);
    where6[0] -> send6;
    where6[1] -> [1] output;

    // IPv6 packets to send.
    input[1]
        -> send6                        // our own messages have this interface's address as source
        -> size6 :: CheckLength($mtu)   // IPv6 routers never fragment packets
        -> nd6
        -> back6 :: ICMP6Redirect($number, $ll, here)   // leaves by the interface it came from? (RFC 4861, 8.2)
        -> out;
    back6[1] -> nd6;
    // Too long: path MTU discovery (RFC 8201); and packets to an address that does not answer.
    size6[1] -> ICMP6Error(here $ll, packettoobig, MTU $mtu) -> own6;
    nd6[1] -> ICMP6Error(here $ll, unreachable, address, BADADDRS $OURS) -> own6;
}

// Where IPv4 packets go: the longest prefix wins. Ports: 0 here, 3 nowhere, others the interfaces.
// With scattered routes this takes 64 MB. RadixIPLookup takes 3 MB, and some more cycles for each packet.
rt4 :: DirectIPLookup(
    ATTACHED here,                      // the networks of the interfaces, each by its port
    LOCAL 0,                            // and the router's own addresses
    255.255.255.255/32 0,               // broadcast on a link: never forwarded (5.3.5.1)
    224.0.0.0/4 0,                      // multicast: not forwarded
    NOROUTE 3);
rt4[3] -> ICMPError($IP0, unreachable, net, INTERFACES $OURS) -> rt4;

// IPv4 packets to the router itself.
rt4[0]
    -> here :: IPSourceRoute($OURS, ALLOW $SOURCE_ROUTES)       // or is it only a hop of a source route?
    -> whole :: IPReassembler
    -> what :: Classifier(9/01, 9/11, -);                       // ICMP, UDP, anything else
here[1] -> rt4;
here[2] -> ICMPError($IP0, parameterproblem, INTERFACES $OURS) -> rt4;
here[3] -> ICMPError($IP0, unreachable, srcroutefail, INTERFACES $OURS) -> rt4;
whole[1] -> ICMPError($IP0, timeexceeded, reassembly, INTERFACES $OURS) -> rt4;
what[0] -> CheckICMPHeader -> ICMPPingResponder -> rt4; // ping; other ICMP is dropped (not_echo)
what[1] -> ICMPError($IP0, unreachable, port, INTERFACES $OURS) -> rt4;
what[2] -> ICMPError($IP0, unreachable, protocol, INTERFACES $OURS) -> rt4;

// Where IPv6 packets go; the same ports. Packets to the router itself do not come here, because link-local addresses
// are the interfaces' own: no route names port 0.
rt6 :: LookupIP6Route(ATTACHED here, NOROUTE 3);
rt6[0] -> Discard;
rt6[3] -> ICMP6Error($OURS, unreachable, noroute) -> Paint(0) -> rt6;

// The interfaces: each by a number of its own between the tables. Its addresses and networks are known from
// here to all that need them. For a third interface, add one line, and change its device and addresses:
//     rt4[4], rt6[4] => i2 :: Interface(4, eth2, 10.0.3.1/24, fd00:3::1/64, fe80::1, 1500) => rt4, rt6;
rt4[1], rt6[1] => i0 :: Interface(1, $DEV0, $IP0/$LEN0, $IP6_0/$LEN6_0, $LL0, $MTU0) => rt4, rt6;
rt4[2], rt6[2] => i1 :: Interface(2, $DEV1, $IP1/$LEN1, $IP6_1/$LEN6_1, $LL1, $MTU1) => rt4, rt6;
