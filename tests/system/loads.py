"""Traffic between the hosts of a cluster, and results computed from the hosts' records of every packet.

Matrices are named and made as in `ashlar cluster simulate`: parts of R, by input and output.

Reordering is counted as there, after RouteBricks (RB10): flows that came out in another order, packets behind a later
one of their flow, and runs of such packets.
"""

import json
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from failing import dropped, on_the_way
from net import Failed
from paced_host import ETHER
from rb4 import NAMES, Rb4, host

# Time for the hosts to see the file that starts them.
LEAD = 0.3
# Part of the time in which a load settles.
SETTLE = 0.1
MATRICES = {
    "uniform": {a: {b: 1 / (len(NAMES) - 1) for b in NAMES if b != a} for a in NAMES},
    # Each server sends all its traffic to one other server: the worst case for direct paths alone, which carry 2R/N.
    "permutation": {a: {NAMES[(i + 1) % len(NAMES)]: 1.0} for i, a in enumerate(NAMES)},
    # R/N to the next and the rest to the one after it: quota, phase 1 and phase 2 meet on one link.
    "adverse": {a: {NAMES[(i + 1) % len(NAMES)]: 1 / len(NAMES), NAMES[(i + 2) % len(NAMES)]: 1 - 1 / len(NAMES)}
                for i, a in enumerate(NAMES)},
    # All servers send to one output.
    "incast": {a: {NAMES[0]: 1.0} for a in NAMES[1:]},
}
ADMISSIBLE = ("uniform", "permutation", "adverse")


@dataclass
class Load:
    """Traffic to send: by `matrix`, or `trace` from the first server to the last."""

    matrix: str
    rate: float  # R, bit/s of Ethernet frames
    load: float  # of R, by each host
    seconds: float
    size: int  # bytes of a packet with its IP header
    flows: int  # of a pair
    trace: Path | None = None

    @property
    def parts(self) -> dict[str, dict[str, float]]:
        """Shares of R, by input and output."""
        return {NAMES[0]: {NAMES[-1]: 1.0}} if self.trace else MATRICES[self.matrix]

    @property
    def admissible(self) -> bool:
        """True if no output is offered more than R."""
        return self.trace is not None or self.matrix in ADMISSIBLE

    def share(self, a: str, b: str) -> float:
        """Fair share of a pair, in bit/s of frames: all its traffic, or its fair part of the output."""
        asked = sum(row.get(b, 0.0) for row in self.parts.values()) * self.load
        return self.parts[a][b] * self.load * self.rate / max(1.0, asked)

    def plan(self, name: str) -> dict:
        """Plan for paced_host.py."""
        row = self.parts.get(name, {})
        if self.trace and row:
            return {"trace": str(self.trace), "rate": self.load * self.rate, "target": host(NAMES[-1], 4)}
        pace = self.load * self.rate / 8 / (self.size + ETHER)
        return {"targets": {host(b, 4): part * pace for b, part in row.items()}, "size": self.size, "flows": self.flows}


@dataclass
class Pair:
    """Packets that one host got from another: flow, number, size, sending time, arrival time."""

    sent: int = 0
    sent_bytes: int = 0
    arrivals: list[tuple[int, int, int, int, int]] = field(default_factory=list)

    @cached_property
    def came(self) -> int:
        return len({arrival[:2] for arrival in self.arrivals})

    @property
    def lost(self) -> int:
        return self.sent - self.came

    @cached_property
    def latencies(self) -> list[float]:
        """Latencies in microseconds, in ascending order."""
        return sorted((came - at) / 1e3 for *_, at, came in self.arrivals)

    @cached_property
    def order(self) -> dict[str, int]:
        """Number of flows with at least two packets, of reordered flows, of late packets, and of runs of these."""
        newest, count = dict[int, int](), defaultdict[int, int](int)
        behind, any_late, late, runs = set[int](), set[int](), 0, 0
        for flow, number, *_ in self.arrivals:
            count[flow] += 1
            if number < newest.get(flow, -1):
                late += 1
                runs += flow not in behind
                behind.add(flow)
                any_late.add(flow)
            else:
                newest[flow] = number
                behind.discard(flow)
        return {"flows": sum(n > 1 for n in count.values()), "reordered_flows": len(any_late), "late": late, "runs": runs,
                "packets": len(self.arrivals)}

    def rate(self, window: tuple[int, int], overhead: int = 0) -> float:
        """bit/s of packets that arrived between two times, of IP or with `overhead` bytes per packet."""
        first, last = window
        return 8e9 * sum(size + overhead for _, _, size, _, came in self.arrivals if first <= came < last) / (last - first)

    def whole_rate(self, seconds: float) -> float:
        """bit/s of IP of all arrived packets that were sent in that time."""
        return 8 * sum(arrival[2] for arrival in self.arrivals) / seconds


@dataclass
class Counts:
    """Counters of the servers: bytes of frames by internal link and direction, packets by the reason for their path,
    packets dropped by name, including drops of cables.
    """

    links: dict[tuple[str, str], int]
    enters: dict[str, dict[str, int]]
    drops: int

    @classmethod
    def read(cls, bed: Rb4) -> "Counts":
        links, enters, drops = {}, {}, bed.cables_dropped()
        names = ("direct", "straight", "phase1", "kept", "moved")
        for name in NAMES:
            asked = ("enter.bytes", "vlb.carried", *(f"enter.{what}" for what in names))
            own, carried, *packets = (bed.show(name, handler) for handler in asked)
            for other, a, b in zip((n for n in NAMES if n != name), own.split(), carried.split(), strict=True):
                links[name, other] = int(a) + int(b)
            enters[name] = dict(zip(names, map(int, packets), strict=True)) | {"bytes": sum(map(int, own.split()))}
            drops += on_the_way(dropped({"elements": bed.elements(name)}))
        return cls(links, enters, drops)

    def since(self, old: "Counts") -> "Counts":
        links = {link: octets - old.links[link] for link, octets in self.links.items()}
        enters = {a: {what: n - old.enters[a][what] for what, n in all_.items()} for a, all_ in self.enters.items()}
        return Counts(links, enters, self.drops - old.drops)


@dataclass
class Outcome:
    """Results of a load."""

    load: Load
    pairs: dict[tuple[str, str], Pair]
    counts: Counts
    start: int  # when the hosts began, in nanoseconds

    @property
    def window(self) -> tuple[int, int]:
        """The time in which rates at an overloaded output are measured. It excludes the filling of queues at the start
        and their emptying at the end.
        """
        return self.start + int(self.load.seconds * SETTLE * 1e9), self.start + int(self.load.seconds * 1e9)

    def rates(self) -> dict[tuple[str, str], float]:
        """bit/s of IP by pair."""
        if self.load.admissible:
            return {pair: got.whole_rate(self.load.seconds) for pair, got in self.pairs.items()}
        return {pair: got.rate(self.window) for pair, got in self.pairs.items()}

    def shares(self) -> dict[tuple[str, str], float]:
        """Throughput of pairs relative to their shares: of all their traffic, or of their fair part of the output."""
        if self.load.admissible:
            return {pair: got.came / max(got.sent, 1) for pair, got in self.pairs.items()}
        return {(a, b): got.rate(self.window, ETHER) / self.load.share(a, b) for (a, b), got in self.pairs.items()}

    def links(self) -> dict[tuple[str, str], float]:
        """Bytes given to internal links, by direction, in units of 2R/N."""
        full = 2 * self.load.rate / len(NAMES) / 8 * self.load.seconds
        return {link: octets / full for link, octets in self.counts.links.items()}

    def processed(self) -> dict[str, float]:
        """Bytes that each server processed, in units of R: through its external port and through its internal links."""
        full = self.load.rate / 8 * self.load.seconds
        return {a: (self.counts.enters[a]["bytes"] + sum(octets for (_, to), octets in self.counts.links.items() if to == a)) / full
                for a in NAMES}

    def spread(self) -> dict[str, int]:
        """Packets of all servers by the reason for their path."""
        return {what: sum(enter[what] for enter in self.counts.enters.values()) for what in next(iter(self.counts.enters.values()))}

    def balanced(self) -> float:
        """Share of packets that went through a third node."""
        spread = self.spread()
        return spread["phase1"] / max(1, spread["direct"] + spread["straight"] + spread["phase1"])

    def order(self) -> dict[str, int]:
        """Over all pairs, see Pair.order."""
        return {what: sum(pair.order[what] for pair in self.pairs.values()) for what in
                ("flows", "reordered_flows", "late", "runs", "packets")}

    def lost_without_name(self) -> int:
        """Number of missing packets beyond the drops that servers and cables report."""
        return max(0, sum(pair.lost for pair in self.pairs.values()) - self.counts.drops)

    def fairness(self) -> float:
        """Jain's index over the pairs' relative throughput."""
        return jain(list(self.shares().values()))

    def latencies(self) -> list[float]:
        return sorted(time for pair in self.pairs.values() for time in pair.latencies)

    def facts(self) -> dict:
        """All results in JSON's types."""
        times = self.latencies()
        named = {"-".join(pair): value for pair, value in self.shares().items()}
        return {
            "matrix": "trace" if self.load.trace else self.load.matrix, "rate_bps": self.load.rate, "load": self.load.load,
            "seconds": self.load.seconds, "sent": sum(pair.sent for pair in self.pairs.values()),
            "lost": sum(pair.lost for pair in self.pairs.values()), "throughput_bps": sum(self.rates().values()),
            "offered_bytes": sum(pair.sent_bytes for pair in self.pairs.values()),
            "delivered_bytes": sum(arrival[2] for pair in self.pairs.values() for arrival in pair.arrivals),
            "shares": named, "fairness": self.fairness(),
            "links": {"-".join(link): value for link, value in self.links().items()}, "c": self.processed(),
            "balanced": self.balanced(), "spread": self.spread(), "reordering": self.order(),
            "latency_us": {"p50": quantile(times, 0.5), "p99": quantile(times, 0.99)},
        }


def jain(values: list[float]) -> float:
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 0.0


def quantile(values: list[float], part: float) -> float:
    """Quantile of values in ascending order."""
    return values[min(len(values) - 1, int(part * len(values)))] if values else float("nan")


def run(bed: Rb4, load: Load) -> Outcome:
    """Makes all hosts send and record."""
    before = Counts.read(bed)
    start = bed.lab.folder / "start"
    start.unlink(missing_ok=True)
    hosts = {}
    for name in NAMES:
        plan = {"own": host(name, 4), "records": str(bed.lab.folder / f"{name}.records"), "start": str(start),
                "seconds": load.seconds, **load.plan(name)}
        path = bed.lab.folder / f"{name}.plan"
        path.write_text(json.dumps(plan))
        program = Path(__file__).with_name("paced_host.py")
        hosts[name] = bed.hosts[name].spawn(sys.executable, str(program), str(path))
    for process in hosts.values():
        process.wait_for("^ready", timeout=30)
    part = start.with_suffix(".part")
    begin = time.time_ns() + int(LEAD * 1e9)
    part.write_text(str(begin))
    part.rename(start)
    for name, process in hosts.items():
        if process.wait(load.seconds + 60) != 0:
            raise Failed(f"host {name}: {process.said()}")
    return Outcome(load, _read(bed, load), Counts.read(bed).since(before), begin)


def _read(bed: Rb4, load: Load) -> dict[tuple[str, str], Pair]:
    by_address = {host(name, 4): name for name in NAMES}
    pairs = {(a, b): Pair() for a, row in load.parts.items() for b in row}
    for name in NAMES:
        for line in (bed.lab.folder / f"{name}.records").read_text().splitlines():
            first, *rest = line.split()
            if first == "sent":
                pair = pairs[name, by_address[rest[0]]]
                pair.sent, pair.sent_bytes = map(int, rest[1:])
            else:
                pairs[by_address[first], name].arrivals.append(tuple(map(int, rest)))
    return pairs
