// IPv4 packets to the router itself.
elementclass Here4 { $ip |
    input
        -> here :: IPSourceRoute($HOSTS4, ALLOW false)
        -> whole :: IPReassembler
        -> what :: Classifier(9/01, 9/11, -);           // ICMP, UDP, anything else
    here[1] -> output;
    here[2] -> ICMPError($ip, parameterproblem, INTERFACES $ALL4) -> output;
    here[3] -> ICMPError($ip, unreachable, srcroutefail, INTERFACES $ALL4) -> output;
    whole[1] -> ICMPError($ip, timeexceeded, reassembly, INTERFACES $ALL4) -> output;
    what[0] -> CheckICMPHeader -> ICMPPingResponder -> output;  // ping; other ICMP is dropped (not_echo)
    what[1] -> ICMPError($ip, unreachable, port, INTERFACES $ALL4) -> output;
    what[2] -> ICMPError($ip, unreachable, protocol, INTERFACES $ALL4) -> output;
}
