// An MPLS router, and IP router, that Linux controls: as conf/linux-router.click, which explains what is the same. Labels are
// switched as the kernel's MPLS routes say: those that FRR sets (LDP, segment routing, static), or `ip -f mpls route`.
//
//     modprobe -a mpls_router mpls_iptunnel
//     ip netns add routing
//     ashlar run --netns routing conf/linux-mpls.click DEV0=enp1s0 DEV1=enp2s0
//     ip netns exec routing sysctl net.mpls.platform_labels=1048575 net.mpls.conf.eth0.input=1 net.mpls.conf.eth1.input=1
//     ip -n routing -f mpls route add 100 as 200 via inet 192.0.2.2 dev eth1
//     ip -n routing route add 10.2.0.0/16 encap mpls 300 via 192.0.2.2
//     ashlar show mpls.table
//
// A packet with labels is taken only from interfaces whose `input` is set: set it towards routers that you trust.

// Values for this router. `NAME=value` on the command line overrides them.
define(
    $DEV0 eth0,             // the port: an interface, a PCI address ...
    $IF0 eth0,              // name of its control-plane interface
    $DEV1 eth1,
    $IF1 eth1
);

// A port and its control-plane interface.
//   in 0, 1:  IPv4 and IPv6 packets to send by this port
//   in 2, 3:  frames of this port for the kernel: for the router itself, and exceptions
//   in 4:     packets with labels, or whose last label was popped, to send by this port
//   out 0, 1: IPv4 and IPv6 packets that this port has received, to be routed
//   out 2:    packets that cannot be sent by this port: exceptions, unchanged
//   out 3:    packets with labels that this port has received
elementclass Port { $name, $device, $color |

    // Several paths below lead here. Each worker has a transmit queue of its own to both.
    out :: ToDevice($device);
    punt :: ControlPlanePolicer -> ToDevice(tap:$name);

    // The kernel and the daemons send whole frames: nothing is left to do.
    FromDevice(tap:$name) -> out;

    // ---- Arrival

    FromDevice($device)
        -> in :: LinuxInput($name, $device)     // frames for us, while the kernel's interface is up
        -> kind :: Classifier(
            12/0800 14/45,                      // 0: IPv4 without options
            12/86dd,                            // 1: IPv6
            12/0800,                            // 2: IPv4 with options: the kernel forwards them
            12/8847,                            // 3: packets with labels
            -);                                 // 4: ARP, LLDP ...
    in[1] -> punt;                              // multicast and broadcast frames: not forwarded
    kind[2] -> [1] punt;
    kind[3] -> Paint($color) -> labelled :: LinuxMPLSInput($name) -> Strip(14) -> [3] output;
    kind[4] -> punt;
    // RFC 1812, 5.2.2 and 5.3.7: valid headers, and addresses that are allowed on a link. Nobody else has ours.
    kind[0] -> Paint($color) -> Strip(14) -> CheckIPHeader(BADSRC 0.0.0.0, KERNEL true) -> [0] output;
    kind[1] -> Paint($color) -> Strip(14) -> CheckIP6Header -> [1] output;

    // ---- Departure. The size is checked before the TTL is decremented: exceptions reach the kernel unchanged.

    input[0] -> back4 :: LinuxRedirect($color) -> size4 :: LinuxMTU($name) -> ttl :: DecIPTTL -> arp :: LinuxARP($name) -> out;
    size4[1] -> cut :: IPFragmenter(INTERFACE $name) -> ttl;
    input[1] -> scope :: CheckIP6Forward        // link-local packets stay on their link
        -> back6 :: LinuxRedirect($color) -> size6 :: LinuxMTU($name) -> hlim :: DecIP6HLIM -> nd :: LinuxND($name) -> out;

    back4[1], back6[1],     // leaves by the interface it came from: redirect
    ttl[1], hlim[1],        // TTL expired: time exceeded, which traceroute uses
    scope[1],               // beyond the scope of its source
    cut[1], size6[1],       // too long, with DF set or IPv6: path MTU discovery
    arp[1], nd[1]           // no neighbour answers: host unreachable
        -> [2] output;

    input[4] -> LinuxMPLSEtherEncap($name) -> out;

    // ---- To the kernel

    input[2] -> [0] punt;
    input[3] -> [1] punt;
}

// The kernel's routes. Outputs: 0 the router itself, 1 exceptions, then the ports, whose interfaces are known from there.
rt4 :: LinuxIPLookup;
rt6 :: LinuxIP6Lookup;

// Its labels. Outputs: 0 and 1 IPv4 and IPv6 packets below labels of this router, 2 exceptions, then the ports.
mpls :: LinuxMPLSLookup;
mpls[0] -> CheckIPHeader(BADSRC 0.0.0.0, KERNEL true) -> rt4;
mpls[1] -> CheckIP6Header -> rt6;

// A packet to the kernel goes to the control-plane interface of the port that received it, with its Ethernet header.
rt4[0], rt6[0] -> Unstrip(14) -> us :: PaintSwitch;
// Packets of routes by `encap mpls` are exceptions there, and get their labels here. Outputs: 0 exceptions, then the ports.
rt4[1] -> push :: LinuxMPLSEncap;
rt6[1] -> scope :: CheckIP6Forward -> [1] push;     // link-local packets stay on their link
push[0], scope[1], mpls[2] -> exceptions :: Unstrip(14) -> exception :: PaintSwitch;

// The ports: each by a number of its own between the elements above. For a third port, add two lines with its
// control-plane interface and its device:
//     rt4[4], rt6[4], us[2], exception[2] => port2 :: Port(eth2, enp3s0, 2) => rt4, rt6, exceptions, mpls;
//     mpls[5], push[3] -> [4] port2;
rt4[2], rt6[2], us[0], exception[0] => port0 :: Port($IF0, $DEV0, 0) => rt4, rt6, exceptions, mpls;
mpls[3], push[1] -> [4] port0;
rt4[3], rt6[3], us[1], exception[1] => port1 :: Port($IF1, $DEV1, 1) => rt4, rt6, exceptions, mpls;
mpls[4], push[2] -> [4] port1;
