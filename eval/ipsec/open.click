// As seal.click; then each packet is opened again, with a window of 1024, before it leaves.
ipsec :: IPsecTable(
    sa out spi 0x1001 reqid 1 suite $SUITE tunnel 192.0.2.1 198.51.100.1 $KEYS,
    sa in spi 0x1001 reqid 1 suite $SUITE tunnel 192.0.2.1 198.51.100.1 window 1024 $KEYS,
    policy out src 10.0.0.0/8 dst 0.0.0.0/0 protect 1,
    policy in src 10.0.0.0/8 dst 0.0.0.0/0 protect 1);
FromDevice($IN)
    -> Strip(14)
    -> CheckIPHeader
    -> IPsecEncap(TABLE ipsec)
    -> rt :: RadixIPLookup(198.51.100.0/24 0)
    -> CheckIPHeader
    -> IPsecDecap(TABLE ipsec)
    -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02)
    -> out :: ToDevice($OUT);
