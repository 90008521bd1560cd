"""The page of this folder: README.md, of raw.json and page.md."""

import json
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from lib import figure, machine, spread  # noqa: E402
from lib.figure import at_most, claim, host_table, of_rounds, table  # noqa: E402

name = HERE.name
# Rows of the table: the figure in words, its lines, its goal, and True if less is better.
ROWS = [
    ("`binsort-cycles`: the worst from 1 to 1,000,000 packets", ["binsort-cycles"], 100, True),
    ("`exact-cycles-1`, `-1000`, `-1000000`: a heap that sorts exactly", [f"exact-cycles-{n}" for n in (1, 1000, 1_000_000)], None, True),
    ("`binsort/fifo`: rate of match_prefix_sort over its rate with FIFO queues", ["binsort/fifo"], 0.96, False),
    ("`tree-cycles-0`, `-1000`: more than a queue that is first in, first out", ["tree-cycles-0", "tree-cycles-1000"], 170, True),
    ("`tree-cycles-100000`, `-1000000`", ["tree-cycles-100000", "tree-cycles-1000000"], 170, True),
    ("`rte_sched-cycles-0`, `-1000`, `-100000`, `-1000000`", [f"rte_sched-cycles-{n}" for n in (0, 1000, 100_000, 1_000_000)], None, True),
    ("`htb-cycles`, a tenth of the subscribers, none waits", ["htb-cycles"], None, True),
    ("`swap/route`: rate of an MPLS swap over that of IPv4 routing, two labels and two routes", ["swap/route"], 1.2, False),
    ("`late`: packets of 110 flows over five hops after their bound, all links full of admitted flows", ["late"], 0, True),
    ("`late-fifo`: the same with FIFO", ["late-fifo"], None, True),
]


def load():
    path = HERE / "raw.json"
    if not path.exists():
        raise machine.NotMeasured(f"{path} is missing: measure first, with eval/services/run --keep")
    return json.loads(path.read_text())


def row(results, what, lines, goal, less):
    middles = [statistics.median(results[line]) for line in lines]
    missed = goal is not None and any(middle > goal if less else middle < goal for middle in middles)
    shown = ", ".join(spread(results[line], 3 if "/" in line else 0) for line in lines)
    return [what, shown, "" if goal is None else f"{goal}: missed" if missed else goal]


def rows():
    """Rows for the table of all figures."""
    raw = load()
    late, fifo = (statistics.median(raw["results"][line]) for line in ("late", "late-fifo"))
    return [["Network services, admitted flows' packets after their bound, five hops", "0 promised", f"{late:.0f} by deadlines, {fifo:.0f} with FIFO", f"[{name}]({name})",
             raw["host"]["commit"], raw["host"]["date"]]]


def sched(middle):
    """Cycles of rte_sched, the most and the least, and the numbers of waiting packets at which it takes them."""
    cycles = {n: middle[f"rte_sched-cycles-{n}"] for n in (0, 1000, 100_000, 1_000_000)}
    most, least = max(cycles, key=cycles.get), min(cycles, key=cycles.get)
    return {f"sched {word}{what}": text for word, n in (("most", most), ("least", least)) for what, text in (("", f"{cycles[n]:.0f}"), (" at", f"{n:,}"))}


def swap(ratios):
    """Sentence about the time of an MPLS swap."""
    differs = 100 * max(abs(1 / ratio - 1) for ratio in ratios)
    if differs < 5:
        return f"An MPLS swap takes the time of IPv4 routing, within {at_most(differs, 1)} %."
    return f"An MPLS swap takes {1 / statistics.median(ratios):.2f} of the time of IPv4 routing."


def write_page():
    """Makes the page of raw.json."""
    raw = load()
    results = raw["results"]
    middle = {line: statistics.median(values) for line, values in results.items()}
    tree = [middle[f"tree-cycles-{n}"] for n in (0, 1_000_000)]
    claim(tree[1] > tree[0], "a million packets cost the tree more than none")
    values = {
        "table": table(["figure", "value", "goal"], [row(results, *one) for one in ROWS]), "rounds": of_rounds(raw["rounds"]), "host": host_table(raw),
        "tree": f"{tree[1] / tree[0]:.1f}", "swap": swap(results["swap/route"]), **sched(middle), "command": f"    eval/services/run --rounds {raw['rounds']} --keep"}
    (HERE / "README.md").write_text(figure.warned(figure.fill(figure.page_text(HERE), values), raw["host"]))
