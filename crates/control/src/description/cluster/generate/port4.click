// IPv4 at an external port.
//   in 0:  packets that came in at this server and are to leave here
//   in 1:  packets that their input node has seen to: only the neighbour is looked for
//   in 2:  ARP frames of the link
//   in 3:  IPv4 frames of the link
//   out 0: packets to be routed: those that came in, and messages about them
//   out 1: frames to send
elementclass Port4 { $device, $color, $mtu, $ip, $net |
    // Finds neighbours; so many packets may wait for one of them.
    arp :: ARPQuerier($net, $device:eth, ENTRY_PACKET_CAPACITY 64);
OWN_ELEMENT
    // ---- Arrival

    input[2] -> question :: Classifier(20/0001, 20/0002);
    question[0] -> asked :: Tee -> ARPResponder($ip $device:eth) -> [1] output; // somebody looks for us
    asked[1] -> [1] arp;                // and so tells where it is (RFC 826)
    question[1] -> [1] arp;             // somebody has answered

    input[3] -> Paint($color)           // remember the way in
        -> Strip(14)                    // off with the Ethernet header
        // RFC 1812, 5.2.2 and 5.3.7; and nobody else may send with our addresses.
        -> check4 :: CheckIPHeader(INTERFACES $ALL4, BADSRC $HOSTS4)
        -> FROM_LINK[0] output;
    check4[2] -> ICMPError($ip, parameterproblem, INTERFACES $ALL4) -> [0] output;

    // ---- Packets that came in at this server

    input[0]
        -> DropBroadcasts               // never forward what the link sent to all (5.3.4)
        -> DropDirectedBroadcasts($net) // nor to every host of this network (RFC 2644)
        -> back :: PaintTee($color)     // out the way it came in?
        -> options :: IPGWOptions($ip, $HOSTS4, SOURCE_ROUTES false)
        -> FixIPSrc($ip)                // our own messages carry this address (4.3.2.4)
        -> ttl :: DecIPTTL
        -> size :: IPFragmenter($mtu)
        -> TO_LINKarp
        -> [1] output;
    // Tell the source of a shorter way, if it is on this very network (5.2.7.2).
    back[1] -> ICMPError($ip, redirect, host, INTERFACES $net) -> [0] output;
    // A broken option; a source route that leads nowhere.
    options[1] -> ICMPError($ip, parameterproblem, INTERFACES $ALL4) -> [0] output;
    options[2] -> ICMPError($ip, unreachable, srcroutefail, INTERFACES $ALL4) -> [0] output;
    // Time to live has run out: what traceroute lives on.
    ttl[1] -> ICMPError($ip, timeexceeded, transit, INTERFACES $ALL4) -> [0] output;
    // Too long, and must not be cut: path MTU discovery (RFC 1191).
    size[1] -> ICMPError($ip, unreachable, needfrag, PMTU $mtu, INTERFACES $ALL4) -> [0] output;

    // ---- Packets that came in at another server

    input[1] -> FROM_FARarp;

    // Questions to neighbours; and nobody answers to the address.
    arp[1] -> [1] output;
    arp[2] -> ICMPError($ip, unreachable, host, INTERFACES $ALL4) -> [0] output;
}
