// An IP router for IPv4 and IPv6 that Linux steers: FRR, BIRD or an operator with `ip` in a network
// namespace. Here packets are forwarded; there routes, addresses and neighbours are decided.
//
//     ip netns add routing
//     ashlar run --netns routing conf/linux-router.click DEV0=enp1s0 DEV1=enp2s0
//     ip -n routing address add 192.0.2.1/24 dev eth0; ip -n routing link set eth0 up
//     ip netns exec routing sysctl net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
//
// Every port has a twin in the namespace: a TAP interface with the port's Ethernet address, MTU and link
// state. What routing daemons see, and what `ip`, `ping`, `ssh` and tcpdump there do, goes through it. The
// elements whose names begin with Linux go by what the kernel says of its interfaces, neighbours and routes
// at the moment; where it says nothing (no namespace is followed), packets are dropped under a name.
//
// Two kinds of packets go up to the kernel: those for the router itself, and exceptions, which it is to
// answer with an ICMP error or to forward by ways that this file does not have. Both are held to rates:
//
//     ashlar show port0/punt.rates
//     ashlar set port0/punt.rate "icmp 100"

// What is particular to this router. `NAME=value` on the command line comes before it.
define(
    $DEV0 eth0,             // the port: an interface, a PCI address ...
    $IF0 eth0,              // its twin's name in the namespace
    $DEV1 eth1,
    $IF1 eth1
);

// A port and its twin.
//   in 0, 1:  IPv4 and IPv6 packets that are to leave by it
//   in 2, 3:  frames that came by it for the kernel: for the router itself, and exceptions
//   out 0, 1: IPv4 and IPv6 packets that came by it and are to be routed
//   out 2:    packets that should leave by it and cannot: exceptions, as they came
elementclass Port { $name, $device, $color |

    // What several paths below lead to. Each worker has a queue of its own to both.
    out :: ToDevice($device);
    punt :: ControlPlanePolicer -> ToDevice(tap:$name);

    // What the kernel and the daemons send are whole frames: nothing is left to do.
    FromDevice(tap:$name) -> out;

    // ---- Arrival

    FromDevice($device)
        -> in :: LinuxInput($name, $device)     // frames for us, while the kernel's interface is up
        -> kind :: Classifier(
            12/0800 14/45,                      // 0: IPv4 without options
            12/86dd,                            // 1: IPv6
            12/0800,                            // 2: IPv4 with options, which the kernel is to forward
            -);                                 // 3: ARP, LLDP ...
    in[1] -> punt;                              // to groups and to all: no router forwards these
    kind[2] -> [1] punt;
    kind[3] -> punt;
    // RFC 1812, 5.2.2 and 5.3.7: sound, and from and to addresses that may be on a wire.
    kind[0] -> Paint($color) -> Strip(14) -> CheckIPHeader(BADSRC 0.0.0.0) -> [0] output;
    kind[1] -> Paint($color) -> Strip(14) -> CheckIP6Header -> [1] output;

    // ---- Departure. The size is looked at before the hop is paid: exceptions go up as they came.

    input[0] -> size4 :: LinuxMTU($name) -> ttl :: DecIPTTL -> arp :: LinuxARP($name) -> out;
    size4[1] -> cut :: IPFragmenter(INTERFACE $name) -> ttl;
    input[1] -> scope :: CheckIP6Forward        // link-local packets stay on their link
        -> size6 :: LinuxMTU($name) -> hlim :: DecIP6HLIM -> nd :: LinuxND($name) -> out;

    ttl[1], hlim[1],        // no hop left: time exceeded, what traceroute lives on
    scope[1],               // beyond the scope of its source
    cut[1], size6[1],       // too long, and must not be cut: path MTU discovery
    arp[1], nd[1]           // no neighbour answers: host unreachable
        -> [2] output;

    // ---- Up to the kernel

    input[2] -> [0] punt;
    input[3] -> [1] punt;
}

port0 :: Port($IF0, $DEV0, 0);
port1 :: Port($IF1, $DEV1, 1);

// The kernel's routes. Outputs: 0 the router itself, 1 exceptions, then the interfaces as listed.
rt4 :: LinuxIPLookup($IF0, $IF1);
rt6 :: LinuxIP6Lookup($IF0, $IF1);

port0[0], port1[0] -> rt4;
rt4[2] -> [0] port0;
rt4[3] -> [0] port1;

port0[1], port1[1] -> rt6;
rt6[2] -> [1] port0;
rt6[3] -> [1] port1;

// What goes up takes the twin of the port by which it came, with the Ethernet header that it had.
rt4[0], rt6[0] -> Unstrip(14) -> us :: PaintSwitch;
us[0] -> [2] port0;
us[1] -> [2] port1;

rt4[1], rt6[1], port0[2], port1[2] -> Unstrip(14) -> exception :: PaintSwitch;
exception[0] -> [3] port0;
exception[1] -> [3] port1;

// A third port is its names in `define`; `port2 :: Port($IF2, $DEV2, 2);` its name in both lookups; and
// the lines above once more for it: port2[0], port2[1], port2[2], rt4[4], rt6[4], us[2], exception[2].
// A VLAN is a port like any other, with a twin of its own: DEV2=eth0.100 IF2=eth0.100 takes the frames of
// VLAN 100 of eth0, without their tags, and those without a tag stay with eth0 itself.
