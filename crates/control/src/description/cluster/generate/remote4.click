// IPv4 packets that leave by a port of another server: all processing of their headers is done here,
// once, and no other server looks at them again (RouteBricks, 6.1).
//   out 0: packets for VLBInput
//   out 1: messages to be routed
elementclass Remote4 { $mtu, $ip, $net |
    input
        -> DropBroadcasts
        -> DropDirectedBroadcasts($net)
        -> options :: IPGWOptions($ip, $HOSTS4, SOURCE_ROUTES false)
        -> FixIPSrc($ip)                // our own messages carry the address of the port where they leave
        -> ttl :: DecIPTTL
        -> size :: IPFragmenter($mtu)
        -> [0] output;
    options[1] -> ICMPError($ip, parameterproblem, INTERFACES $ALL4) -> [1] output;
    options[2] -> ICMPError($ip, unreachable, srcroutefail, INTERFACES $ALL4) -> [1] output;
    ttl[1] -> ICMPError($ip, timeexceeded, transit, INTERFACES $ALL4) -> [1] output;
    size[1] -> ICMPError($ip, unreachable, needfrag, PMTU $mtu, INTERFACES $ALL4) -> [1] output;
}
