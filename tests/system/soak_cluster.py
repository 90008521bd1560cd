"""Soak test of `make soak` for a running cluster: no false alarms for a long time, and quick detection of failures.

RB4 in namespaces; each host sends eight tenths of R, most of it to the next one, so that servers pass others' packets
on. First nothing fails: each link that a server takes out of use is a false alarm. Then each kind of failure in turn,
at links and at servers. Prints a line per result:

    cluster-soak third PART                 packets that went by a third server
    cluster-soak lost COUNT                 packets that did not come: none, but while a server was not run
    cluster-soak lost-without-name COUNT    ... and that no server says it dropped
    cluster-soak refused COUNT              ... and that input nodes refused as links were full
    cluster-soak doubled COUNT              packets that came twice
    cluster-soak looped COUNT               packets that came back to where they had been
    cluster-soak false-alarms COUNT         while nothing failed, of servers that ran in time
    cluster-soak stalls COUNT               links taken out of use as a server was not run for long: rightly
    cluster-soak stall-longest MS           longest time that a server was not run, as it noted itself
    cluster-soak KIND-link MS               median time from the failure until all servers that run had noted it
    cluster-soak KIND-server MS
    cluster-soak KIND-link-worst MS         ... and the longest
    cluster-soak KIND-link-lost COUNT       packets lost in these trials that had another way
    cluster-soak KIND-link-lost-most COUNT  ... and how many may be: of what was sent until all knew, the part that
                                            passed there before
    cluster-soak KIND-link-late COUNT       trials that do not count, as a server was not run in time
    cluster-soak KIND-link-seconds SECONDS  how long all this took
    cluster-soak KIND-link-WHAT COUNT       third, lost-without-name, refused, doubled, looped: as above, of the series

The exit status is 0 if there was no false alarm, nothing came twice, went round or was lost without a name, every
median is below 50 ms, no trial lost more than it may or anything at another time, and no more trials were late than
count. What a server that is killed has counted goes with it: there each trial's packets are judged, and not the books.
"""

import argparse
import statistics
import sys
import time
from collections import Counter

from failing import MESH, Failing, Note
from net import Failed, Lab, stop_on_signals, until
from rb4 import NAMES, host
from streams import Streams
from trials import KINDS, Kind, Series, Trial, disturbed

BOUND = 50.0
# R as packets per second, so many that this machine carries them beside other work. They are short, so that what a host
# sends late and at once is less than the 16 KiB that each link may owe: input nodes refuse nothing.
RATE, SIZE = 400, 64
FRAME = SIZE + 8 + 20 + 14
# Streams to the next host, and to each other one, each of them R/10. To the next go 6/10 of R, of which R/N straight.
FLOWS = (6, 1, 1)
# Less than the time between two packets of a stream: each packet takes the best path at its time.
DELTA = "10ms"
# Part of the packets that third servers pass on at least: (6/10 - 1/4) 2/3 of 8/10 is 0.29.
THIRD = 0.25
# Trials with the same routers: links that fail again and again take up to five seconds to come back.
TOGETHER = 5


def load(bed: Failing) -> Streams:
    streams = Streams(rate=RATE / 10, size=SIZE)
    for at, a in enumerate(NAMES):
        for step, count in enumerate(FLOWS, 1):
            b = NAMES[(at + step) % len(NAMES)]
            for _ in range(count):
                stream = streams.add(f"{a}-{b}", bed.hosts[a], bed.hosts[b], 4, host(b, 4))
                stream.sink.setsockopt(1, 33, 16 << 20)  # SO_RCVBUFFORCE
    return streams


def result(name: str, value: object) -> None:
    print(f"cluster-soak {name} {value}", flush=True)


class Books:
    """Counters of all servers, relative to the creation of this object."""

    def __init__(self, bed: Failing):
        self.bed = bed
        self._before = self._read()

    def _read(self) -> dict[str, int]:
        drops = {name: self.bed.drops(name) for name in NAMES}
        return {
            "named": sum(self.bed.named_drops().values()),
            "refused": sum(of.get("enter full", 0) for of in drops.values()),
            "looped": sum(of.get("transit loop", 0) + of.get("transit too_many_hops", 0) for of in drops.values()),
            "entered": sum(sum(self.bed.sent(name, "enter")) for name in NAMES),
            "passed": sum(sum(self.bed.sent(name, "transit")[:len(NAMES) - 1]) for name in NAMES),
        }

    def since(self) -> dict[str, int]:
        return {what: count - self._before[what] for what, count in self._read().items()}

    def third(self) -> float:
        """Share of packets that went through a third server."""
        found = self.since()
        return found["passed"] / max(1, found["entered"])


def spread(bed: Failing) -> float:
    """Waits until third servers carry their full share: at the start, full quotas let packets take direct paths."""
    def part() -> float | None:
        books = Books(bed)
        until(lambda: books.since()["entered"] > 400, "packets to enter", 20)
        found = books.third()
        return found if found > THIRD else None

    return until(part, "servers to pass others' packets on", 20)


def bring_up(lab: Lab, cables: tuple[tuple[str, str], ...] = ()) -> Failing:
    bed = Failing(lab, f"{RATE * FRAME * 8 / 1e6:g}Mbps", cables, delta=DELTA)
    bed.start()
    bed.meet((4,))
    bed.wait_until_whole()
    return bed


def quiet(minutes: float) -> bool:
    """Runs without failures. Returns true if no server reported one, and everything arrived once."""
    with Lab() as lab:
        bed = bring_up(lab)
        start, books = time.time(), Books(bed)
        notes: dict[tuple[str, str, str], Note] = {}
        with load(bed) as streams:
            streams.warm(20)
            while time.time() < start + 60 * minutes:
                time.sleep(min(5.0, max(0.1, start + 60 * minutes - time.time())))
                # A journal keeps the newest lines only.
                notes |= {(note.server, note.stamp, note.text): note for note in bed.journal(start)}
        counts, third = books.since(), books.third()
        bed.stop()
    found = booked(streams, counts)
    ordered = sorted(notes.values(), key=lambda note: note.at)
    alarms = bed.false_alarms(ordered)
    for note in alarms:
        print(f"  ✗ {note.at - start:.3f} s: server {note.server}: {note.text}")
    stalls = sum(note.down for note in ordered) - len(alarms)
    result("minutes", f"{minutes:g}")
    result("packets", streams.sent)
    result("third", f"{third:.3f}")
    for name, value in found.items():
        result(name, value)
    good = balanced(found)
    result("lost", streams.lost)
    result("false-alarms", len(alarms))
    result("stalls", stalls)
    result("stall-longest", f"{1000 * max((note.late for note in ordered), default=0):.1f}")
    shift, times = time.time() - time.monotonic(), disturbed(ordered, bed.dead)
    lost = [s.sent[n] + shift for s in streams.streams for n in range(len(s.sent)) if n not in s.seen]
    if alone := [at for at in lost if not any(first <= at <= last for first, last in times)]:
        print(f"  ✗ {len(alone)} packets were lost while all servers ran: {streams.report()}")
        good = False
    return good and not alarms


def booked(streams: Streams, counts: dict[str, int] | None) -> Counter:
    """Fate of all packets. `counts`: None if they were lost with a server."""
    found = Counter({"doubled": sum(stream.doubled for stream in streams.streams)})
    if counts:
        found.update({"lost-without-name": streams.lost - counts["named"], "looped": counts["looped"],
                      "refused": counts["refused"]})
    return found


def balanced(found: Counter) -> bool:
    """True if each packet is accounted for and arrived at most once. A refused packet counts as lost, and is judged as
    such.
    """
    return not any(value for name, value in found.items() if name != "refused")


class Failures:
    """A kind of failure at servers or at cables: trials until the requested number is valid."""

    def __init__(self, kind: Kind, at_server: bool, trials: int):
        self.kind, self.at_server, self.trials = kind, at_server, trials
        self.name = f"{kind.name}-{'server' if at_server else 'link'}"
        self.done: list[Trial] = []
        self.late, self.good = 0, True
        self.third: list[float] = []
        self.books = Counter[str]()

    def run(self) -> bool:
        begin = time.monotonic()
        while len(self.done) < self.trials and self.late <= self.trials:
            self._together()
        result(f"{self.name}-late", self.late)
        result(f"{self.name}-third", f"{statistics.mean(self.third):.3f}")
        for name, value in self.books.items():
            result(f"{self.name}-{name}", value)
        if self.late > self.trials:
            print(f"  ✗ {self.name}: more trials were late than count")
            return False
        median = statistics.median(found.took for found in self.done)
        result(self.name, f"{median:.1f}")
        result(f"{self.name}-worst", f"{max(found.took for found in self.done):.1f}")
        lost, most = sum(found.lost for found in self.done), 1 + sum(found.due for found in self.done)
        result(f"{self.name}-lost", lost)
        result(f"{self.name}-lost-most", f"{most:.1f}")
        result(f"{self.name}-seconds", f"{time.monotonic() - begin:.0f}")
        return self.good and median < BOUND and lost <= most

    def _cables(self) -> tuple[tuple[str, str], ...]:
        """Cables that will fail, and no more: a program carries their frames, which needs a core, too."""
        if not self.kind.cables:
            return ()
        turn = len(self.third)
        name = NAMES[turn % len(NAMES)]
        return tuple(pair for pair in MESH if name in pair) if self.at_server else (MESH[turn % len(MESH)],)

    def _together(self) -> None:
        """Some trials with the same routers. Packet accounting must balance at the end, unless a killed server held some
        of it.
        """
        with Lab() as lab:
            bed = bring_up(lab, self._cables())
            books = Books(bed)
            with load(bed) as streams:
                streams.warm(20)
                self.third.append(spread(bed))
                series = Series(bed, streams, self.kind, self.at_server)
                for _ in range(TOGETHER):
                    if len(self.done) == self.trials or self.late > self.trials:
                        break
                    self._take(series.trial())
            counts = None if self.kind.name == "kill" else books.since()
            found = booked(streams, counts)
            bed.stop()
        self.good &= balanced(found)
        self.books.update(found)

    def _take(self, found: Trial) -> None:
        if found.late:
            self.late += 1
            print(f"  {self.name}: does not count: {', '.join(found.late)}", *found.wrong, sep="\n    ")
            return
        self.done.append(found)
        wrong = list(found.wrong)
        if found.lost > found.most:
            wrong.append(f"{found.lost} lost, {found.most:.1f} may be, known after {found.took:.1f} ms")
        for text in wrong:
            print(f"  ✗ {self.name}: {text}", flush=True)
        self.good &= not wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long nothing fails (default 10; 0: not at all)")
    parser.add_argument("--trials", type=int, default=20, help="failures of each kind at each place (default 20; 0: none)")
    parser.add_argument("--kind", action="append", choices=[kind.name for kind in KINDS], help="one of these only; default all")
    asked = parser.parse_args()
    stop_on_signals()
    try:
        good = quiet(asked.minutes) if asked.minutes else True
        for kind in KINDS if asked.trials else ():
            if not asked.kind or kind.name in asked.kind:
                for at_server in (True, False)[:1 if kind.server else 2]:
                    good &= Failures(kind, at_server, asked.trials).run()
        return 0 if good else 1
    except Failed as error:
        print(f"  ✗ {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
