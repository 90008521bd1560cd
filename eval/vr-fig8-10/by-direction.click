// Figures 8(b) and 8(c): one core for what comes in, one for what goes out.
require(library route.click);

FromDevice($IN0, CORES 0) -> Route($ROUTES) -> Queue(1024) -> ToDevice($OUT0, CORES 1);
FromDevice($IN1, CORES 0) -> Route($ROUTES) -> Queue(1024) -> ToDevice($OUT1, CORES 1);
