// Figure 8(a): one core for both paths.
require(library route.click);

FromDevice($IN0, CORES 0) -> Route($ROUTES) -> ToDevice($OUT0);
FromDevice($IN1, CORES 0) -> Route($ROUTES) -> ToDevice($OUT1);
