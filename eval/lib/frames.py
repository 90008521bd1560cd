"""Frames and routes of the figures, made once and kept in target/bench: pseudo-random from a seed, or recorded traffic.
"""

import functools
import ipaddress
import random
import subprocess
import sys

from .machine import SHARED, WORK
from . import lab  # noqa: F401  finds eval/bench
import workload

COUNT = 65_536

# Lengths of IP packets and their shares: like those of a research backbone (Abilene) of 2002 to 2005.
# RouteBricks' own trace (Abilene-I) is not published. About 40 % of packets of 40 bytes and about 20 % of
# 1500 bytes, some at 1300, are published for a connection to Abilene (Sinha et al., ISI-TR-2007-643). With 20 % of
# 1500 bytes the mean would be 523 bytes; with 31 % it is 657, between CAIDA's OC48 traces of 2002 (510 and 763) and
# below Abilene-III of 2004 (826).
ABILENE_LIKE = {40: 36, 52: 8, 100: 4, 200: 3, 300: 3, 576: 5, 1000: 3, 1300: 3, 1420: 4, 1500: 31}


REAL = SHARED / "data" / "pcap" / "ndpi-mix-zeropay.pcap.zst"


def routes():
    """256K IPv4 prefixes, all to port 1."""
    return made("routes4", lambda path: path.write_text(_routes_text()))


def _routes_text():
    return "".join(f"{ipaddress.IPv4Address(a)}/{n} 1\n" for a, n in workload.routes4())


def made(name, make):
    """A file of the folder for measurements, which `make` writes to the path that it is given, if it is missing."""
    path = WORK / name
    if not path.exists():
        WORK.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        make(part)
        part.rename(path)
    return path


def fixed(size, count=COUNT):
    """A capture of frames of `size` bytes, including frame check sequence, to random routes."""
    return made(f"eval-{size}-{count}.pcap", lambda path: _write(path, lambda rng: size - 4, count))


def mix(count=COUNT):
    """A capture of frames of the mix, in random order."""
    sizes, weights = zip(*ABILENE_LIKE.items())
    return made(f"eval-mix-{count}.pcap", lambda path: _write(
        path, lambda rng: max(rng.choices(sizes, weights)[0] + 14, 60), count))


def flows(count=COUNT, number=4000):
    """A capture of frames of the mix that belong to `number` flows; the most frequent flow has a ninth of the frames."""
    sizes, weights = zip(*ABILENE_LIKE.items())
    rng = random.Random(5)

    def write(path):
        to = workload.destinations(workload.routes4(), 32, number, 3)
        order = rng.choices(to, [1 / (rank + 1) for rank in range(number)], k=count)
        workload.write_pcap(path, (workload.frame4(address, max(rng.choices(sizes, weights)[0] + 14, 60)) for address in order))

    return made(f"eval-flows-{number}-{count}.pcap", write)


@functools.cache
def real():
    """Recorded traffic as a capture, and its description; without it, generated flows."""
    if not REAL.exists():
        print(f"skipped: real traffic needs {REAL}", file=sys.stderr)
        return flows(), "made up by seed, as there is no ../shared/data/pcap"
    unpacked = made("real.pcap", lambda path: subprocess.run(["zstd", "-qdf", REAL, "-o", path], check=True))
    return unpacked, f"real, `{REAL.name}`"


def _write(path, length, count):
    rng = random.Random(5)
    to = workload.destinations(workload.routes4(), 32, count, 3)
    workload.write_pcap(path, (workload.frame4(address, length(rng)) for address in to))


def mean_size(path):
    """Mean frame length of a capture, including frame check sequence."""
    return (path.stat().st_size - 24) / COUNT - 16 + 4
