// The same traffic with multi-queue ports: each worker has a receive and a transmit queue of both ports, and keeps a
// packet from its arrival to its departure.
FromDevice($A, QUEUES 2, BURST $KP) -> a :: RoundRobinSwitch;
FromDevice($B, QUEUES 2, BURST $KP) -> b :: RoundRobinSwitch;
toa :: ToDevice($A, BURST $KN);
tob :: ToDevice($B, BURST $KN);
a[0] -> toa;
a[1] -> tob;
b[0] -> toa;
b[1] -> tob;
