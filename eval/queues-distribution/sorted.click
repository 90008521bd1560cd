// Sorts a capture into buckets; the packets go nowhere, the buckets' counts are read. MODE is each row of the page's table.
FromDevice(pcap:$FILE, CLASSIFY $MODE) -> Discard;
// What the mode `program` uses: TCP, UDP, other IPv4, IPv6, the rest.
program :: Classifier(12/0800 23/06, 12/0800 23/11, 12/0800, 12/86dd, -);
// The router goes on when the capture has ended.
RatedSource(RATE 1) -> Discard;
