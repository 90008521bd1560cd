"""Scaling from one core to two: DPDK's testpmd as two processes that share nothing, and Ashlar, which routes with one
worker per queue of a port. Packets come from an endless capture on the core that forwards them. All programs are
started first and then run in short turns while the others are stopped, so that a temporarily slower machine affects a
whole round. The physical memory that a process gets affects its speed for its lifetime, so all are restarted several
times.
"""

import pathlib
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "bench")]

import peers  # noqa: E402
from lib import frames, lab, machine, runs  # noqa: E402

CORES = (0, 1)
SINGLES = [(0,), (1,)]
# Turns of a round. Each program alone and both together have the same mean distance from the round's middle, so a steady change of the machine cancels out.
ORDER = [("testpmd", (0,)), ("route", (0,)), ("testpmd", CORES), ("route", CORES), ("route", (1,)), ("testpmd", (1,))]
SETTLE = 0.1  # seconds from when somebody goes on until it is measured
BUFFERS = 81_919  # for each worker: all routers are there at once


class Testpmd(peers.Dpdk):
    """testpmd in io mode with one forwarding core. Its main thread waits for input on the other."""

    def __init__(self, here, core):
        eal = [*peers.as_eal(lab.vdevs(frames.fixed(64))), "--log-level", "*:error"]
        app = ["--forward-mode=io", "--auto-start", "--total-num-mbufs=131071", "--burst=32", "--no-flush-rx", "-i"]
        super().__init__("dpdk-testpmd", peers.lcores(core), eal, app, here.folder / f"{here.number()}.log")


def route(here, cores):
    """A router with a worker on each of `cores`, each with a receive queue and a transmit queue of its own."""
    ports = lab.vdevs(frames.fixed(64), queues=len(cores))
    values = ["IN=net_pcap0", "OUT=net_null1", *runs.values_of("route")]
    return here.router(runs.CONF / "route.click", values, ports, cores, buffers=BUFFERS * len(cores))


class Turns:
    """Programs that run in turns: all others are stopped."""

    def __init__(self, here):
        self.testpmds, self.routers = {}, {}
        for core in CORES:
            one = self.testpmds[core] = here.keep(Testpmd(here, core))
            one.wait_running()
            one.go_on(False)
        for cores in [*SINGLES, CORES]:
            one = self.routers[cores] = route(here, cores)
            one.wait_sending()
            one.go_on(False)

    def rate(self, kind, cores, seconds):
        """Packets a second of testpmd processes or a router on these cores."""
        processes = [self.testpmds[core] for core in cores] if kind == "testpmd" else [self.routers[cores]]
        for one in processes:
            one.go_on(True)
        try:
            time.sleep(SETTLE)
            if kind == "testpmd":
                return peers.rate_of(lambda: sum(one.count() for one in processes), seconds)
            return machine.some(processes[0].measure(seconds)["rate"], "packets a second")
        finally:
            for one in processes:
                one.go_on(False)


def measure(here, starts, rounds, seconds, say):
    """Measured rates by program, cores and round."""
    found = {}
    for start in range(starts):
        try:
            turns = Turns(here)
            for number in range(rounds):
                for kind, cores in ORDER:
                    found.setdefault(f"{kind} {' '.join(map(str, cores))}", []).append(turns.rate(kind, cores, seconds))
                told = (f"{name} {rates[-1] / 1e6:.1f}" for name, rates in found.items())
                say(f"start {start + 1}, round {number + 1}, Mpps: {', '.join(told)}")
        finally:
            here.end_all()
    return found


def gains(found, kind):
    """Rate of both cores relative to one core (the mean of both alone), for each round."""
    ones = zip(*(found[f"{kind} {core}"] for (core,) in SINGLES))
    return [both / statistics.mean(one) for both, one in zip(found[f"{kind} 0 1"], ones)]


def of_ceiling(found):
    """Gain by a second worker relative to the gain by a second core, for each round."""
    return [ours / ceiling for ours, ceiling in zip(gains(found, "route"), gains(found, "testpmd"))]
