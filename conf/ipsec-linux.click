// An IPsec gateway that Linux controls: an IP router as in conf/linux-router.click whose associations and policies are those of
// the kernel in its namespace (XFRM). strongSwan negotiates them there, or `ip xfrm` sets them; this configuration seals,
// opens and forwards the packets. docs/ipsec.md goes through it.
//
//     ip netns add routing
//     ashlar run --netns routing conf/ipsec-linux.click DEV0=enp1s0 DEV1=enp2s0
//     ip netns exec routing sysctl net.ipv4.ip_forward=1 net.ipv4.conf.all.disable_xfrm=1 net.ipv4.conf.all.disable_policy=1
//     ashlar show ipsec.sas
//
// The two last settings keep the kernel from sealing packets of its own: two senders must not use one association. What it
// sends is sealed here like all other packets, but for IKE.

define(
    $DEV0 eth0,             // the port: an interface, a PCI address ...
    $IF0 eth0,              // name of its control-plane interface
    $DEV1 eth1,
    $IF1 eth1,
    $IPSEC KERNEL true,     // who says what is protected: the kernel, or [ipsec] of a description (conf/ipsec.toml)
    // Where "too long for the tunnel" comes from: addresses of yours, or such as stand for none (RFC 7600, RFC 6666).
    $ICMP 192.0.0.8,
    $ICMP6 100::8
);

ipsec :: IPsecTable($IPSEC);

// A port and its control-plane interface.
//   in 0, 1:  IPv4 and IPv6 packets to send by this port
//   in 2, 3:  frames for the kernel: for the router itself, and exceptions
//   in 4:     frames of the kernel
//   out 0, 1: IPv4 and IPv6 packets that this port has received
//   out 2, 3: IPv4 and IPv6 packets that cannot be sent by this port: exceptions
//   out 4:    IPv4 packets of the kernel that may have to be sealed
elementclass Port { $name, $device, $color |

    out :: ToDevice($device);
    punt :: ControlPlanePolicer -> ToDevice(tap:$name);

    FromDevice(tap:$name) -> Paint($color) -> theirs :: Classifier(12/0800 14/45, -);
    theirs[0] -> Strip(14) -> CheckIPHeader -> ike :: IPClassifier(udp port 500 or udp port 4500, -);
    ike[0] -> Unstrip(14) -> out;           // nothing protects what negotiates the protection
    ike[1] -> [4] output;
    theirs[1], input[4] -> out;

    // ---- Arrival

    FromDevice($device)
        -> in :: LinuxInput($name, $device)
        -> kind :: Classifier(12/0800 14/45, 12/86dd, 12/0800, -);
    in[1] -> punt;
    kind[2] -> [1] punt;
    kind[3] -> punt;
    kind[0] -> Paint($color) -> Strip(14) -> CheckIPHeader(BADSRC 0.0.0.0, KERNEL true) -> [0] output;
    kind[1] -> Paint($color) -> Strip(14) -> CheckIP6Header -> [1] output;

    // ---- Departure

    input[0] -> size4 :: LinuxMTU($name) -> arp :: LinuxARP($name) -> out;
    size4[1] -> cut :: IPFragmenter(INTERFACE $name) -> arp;
    input[1] -> size6 :: LinuxMTU($name) -> nd :: LinuxND($name) -> out;
    // A sealed packet that is too long for this link: the tunnel takes shorter ones from then on.
    cut[1] -> IPsecMTU(TABLE ipsec, INTERFACE $name) -> [2] output;
    size6[1] -> IPsecMTU(TABLE ipsec, INTERFACE $name) -> [3] output;
    arp[1] -> [2] output;
    nd[1] -> [3] output;

    // ---- To the kernel

    input[2] -> [0] punt;
    input[3] -> [1] punt;
}

port0 :: Port($IF0, $DEV0, 0);
port1 :: Port($IF1, $DEV1, 1);

// ---- What has come: for the router itself, an exception, or to be forwarded.

at4 :: LinuxIPLookup($IF0, $IF1);
at6 :: LinuxIP6Lookup($IF0, $IF1);
port0[0], port1[0] -> at4;
port0[1], port1[1] -> at6;

// ESP packets to this router are decrypted; a policy must allow all other packets to arrive unencrypted.
// Only the first fragment of a packet has its ports, so packets are reassembled before they are classified.
at4[0] -> may4 :: IPClassifier(ip proto 50 or udp, -);
may4[0] -> IPReassembler -> for_us4 :: IPClassifier(ip proto 50 or dst udp port 4500, -);
for_us4[0] -> open :: IPsecDecap(TABLE ipsec);
may4[1], for_us4[1] -> IPsecMTU(TABLE ipsec) -> plain4 :: IPsecCheck(TABLE ipsec) -> us4 :: PaintSwitch;
open[2] -> us4;                                 // IKE
at6[0] -> may6 :: Classifier(6/2c, -);          // fragments
may6[0] -> IP6Reassembler -> for_us6 :: Classifier(6/32, 6/11 42/1194, -);  // ESP, or UDP to port 4500
may6[1] -> for_us6;
for_us6[0], for_us6[1] -> [1] open;
for_us6[2] -> IPsecMTU(TABLE ipsec) -> plain6 :: IPsecCheck(TABLE ipsec) -> us6 :: PaintSwitch;
open[3] -> us6;

at4[2], at4[3] -> IPsecCheck(TABLE ipsec) -> ttl :: DecIPTTL;
at6[2], at6[3] -> IPsecCheck(TABLE ipsec) -> scope :: CheckIP6Forward -> hlim :: DecIP6HLIM;

// What was inside: for the router itself, or to be forwarded like the rest.
in4 :: LinuxIPLookup($IF0, $IF1);
in6 :: LinuxIP6Lookup($IF0, $IF1);
open[0] -> in4; in4[0] -> us4; in4[2], in4[3] -> ttl;
open[1] -> in6; in6[0] -> us6; in6[2], in6[3] -> scope;

// ---- What leaves: sealed if a policy says so.

rt4 :: LinuxIPLookup($IF0, $IF1);
rt6 :: LinuxIP6Lookup($IF0, $IF1);
ttl -> seal :: IPsecEncap(TABLE ipsec);
hlim -> [1] seal;
seal[0] -> rt4; seal[2] -> GetIPAddress(IP dst) -> rt4;
seal[1] -> rt6; seal[3] -> GetIP6Address(24) -> rt6;
rt4[2] -> [0] port0; rt4[3] -> [0] port1;
rt6[2] -> [1] port0; rt6[3] -> [1] port1;

// Packets too long for encryption are fragmented first, or their sender learns the MTU (RFC 4301, 8.2).
seal[4] -> cut :: IPFragmenter(65535, ANNO true) -> seal;
cut[1] -> ICMPError($ICMP, unreachable, needfrag, ANNO true) -> rt4;
seal[5] -> ICMP6Error($ICMP6, packettoobig, ANNO true) -> rt6;

// The kernel's own packets: what is not sealed leaves as the kernel has made it.
port0[4], port1[4] -> own :: IPsecEncap(TABLE ipsec);
own[0] -> rt4; own[1] -> rt6;
own[2] -> Unstrip(14) -> theirs :: PaintSwitch;
theirs[0] -> [4] port0; theirs[1] -> [4] port1;

// ---- To the kernel, by the control-plane interface of the port of arrival. What was inside has no Ethernet header any more.

us4[0] -> EtherEncap(0x0800, 2:0:0:0:0:1, $DEV0:eth) -> [2] port0;
us4[1] -> EtherEncap(0x0800, 2:0:0:0:0:1, $DEV1:eth) -> [2] port1;
us6[0] -> EtherEncap(0x86dd, 2:0:0:0:0:1, $DEV0:eth) -> [2] port0;
us6[1] -> EtherEncap(0x86dd, 2:0:0:0:0:1, $DEV1:eth) -> [2] port1;

at4[1], in4[1], rt4[0], rt4[1], ttl[1], port0[2], port1[2] -> up4 :: PaintSwitch;
up4[0] -> EtherEncap(0x0800, 2:0:0:0:0:1, $DEV0:eth) -> [3] port0;
up4[1] -> EtherEncap(0x0800, 2:0:0:0:0:1, $DEV1:eth) -> [3] port1;
at6[1], in6[1], rt6[0], rt6[1], scope[1], hlim[1], port0[3], port1[3] -> up6 :: PaintSwitch;
up6[0] -> EtherEncap(0x86dd, 2:0:0:0:0:1, $DEV0:eth) -> [3] port0;
up6[1] -> EtherEncap(0x86dd, 2:0:0:0:0:1, $DEV1:eth) -> [3] port1;
