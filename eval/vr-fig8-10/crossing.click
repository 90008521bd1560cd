// Figure 9(a): each core has a port, and what comes in by one leaves by the other's.
require(library route.click);

FromDevice($IN0, CORES 0) -> Route($ROUTES) -> Queue(1024) -> ToDevice($OUT1, CORES 1);
FromDevice($IN1, CORES 1) -> Route($ROUTES) -> Queue(1024) -> ToDevice($OUT0, CORES 0);
