// Figure 10, right side: four cores, one for each direction of each port.
require(library route.click);

FromDevice($IN0, CORES 0) -> Route($ROUTES) -> Queue(1024) -> ToDevice($OUT1, CORES 3);
FromDevice($IN1, CORES 1) -> Route($ROUTES) -> Queue(1024) -> ToDevice($OUT0, CORES 2);
