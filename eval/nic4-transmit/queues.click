// Four transmit queues of a port, as conf/transmit-queues.click has them, before a link of $LINK packets a second: the first goes before all others up to its
// rate, two are served in turn, the last gets what remains up to its rate.
s0 :: RatedSource(LENGTH 46, RATE 1, CORES 1) -> EtherEncap(0x88b5, 02:00:00:00:00:01, 02:00:00:00:00:02) -> VLANEncap(VLAN_ID 1, VLAN_PCP 7) -> class :: PCPSwitch;
s1 :: RatedSource(LENGTH 46, RATE 1, CORES 1) -> EtherEncap(0x88b5, 02:00:00:00:00:01, 02:00:00:00:00:02) -> VLANEncap(VLAN_ID 1, VLAN_PCP 5) -> class;
s2 :: RatedSource(LENGTH 46, RATE 1, CORES 1) -> EtherEncap(0x88b5, 02:00:00:00:00:01, 02:00:00:00:00:02) -> VLANEncap(VLAN_ID 1, VLAN_PCP 3) -> class;
s3 :: RatedSource(LENGTH 46, RATE 1, CORES 1) -> EtherEncap(0x88b5, 02:00:00:00:00:01, 02:00:00:00:00:02) -> VLANEncap(VLAN_ID 1, VLAN_PCP 0) -> class;
class[0] -> in0 :: Counter -> Queue(4096) -> Shaper($FIRST) -> [0] first :: PrioSched;
class[1] -> in1 :: Counter -> Queue(4096) -> [0] turn :: RoundRobinSched -> [1] first;
class[2] -> in2 :: Counter -> Queue(4096) -> [1] turn;
class[3] -> in3 :: Counter -> Queue(4096) -> Shaper($LAST) -> [2] first;
first -> Shaper($LINK) -> Unqueue(BURST 8, CORES 0) -> by :: PCPSwitch;
by[0] -> out0 :: Counter -> out :: ToDevice($OUT);
by[1] -> out1 :: Counter -> out;
by[2] -> out2 :: Counter -> out;
by[3] -> out3 :: Counter -> out;
