// One port with two receive queues, each of which has a worker of its own. One worker sends.
//
//     ashlar run conf/two-queues.click DEV0=eth0 DEV1=eth1 --workers 2
//
// `ashlar plan` shows what runs where: all elements up to the Queue have a copy on both workers. At
// the Queue packets move to the worker that sends.

define($DEV0 eth0, $DEV1 eth1);

FromDevice($DEV0, QUEUES 2, CORES 0-1, PROMISC true)
    -> seen :: Counter                  // each worker counts for itself; handlers give the sum
    -> q :: Queue(1024)                 // holds up to 1024 packets; others are dropped (full)
    -> ToDevice($DEV1, CORES 0);        // pulls packets from the Queue
