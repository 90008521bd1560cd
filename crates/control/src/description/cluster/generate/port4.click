// IPv4 at an external port.
//   in 0:  packets that were received by this server and leave by this port
//   in 1:  packets that their input node has processed: only the neighbour is resolved
//   in 2:  ARP frames of the link
//   in 3:  IPv4 frames of the link
//   out 0: packets to be routed: received packets, and ICMP messages about them
//   out 1: frames to send
OUT2
elementclass Port4 { $device, $color, $mtu, $ip, $net |
    // Resolves neighbours; the number of packets that may wait for one is limited.
    arp :: ARPQuerier($net, $device:eth, ENTRY_PACKET_CAPACITY 64);
OWN_ELEMENT
    // ---- Received frames

    input[2] -> question :: Classifier(20/0001, 20/0002);
    question[0] -> asked :: Tee -> ARPResponder($ip $device:eth) -> [1] output; // ARP requests for our address
    asked[1] -> [1] arp;                // whose sender is learnt, too (RFC 826)
    question[1] -> ARP_REPLIES

    input[3] -> Paint($color)           // mark the input port
        -> Strip(14)                    // remove the Ethernet header
        // RFC 1812, 5.2.2 and 5.3.7; and no other host may send with our addresses.
        -> check4 :: CheckIPHeader(INTERFACES $ALL4, BADSRC $HOSTS4)
        -> FROM_LINK[0] output;
    check4[2] -> ICMPError($ip, parameterproblem, INTERFACES $ALL4) -> [0] output;

    // ---- Packets that this server received

    input[0]
        -> DropBroadcasts               // never forward link-layer broadcasts (5.3.4)
        -> DropDirectedBroadcasts($net) // nor broadcasts to this network (RFC 2644)
        -> back :: PaintTee($color)     // does the packet leave by its input port?
        -> options :: IPGWOptions($ip, $HOSTS4, SOURCE_ROUTES false)
        -> FixIPSrc($ip)                // our own messages carry this address (4.3.2.4)
        -> ttl :: DecIPTTL
        -> size :: IPFragmenter($mtu)
        -> TO_LINKarp
        -> [1] output;
    // Redirect the source to a shorter path, if it is on this network (5.2.7.2).
    back[1] -> ICMPError($ip, redirect, host, INTERFACES $net) -> [0] output;
    // A malformed option; a source route that cannot be followed.
    options[1] -> ICMPError($ip, parameterproblem, INTERFACES $ALL4) -> [0] output;
    options[2] -> ICMPError($ip, unreachable, srcroutefail, INTERFACES $ALL4) -> [0] output;
    // The time to live has expired; traceroute needs this message.
    ttl[1] -> ICMPError($ip, timeexceeded, transit, INTERFACES $ALL4) -> [0] output;
    // Too long, and must not be fragmented: path MTU discovery (RFC 1191).
    size[1] -> ICMPError($ip, unreachable, needfrag, PMTU $mtu, INTERFACES $ALL4) -> [0] output;

    // ---- Packets that another server received

    input[1] -> FROM_FARarp;

    // ARP requests to neighbours; and packets to an address that no neighbour answers for.
    arp[1] -> [1] output;
    arp[2] -> ICMPError($ip, unreachable, host, INTERFACES $ALL4) -> [0] output;
}
