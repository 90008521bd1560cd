// One port with two receive queues, each read by a worker of its own; one worker sends.
//
//     ashlar run conf/two-queues.click DEV0=eth0 DEV1=eth1 --workers 2
//
// `ashlar plan` shows what runs where: everything up to the Queue has a copy on both workers, and
// the Queue is where packets change to the worker that sends.

define($DEV0 eth0, $DEV1 eth1);

FromDevice($DEV0, QUEUES 2, CORES 0-1, PROMISC true)
    -> seen :: Counter                  // each worker counts for itself; handlers give the sum
    -> q :: Queue(1024)                 // room for 1024 packets; more are dropped (full)
    -> ToDevice($DEV1, CORES 0);        // asks the Queue for packets
