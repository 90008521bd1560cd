// Two flows, a core each, each routed by a table of its own.
elementclass Path { $in, $out, $core |
    FromDevice($in, CORES $core) -> Strip(14) -> CheckIPHeader -> output;
    input -> ttl :: DecIPTTL
        -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02)
        -> Counter
        -> ToDevice($out);
    ttl[1] -> Discard;
}
a :: Path($IN0, $OUT0, 0) -> rta :: DirectIPLookup(ROUTES $ROUTES) -> Discard;
b :: Path($IN1, $OUT1, 1) -> rtb :: DirectIPLookup(ROUTES $ROUTES) -> Discard;
rta[1] -> a;
rtb[1] -> b;
