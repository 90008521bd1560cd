"""Input of the routers: a default-free routing table and five minutes of BGP events, recorded or generated from a seed.
"""

import importlib.util
import random
import socket
import subprocess
from dataclasses import dataclass

from lib.machine import ROOT, SHARED

FILES = {4: "ipv4-20240128-bart", 6: "ipv6-20240128-bart"}
COUNTS = {4: 901_899, 6: 160_147}
CHURN = "updates-20160811-rrc21"
HOPS = 255  # next hops, numbered from 1
BITS = {4: 32, 6: 128}
SPECIAL = ["0.0.0.0/8", "10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "198.18.0.0/15", "2001:2::/48"]
FAMILY = {4: socket.AF_INET, 6: socket.AF_INET6}


@dataclass(frozen=True)
class Event:
    """A BGP event at some second: a prefix is announced with a next hop, or withdrawn (None)."""

    second: int
    version: int
    address: int
    length: int
    hop: int | None


@dataclass
class Feed:
    """Routes as (address, length, hop) for 4 and 6, events in order of time, and their origin."""

    routes: dict[int, list[tuple[int, int, int]]]
    events: list[Event]
    source: str

    def total(self):
        return sum(map(len, self.routes.values()))


def text(version, address, length):
    """A prefix as text."""
    return f"{socket.inet_ntop(FAMILY[version], address.to_bytes(BITS[version] // 8))}/{length}"


def _lines(name):
    packed = SHARED / "data" / "rib" / f"{name}.txt.zst"
    return subprocess.run(["zstd", "-dqc", packed], capture_output=True, text=True, check=True).stdout.splitlines()


def _number(word):
    """(version, address, length) of a prefix."""
    address, length = word.split("/")
    version = 6 if ":" in address else 4
    return version, int.from_bytes(socket.inet_pton(FAMILY[version], address)), int(length)


def _some(all, count):
    """A number of entries of a list, evenly spread over it."""
    return all[::max(len(all) // count, 1)][:count]


def _real(version, count):
    lines = map(str.split, _some(_lines(FILES[version]), count))
    return [(*_number(prefix)[1:], int(hop)) for prefix, hop in lines]


def _real_events():
    """Recorded events. The collector's peers become next hops: a peer keeps its number."""
    events, hops, start = [], {}, None
    for line in _lines(CHURN):
        second, kind, prefix, _, peer = line.split()
        start = start or int(second)
        hop = hops.setdefault(peer, 1 + len(hops) % HOPS)
        events.append(Event(int(second) - start, *_number(prefix), hop if kind == "A" else None))
    return events


def _workload():
    """Loads eval/bench/workload.py by its path, because importing modules have other search paths."""
    spec = importlib.util.spec_from_file_location("workload", ROOT / "eval" / "bench" / "workload.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _special(version):
    """True if a prefix (address, length) overlaps one that no real table contains (daemons refuse it), or one that the
    test bed uses.
    """
    known = [number[1:] for number in map(_number, SPECIAL) if number[0] == version]

    def special(address, length):
        return any((address ^ other) >> BITS[version] - min(length, bits) == 0 for other, bits in known)

    return special


def _made(version, count):
    draw, workload = random.Random(10 + version), _workload()
    made = (workload.routes4 if version == 4 else workload.routes6)(count + count // 20)
    special = _special(version)
    kept = [prefix for prefix in made if not special(*prefix)][:count]
    return [(address, length, draw.randint(1, HOPS)) for address, length in sorted(kept)]


def _made_events(routes, count=40_000, prefixes=1700, seconds=300):
    """Generated events: a few prefixes flap all the time, as in recorded ones, with 19 announcements per withdrawal."""
    draw = random.Random(20)
    flapping = [(v, *r[:2]) for v, all in routes.items() for r in draw.sample(all, min(prefixes // 2, len(all)))]
    events = []
    for at in range(count):
        hop = draw.randint(1, HOPS) if draw.random() < 0.95 else None
        events.append(Event(at * seconds // count, *draw.choice(flapping), hop))
    return events


def feed(count4=None, count6=None):
    """The table, or a number of its routes evenly spread; generated if ../shared/data is missing."""
    real = (SHARED / "data" / "rib").is_dir()
    wanted = {4: count4 or COUNTS[4], 6: count6 or COUNTS[6]}
    routes = {version: (_real if real else _made)(version, count) for version, count in wanted.items()}
    events = _real_events() if real else _made_events(routes)
    source = f"{SHARED}/data/rib" if real else f"made up by seed: there is no {SHARED}/data/rib"
    return Feed(routes, events, source)
