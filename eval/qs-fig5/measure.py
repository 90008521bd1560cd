#!/usr/bin/python3
"""Impact of Network Protocols, Figures 5 and 6: ordering by threads that share queues, and their lock requests."""

import pathlib
import re
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import machine, spread  # noqa: E402
from lib.figure import Figure, column, median, of_rounds, ratios, table  # noqa: E402

QUEUES = {
    "fifo": "one FIFO", "binsort": "one BinSort", "mds": "MDS-BinSort, a structure at random, the next if it is locked", "mds-in-turn": "MDS-BinSort, structures in turn (the paper's)",
    "own": "a BinSort for each thread, as MDSDeadlineQueue has"}
# Millions of packets a second that an IXP1200, which has 24 threads, moves at most.
PAPER = {"fifo": "1.252", "mds-in-turn": "1.198"}
PAPER_RATIO = 1.198 / 1.252
RUN = 65_536  # packets that a thread of the example moves in a run
GOAL = 0.95  # of what two threads with queues of their own do


def run(lab):
    program = ["cargo", "run", "--release", "--locked", "--quiet", "-p", "tables", "--example", "many"]
    done = subprocess.run(program, cwd=machine.ROOT, capture_output=True, text=True)
    found = {name: float(value) for name, value in re.findall(r"^services (\S+-(?:mpps|taken)) (\S+)$", done.stdout, re.M)}
    if done.returncode != 0 or not found:
        raise machine.Failed(f"the example many does not run\n{done.stderr[-2000:]}")
    return found


def steps():
    yield "many", run


def threads_of(raw):
    """Numbers of threads that were measured: powers of two up to the machine's processors."""
    return sorted({int(name.split("-")[-2]) for name in raw["results"]["many"][0]})


def values(raw):
    results, threads = raw["results"], threads_of(raw)

    def rates(queue, n=2):
        return column(results, "many", f"{queue}-{n}-mpps")

    def middle(queue, n=2):
        return median(results, "many", f"{queue}-{n}-mpps")

    def taken(queue):
        return spread([100 * share for share in column(results, "many", f"{queue}-{threads[-1]}-taken")], 0)

    def over(ones, others):
        """Ratios of two lists, round by round: median, least and most."""
        return spread(ratios(ones, others))

    def most(queue):
        """The highest rate of any number of threads: one for each round."""
        return list(map(max, zip(*(rates(queue, n) for n in threads), strict=True)))

    rows = [[what, PAPER.get(queue, ""), *(spread(rates(queue, n)) for n in threads),
             over(rates(queue), rates(queue, 1)), over(rates(queue), rates("fifo")),
             f"{taken(queue)} %" if queue != "own" else "none"]
            for queue, what in QUEUES.items()]
    ceiling = ratios(rates("mds"), rates("own"))
    times = [n * RUN / middle(queue, n) / 1e3 for queue in QUEUES for n in threads]
    best = max(threads, key=lambda n: middle("fifo", n))
    return {
        "mds in turn": over(rates("mds-in-turn"), rates("fifo")),
        "at most": over(most("mds"), most("fifo")), "at most in turn": over(most("mds-in-turn"), most("fifo")),
        "fifo best": "one thread" if best == 1 else f"{best} threads",
        "table": table(["queue", "paper, at most: Mpps", *(f"{n} thread{'s' * (n > 1)}: Mpps" for n in threads), "two over one", "two, over one FIFO",
                        f"{threads[-1]} threads: requests that find the lock taken"], rows),
        "shortest": f"{min(times):.2f}", "longest": f"{max(times):.1f}",
        "paper ratio": f"{PAPER_RATIO:.2f}", "mds": over(rates("mds"), rates("fifo")),
        "in turn": over(rates("mds-in-turn"), rates("mds")), "one": over(rates("binsort"), rates("binsort", 1)),
        "own scale": over(rates("own"), rates("own", 1)), "one fifo": over(rates("fifo"), rates("fifo", 1)),
        "own fifo": over(rates("own"), rates("fifo")), "rounds": of_rounds(len(results["many"])),
        "ceiling": spread(ceiling), "is ceiling": ", so this is the ceiling of MDS-BinSort" if max(ceiling) < 1 else "", "goal": GOAL, "met": "met" if statistics.median(ceiling) >= GOAL else "missed",
        "taken": {queue: taken(queue) for queue in QUEUES}}


def draw(axes, raw):
    for queue, what in QUEUES.items():
        axes.plot(threads_of(raw), [median(raw["results"], "many", f"{queue}-{n}-mpps") for n in threads_of(raw)], "o-", label=what)
    axes.set(xlabel="threads", ylabel="million packets a second", xticks=threads_of(raw), ylim=0)
    axes.legend(fontsize=7)


def summary(raw, values):
    return [("Network services Figure 5, MDS-BinSort over FIFO", f"{PAPER_RATIO:.2f}, each at its most",
             f"{values['at most in turn']} in turn as in the paper, {values['at most']} at random (the next if it is locked), each at its most; "
             f"{values['mds']} at random if both have two threads; {values['own fifo']} by a BinSort for each thread"),
            ("Network services Figure 6, locks of FIFO, MDS-BinSort in turn, at random (the next if it is locked)", "FIFO: failed requests grow with the threads",
             f"{', '.join(values['taken'][queue] for queue in ('fifo', 'mds-in-turn', 'mds'))} % of requests find them taken, "
             f"{threads_of(raw)[-1]} threads")]


figure = Figure(__file__, steps, values, draw, size=(7, 3.4), lab=False, timed=True, summary=summary)

if __name__ == "__main__":
    figure.main()
