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
    cluster-soak doubled COUNT              packets that came twice

The exit status is 0 if there was no false alarm, nothing came twice or was lost without a name, and every median is
below 50 ms.
"""

import argparse
import itertools
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


KINDS = (
    Kind("kill", server=lambda bed, name: bed.kill(name)),
    Kind("hang", server=lambda bed, name: bed.processes[name].signal(signal.SIGSTOP)),
    Kind("cut", lambda bed, links: bed.lose(links, 1)),
    Kind("one-way", lambda bed, links: bed.lose(links, 1, one_way=True)),
    Kind("lossy", lambda bed, links: bed.lose(links, 0.7)),
    Kind("slow", lambda bed, links: bed.slow(links, 0.02, one_way=True)),
)


def trial(bed: Failing, kind: Kind, number: int, at_server: bool) -> float | None:
    """Milliseconds from when the first cable was told to fail until all servers that can know had noted all of it;
    `None` if one of these was not run in time."""
    name = NAMES[number % len(NAMES)] if kind.server else "a"
    links = bed.links_of(name) if at_server else (CABLES[number % len(CABLES)],)
    knowing = [other for other in NAMES if not (kind.server and other == name)]
    time.sleep(0.2 + random.random() * 0.05)
    bed.wait_until_whole(60)
    begin = time.time()
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
    if any(note.late for note in bed.journal(begin - 0.1) if note.at < begin + 0.1 and note.server in knowing):
        return None
    return 1000 * (max(first_down(notes, links, knowing).values()) - begin)


def failures(trials: int) -> bool:
    good = True
    with Lab() as lab:
        bed = bring_up(lab, CABLES)
        with load(bed, 0.3) as streams:
            streams.warm(20)
            for kind in KINDS:
                for at_server in (True, False)[:1 if kind.server else 2]:
                    name = f"{kind.name}-{'server' if at_server else 'link'}"
                    done = (trial(bed, kind, number, at_server) for number in itertools.count())
                    times = list(itertools.islice((took for took in done if took is not None), trials))
                    median = statistics.median(times)
                    result(name, f"{median:.1f}")
                    result(f"{name}-worst", f"{max(times):.1f}")
                    good &= median < BOUND
        bed.stop()
    doubled = sum(stream.doubled for stream in streams.streams)
    result("doubled-in-failures", doubled)
    return good and not doubled


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long nothing fails (default 10)")
    parser.add_argument("--trials", type=int, default=20, help="failures of each kind at each place (default 20; 0: none)")
    asked = parser.parse_args()
    stop_on_signals()
    try:
        good = quiet(asked.minutes)
        return 0 if (not asked.trials or failures(asked.trials)) and good else 1
    except Failed as error:
        print(f"  ✗ {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
