"""One core and two: DPDK's testpmd, as two processes that share nothing, and Ashlar, which routes with a worker for each
queue of a port. Who runs has a core to itself, and packets come from an endless capture on the core that forwards them."""

import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "bench")]

import peers  # noqa: E402
from lib import frames, lab, machine, runs  # noqa: E402

CORES = (0, 1)
SINGLES = [(0,), (1,)]


class Testpmd(peers.Dpdk):
    """testpmd in io mode with one forwarding core. Its main thread waits for input on the other."""

    def __init__(self, here, core):
        self.number = here.number()
        eal = [*peers.as_eal(lab.vdevs(frames.fixed(64))), "--log-level", "*:error"]
        app = ["--forward-mode=io", "--auto-start", "--total-num-mbufs=131071", "--burst=32", "--no-flush-rx", "-i"]
        cores = ["-l", "0,1", "--main-lcore", str(1 - core)]
        super().__init__("dpdk-testpmd", cores, eal, app, here.folder / f"{self.number}.log")

    @property
    def prefix(self):
        """Of the files by which DPDK tells processes apart."""
        return f"queues{os.getpid()}-{self.number}"

    @prefix.setter
    def prefix(self, _):
        pass  # the parent's is the same for all


def testpmd(here, cores, seconds):
    """Packets a second of a process on each of `cores`, all at once."""
    all_of_them = [here.keep(Testpmd(here, core)) for core in cores]
    for one in all_of_them:
        one.wait_running()
    return peers.rate_of(lambda: sum(one.sent() for one in all_of_them), seconds)


def route(here, cores, seconds):
    """Packets a second that a worker on each of `cores` routes from a queue of its own to a queue of its own."""
    ports = lab.vdevs(frames.fixed(64), queues=len(cores))
    values = ["IN=net_pcap0", "OUT=net_null1", *runs.values_of("route")]
    router = here.router(runs.CONF / "route.click", values, ports, cores, buffers=262_143)
    router.wait_sending()
    return router.measure(seconds)["rate"]


KINDS = {"testpmd": testpmd, "route": route}


def measure(here, rounds, seconds, say):
    """Rates by who, cores and round; whoever else is on the machine meets all of a round alike."""
    found = {}
    for number in range(rounds):
        for kind, run in KINDS.items():
            for cores in [*SINGLES, CORES]:
                try:
                    rate = run(here, cores, seconds)
                finally:
                    here.end_all()
                found.setdefault(f"{kind} {' '.join(map(str, cores))}", []).append(rate)
                say(f"round {number + 1}: {kind:<8} on core {' and '.join(map(str, cores)):<8}{rate / 1e6:8.2f} Mpps")
    return found


def gains(found, kind):
    """Both cores at once over one of them (the mean of both alone), for each round."""
    ones = zip(*(found[f"{kind} {core}"] for (core,) in SINGLES))
    return [both / (sum(one) / len(one)) for both, one in zip(found[f"{kind} 0 1"], ones)]
