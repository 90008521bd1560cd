// IPv4 routing (RouteBricks, 4.2): header checked with its checksum, route looked up among
// 256K by the paper's D-lookup, TTL and checksum updated, MAC addresses rewritten, packets counted.
FromDevice($IN)
    -> Strip(14)
    -> CheckIPHeader
    -> rt :: DirectIPLookup(ROUTES $ROUTES)
    -> Discard;
rt[1]
    -> ttl :: DecIPTTL
    -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02)
    -> Counter
    -> out :: ToDevice($OUT);
ttl[1] -> Discard;
