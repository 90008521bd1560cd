// ESP in a tunnel as ../ipsec/seal.click does it, with the packets that a poll finds.
ipsec :: IPsecTable(
    sa out spi 0x1001 reqid 1 suite $SUITE tunnel 192.0.2.1 198.51.100.1 $KEYS,
    policy out src 10.0.0.0/8 dst 0.0.0.0/0 protect 1);
FromDevice($IN, BURST $BURST)
    -> Strip(14)
    -> CheckIPHeader
    -> IPsecEncap(TABLE ipsec)
    -> rt :: RadixIPLookup(198.51.100.0/24 0)
    -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02)
    -> out :: ToDevice($OUT);
