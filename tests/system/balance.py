#!/usr/bin/env python3
"""`make balance`: three boxes behind a balancer are one router that speaks OSPF and BGP.

The network is that of speakers.py: r1 and r2 are stock Linux with FRR, and r3 is Ashlar. Each is limited to a rate
(r1 and r2 by an nftables rule, r3 by an element) and drops the excess, so that two carry twice as much as one. Prints
lines `balance NAME VALUE`, and fails if a value misses its bound.
"""

import argparse
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from multistage import ready  # noqa: E402
from net import Failed, Lab, stop_on_signals, until  # noqa: E402
from speakers import SpeakerBed, converge  # noqa: E402


def detection(bed: SpeakerBed, name: str) -> float:
    """Milliseconds from the moment when a back end stops forwarding until its buckets have moved."""
    all_up(bed)
    before = len(bed.journal())
    at = time.time()
    bed.boxes[name].sysctl(net__ipv4__ip_forward=0)
    line = until(lambda: [(when, what) for when, what in bed.journal()[before:] if what.startswith(f"{name} down")],
                 f"{name} to be down")
    after = len(bed.journal())
    bed.boxes[name].sysctl(net__ipv4__ip_forward=1)
    until(lambda: any(what == f"{name} up" for _, what in bed.journal()[after:]), f"{name} to be up", timeout=30)
    return (line[0][0] - at) * 1000


def restart_health(bed: SpeakerBed) -> None:
    """Forgets earlier failures, so that a back end returns as soon as after its first one."""
    bed.router.cli("set", "health.forget", "")


@dataclass
class Bound:
    name: str
    value: float
    good: bool


def all_up(bed: SpeakerBed) -> None:
    """Waits until all boxes are up again: on a busy machine late probes may take them down."""
    until(lambda: all(bed.state(name) == "up" for name in bed.names), "all boxes to be up", timeout=60)


def demonstrate(bed: SpeakerBed, asked: argparse.Namespace) -> list[Bound]:
    """Makes the measurements, and judges them."""
    values: list[Bound] = []

    def note(name: str, value: float, good: bool) -> None:
        values.append(Bound(name, value, good))
        print(f"balance {name} {value:g}" + ("" if good else "   (misses its bound)"), flush=True)

    rate, seconds = asked.rate, asked.seconds
    print("one back end, then two: each is held to a rate", flush=True)
    for name in bed.names:
        bed.limit(name, rate)
    bed.balance("remove", "r2")
    bed.balance("remove", "r3")
    one = bed.load(rate * 2.5, seconds)
    bed.balance("add", "r2", "--within", "0")
    until(lambda: bed.buckets("r2") > 0, "r2 to have buckets")
    two = bed.load(rate * 2.5, seconds)
    note("two-backends/one", two.came / max(one.came, 1), two.came >= 1.9 * one.came)
    bed.balance("add", "r3", "--within", "0")
    for name in bed.names:
        bed.unlimit(name)
    until(lambda: bed.buckets("r3") > 0, "r3 to have buckets")

    print("planned changes under load: drained, used again, removed from the table", flush=True)
    bed.load(500, 0.5)
    all_up(bed)
    sessions = bed.sessions()
    before = {name: bed.buckets(name) for name in bed.names}
    note("share-error-percent", max(abs(3 * count / 65536 - 1) for count in before.values()) * 100,
         all(abs(3 * count / 65536 - 1) <= 0.01 for count in before.values()))
    load = bed.begin(asked.load, 6.0, flows=asked.flows)
    time.sleep(max(load.begins - time.time(), 0) + 1)
    bed.balance("drain", "r2", "--within", "60s")
    until(lambda: bed.state("r2") == "drained", "r2 to be drained", timeout=60)
    bed.balance("add", "r2", "--within", "60s")
    until(lambda: bed.buckets("r2") == before["r2"], "r2 to have its buckets again", timeout=60)
    planned = load.end()
    note("reordered", planned.reordered, planned.reordered == 0)
    note("lost", planned.lost, planned.lost == 0)

    note("sessions-kept", float(bed.sessions() == sessions), bed.sessions() == sessions)

    owners = bed.router.cli("show", "lb.owners").split()
    bed.balance("remove", "r3")
    until(lambda: bed.buckets("r3") == 0, "r3 to have no bucket")
    moved = sum(a != b for a, b in zip(owners, bed.router.cli("show", "lb.owners").split()))
    note("moved/share", moved / before["r3"], moved == before["r3"])
    bed.balance("add", "r3", "--within", "0")
    until(lambda: bed.router.cli("show", "lb.owners").split() == owners, "the first table")

    print("a back end that does not forward any more", flush=True)
    times = []
    for _ in range(asked.times):
        restart_health(bed)
        times.append(detection(bed, "r2"))
    note("detection-ms-median", statistics.median(times), statistics.median(times) <= 50)
    note("detection-ms-worst", max(times), max(times) <= 50)
    load = bed.begin(asked.load, 3.0)
    time.sleep(max(load.begins - time.time(), 0) + 1)
    bed.crash("r1")
    crashed = time.monotonic()
    crash = load.end()
    share = before["r1"] / 65536
    allowed = asked.load * share * 0.050 + asked.load * 0.01
    note("lost-at-crash", crash.lost, crash.lost <= allowed)
    converge(bed, "r2")
    took = time.monotonic() - crashed
    note("other-speaker-s", took, took <= 30)
    bed.revive("r1")
    until(lambda: bed.state("r1") == "up", "r1 to be up", timeout=30)
    converge(bed, "r1")

    print(f"all back ends at their limit for {asked.full:g} s", flush=True)
    for name in bed.names:
        bed.limit(name, asked.load // 6)
    before_full = len(bed.journal())
    bed.load(asked.load, asked.full)
    alarms = [what for _, what in bed.journal()[before_full:] if " down" in what]
    note("false-alarms", len(alarms), not alarms)
    return values


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=2000, help="packets a second to which each back end is held")
    parser.add_argument("--load", type=int, default=6000, help="packets a second in the other parts")
    parser.add_argument("--flows", type=int, default=2000, help="flows while buckets move by plan")
    parser.add_argument("--seconds", type=float, default=5, help="seconds of each measurement of a rate")
    parser.add_argument("--times", type=int, default=20, help="measurements of detection")
    parser.add_argument("--full", type=float, default=120, help="seconds at full load")
    asked = parser.parse_args()
    stop_on_signals()
    try:
        with Lab() as lab:
            bed = SpeakerBed(lab, ["r1", "r2", "r3"], ashlar=("r3",))
            bed.start()
            bed.speak()
            print(f"OSPF and BGP know all routes after {converge(bed, 'r1'):.1f} s", flush=True)
            ready(bed)
            values = demonstrate(bed, asked)
            print(bed.balance("show"), flush=True)
            if not all(bound.good for bound in values):
                print("all changes:", *(f"{when:.3f} {what}" for when, what in bed.journal()), sep="\n  ", flush=True)
            bed.router.process.stop()
    except Failed as failed:
        print(failed, file=sys.stderr)
        return 1
    missed = [bound.name for bound in values if not bound.good]
    if missed:
        print(f"missed: {', '.join(missed)}", file=sys.stderr)
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
