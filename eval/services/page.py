"""The page of this folder: README.md, of raw.json and page.md."""

import json
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from lib import figure, machine, spread  # noqa: E402
from lib.figure import compared, host_table, of_rounds, table  # noqa: E402

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
    return [["Network services 5, packets of 110 flows that leave five full hops after their bound, in simulated time", "0 promised",
             f"{late:.0f} if queues order by deadlines, {fifo:,.0f} if first in, first out", f"[{name}]({name})",
             raw["host"]["commit"], raw["host"]["date"]]]


def sched(results):
    """Sentence about the numbers of waiting packets with which rte_sched takes the most cycles, and the least, as far as the rounds show it."""
    cycles = {n: results[f"rte_sched-cycles-{n}"] for n in (0, 1000, 100_000, 1_000_000)}
    least = min(cycles, key=lambda n: statistics.median(cycles[n]))
    most = max(cycles, key=lambda n: statistics.median(cycles[n]))

    def alone(n, word):
        return all(compared(cycles[n], of) == word for other, of in cycles.items() if other != n)

    found = [f"the {word}, {statistics.median(cycles[n]):.0f}, with {n:,} packets waiting"
             for n, word, way in ((most, "most", "more"), (least, "least", "less")) if alone(n, way)]
    return f"It takes {', and '.join(found)}, in all rounds." if found else "Its cycles with fewer and more packets waiting are within the spread of the rounds."


def swap(ratios):
    """Sentence about the rate of an MPLS swap."""
    words = f"An MPLS swap has {spread(ratios, 3)} of the rate of IPv4 routing (of single rounds)"
    return words + {"more": ": it is slightly faster in all rounds." if max(ratios) < 1.1 else ": it is faster in all rounds.", "less": ": it is slower in all rounds.",
                    "no different": ", so no difference is shown."}[compared(ratios, [1])]


def write_page():
    """Makes the page of raw.json."""
    raw = load()
    results = raw["results"]
    values = {
        "table": table(["figure", "value", "goal"], [row(results, *one) for one in ROWS]), "rounds": of_rounds(raw["rounds"]), "host": host_table(raw),
        "tree": figure.quotient(results["tree-cycles-1000000"], results["tree-cycles-0"]),
        "minutes": f"{raw['seconds'] / 60:.1f}", "swap": swap(results["swap/route"]),
        "sched": sched(results), "command": f"    eval/services/run --rounds {raw['rounds']} --keep"}
    (HERE / "README.md").write_text(figure.warned(figure.fill(figure.page_text(HERE), values), raw["host"]))
