// IPv4 forwarding of a path, for the placements beside this file. Each path has a table of its own.
elementclass Route { $routes |
    input -> Strip(14) -> CheckIPHeader -> rt :: RadixIPLookup(ROUTES $routes) -> Discard;
    rt[1] -> ttl :: DecIPTTL -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02) -> output;
    ttl[1] -> Discard;
}
