"""RB4 with cables and servers that fail on request while it runs, and the servers' journals.

A cable that can fail goes through a router of its own, which drops or delays frames when the test writes its handlers. The
servers' configurations are as without failures.

    server a  to-b --- a-b [ RandomSample -> Queue -> DelayShaper, and back ] b-a --- to-a  server b

All cables of a bed are one process, with the best priority: a cable must not be late because of others.
"""

import contextlib
import itertools
import json
import os
import signal
import time
import urllib.parse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from net import Failed, Lab, until
from rb4 import INSIDE, NAMES, Rb4
from topology import ASHLAR, _Connection

MESH = tuple(itertools.combinations(NAMES, 2))
# Elements on the way of a packet between two hosts.
ON_THE_WAY = ("enter ", "transit ", "leave ", "link", "port_lan_4/")
# Heartbeats are separated from packets, so that packets can be counted.
WAY = """
FromDevice({a}-{b}, true, TIMESTAMP true) -> {a}{b} :: Classifier(12/88b6, -);
{a}{b}[0] -> {a}{b}_beats :: RandomSample(1) -> {a}{b}_queue :: Queue(8192);
{a}{b}[1] -> {a}{b}_packets :: RandomSample(1) -> {a}{b}_queue;
{a}{b}_queue -> {a}{b}_delay :: DelayShaper(0) -> ToDevice({b}-{a});
"""


def ask(path: str, method: str, target: str, body: str | None = None) -> str:
    """Response of the router at a socket."""
    return asks(path, [(method, target, body)])[0]


def asks(path: str, requests: Sequence[tuple[str, str, str | None]]) -> list[str]:
    """Responses to several requests, one right after the other."""
    connection, answers = _Connection(Path(path)), []
    try:
        for method, target, body in requests:
            connection.request(method, target, body)
            answer = connection.getresponse()
            answers.append(answer.read().decode(errors="replace"))
            if answer.status != 200:
                raise Failed(f"{method} {target}: {answer.status} {answers[-1]}")
    finally:
        connection.close()
    return answers


@dataclass(frozen=True)
class Note:
    """A line of a server's journal: time (by this machine's clock, in seconds), server, text, and the server's own time.
    """

    at: float
    server: str
    text: str
    stamp: str = ""

    @property
    def link(self) -> tuple[str, str] | None:
        """The link that the line is about."""
        pair, state, *_ = f"{self.text} ".split(" ")
        return tuple(pair.split("-")) if state in ("up", "down") else None

    @property
    def down(self) -> bool:
        return self.link is not None and self.text.split()[1] == "down"

    @property
    def late(self) -> float:
        """Seconds for which the server did not run its checks; 0 if the line is about something else."""
        if not self.text.startswith("late "):
            return 0.0
        number = self.text.split()[1]
        for unit, size in (("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)):
            if number.endswith(unit):
                return float(number.removesuffix(unit)) * size
        raise Failed(f"no time: {self.text}")


class Failing(Rb4):
    """RB4 with cables between the pairs `cables` that can fail; a peer is dead after `dead` seconds of silence. `delta`
    is the time for which flows keep their paths.
    """

    def __init__(self, lab: Lab, rate: str, cables: Iterable[tuple[str, str]], dead: float = 0.04, delta: str = "100ms"):
        self.cables, self.dead = tuple(cables), dead
        self.space = lab.namespace("cables")
        self.cable_socket = str(lab.folder / "cables.sock")
        super().__init__(lab, rate, options=f'heartbeat = "{1000 * dead / 8:g}ms"\ndead = "{1000 * dead:g}ms"', delta=delta)

    def join(self, rate: float | None) -> None:
        for a, b in MESH:
            if (a, b) not in self.cables:
                self._cable(self.servers[a], f"to-{b}", self.servers[b], f"to-{a}", INSIDE, rate)
                continue
            for near, far in ((a, b), (b, a)):
                end = f"{near}-{far}"
                self._cable(self.servers[near], f"to-{far}", self.space, end, INSIDE, None)
                self.space.sysctl(**{f"net__ipv6__conf__{end}__disable_ipv6": 1})

    def start(self, *words: str, names: tuple[str, ...] = NAMES) -> None:
        if not Path(self.cable_socket).exists() and self.cables:
            text = "".join(WAY.format(a=a, b=b) for pair in self.cables for a, b in (pair, pair[::-1]))
            file = self.lab.folder / "cables.click"
            file.write_text(text)
            process = self.space.spawn(ASHLAR, "run", str(file), "--socket", self.cable_socket)
            process.wait_for(" start ", timeout=30)
            for task in Path(f"/proc/{process.pid}/task").iterdir():
                os.setpriority(os.PRIO_PROCESS, int(task.name), -20)
        super().start(*words, names=names)

    # ---- Faults of cables. `one_way`: only for frames that leave the first end.

    def lose(self, links: Iterable[tuple[str, str]], share: float, one_way: bool = False) -> None:
        self._set(links, ("beats.drop_prob", "packets.drop_prob"), str(share), one_way)

    def slow(self, links: Iterable[tuple[str, str]], seconds: float, one_way: bool = False) -> None:
        self._set(links, ("delay.delay",), f"{seconds}s", one_way)

    def mend(self, links: Iterable[tuple[str, str]]) -> None:
        """Repairs a cable. Heartbeats pass last: otherwise a link might count as up while it still loses packets."""
        links = tuple(links)
        self._set(links, ("delay.delay",), "0s", one_way=False)
        self._set(links, ("packets.drop_prob", "beats.drop_prob"), "0", one_way=False)

    def _set(self, links: Iterable[tuple[str, str]], handlers: tuple[str, ...], value: str, one_way: bool) -> None:
        ways = [way for a, b in links for way in ((a, b), (b, a))[:1 if one_way else 2]]
        asks(self.cable_socket, [("PUT", f"/v1/handlers/{a}{b}_{handler}", value) for handler in handlers for a, b in ways])

    def kill(self, name: str) -> None:
        self.processes[name].signal(signal.SIGKILL)
        self.processes.pop(name).wait()

    def links_of(self, name: str) -> tuple[tuple[str, str], ...]:
        """The links of a server, its own name first."""
        return tuple((name, other) for other in NAMES if other != name)

    # ---- Reports of servers

    def read(self, name: str, handler: str) -> str:
        return ask(self.socket(name), "GET", f"/v1/handlers/{urllib.parse.quote(handler)}")

    def up(self, name: str) -> set[tuple[str, str]]:
        """The links that a server considers up."""
        lines = (line.split() for line in self.read(name, "vlb.links").splitlines())
        return {tuple(pair.split("-")) for pair, state, *_ in lines if state == "up"}

    def whole(self) -> bool:
        return all(self.up(name) == set(MESH) for name in self.processes)

    def wait_until_whole(self, timeout: float = 30.0) -> None:
        until(self.whole, "all servers to use all links", timeout)

    def avoided(self, links: Iterable[tuple[str, str]], names: Iterable[str]) -> bool:
        """True if none of these servers uses any of these links."""
        links = {tuple(sorted(link)) for link in links}
        return all(not self.up(name) & links for name in names)

    def offset(self, name: str) -> float:
        """Seconds by which a server's clock is behind this one's, from the fastest of several responses."""
        answers = []
        for _ in range(5):
            before = time.time()
            clock = json.loads(ask(self.socket(name), "GET", "/v1/info"))["clock_ns"] / 1e9
            after = time.time()
            answers.append((after - before, (before + after) / 2 - clock))
        return min(answers)[1]

    def journal(self, since: float = 0.0, names: Iterable[str] | None = None) -> list[Note]:
        """Journal lines of servers since a time, in order of time."""
        notes = []
        for name in self.processes if names is None else names:
            offset = self.offset(name)
            for line in self.read(name, "beat.journal").splitlines():
                stamp, text = line.split(" ", 1)
                notes.append(Note(float(stamp) + offset, name, text, stamp))
        return sorted((note for note in notes if note.at >= since), key=lambda note: note.at)

    def count(self, name: str, handler: str) -> int:
        return int(self.read(name, handler))

    def sent(self, name: str, element: str) -> list[int]:
        """Packets that left an element, by output."""
        stats = json.loads(ask(self.socket(name), "GET", "/v1/stats"))
        found = next(e for e in stats["elements"] if e["name"] == element)
        return [sum(counts) for counts in zip(*(copy["sent"] for copy in found["copies"]), strict=True)]

    def drops(self, name: str) -> dict[str, int]:
        """Packets that a server's elements dropped, by element and name."""
        stats = json.loads(ask(self.socket(name), "GET", "/v1/stats"))
        return dropped(stats)

    def named_drops(self) -> dict[str, int]:
        """Packets between hosts that were dropped under a name, by server, and by all cables together."""
        found = {}
        for name in self.processes:
            found[name] = on_the_way(self.drops(name))
        if self.cables:
            cables = dropped(json.loads(ask(self.cable_socket, "GET", "/v1/stats"))).items()
            found["cables"] = sum(n for what, n in cables if "_beats " not in what)
        return found

    def false_alarms(self, notes: list[Note], broken: Iterable[tuple[str, str]] = ()) -> list[Note]:
        """Links that a server took out of use although they were not broken, and both ends ran their checks in time.

        A server that does not get its core for long is as silent as one that hangs, so it is right to avoid it.
        """
        lates = [(note.server, note.at - note.late, note.at) for note in notes if note.late]

        def excused(note: Note) -> bool:
            # Other servers report a silence later than it begins.
            return any(server in note.link and start - 0.01 <= note.at <= end + 2 * self.dead for server, start, end in lates)

        return [note for note in self.others(notes, broken) if not excused(note)]

    @staticmethod
    def others(notes: list[Note], broken: Iterable[tuple[str, str]]) -> list[Note]:
        """Links that a server took out of use although they were not broken, for any reason."""
        broken = {tuple(sorted(link)) for link in broken}
        return [note for note in notes if note.down and note.link not in broken]


def dropped(stats: dict) -> dict[str, int]:
    found: dict[str, int] = {}
    for element in stats["elements"]:
        for copy in element["copies"]:
            for name, count in zip(element["drop_names"], copy["drops"], strict=True):
                if count:
                    key = f"{element['name']} {name}"
                    found[key] = found.get(key, 0) + count
    return found


def on_the_way(drops: dict[str, int]) -> int:
    """Number of packets between hosts among a server's drops. ARP replies end where they are learnt, so they do not
    count.
    """
    return sum(n for what, n in drops.items() if what.startswith(ON_THE_WAY) and not what.endswith(" learned"))


@contextlib.contextmanager
def stopped(bed: Failing, name: str):
    """Hangs a server."""
    bed.processes[name].signal(signal.SIGSTOP)
    try:
        yield
    finally:
        bed.processes[name].signal(signal.SIGCONT)


def first_down(notes: list[Note], links: Iterable[tuple[str, str]], names: Iterable[str]) -> dict[str, float]:
    """Time at which each of these servers had first recorded all of these links as down."""
    links, found = {tuple(sorted(link)) for link in links}, {}
    for name in names:
        first: dict[tuple[str, str], float] = {}
        for note in notes:
            if note.server == name and note.down and note.link in links:
                first.setdefault(note.link, note.at)
        if set(first) != links:
            raise Failed(f"server {name} has noted {first} only")
        found[name] = max(first.values())
    return found
