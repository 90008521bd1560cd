// As Figure 9(a), with the same queues, but packets leave by their own core's port.
require(library route.click);

FromDevice($IN0, CORES 0) -> Route($ROUTES) -> Queue(1024) -> ToDevice($OUT0, CORES 0);
FromDevice($IN1, CORES 1) -> Route($ROUTES) -> Queue(1024) -> ToDevice($OUT1, CORES 1);
