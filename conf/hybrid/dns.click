// The isolated router: it only counts here; whatever looks into names stands in its place.

FromDevice(near, PROMISC true) -> requests :: Counter -> ToDevice(far);
FromDevice(far, PROMISC true) -> answers :: Counter -> ToDevice(near);
