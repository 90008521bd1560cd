// The port on the IP network that internal links pass through, where others are, too. Nothing of what comes
// here is routed, and only what links carry goes on; the rest is dropped where it is found.
//   in 0:  packets to other servers
//   out 0: UDP datagrams to this server
elementclass Underlay { $device, $ip, $net |
    arp :: ARPQuerier($net, $device:eth, ENTRY_PACKET_CAPACITY 16);
    send :: ToDevice($device);
    FromDevice($device)                 // one receive queue per worker
        -> HostEtherFilter($device:eth)
        -> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800);       // no_match: of no use here
    kind[0] -> asked :: Tee -> ARPResponder($ip $device:eth) -> send;
    asked[1] -> [1] arp;
    kind[1] -> [1] arp;
    kind[2] -> Strip(14)
        -> CheckIPHeader(INTERFACES $net, BADSRC $ip)
        // Neither options nor fragments: links use none.
        -> here :: IPClassifier(dst host $ip and ip hl 5 and unfrag and udp,
                                dst host $ip and unfrag and icmp type echo);
    here[0] -> CheckUDPHeader -> [0] output;
    here[1] -> CheckICMPHeader -> ICMPPingResponder -> next :: StaticIPLookup(NEXT_HOPS) -> arp;       // ping
    input -> next;
    arp[0] -> send;
    arp[1] -> send;
    arp[2] -> Discard;                  // nobody answers there: heartbeats find out
}
