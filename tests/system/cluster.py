"""The demonstration behind `make cluster`: four servers as one router (RB4), with real traffic between all pairs.

Namespaces are made on this machine and taken away at the end, whatever happens. Every host sends numbered, stamped UDP
packets to every other at the same even pace; all that is printed comes from what the hosts note of each packet. The
exit status is 0 if the cluster came up and carried packets of all pairs.

Reordering is measured as RouteBricks does (RB10): the share of same-flow packet sequences that come out in
another order than they went in. A flow here is a pair of UDP ports; all have equally many packets.
"""

import argparse
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from net import Failed, Lab, leftovers, stop_on_signals, until
from rb4 import NAMES, Rb4, host

PICTURE = """
  host ha ─── a ─────── b ─── host hb      four servers, each a router process in a namespace of its own;
              │ ╲     ╱ │                  full mesh of internal links of 2R/N; one external port of rate R each;
              │   ╳     │                  Direct VLB: R/N straight to each output node, the rest by a third node
  host hd ─── d ─────── c ─── host hc
"""
LEAD = 5.0


@dataclass
class Pair:
    """What one host got from another."""

    sent: int = 0
    arrivals: list[tuple[int, int, int, int]] = field(default_factory=list)

    @property
    def lost(self) -> int:
        return self.sent - len({arrival[:2] for arrival in self.arrivals})

    def latencies(self) -> list[float]:
        """Microseconds, in ascending order."""
        return sorted((came - at) / 1e3 for _, _, at, came in self.arrivals)

    def sequences(self) -> tuple[int, int]:
        """Flows with at least two packets, and those of them in which a packet came after a later one."""
        newest, count, late = dict[int, int](), defaultdict[int, int](int), set[int]()
        for flow, number, _, _ in self.arrivals:
            count[flow] += 1
            if number < newest.get(flow, -1):
                late.add(flow)
            newest[flow] = max(number, newest.get(flow, -1))
        return sum(n > 1 for n in count.values()), len(late)

    def rate(self, size: int, seconds: float) -> float:
        """Mbit/s of IP."""
        return len(self.arrivals) * size * 8 / seconds / 1e6


def jain(values: list[float]) -> float:
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 0.0


def share(values: list[float], part: float) -> float:
    return values[min(len(values) - 1, int(part * len(values)))] if values else float("nan")


def traffic(bed: Rb4, arguments: argparse.Namespace) -> dict[tuple[str, str], Pair]:
    """Has all hosts send and note; what each pair has seen."""
    start = time.time_ns() + int(LEAD * 1e9)
    pace = arguments.load * arguments.rate * 1e6 / 8 / arguments.size / (len(NAMES) - 1)
    program = Path(__file__).with_name("paced_host.py")
    hosts = {}
    for name in NAMES:
        targets = [host(other, 4) for other in NAMES if other != name]
        hosts[name] = bed.hosts[name].spawn(
            sys.executable, str(program), str(bed.lab.folder / f"{name}.records"), str(start), str(arguments.seconds),
            str(pace), str(arguments.size), str(arguments.flows), host(name, 4), *targets)
    for name, process in hosts.items():
        if process.wait(arguments.seconds + 60) != 0:
            raise Failed(f"host {name}: {process.said()}")
    return read(bed)


def read(bed: Rb4) -> dict[tuple[str, str], Pair]:
    by_address = {host(name, 4): name for name in NAMES}
    pairs = {(a, b): Pair() for a in NAMES for b in NAMES if a != b}
    for name in NAMES:
        for line in (bed.lab.folder / f"{name}.records").read_text().splitlines():
            first, *rest = line.split()
            if first == "sent":
                pairs[name, by_address[rest[0]]].sent = int(rest[1])
            else:
                flow, number, at, came = map(int, rest)
                pairs[by_address[first], name].arrivals.append((flow, number, at, came))
    return pairs


def table(pairs: dict[tuple[str, str], Pair], arguments: argparse.Namespace) -> None:
    print(f"  {'pair':8}{'sent':>9}{'lost':>7}{'Mbit/s':>9}{'share':>8}{'reordered':>11}{'p50 us':>9}{'p99 us':>9}")
    offered = arguments.load * arguments.rate / (len(NAMES) - 1)
    for (a, b), pair in pairs.items():
        flows, late = pair.sequences()
        rate, times = pair.rate(arguments.size, arguments.seconds), pair.latencies()
        print(f"  {a} → {b}  {pair.sent:>10}{pair.lost:>7}{rate:>9.2f}{rate / offered:>8.3f}"
              f"{100 * late / max(flows, 1):>10.2f}%{share(times, 0.5):>9.0f}{share(times, 0.99):>9.0f}")


def spread(bed: Rb4) -> None:
    """How the input nodes spread: their own counts, for comparison with what hosts see."""
    counts = {what: sum(bed.count(name, f"enter.{what}") for name in NAMES)
              for what in ("direct", "straight", "phase1", "kept", "moved")}
    print("\n  by the servers' own counts: " + ", ".join(f"{count} {what}" for what, count in counts.items()) + "\n")


def results(pairs: dict[tuple[str, str], Pair], arguments: argparse.Namespace) -> None:
    rates = [pair.rate(arguments.size, arguments.seconds) for pair in pairs.values()]
    times = sorted(time for pair in pairs.values() for time in pair.latencies())
    flows, late = (sum(values) for values in zip(*(pair.sequences() for pair in pairs.values()), strict=True))
    print(f"cluster throughput {sum(rates):.2f}")
    print(f"cluster fairness {jain(rates):.4f}")
    print(f"cluster reordered {100 * late / max(flows, 1):.3f}")
    print(f"cluster lost {sum(pair.lost for pair in pairs.values())}")
    print(f"cluster latency-p50 {share(times, 0.5):.1f}")
    print(f"cluster latency-p99 {share(times, 0.99):.1f}", flush=True)


def demonstrate(lab: Lab, arguments: argparse.Namespace) -> int:
    print("RB4: four servers, one router (network namespaces on this machine)")
    print(PICTURE)
    bed = Rb4(lab, f"{arguments.rate:g}Mbps")
    bed.start("--workers", str(arguments.workers))
    bed.meet((4,))
    print(f"  R = {arguments.rate:g} Mbit/s, links {2 * arguments.rate / len(NAMES):g} Mbit/s, {arguments.load:.0%} of R "
          f"from each host, evenly to the others: {arguments.seconds:g} s, packets of {arguments.size} bytes, "
          f"{arguments.flows} flows a pair\n", flush=True)
    pairs = traffic(bed, arguments)
    table(pairs, arguments)
    spread(bed)
    bed.stop()
    silent = [f"{a} → {b}" for (a, b), pair in pairs.items() if not pair.arrivals]
    results(pairs, arguments)
    if silent:
        print(f"  ✗ nothing came through: {', '.join(silent)}")
    return 1 if silent else 0


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rate", type=float, default=24.0, help="R in Mbit/s (default 24)")
    arguments.add_argument("--load", type=float, default=0.9, help="share of R that each host sends (default 0.9)")
    arguments.add_argument("--seconds", type=float, default=10.0, help="how long (default 10)")
    arguments.add_argument("--size", type=int, default=1000, help="bytes of a packet with its IP header (default 1000)")
    arguments.add_argument("--flows", type=int, default=32, help="flows of each pair (default 32)")
    arguments.add_argument("--workers", type=int, default=1, help="workers of each server (default 1)")
    asked = arguments.parse_args()
    stop_on_signals()
    with Lab() as lab:
        try:
            status = demonstrate(lab, asked)
        except Failed as error:
            print(f"  ✗ {error}")
            status = 1
    try:
        until(lambda: not leftovers(lab.name + "-"), "nothing to be left")
    except Failed:
        print(f"left behind: {', '.join(leftovers(lab.name + '-'))}", file=sys.stderr)
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
