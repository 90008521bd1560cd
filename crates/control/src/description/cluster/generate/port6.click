// IPv6 at an external port.
//   in 0:  packets that leave by this port
//   in 1:  packets that their input node has processed: only the neighbour is resolved
//   in 2:  IPv6 frames of the link
//   in 3:  packets to this server itself that another server received
//   out 0: packets to be routed: received packets, and ICMPv6 messages about them
//   out 1: frames to send
OUT2
elementclass Port6 { $device, $color, $mtu, $ip6, $net6, $ll |
    nd6 :: IP6NDSolicitor($ll, $device:eth);            // resolves neighbours
    send6 :: FixIP6Src($ip6 $ll);       // packets in the last steps before they are sent
OWN_ELEMENT    own6 :: Paint(0);                   // packets that the router itself makes

    // ---- Received frames

    input[2] -> Paint($color)
        -> Strip(14)
        -> CheckIP6Header($HOSTS6 $ll)  // no other host may send with our addresses
        -> hop :: IP6HopByHop           // options that every router reads
FROM_LINK        -> local6 :: IP6Local($LOCAL6 $ll GROUPS6)
        -> scope :: CheckIP6Forward     // link-local packets stay on their link
        -> hlim :: DecIP6HLIM           // one hop less; our own packets keep their hop limit
        -> [0] output;
    hop[1] -> ICMP6Error($ip6 $ll $HOSTS6, parameterproblem) -> own6;
    scope[1] -> ICMP6Error($ip6 $ll, unreachable, scope) -> own6;
    hlim[1] -> ICMP6Error($ip6 $ll, timeexceeded) -> own6;      // traceroute needs this

    // To this router, but to another server's address: the packet is routed there unchanged.
    local6[1] -> far6 :: LookupIP6Route(FAR6_ROUTES ::/0 1);
    far6[0] -> [0] output;
    // Neighbour Discovery first, since it must not come in fragments (RFC 6980).
    far6[1] -> nd :: IP6ProtocolSwitch(icmp6 135, icmp6 133 134 136 137, -);
    nd[0] -> me6 :: IP6NDAdvertiser($ip6 $ll $device:eth, ANYCAST $net6) -> [1] output; // solicitations for us
    me6[1] -> [1] nd6;                  // whose sender is learnt, too
    me6[2] -> [0] nd6;                  // its sender is unknown: resolve it, then answer
    nd[1] -> NEIGHBOURS6
    // A request to one of our addresses is answered from that address (RFC 4443, 2.2), on whichever link it is.
    nd[2] -> whole6 :: IP6Reassembler
        -> headers6 :: CheckIP6Extensions
        -> what6 :: IP6ProtocolSwitch(icmp6, udp, none, -);
    input[3] -> whole6;
    whole6[1] -> ICMP6Error($ip6 $ll $HOSTS6, timeexceeded, reassembly) -> own6;
    whole6[2] -> ICMP6Error($ip6 $ll $HOSTS6, parameterproblem) -> own6;
    headers6[1] -> ICMP6Error($ip6 $ll $HOSTS6, parameterproblem) -> own6;
    what6[0] -> CheckICMP6Header
        -> PING6
        -> IP6Fragmenter(1280)          // goes through every link (RFC 8200, 5)
        -> own6;
    what6[1] -> UDP6
    what6[2] -> Discard;                // no next header: no content (RFC 8200, 4.7)
    what6[3] -> OTHERS6

    // Our own packets: to link-local addresses by this link, others are routed.
    own6 -> where6 :: Classifier(24/fe80%ffc0, -);
    where6[0] -> send6;
    where6[1] -> [0] output;

    // ---- Packets to send

    input[0]
        -> send6                        // our own messages carry this interface's address
        -> size6 :: CheckLength($mtu)   // IPv6 routers never fragment packets
        -> TO_LINKnd6
        -> back6 :: ICMP6Redirect($color, $ll, $net6)   // does it leave by its input port? (RFC 4861, 8.2)
        -> [1] output;
    input[1] -> Paint(0) -> FROM_FARnd6;        // received by another server
    back6[1] -> nd6;
    // Too long: path MTU discovery (RFC 8201); and packets to an address that no neighbour answers for.
    size6[1] -> ICMP6Error($ip6 $ll, packettoobig, MTU $mtu) -> own6;
    nd6[1] -> ICMP6Error($ip6 $ll, unreachable, address, BADADDRS $HOSTS6) -> own6;
}
