#!/usr/bin/python3
"""Impact of Network Protocols (QS3): depth of look-ups in a trie of stride 4."""

import json
import math
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import machine  # noqa: E402
from lib.figure import Figure, table  # noqa: E402

FULL = machine.SHARED / "data" / "rib" / "ipv4-20240128-bart.txt.zst"
NAMES = {"100K": "100,000 random routes", "256K": "262,144 random routes", "full": "a full table of 2024"}
WAYS = {"inside": "below a route of the table", "any": "anywhere"}


def run(lab):
    program = ["cargo", "run", "--release", "--locked", "--quiet", "-p", "tables", "--example", "depths"]
    if FULL.exists():
        text = lab.folder / "routes"
        subprocess.run(["zstd", "-dqf", FULL, "-o", text], check=True)
        program += ["--", str(text)]
    else:
        print("skipped: the full table needs ../shared/data/rib/ipv4-20240128-bart.txt.zst", file=sys.stderr)
    done = subprocess.run(program, cwd=machine.ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise machine.Failed(f"the example depths does not run\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def steps():
    yield "depths", run


def mean(counts):
    return sum((n + 1) * count for n, count in enumerate(counts)) / sum(counts)


def five_or_six(counts):
    """Share of look-ups that end at depth 5 or 6."""
    return sum(counts[4:6]) / sum(counts)


def saved(counts):
    """Share of memory accesses that a copy of the top two levels saves."""
    return sum(min(n + 1, 2) * count for n, count in enumerate(counts)) / (mean(counts) * sum(counts))


def values(raw):
    result, rows = raw["results"]["depths"][0], []
    for name, one in result.items():
        for way, words in WAYS.items():
            counts = one[way]
            found = [n + 1 for n, count in enumerate(counts) if count]
            rows.append([NAMES[name], words, found[0], f"{mean(counts):.2f}", found[-1],
                         f"{100 * saved(counts):.0f} %", f"{one['bytes'] / 1e6:.1f}"])
    rows.insert(0, ["paper (MB of 100,000 routes)", "", 1, "2.76", 8, "22 % (depth 8) to 67 % (depth 3)", "more than 10"])
    note = "" if "full" in result else "; and a full table of 2024, which is not part of this repository and was not there for this measurement"
    return {"table": table(["table", "addresses", "least depth", "mean", "most", "saved by two levels", "MB"], rows),
            "no full table": note, "five or six": f"{math.floor(1000 * min(five_or_six(one['inside']) for one in result.values())) / 10:.1f}"}


def draw(axes, raw):
    for name, one in raw["results"]["depths"][0].items():
        counts = one["inside"]
        axes.plot(range(1, 9), [100 * n / sum(counts) for n in counts], "o-", label=f"{NAMES[name]}, below a route")
        axes.plot(range(1, 9), [100 * n / sum(one["any"]) for n in one["any"]], "s--", label=f"{NAMES[name]}, anywhere")
    axes.set(xlabel="entries that a look-up loads", ylabel="% of look-ups", ylim=(0, None))
    axes.legend(fontsize=7)


def summary(raw, values):
    return [("Network services 4.1, mean depth of look-ups", "2.76, a typical router's", f"{mean(raw['results']['depths'][0]['100K']['inside']):.2f}, addresses below one of 100,000 random routes")]


figure = Figure(__file__, steps, values, draw, rounds=1, size=(6, 3.4), timed=False, summary=summary)

if __name__ == "__main__":
    figure.main()
