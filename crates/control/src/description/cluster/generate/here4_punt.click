// IPv4 packets to the router itself.
//   out 0: packets to be routed
//   out 1: packets for the leader's kernel
elementclass Here4 { $ip |
    input
        -> here :: IPSourceRoute($HOSTS4, ALLOW false)
        -> what :: Classifier(9/01, -); // ICMP, anything else
    here[1] -> output;
    here[2] -> ICMPError($ip, parameterproblem, INTERFACES $ALL4) -> output;
    here[3] -> ICMPError($ip, unreachable, srcroutefail, INTERFACES $ALL4) -> output;
    what[0] -> whole :: IPReassembler
        -> CheckICMPHeader
        -> ping :: ICMPPingResponder
        -> output;
    whole[1] -> ICMPError($ip, timeexceeded, reassembly, INTERFACES $ALL4) -> output;
    what[1] -> [1] output;              // fragments, too: the kernel reassembles them
    ping[1] -> [1] output;              // ICMP other than echo requests
}
