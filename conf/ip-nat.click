// A network address translator between an inside and an outside network.
//
//     ashlar run conf/ip-nat.click
//     ashlar run conf/ip-nat.click DEV0=enp1s0 IP0=10.0.1.1 DEV1=enp2s0 IP1=192.0.2.9 GW1=192.0.2.1
//
// Hosts inside reach the outside with the router's outside address: TCP and UDP are told apart by ports,
// pings by identifiers; ICMP errors about both find their way back. From outside only replies come in.
// All other packets are dropped under a name: `ashlar top` shows them.
//
//     ashlar show nat.tcp_table
//
// Every worker has a receive queue of each port. With several workers, packets cross to the worker that
// owns the mappings; `ashlar plan` shows the queues between workers.

define(
    $DEV0 eth0,         // the inside port
    $IP0 10.0.1.1,      // the router's address there
    $LEN0 24,
    $DEV1 eth1,         // the outside port
    $IP1 10.0.2.1,      // the router's address there, which all hosts inside share
    $LEN1 24,
    $GW1 10.0.2.2       // the gateway to all other networks
);

AddressInfo(inside $IP0/$LEN0, outside $IP1/$LEN1);

// One port and everything for its link.
//   in:  IPv4 packets to send; the destination annotation is the neighbour's address
//   out: IPv4 packets received
elementclass Link { $name, $device, $ip |
    out :: ToDevice($device);
    arp :: ARPQuerier($name, $device:eth);
    FromDevice($device)
        -> HostEtherFilter($device:eth)
        -> kind :: Classifier(
            12/0806 20/0001,    // 0: ARP request
            12/0806 20/0002,    // 1: ARP reply
            12/0800);           // 2: IPv4; other frames are dropped (no_match)
    kind[0] -> asked :: Tee -> ARPResponder($ip $device:eth) -> out;
    asked[1] -> [1] arp;
    kind[1] -> [1] arp;
    kind[2] -> Strip(14) -> CheckIPHeader(INTERFACES inside outside) -> output;
    input -> arp -> out;
}

lan :: Link(inside, $DEV0, $IP0);
wan :: Link(outside, $DEV1, $IP1);

// Input 0 of each takes packets from inside, input 1 packets from outside.
nat :: IPRewriter(pattern $IP1 1024-65535 - - 0 1, drop, MAPPING_CAPACITY 1000000);
pings :: ICMPPingRewriter(pattern $IP1 - 0-65535 0 1, drop, MAPPING_CAPACITY 100000);
errors :: ICMPRewriter(nat pings);      // other ICMP: errors about rewritten packets

to_world :: DecIPTTL -> SetIPAddress($GW1) -> [0] wan;
to_hosts :: DecIPTTL -> lan;
to_world[1] -> ICMPError($IP0, timeexceeded, INTERFACES inside outside) -> lan;
to_hosts[1] -> ICMPError($IP1, timeexceeded, INTERFACES inside outside)
    -> SetIPAddress($GW1) -> wan;

nat[0] -> to_world;
nat[1] -> to_hosts;
pings[0] -> to_world;
pings[1] -> to_hosts;
errors -> to_hosts;

lan -> from_hosts :: IPClassifier(
    dst host $IP0 and icmp type echo,   // 0: pings of the router
    dst net inside,                     // 1: other packets to hosts inside end here
    tcp or udp,                         // 2
    icmp type echo,                     // 3: other packets are dropped (no_match)
    );
from_hosts[0] -> ICMPPingResponder -> lan;
from_hosts[1] -> Discard;
from_hosts[2] -> [0] nat;
from_hosts[3] -> [0] pings;

wan -> from_world :: IPClassifier(
    dst host $IP1 and (tcp or udp),             // 0
    dst host $IP1 and icmp type echo-reply,     // 1
    dst host $IP1 and icmp type echo,           // 2: pings of the router
    dst host $IP1 and icmp);                    // 3; other packets are dropped (no_match)
from_world[0] -> [1] nat;
from_world[1] -> [1] pings;
from_world[2] -> ICMPPingResponder -> SetIPAddress($GW1) -> wan;
from_world[3] -> errors;
