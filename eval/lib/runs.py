"""The two ways in which figures run a router: alone on a core between an endless capture and nowhere, and fed
over shared memory (memif) by a source on the other core."""

from .lab import MEASURED

SECONDS = 1.5  # how long a run is measured


def endless(conf, frames, values=(), seconds=SECONDS, options=()):
    """A step: `conf` from IN, an endless capture, to OUT, nowhere, on one core. Nothing is lost on the way in:
    the capture gives what the router asks for."""

    def run(lab):
        router = lab.router(
            conf, ["IN=net_pcap0", "OUT=net_null1", *values],
            [f"net_pcap0,rx_pcap={frames},infinite_rx=1", "net_null1,no-rx=1"], buffers=262_143, options=options)
        router.wait_sending()
        return router.measure(seconds)

    return run


def fed(conf, frames, rate, burst=32, values=(), back=False, seconds=SECONDS, options=()):
    """A step: `conf` from IN, a memif with `rate` packets a second (0 = all that it takes) in groups of `burst`, to
    OUT: nowhere, or with `back` the same memif. What the source saw is under "source"."""

    def run(lab):
        source = lab.feed(frames, rate, burst, seconds + 0.8, back)
        vdevs = [source.vdev()] if back else [source.vdev(), "net_null1,no-rx=1"]
        out = "net_memif0" if back else "net_null1"
        router = lab.router(conf, ["IN=net_memif0", f"OUT={out}", *values], vdevs, (MEASURED,), options=options)
        router.wait_running()
        source.wait_measuring()
        result = router.measure(seconds)
        return result | {"source": source.result()}

    return run
