// A device of this server with an external link: frames to send come in by 0; ARP, IPv4 and IPv6 frames
// for this station leave by 0, 1 and 2.
elementclass Device { $device |
    FromDevice($device)                 // one receive queue per worker
        -> HostEtherFilter($device:eth) // frames to other stations are dropped
        -> kind :: Classifier(12/0806, 12/0800, 12/86dd);       // all others are dropped (no_match)
    kind[0] -> [0] output;
    kind[1] -> [1] output;
    kind[2] -> [2] output;
    input -> ToDevice($device);         // one transmit queue per worker
}
