// route.click with one Counter more, in the middle of its compiled row: what it costs to count on an edge.
FromDevice($IN)
    -> Strip(14)
    -> CheckIPHeader
    -> Counter
    -> rt :: DirectIPLookup(ROUTES $ROUTES)
    -> Discard;
rt[1]
    -> ttl :: DecIPTTL
    -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02)
    -> Counter
    -> out :: ToDevice($OUT);
ttl[1] -> Discard;
