// IPv4 routing as ../bench/conf/route.click does it, with the packets that a poll finds.
FromDevice($IN, BURST $BURST)
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
