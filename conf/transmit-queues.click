// A port with several transmit queues, as on a network card: traffic classes by 802.1p, a rate limit for a queue,
// round robin between queues, and priority of some queues over others.
//
//     ashlar run conf/transmit-queues.click DEV0=eth0 DEV1=eth1 CONTROL=50Mbps
//
// `ashlar set background.rate 20Mbps` changes a limit while packets pass; `ashlar show voice.length` shows how many packets wait.

define($DEV0 eth0, $DEV1 eth1, $CONTROL 10Mbps, $BACKGROUND 100Mbps);

// Priorities 6 and 7, 4 and 5, 2 and 3, 0 and 1: the recommended classes for four queues.
FromDevice($DEV0, PROMISC true) -> class :: PCPSwitch;
first :: PrioSched;

// Network control traffic goes first, but may not use the whole link.
class[0] -> Queue(256) -> control :: BandwidthShaper($CONTROL) -> [0] first;
// Then voice and data in turn.
class[1] -> voice :: Queue(256) -> [0] turn :: RoundRobinSched -> [1] first;
class[2] -> data :: Queue(256) -> [1] turn;
// Other traffic gets the remaining bandwidth, up to a rate.
class[3] -> Queue(1024) -> background :: BandwidthShaper($BACKGROUND) -> [2] first;

// The scheduler cannot reorder packets that the port already has. So give it few at a time: urgent packets do not wait behind them.
first -> ToDevice($DEV1, BURST 8);
