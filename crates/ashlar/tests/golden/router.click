// Two workers fill a queue, one empties it.
in :: FromDevice(null:64, CORES 0-1) -> c :: Classifier(12/0800, 12/0806, -);
c[0] -> Strip(14) -> CheckIPHeader -> ttl :: DecIPTTL -> Unstrip(14) -> q :: Queue(1000);
c[1] -> Paint(3) -> q;
c[2] -> Discard;
ttl[1] -> Discard;
q -> out :: ToDevice(null:, CORES 0);
