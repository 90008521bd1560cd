// The paper's remedy: a Queue for each input, and a multiplexer that serves them in turn.
s0 :: RatedSource(LENGTH 46, RATE 1, CORES 0) -> EtherEncap(0x88b5, 02:00:00:00:00:01, 02:00:00:00:00:02) -> Paint(0) -> in0 :: Counter -> Queue(1024) -> mux :: RoundRobinSched;
s1 :: RatedSource(LENGTH 46, RATE 1, CORES 1) -> EtherEncap(0x88b5, 02:00:00:00:00:01, 02:00:00:00:00:02) -> Paint(1) -> in1 :: Counter -> Queue(1024) -> [1] mux;
mux -> Shaper($LINK) -> Unqueue(CORES 0) -> by :: PaintSwitch;
by[0] -> out0 :: Counter -> out :: ToDevice($OUT);
by[1] -> out1 :: Counter -> out;
