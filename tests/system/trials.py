"""Failures of a running cluster, one after the other: measures the time until all servers know, and the number of lost
packets.

Each packet is judged by its number in its stream, the time at which its host sent it, and its arrival. Drops at full
links count as losses, too. A packet may be lost only if it was sent after the failure and before all servers knew. Of
these packets no more may be lost than passed there before in the same time; all others must arrive. Streams that begin
or end at a server that fails are not judged in its trial.
"""

import bisect
import math
import random
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from failing import Failing, Note, first_down
from net import until
from rb4 import NAMES
from streams import Stream, Streams

Links = tuple[tuple[str, str], ...]
# Maximum time in seconds that a packet is in flight, and that news of a failure travel to it.
WAY = 0.05
# The usual time of the same, in seconds.
USUAL = 0.01
# Seconds before a failure. The packets that pass the failing place in this time are counted.
BEFORE = 0.4


@dataclass(frozen=True)
class Kind:
    """A kind of failure: its effect on cables, or on a server."""

    name: str
    cables: Callable[[Failing, Links], None] | None = None
    server: Callable[[Failing, str], None] | None = None


KINDS = (
    Kind("kill", server=lambda bed, name: bed.kill(name)),
    Kind("hang", server=lambda bed, name: bed.processes[name].signal(signal.SIGSTOP)),
    Kind("cut", lambda bed, links: bed.lose(links, 1)),
    Kind("one-way", lambda bed, links: bed.lose(links, 1, one_way=True)),
    Kind("lossy", lambda bed, links: bed.lose(links, 0.7)),
    Kind("slow", lambda bed, links: bed.slow(links, 0.02, one_way=True)),
)


@dataclass(frozen=True)
class Trial:
    """A trial. `took`: milliseconds from the failure until all servers that can detect it had recorded all of it.
    `lost`: number of lost packets that had another path, of those sent until then. `due`: how many of these would
    have passed there, judging by earlier traffic. `most`: how many may be lost, as one trial's packets are few.
    `wrong`: faults that should not occur. `late`: servers that did not get their core in time, so that the trial does
    not count.
    """

    took: float
    lost: int
    due: float
    most: float
    wrong: tuple[str, ...] = ()
    late: tuple[str, ...] = ()


def sent(streams: Iterable[Stream], first: float, last: float) -> int:
    """Packets that hosts sent between two times."""
    return sum(bisect.bisect(s.sent, last) - bisect.bisect(s.sent, first) for s in streams)


class Series:
    """Trials of one kind, at servers or at a cable, with continuous streams. Only existing cables fail."""

    def __init__(self, bed: Failing, streams: Streams, kind: Kind, at_server: bool):
        self.bed, self.streams, self.kind, self.at_server = bed, streams.streams, kind, at_server
        self.number = 0
        # Point up to which all packets have been judged: a time, and a number of each stream.
        self._since, self._marks = time.time(), self._come(lambda stream: 1)

    def trial(self) -> Trial:
        name, links = self._place()
        bed, knowing = self.bed, [other for other in NAMES if not (self.kind.server and other == name)]
        # Streams that begin or end at a server that fails have no other way.
        judged = {s.name for s in self.streams if not (self.at_server and name in s.name.split("-"))}
        part = self._part(name, links, [s for s in self.streams if s.name in judged])
        begin, first = time.time(), time.monotonic()
        if self.kind.server:
            self.kind.server(bed, name)
        else:
            self.kind.cables(bed, links)
        try:
            until(lambda: bed.avoided(links, knowing), f"{self.kind.name} at {name if self.at_server else links} to be known", 10)
            notes = bed.journal(begin, knowing)
        finally:
            self._mend(name, links)
        bed.wait_until_whole(60)
        took = max(first_down(notes, links, knowing).values()) - begin
        marks, self._marks = self._marks, self._come(lambda stream: len(stream.sent))
        lost, wrong = self._lost(judged, marks, (first, first + took))
        streams = [stream for stream in self.streams if stream.name in judged]
        due, most = (part * sent(streams, first - edge, first + took + edge) + 1 for edge in (USUAL, WAY / 2))
        since, self._since = self._since, time.time()
        notes = bed.journal(since, knowing)
        wrong += [f"server {note.server}: {note.text}" for note in bed.false_alarms(notes, links)]
        late = held_up(notes, since if wrong else begin - 0.1, self._since if wrong else begin + took)
        return Trial(1000 * took, lost, due - 1, most, tuple(wrong), late)

    def _place(self) -> tuple[str, Links]:
        """The place of the next failure: the cable, or a server, each in turn unless its cables are needed."""
        self.number += 1
        if not self.at_server:
            return "", self.bed.cables
        with_all = [name for name in NAMES if all(name in cable for cable in self.bed.cables)]
        name = with_all[self.number % len(with_all)]
        return name, self.bed.links_of(name)

    def _part(self, name: str, links: Links, judged: list[Stream]) -> float:
        """Share of the judged packets that pass a cable, or pass a server as a third node, without failures."""
        while True:
            self.bed.wait_until_whole(60)
            passed, since = self._passed(name, links), time.monotonic()
            time.sleep(BEFORE + random.random() * 0.05)
            found = (self._passed(name, links) - passed) / sent(judged, since, time.monotonic())
            if self.bed.whole():
                return found

    def _passed(self, name: str, links: Links) -> int:
        if self.kind.name == "slow":
            return 0  # this failure loses no packets
        if self.at_server:
            return sum(self.bed.sent(name, "transit")[:len(NAMES) - 1])
        count = 0
        for near, far in (links[0], links[0][::-1])[:1 if self.kind.name == "one-way" else 2]:
            own = [other for other in NAMES if other != near].index(far)
            count += sum(self.bed.sent(near, element)[own] for element in ("enter", "transit"))
        return count

    def _mend(self, name: str, links: Links) -> None:
        if self.kind.name == "kill":
            self.bed.start(names=(name,))
        elif self.kind.name == "hang":
            self.bed.processes[name].signal(signal.SIGCONT)
        else:
            self.bed.mend(links)

    def _come(self, mark: Callable[[Stream], int]) -> list[int]:
        """Waits until later packets have arrived on every stream, so that packets from before the marks are lost if they
        have not arrived. Returns the marks.
        """
        marks, end = [mark(stream) for stream in self.streams], time.monotonic() + 2 * WAY

        def later() -> bool:
            return all(m <= s.newest < len(s.sent) and s.sent[s.newest] > end for s, m in zip(self.streams, marks, strict=True))

        until(later, "later packets of all streams", 30)
        return marks

    def _lost(self, judged: set[str], marks: list[int], failed: tuple[float, float]) -> tuple[int, list[str]]:
        """Number of lost packets that were sent after a failure and before all servers knew it; and other lost packets.
        """
        count, others = 0, defaultdict[str, list[float]](list)
        for stream, begin, end in zip(self.streams, marks, self._marks, strict=True):
            if stream.name in judged:
                lost = [stream.sent[n] - failed[0] for n in range(begin, end) if n not in stream.seen]
                else_ = [at for at in lost if not -WAY <= at <= failed[1] - failed[0] + WAY]
                count += len(lost) - len(else_)
                others[stream.name] += else_
        return count, [f"{len(lost)} packets of {name} were lost that were sent from {1000 * min(lost):.0f} to {1000 * max(lost):.0f} ms "
                       f"after the failure, which all knew after {1000 * (failed[1] - failed[0]):.0f} ms"
                       for name, lost in others.items() if lost]


def held_up(notes: Iterable[Note], first: float, last: float) -> tuple[str, ...]:
    """Servers that did not get their core for long at some time between these."""
    return tuple(f"{note.server} for {1000 * note.late:.1f} ms" for note in notes
                 if note.late and note.at >= first and note.at - note.late <= last)


def disturbed(notes: Iterable[Note], dead: float) -> list[tuple[float, float]]:
    """Intervals in which a server did not get its core for long, or considered a link down: packets may be lost then.
    `notes` are in order of time.
    """
    found, down = [], dict[tuple[str, tuple[str, str]], float]()
    for note in notes:
        if note.late:
            found.append((note.at - note.late - WAY, note.at + WAY))
        elif note.down:
            down.setdefault((note.server, note.link), note.at)
        elif note.link:
            found.append((down.pop((note.server, note.link), note.at) - dead - WAY, note.at + WAY))
    return found + [(at - dead - WAY, math.inf) for at in down.values()]
