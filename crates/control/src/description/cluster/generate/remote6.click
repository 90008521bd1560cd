// IPv6 packets that leave by a port of another server.
//   out 0: packets for VLBInput
//   out 1: messages to be routed
elementclass Remote6 { $mtu, $ip6 |
    input
        -> FixIP6Src($ip6)              // our own messages carry the address of the port where they leave
        -> size6 :: CheckLength($mtu)
        -> [0] output;
    size6[1] -> ICMP6Error($ip6, packettoobig, MTU $mtu) -> Paint(0) -> [1] output;
}
