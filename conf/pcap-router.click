// Routes the packets of a capture file into two others: no root, no interface, no DPDK.
//
//     ashlar run conf/pcap-router.click IN=in.pcap OUT0=low.pcap OUT1=high.pcap
//
// The lower half of all IPv4 and IPv6 addresses is behind port 0, the upper half behind port 1. The
// packets are processed as in conf/ip-router.click. But the hosts that sent them are not there, so
// there is no ARP or Neighbour Discovery, and frames leave with fixed Ethernet addresses.

define($IN in.pcap, $OUT0 out0.pcap, $OUT1 out1.pcap,
       $IP 192.0.2.1, $IP6 2001:db8::1, $MTU 1500);

// IPv4 packets to a file, and ICMP errors about packets that cannot go there.
elementclass Out4 { $mtu |
    input -> options :: IPGWOptions($IP)
        -> FixIPSrc($IP)
        -> ttl :: DecIPTTL
        -> size :: IPFragmenter($mtu)
        -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02)
        -> [0] output;
    options[1] -> ICMPError($IP, parameterproblem) -> [1] output;
    options[2] -> ICMPError($IP, unreachable, srcroutefail) -> [1] output;
    ttl[1] -> ICMPError($IP, timeexceeded) -> [1] output;
    size[1] -> ICMPError($IP, unreachable, needfrag, PMTU $mtu) -> [1] output;
}

// The same for IPv6.
elementclass Out6 { $mtu |
    input -> hlim :: DecIP6HLIM
        -> size :: CheckLength($mtu)
        -> EtherEncap(0x86dd, 02:00:00:00:00:01, 02:00:00:00:00:02)
        -> [0] output;
    hlim[1] -> ICMP6Error($IP6, timeexceeded) -> [1] output;
    size[1] -> ICMP6Error($IP6, packettoobig, MTU $mtu) -> [1] output;
}

out0 :: ToDevice(pcap:$OUT0);
out1 :: ToDevice(pcap:$OUT1);

// IP, without a tag or with a priority tag (VLAN 0); other frames are dropped (no_match).
FromDevice(pcap:$IN) -> kind :: Classifier(
    12/0800,
    12/86dd,
    12/8100 14/0000%0fff 16/0800,
    12/8100 14/0000%0fff 16/86dd);

kind[2] -> Strip(4) -> ip4 :: Strip(14);
kind[3] -> Strip(4) -> ip6 :: Strip(14);

kind[0] -> ip4
    -> CheckIPHeader(INTERFACES $IP/32)
    -> rt4 :: RadixIPLookup($IP/32 2, 0.0.0.0/1 0, 128.0.0.0/1 1);
rt4[0] -> low4 :: Out4($MTU) -> out0;
rt4[1] -> high4 :: Out4($MTU) -> out1;
rt4[2] -> IPReassembler -> ICMPPingResponder -> rt4;
low4[1] -> rt4;
high4[1] -> rt4;

kind[1] -> ip6
    -> CheckIP6Header
    -> hop :: IP6HopByHop
    -> local6 :: IP6Local($IP6)
    -> CheckIP6Forward
    -> rt6 :: LookupIP6Route(::/1 0, 8000::/1 1);
hop[1] -> ICMP6Error($IP6, parameterproblem) -> rt6;
rt6[0] -> low6 :: Out6($MTU) -> out0;
rt6[1] -> high6 :: Out6($MTU) -> out1;
local6[1] -> CheckICMP6Header -> ICMP6PingResponder($IP6) -> rt6;
low6[1] -> rt6;
high6[1] -> rt6;
