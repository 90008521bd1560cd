#!/usr/bin/python3
"""Impact of Network Protocols, Figures 5 and 6: ordering by threads that share queues."""

import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import machine, spread  # noqa: E402
from lib.figure import Figure, column, compared, median, of_rounds, table  # noqa: E402

QUEUES = {
    "fifo": "one FIFO", "binsort": "one BinSort", "mds": "MDS-BinSort, a structure at random", "mds-in-turn": "MDS-BinSort, structures in turn (the paper's)",
    "own": "a BinSort for each thread (MDSDeadlineQueue)"}
# Millions of packets a second on 24 threads of an IXP1200.
PAPER = {"fifo": "1.252", "mds-in-turn": "1.198"}
PAPER_RATIO = 1.198 / 1.252


def run(lab):
    program = ["cargo", "run", "--release", "--locked", "--quiet", "-p", "tables", "--example", "many"]
    done = subprocess.run(program, cwd=machine.ROOT, capture_output=True, text=True)
    found = {name: float(value) for name, value in re.findall(r"^services (\S+)-mpps (\S+)$", done.stdout, re.M)}
    if done.returncode != 0 or not found:
        raise machine.Failed(f"the example many does not run\n{done.stderr[-2000:]}")
    return found


def steps():
    yield "many", run


def threads_of(raw):
    """Numbers of threads that were measured: powers of two up to the machine's processors."""
    return sorted({int(name.rsplit("-", 1)[1]) for name in raw["results"]["many"][0]})


def values(raw):
    results, threads = raw["results"], threads_of(raw)

    def rates(queue, n=2):
        return column(results, "many", f"{queue}-{n}")

    def middle(queue, n=2):
        return median(results, "many", f"{queue}-{n}")

    rows = [[what, PAPER.get(queue, ""), *(spread(rates(queue, n)) for n in threads), f"{middle(queue) / middle(queue, 1):.2f}",
             f"{middle(queue) / middle('fifo'):.2f}"] for queue, what in QUEUES.items()]
    turns = {"less": "fewer packets than", "more": "more packets than", "no different": "within the spread as many packets as"}
    return {
        "table": table(["queue", "paper, 24 threads: Mpps", *(f"{n} thread{'s' * (n > 1)}: Mpps" for n in threads), "two over one", "two, over one FIFO"], rows),
        "paper ratio": f"{PAPER_RATIO:.2f}", "mds": f"{middle('mds') / middle('fifo'):.2f}", "in turn": turns[compared(rates("mds-in-turn"), rates("mds"))],
        "own": turns[compared(rates("own"), rates("mds"))], "one": f"{middle('binsort') / middle('binsort', 1):.2f}",
        "own scale": f"{middle('own') / middle('own', 1):.2f}", "rounds": of_rounds(len(results["many"]))}


def draw(axes, raw):
    for queue, what in QUEUES.items():
        axes.plot(threads_of(raw), [median(raw["results"], "many", f"{queue}-{n}") for n in threads_of(raw)], "o-", label=what)
    axes.set(xlabel="threads", ylabel="million packets a second", xticks=threads_of(raw), ylim=0)
    axes.legend(fontsize=7)


def summary(raw, values):
    return [("Network services Figure 5, MDS-BinSort over FIFO", f"{PAPER_RATIO:.2f} on 24 threads", f"{values['mds']} on two")]


figure = Figure(__file__, steps, values, draw, size=(7, 3.4), lab=False, summary=summary)

if __name__ == "__main__":
    figure.main()
