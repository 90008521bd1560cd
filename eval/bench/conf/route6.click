// IPv6 routing: as route.click, without the checksum that IPv6 lacks.
FromDevice($IN)
    -> Strip(14)
    -> CheckIP6Header
    -> rt :: LookupIP6Route(ROUTES $ROUTES)
    -> Discard;
rt[1]
    -> hlim :: DecIP6HLIM
    -> EtherEncap(0x86dd, 02:00:00:00:00:01, 02:00:00:00:00:02)
    -> Counter
    -> out :: ToDevice($OUT);
hlim[1] -> Discard;
