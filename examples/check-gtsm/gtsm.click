// A thousand packets of a neighbour on the link, and ten of somebody farther away, to a router that takes the first only:
//     cargo run -- click gtsm.click -h near.count -h far.count
gtsm :: CheckGTSM(1);
InfiniteSource(LIMIT 1000, STOP false) -> IPEncap(tcp, 10.0.0.1, 10.0.0.2, TTL 255) -> gtsm;
InfiniteSource(LIMIT 10, STOP false) -> IPEncap(tcp, 192.0.2.1, 10.0.0.2, TTL 254) -> gtsm;
gtsm[0] -> near :: Counter -> Discard;
gtsm[1] -> far :: Counter -> Discard;
DriverManager(wait 0.1s, stop);
