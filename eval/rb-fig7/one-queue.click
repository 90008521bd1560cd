// Two ports, two workers, traffic from any to any, as in RouteBricks' Figure 7 before its changes: a port has one
// queue each way, which belongs to one worker. Half of the packets leave by the port of the other worker, and so
// every one of these is touched by two.
FromDevice($A, CORES 0, BURST $KP) -> a :: RoundRobinSwitch;
FromDevice($B, CORES 1, BURST $KP) -> b :: RoundRobinSwitch;
a[0] -> qa :: Queue(1024) -> ToDevice($A, CORES 0, BURST $KN);
b[1] -> qb :: Queue(1024) -> ToDevice($B, CORES 1, BURST $KN);
a[1] -> qb;
b[0] -> qa;
