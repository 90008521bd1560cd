// Figure 8(d): a core for each path.
require(library route.click);

FromDevice($IN0, CORES 0) -> Route($ROUTES) -> ToDevice($OUT0);
FromDevice($IN1, CORES 1) -> Route($ROUTES) -> ToDevice($OUT1);
