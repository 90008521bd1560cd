// The least that forwards: two ports, what comes in by one leaves by the other.
//
//     ashlar run conf/forward.click DEV0=eth0 DEV1=eth1

define($DEV0 eth0, $DEV1 eth1);

// Frames pass untouched, whomever they are for, so both ports must hear all of them.
FromDevice($DEV0, PROMISC true) -> ToDevice($DEV1);
FromDevice($DEV1, PROMISC true) -> ToDevice($DEV0);
