"""What `make soak` asks of a cluster that runs: no false alarm for long, and failures that are found soon.

RB4 in namespaces, traffic between all pairs at nine tenths of R. First nothing fails: each link that a server takes
out of use is a false alarm. Then each kind of failure in turn, at links and at servers. Prints a line per result:

    cluster-soak lost-without-name COUNT    packets that did not come, and that no server says it dropped
    cluster-soak false-alarms COUNT         while nothing failed, of servers that ran in time
    cluster-soak stalls COUNT               links taken out of use as a server was not run for long: rightly
    cluster-soak stall-longest MS           longest time that a server was not run, as it noted itself
    cluster-soak KIND-link MS               median time from the failure until all servers that run had noted it
    cluster-soak KIND-server MS
    cluster-soak KIND-link-worst MS         ... and the longest
    cluster-soak KIND-link-lost COUNT       packets lost in these trials that had another way
    cluster-soak KIND-link-lost-most COUNT  ... and how many may be: what passed there in a second before, times the time
                                            until all knew and ALLOWANCE
    cluster-soak KIND-link-late COUNT       trials that do not count, as a server was not run in time
    cluster-soak doubled COUNT              packets that came twice

The exit status is 0 if there was no false alarm, nothing came twice or was lost without a name, every median is below
50 ms, no trial lost more than it may, and no more trials were late than count. What a
server that is killed has counted goes with it: there only the trials are judged.
"""

import argparse
import bisect
import random
import signal
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from failing import Failing, Note, first_down
from net import Failed, Lab, stop_on_signals, until
from rb4 import NAMES, host
from streams import Streams

BOUND = 50.0
# Seconds beside the time until all know: packets on their way, and the time to tell all cables of a server.
ALLOWANCE = 0.05
RATE, SIZE = 4e6, 1000
CABLES = tuple(("a", other) for other in "bcd")


def load(bed: Failing, share: float = 0.9) -> Streams:
    """Traffic between all pairs, evenly, of which each host sends this share of R."""
    streams = Streams(rate=share * RATE / 8 / (SIZE + 28) / (len(NAMES) - 1), size=SIZE)
    for a in NAMES:
        for b in NAMES:
            if a != b:
                stream = streams.add(f"{a}-{b}", bed.hosts[a], bed.hosts[b], 4, host(b, 4))
                stream.sink.setsockopt(1, 33, 16 << 20)  # SO_RCVBUFFORCE
    return streams


def bring_up(lab: Lab, cables: tuple[tuple[str, str], ...] = ()) -> Failing:
    bed = Failing(lab, f"{RATE / 1e6:g}Mbps", cables)
    bed.start()
    bed.meet((4,))
    bed.wait_until_whole()
    return bed


def result(name: str, value: object) -> None:
    print(f"cluster-soak {name} {value}", flush=True)


def quiet(minutes: float) -> bool:
    """Nothing fails. Whether nobody said that something did, and nothing came twice."""
    with Lab() as lab:
        bed = bring_up(lab)
        start, before = time.time(), sum(bed.named_drops().values())
        notes: dict[tuple[str, str, str], Note] = {}
        with load(bed) as streams:
            streams.warm(20)
            while time.time() < start + 60 * minutes:
                time.sleep(min(5.0, max(0.1, start + 60 * minutes - time.time())))
                # A journal keeps the newest lines only.
                notes |= {(note.server, note.stamp, note.text): note for note in bed.journal(start)}
        dropped = sum(bed.named_drops().values()) - before
        bed.stop()
    ordered = sorted(notes.values(), key=lambda note: note.at)
    alarms = bed.false_alarms(ordered)
    for note in alarms:
        print(f"  {note.at - start:.3f} s: server {note.server}: {note.text}")
    doubled = sum(stream.doubled for stream in streams.streams)
    result("minutes", f"{minutes:g}")
    result("packets", streams.sent)
    result("lost", streams.lost)
    result("lost-without-name", streams.lost - dropped)
    result("doubled", doubled)
    result("false-alarms", len(alarms))
    result("stalls", sum(note.down for note in ordered) - len(alarms))
    result("stall-longest", f"{1000 * max((note.late for note in ordered), default=0):.1f}")
    return not alarms and not doubled and streams.lost == dropped


@dataclass(frozen=True)
class Kind:
    """A failure: what it does to cables, or to a server."""

    name: str
    cables: Callable[[Failing, tuple[tuple[str, str], ...]], None] | None = None
    server: Callable[[Failing, str], None] | None = None


KILL = Kind("kill", server=lambda bed, name: bed.kill(name))
OTHERS = (
    Kind("hang", server=lambda bed, name: bed.processes[name].signal(signal.SIGSTOP)),
    Kind("cut", lambda bed, links: bed.lose(links, 1)),
    Kind("one-way", lambda bed, links: bed.lose(links, 1, one_way=True)),
    Kind("lossy", lambda bed, links: bed.lose(links, 0.7)),
    Kind("slow", lambda bed, links: bed.slow(links, 0.02, one_way=True)),
)


@dataclass(frozen=True)
class Trial:
    """Milliseconds from when the first cable was told to fail until all servers that can know had noted all of it; packets
    lost that had another way, and how many may be; servers that were not run in time, and for how long."""

    took: float
    lost: int
    most: float
    late: tuple[str, ...] = ()


def passed(bed: Failing, kind: Kind, links: tuple[tuple[str, str], ...], at_server: bool) -> int:
    """Packets that have passed a cable, or a server on their way to another one."""
    if kind.name == "slow":
        return 0  # it loses none
    if at_server:
        return sum(bed.sent(links[0][0], "transit")[:len(NAMES) - 1])
    count = 0
    for near, far in (links[0], links[0][::-1])[:1 if kind.name == "one-way" else 2]:
        own = [name for name in NAMES if name != near].index(far)
        count += sum(bed.sent(near, element)[own] for element in ("enter", "transit"))
    return count


def refused(bed: Failing, names: list[str]) -> int:
    """Packets that input nodes dropped as links were full: hosts that were held up make up for it."""
    return sum(bed.drops(name).get("enter full", 0) for name in names)


def trial(bed: Failing, streams: Streams, kind: Kind, number: int, at_server: bool) -> Trial:
    name = NAMES[number % len(NAMES)] if kind.server else "a"
    links = bed.links_of(name) if at_server else (CABLES[number % len(CABLES)],)
    knowing = [other for other in NAMES if not (kind.server and other == name)]
    # What begins or ends at a server that fails has no other way.
    judged = [stream for stream in streams.streams if not (at_server and name in stream.name.split("-"))]
    bed.wait_until_whole(60)
    count, since, full = passed(bed, kind, links, at_server), time.monotonic(), refused(bed, knowing)
    time.sleep(0.5 + random.random() * 0.05)
    rate = (passed(bed, kind, links, at_server) - count) / (time.monotonic() - since)
    begin, first = time.time(), time.monotonic()
    if kind.server:
        kind.server(bed, name)
    else:
        kind.cables(bed, links)
    try:
        until(lambda: bed.avoided(links, knowing), f"{kind.name} at {name if at_server else links} to be known", 10)
        notes = bed.journal(begin, knowing)
    finally:
        if kind.name == "kill":
            bed.start(names=(name,))
        elif kind.name == "hang":
            bed.processes[name].signal(signal.SIGCONT)
        else:
            bed.mend(links)
    bed.wait_until_whole(60)
    ends = [len(stream.sent) for stream in judged]
    until(lambda: all(stream.newest >= end for stream, end in zip(judged, ends, strict=True)), "later packets", 20)
    begins = [bisect.bisect(stream.sent, first - ALLOWANCE) for stream in judged]
    rows = zip(judged, begins, ends, strict=True)
    lost = sum(number not in stream.seen for stream, start, end in rows for number in range(start, end))
    took = max(first_down(notes, links, knowing).values()) - begin
    held_up = [note for note in bed.journal(begin - 0.1) if note.late and note.at < begin + 0.1 and note.server in knowing]
    late = tuple(f"{note.server} for {1000 * note.late:.1f} ms" for note in held_up)
    return Trial(1000 * took, lost - (refused(bed, knowing) - full), rate * (took + ALLOWANCE) + 1, late)


def series(bed: Failing, streams: Streams, kind: Kind, at_server: bool, trials: int) -> bool:
    """As many trials of a kind as are asked for, beside those that were late. Whether all of it is as it should be."""
    name = f"{kind.name}-{'server' if at_server else 'link'}"
    done, late, good = [], 0, True
    while len(done) < trials and late <= trials:
        found = trial(bed, streams, kind, len(done) + late, at_server)
        if found.late:
            late += 1
            print(f"  {name}: does not count: {', '.join(found.late)}")
            continue
        done.append(found)
        if found.lost > found.most:
            print(f"  ✗ {name}: {found.lost} lost, {found.most:.1f} may be, known after {found.took:.1f} ms")
            good = False
    result(f"{name}-late", late)
    if late > trials:
        print(f"  ✗ {name}: more trials were late than count")
        return False
    median = statistics.median(found.took for found in done)
    result(name, f"{median:.1f}")
    result(f"{name}-worst", f"{max(found.took for found in done):.1f}")
    result(f"{name}-lost", sum(found.lost for found in done))
    result(f"{name}-lost-most", f"{sum(found.most for found in done):.1f}")
    return good and median < BOUND


def failures(trials: int, kinds: tuple[Kind, ...]) -> bool:
    """Failures of these kinds; the books balance at the end, unless a server was killed that kept some of them."""
    good = True
    with Lab() as lab:
        bed = bring_up(lab, CABLES)
        before = sum(bed.named_drops().values())
        with load(bed, 0.3) as streams:
            streams.warm(20)
            for kind in kinds:
                for at_server in (True, False)[:1 if kind.server else 2]:
                    good &= series(bed, streams, kind, at_server, trials)
        unnamed = streams.lost - (sum(bed.named_drops().values()) - before)
        bed.stop()
    doubled = sum(stream.doubled for stream in streams.streams)
    names = "-".join(kind.name for kind in kinds)
    result(f"{names}-doubled", doubled)
    result(f"{names}-lost-without-name", unnamed)
    return good and not doubled and (unnamed == 0 or kinds == (KILL,))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long nothing fails (default 10)")
    parser.add_argument("--trials", type=int, default=20, help="failures of each kind at each place (default 20; 0: none)")
    asked = parser.parse_args()
    stop_on_signals()
    try:
        good = quiet(asked.minutes)
        for kinds in ((KILL,), OTHERS) if asked.trials else ():
            good &= failures(asked.trials, kinds)
        return 0 if good else 1
    except Failed as error:
        print(f"  ✗ {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
