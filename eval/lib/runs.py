"""The two ways to run a router for a figure. It is alone on a core between an endless capture and a null port, or it is
fed over shared memory (memif) by a source on the other core.
"""

from . import frames
from .lab import MEASURED, vdevs
from .machine import ROOT

SECONDS = 1.0  # how long a run is measured
CONF = ROOT / "eval" / "bench" / "conf"  # the applications of `make bench`
# RouteBricks' applications, and their names on pages.
APPS = ["forward", "route", "ipsec"]
NAMES = {"forward": "forwarding", "route": "routing", "ipsec": "IPsec"}
# The third of them: AES of 128 bits, as in the paper.
IPSEC = ["SUITE=aes128gcm16", "KEYS=ENC_KEY " + "5a" * 20]


def conf_of(app):
    """Configuration file of an application."""
    return ROOT / "eval" / "ipsec" / "seal.click" if app == "ipsec" else CONF / f"{app}.click"


def values_of(app):
    """Variable definitions with which an application is started."""
    return {"route": [f"ROUTES={frames.routes()}"], "ipsec": IPSEC}.get(app, [])


def endless(conf, capture, values=(), seconds=SECONDS, options=()):
    """Measurement step: `conf` on one core from the endless capture IN to the null port OUT. No packet is lost on input,
    because the capture delivers what the router requests.
    """

    def run(lab):
        router = lab.router(
            conf, ["IN=net_pcap0", "OUT=net_null1", *values], vdevs(capture), buffers=262_143, options=options)
        router.wait_sending()
        return router.measure(seconds)

    return run


def offered(source):
    """Packets a second that a source offered, by its results: those that it sent, and those that were refused."""
    return (source["sent"] + source["refused"]) / source["seconds"]


def refused(source):
    """Part of the offered packets for which there was no place, by the results of their source."""
    return source["refused"] / (source["sent"] + source["refused"])


def fed(conf, capture, rate, burst=32, values=(), back=False, seconds=SECONDS, options=()):
    """Measurement step: `conf` from the memif IN with `rate` packets a second (0 = as fast as possible) in groups of
    `burst`, to a null port or, with `back`, to the same memif. The source's results are under "source".
    """

    def run(lab):
        source = lab.feed(capture, rate, burst, seconds + 0.8, back)
        memif = source.port()
        vdevs = [] if back else ["net_null1,no-rx=1"]
        out = memif if back else "net_null1"
        router = lab.router(conf, [f"IN={memif}", f"OUT={out}", *values], vdevs, (MEASURED,), options=options)
        router.wait_running()
        source.wait_measuring()
        result = router.measure(seconds)
        return result | {"source": source.result()}

    return run
