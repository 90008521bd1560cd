// The smallest forwarder: two ports; packets received by one port leave by the other.
//
//     ashlar run conf/forward.click DEV0=eth0 DEV1=eth1

define($DEV0 eth0, $DEV1 eth1);

// All frames pass unchanged, whatever their destination, so both ports must receive all frames.
FromDevice($DEV0, PROMISC true) -> ToDevice($DEV1);
FromDevice($DEV1, PROMISC true) -> ToDevice($DEV0);
