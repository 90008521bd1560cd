// Two ports whose packets are spread over all workers by flow; both directions of a flow meet on one worker.
//
//     ashlar run conf/queues.click DEV0=eth0 DEV1=eth1 --workers 2
//     ashlar show eth0@steer.table                    which worker owns which buckets
//     ashlar set eth0@steer.move "0-63 1"             gives buckets to worker 1
//
// It works with any number of receive queues. docs/queues.md has the other modes of CLASSIFY.

define($DEV0 eth0, $DEV1 eth1);

FromDevice($DEV0, PROMISC true, CLASSIFY hash) -> there :: Counter -> ToDevice($DEV1);
FromDevice($DEV1, PROMISC true, CLASSIFY hash) -> back :: Counter -> ToDevice($DEV0);
