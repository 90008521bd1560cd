// A router that translates IPv4 addresses between inside and outside networks (NAPT), and routes IPv6 beside.
//
//     ashlar run conf/ip-nat.click
//     ashlar run conf/ip-nat.click DEV1=enp2s0 IP1=192.0.2.9 GW1=192.0.2.1
//     ashlar run conf/ip-nat.click SERVICES='tcp 8080 - - 10.0.1.2 80 0 0'
//
// Hosts inside reach the outside with the router's outside address: TCP and UDP are told apart by ports,
// pings by identifiers; ICMP errors about both find their way in both directions. From outside come replies, and
// what is for the services in SERVICES: above, port 8080 of the outside address is port 80 of 10.0.1.2. Hosts
// inside reach these services by the outside address, too. Inside networks reach each other untranslated.
// All other packets are dropped under a name: `ashlar top` shows them.
//
//     ashlar show nat.tcp_table
//
// IPv6 needs no translation: every host is reached from everywhere. docs/tasks.md shows a firewall.
//
// Every worker has a receive queue of each port. With several workers, IPv4 packets that are translated cross to the
// worker that owns the mappings; `ashlar plan` shows the queues between workers.

// Values for this router. `NAME=value` on the command line overrides them.
define(
    $DEV0 eth0,             // the inside port
    $IP0 10.0.1.1,          // the router's IPv4 address there
    $LEN0 24,               // length of that network's prefix
    $IP6_0 fd00:1::1,       // the same for IPv6
    $LEN6_0 64,
    $LL0 fe80::1,           // link-local address, by which neighbours know the router
    $MTU0 1500,             // MTU of the link

    $DEV1 eth1,             // the outside port
    $IP1 10.0.2.1,          // the router's address there, which all hosts inside share
    $LEN1 24,
    $GW1 10.0.2.2,          // the gateway to all other networks
    $IP6_1 fd00:2::1,
    $LEN6_1 64,
    $LL1 fe80::1,
    $GW6_1 fd00:2::2,
    $MTU1 1500,

    // Services inside, for the outside, on the command line: PROTOCOL PORTS - - HOST PORT 0 0, separated by commas. A
    // dash for PORT keeps the port. `services` below has a place for them in the file.
    $SERVICES ""
);

// The addresses of all interfaces: each has its own under the name `here`.
define($OURS */here);

// One interface and everything that belongs to it.
//   in 0, 1:  IPv4 and IPv6 packets to send by this interface
//   out 0, 1: IPv4 and IPv6 packets that were received, and messages about IPv6 packets
//   out 2:    ICMP errors about IPv4 packets
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
    check4[2] -> ICMPError(here, parameterproblem, INTERFACES $OURS) -> [2] output;

    // ---- IPv4 packets to send

    input[0]
        -> DropBroadcasts               // never forward link-layer broadcasts (5.3.4)
        -> DropDirectedBroadcasts(here)        // nor directed broadcasts to this network (RFC 2644)
        -> back :: PaintTee($number)            // leaves by the interface it came from?
        -> options :: IPGWOptions(here, $OURS)
        -> FixIPSrc(here)               // our own messages have this address as source (4.3.2.4)
        -> ttl :: DecIPTTL
        -> size :: IPFragmenter($mtu)
        -> arp
        -> out;

    // Tell the source about a shorter path, if it is on this network (5.2.7.2).
    back[1] -> ICMPError(here, redirect, host, INTERFACES here) -> [2] output;
    // A broken option; a source route that leads nowhere.
    options[1] -> ICMPError(here, parameterproblem, INTERFACES $OURS) -> [2] output;
    options[2] -> ICMPError(here, unreachable, srcroutefail, INTERFACES $OURS) -> [2] output;
    // The TTL has expired: traceroute needs this message.
    ttl[1] -> ICMPError(here, timeexceeded, transit, INTERFACES $OURS) -> [2] output;
    // Too long, with DF set: path MTU discovery (RFC 1191).
    size[1] -> ICMPError(here, unreachable, needfrag, PMTU $mtu, INTERFACES $OURS) -> [2] output;
    // ARP queries; and packets to an address that does not answer.
    arp[1] -> out;
    arp[2] -> ICMPError(here, unreachable, host, INTERFACES $OURS) -> [2] output;

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
    ATTACHED here,                      // the networks of the inside interfaces, each by its port
    LOCAL 0,                            // and the router's own addresses there
    $IP1/$LEN1 2, $IP1/32 0,            // the same of the outside interface, before which packets are translated
    0.0.0.0/0 $GW1 2,                   // all other networks
    255.255.255.255/32 0,               // broadcast on a link: never forwarded (5.3.5.1)
    224.0.0.0/4 0,                      // multicast: not forwarded
    NOROUTE 3);

// Where IPv6 packets go; the same ports. Packets to the router itself do not come here, because link-local addresses
// are the interfaces' own: no route names port 0.
rt6 :: LookupIP6Route(ATTACHED here, ::/0 $GW6_1 2, NOROUTE 3);
rt6[0] -> Discard;
rt6[3] -> ICMP6Error($OURS, unreachable, noroute) -> Paint(0) -> rt6;

// ---- IPv4: translation. Translated packets are routed like received packets.

// Input 0: packets that leave get the outside address. Input 1: packets to the outside address; they belong to a
// flow that is known, or are for a service.
nat :: IPRewriter(pattern $IP1 1024-65535 - - 0 0, services, MAPPING_CAPACITY 1000000) -> rt4;
services :: PortIPMapper(
    // tcp 8080 - - 10.0.1.2 80 0 0,    // a line such as this for each service
    $SERVICES,
    pass 1);                            // what is for no service is unwanted
pings :: ICMPPingRewriter(pattern $IP1 - 0-65535 0 0, drop, MAPPING_CAPACITY 100000) -> rt4;

// ICMP errors about translated packets become errors about the packets that were sent (RFC 5508).
// Errors that this router makes: behind the translation they are about packets as they are there.
errors :: ICMPRewriter(nat pings) -> rt4;
errors[1] -> rt4;                       // about other packets
// Errors from outside; those about no known flow are dropped (unknown_flow).
errors_in :: CheckICMPHeader -> ICMPRewriter(nat pings) -> rt4;
// Errors from inside: outside, this router is the sender of all of them.
errors_out :: CheckICMPHeader -> ICMPRewriter(nat pings) -> StoreIPAddress($IP1, src) -> rt4;

rt4[3] -> ICMPError($IP0, unreachable, net, INTERFACES $OURS) -> errors;
ping :: CheckICMPHeader -> ICMPPingResponder -> rt4;

// ---- The interfaces: each by a number of its own between the tables. Its addresses and networks are known from
// here to all that need them. For a second inside network, add one line, and change its device and addresses:
//     rt4[4], rt6[4] => i2 :: Interface(4, eth2, 10.0.3.1/24, fd00:3::1/64, fe80::1, 1500) => rt4, rt6, errors;
rt4[1], rt6[1] => i0 :: Interface(1, $DEV0, $IP0/$LEN0, $IP6_0/$LEN6_0, $LL0, $MTU0) => rt4, rt6, errors;

// Packets that leave by the outside interface.
rt4[2]
    -> FixIPSrc($IP1)                   // messages of this router have its address
    -> leaving :: IPClassifier(src host $IP1, -);
leaving[0], rt6[2] => i1 :: Interface(2, $DEV1, $IP1/$LEN1, $IP6_1/$LEN6_1, $LL1, $MTU1) => from_world :: Null, rt6, errors;
// Ports are in the first fragment only, so all that is translated is whole (RFC 4787, REQ-14).
leaving[1]
    -> whole_out :: IPReassembler
    -> out_kind :: IPClassifier(tcp or udp, icmp type echo, icmp);      // others are dropped (no_match)
out_kind[0] -> [0] nat;
out_kind[1] -> [0] pings;
out_kind[2] -> errors_out;
whole_out[1] -> ICMPError($IP0, timeexceeded, reassembly, INTERFACES $OURS) -> errors;

// Packets received by the outside interface.
from_world
    -> IPClassifier(dst host $IP1)      // others are dropped (no_match)
    -> whole_in :: IPReassembler
    -> in_kind :: IPClassifier(tcp or udp, icmp type echo-reply, icmp type echo, icmp);
in_kind[0] -> [1] nat;
in_kind[1] -> [1] pings;
in_kind[2] -> ping;
in_kind[3] -> errors_in;
whole_in[1] -> ICMPError($IP1, timeexceeded, reassembly, INTERFACES $OURS) -> errors;

// Packets from inside to this router; some are for a service, by way of the outside address. These are translated
// twice, as if they went out and came in again (RFC 4787, REQ-9).
rt4[0]
    -> whole :: IPReassembler
    -> here_kind :: IPClassifier(
        src host $IP1 and (tcp or udp), // 0: they have been out
        dst host $IP1 and (tcp or udp), // 1
        icmp type echo,                 // 2
        icmp,                           // 3
        udp or tcp,                     // 4: no service of this router
        -);
here_kind[0] -> [1] nat;
here_kind[1] -> [0] nat;
here_kind[2] -> ping;
here_kind[3] -> errors_out;
here_kind[4] -> ICMPError($IP0, unreachable, port, INTERFACES $OURS) -> errors;
here_kind[5] -> ICMPError($IP0, unreachable, protocol, INTERFACES $OURS) -> errors;
whole[1] -> ICMPError($IP0, timeexceeded, reassembly, INTERFACES $OURS) -> errors;

// For no flow and no service: hosts inside get an ICMP error, hosts outside get none.
nat[1] -> unwanted :: IPClassifier(src host $IP1, -);
unwanted[0] -> ICMPError($IP1, unreachable, port, INTERFACES $OURS) -> errors;
unwanted[1] -> stealth :: Discard;
