// As seal.click, without IPsec: what is around sealing and opening.
FromDevice($IN)
    -> Strip(14)
    -> CheckIPHeader
    -> rt :: RadixIPLookup(0.0.0.0/0 0)
    -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02)
    -> out :: ToDevice($OUT);
