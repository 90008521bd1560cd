// The port on the IP network that internal links pass through. The network has other hosts, too. No received
// packet is routed, and only packets of links are accepted; all others are dropped.
//   in 0:  packets to other servers
//   out 0: UDP datagrams to this server
elementclass Underlay { $device, $ip, $net |
    arp :: ARPQuerier($net, $device:eth, ENTRY_PACKET_CAPACITY 16);
    send :: ToDevice($device);
    FromDevice($device)                 // one receive queue per worker
        -> HostEtherFilter($device:eth)
        -> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800);       // no_match: not used here
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
    arp[2] -> Discard;                  // no answer: heartbeats detect the failure
}
