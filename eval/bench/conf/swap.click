// A router of labels: each looked up among ENTRIES, swapped for another, MAC addresses rewritten, packets counted.
FromDevice($IN)
    -> Strip(14)
    -> next :: MPLSLookup($ENTRIES)
    -> MPLSEtherEncap(02:00:00:00:00:01, 02:00:00:00:00:02)
    -> Counter
    -> out :: ToDevice($OUT);
