// Figure 9(b): two cores receive for one output, and both fill one Queue. Core 0 serves the output, too.
s0 :: RatedSource(LENGTH 46, RATE 1, CORES 0) -> EtherEncap(0x88b5, 02:00:00:00:00:01, 02:00:00:00:00:02) -> Paint(0) -> in0 :: Counter -> q :: Queue(1024);
s1 :: RatedSource(LENGTH 46, RATE 1, CORES 1) -> EtherEncap(0x88b5, 02:00:00:00:00:01, 02:00:00:00:00:02) -> Paint(1) -> in1 :: Counter -> q;
q -> Shaper($LINK) -> Unqueue(CORES 0) -> by :: PaintSwitch;
by[0] -> out0 :: Counter -> out :: ToDevice($OUT);
by[1] -> out1 :: Counter -> out;
