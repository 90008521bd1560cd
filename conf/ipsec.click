// The IPsec gateway of one of two sites, for IPv4: what goes from this site's network to the other's leaves in a tunnel.
// docs/ipsec.md goes through it.
//
//     ashlar run ipsec-a.click              # a copy of this file, readable for you only, with keys of your own
//     ashlar show ipsec.sas                 # associations and their counts, without keys
//
// The gateway of the other site has the same file with the addresses and SPIs of both sides exchanged, and the keys, too: what
// is sealed here with KEY_OUT is opened there with its KEY_IN.

define(
    $LAN eth0,              // this site's network
    $LAN_IP 10.1.0.1,
    $LAN_NET 10.1.0.0/16,
    $WAN eth1,              // towards the other site
    $WAN_IP 192.0.2.1,
    $WAN_NET 192.0.2.0/24,
    $GATEWAY 192.0.2.2,     // the next router on the path: the other gateway itself, if it is on the same link

    $PEER_IP 192.0.2.2,     // the other gateway
    $PEER_NET 10.2.0.0/16,  // the network behind it

    // Keys: write your own, `openssl rand -hex 20` makes one. They are given by hand, so change them from time to time.
    $SUITE aes128gcm16,
    $SPI_OUT 0x1001,
    $KEY_OUT 00112233445566778899aabbccddeeff01020304,
    $SPI_IN 0x2001,
    $KEY_IN ffeeddccbbaa9988776655443322110005060708,

    $MTU 1400               // longest packet that fits into the tunnel: the link's MTU less 100; less where the path says so
);

ipsec :: IPsecTable(
    sa out spi $SPI_OUT reqid 1 suite $SUITE tunnel $WAN_IP $PEER_IP ENC_KEY $KEY_OUT,
    sa in spi $SPI_IN reqid 1 suite $SUITE tunnel $PEER_IP $WAN_IP window 1024 ENC_KEY $KEY_IN,
    policy out src $LAN_NET dst $PEER_NET protect 1,
    policy in src $PEER_NET dst $LAN_NET protect 1);

lan_arp :: ARPQuerier($LAN_IP, $LAN:eth) -> lan :: ToDevice($LAN);
wan_arp :: ARPQuerier($WAN_IP, $WAN:eth) -> wan :: ToDevice($WAN);
lan_arp[1] -> lan;
wan_arp[1] -> wan;

// ---- From this site

FromDevice($LAN) -> HostEtherFilter($LAN:eth)
    -> lan_kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800);
lan_kind[0] -> ARPResponder($LAN_IP $LAN:eth) -> lan;
lan_kind[1] -> [1] lan_arp;
lan_kind[2] -> Strip(14) -> CheckIPHeader -> lan_us :: IPClassifier(dst host $LAN_IP, -);
lan_us[0] -> IPReassembler -> CheckICMPHeader -> ICMPPingResponder -> lan_arp;
lan_us[1] -> DropBroadcasts
    -> lan_ttl :: DecIPTTL
    -> size :: IPFragmenter($MTU)               // longer packets are cut before they are sealed, or
    -> seal :: IPsecEncap(TABLE ipsec)          // what no policy protects is dropped here (policy)
    -> link :: IPFragmenter($WAN:mtu) -> SetIPAddress($GATEWAY) -> wan_arp;
// Packets too long for the path or link are fragmented before encryption, or their sender learns the MTU (RFC 4301, 8.2).
link[1] -> IPsecMTU(TABLE ipsec, LINK $WAN:mtu) -> Discard;
seal[4] -> cut :: IPFragmenter(65535, ANNO true) -> seal;
cut[1] -> ICMPError($LAN_IP, unreachable, needfrag, ANNO true) -> lan_arp;
lan_ttl[1] -> ICMPError($LAN_IP, timeexceeded) -> lan_arp;
size[1] -> ICMPError($LAN_IP, unreachable, needfrag, PMTU $MTU) -> lan_arp; // their sender learns the MTU

// ---- From the other site

FromDevice($WAN) -> HostEtherFilter($WAN:eth)
    -> wan_kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800);
wan_kind[0] -> ARPResponder($WAN_IP $WAN:eth) -> wan;
wan_kind[1] -> [1] wan_arp;
wan_kind[2] -> Strip(14) -> CheckIPHeader
    -> wan_us :: IPClassifier(dst host $WAN_IP and (ip proto 50 or dst udp port 4500), dst host $WAN_IP);   // nothing else comes in
wan_us[0] -> IPReassembler -> open :: IPsecDecap(TABLE ipsec)
    -> wan_ttl :: DecIPTTL -> to_lan :: IPClassifier(dst net $LAN_NET and not dst host $LAN_IP, -);
to_lan[0] -> lan_arp;
to_lan[1] -> IPReassembler -> CheckICMPHeader -> ICMPPingResponder // the other site pings this gateway
    -> answer :: IPsecEncap(TABLE ipsec) -> SetIPAddress($GATEWAY) -> wan_arp;
wan_us[1] -> IPReassembler -> IPsecMTU(TABLE ipsec) -> CheckICMPHeader -> ICMPPingResponder -> SetIPAddress($GATEWAY) -> wan_arp;
wan_ttl[1] -> ICMPError($LAN_IP, timeexceeded) -> answer;
