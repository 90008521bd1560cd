#!/usr/bin/python3
"""Server network cards, Figures 4 and 5: the cost of more queues on a port, with a fixed number of cores."""

import itertools
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import machine, plot, runs  # noqa: E402
from lib.figure import Figure, column, compared, listed, median, of_rounds, quotient, spread, table  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
QUEUES = [2, 4, 6, 8]
CORES = min(os.cpu_count(), 8)


def run(conf, queues):
    def step(here):
        cores = min(CORES, queues)
        # With one queue a port has one core, so that each core has a port; with more, each port is on all cores.
        first, second = ("0", "1") if queues == 2 else (f"0-{min(cores, queues // 2) - 1}",) * 2
        values = [*(f"{letter}=net_null{n}" for n, letter in enumerate("ABCD")), f"QUEUES={queues}", f"HALF={queues // 2}",
                  f"CORES=0-{cores - 1}", f"CORES0={first}", f"CORES1={second}"]
        ports = [f"net_null{n},size=64,copy=1" for n in range(4)]
        router = here.router(HERE / conf, values, ports, range(cores))
        router.wait_sending()
        return router.measure(runs.SECONDS) | {"hz": machine.tsc_hz(), "cores": cores}

    return step


def steps():
    for queues in QUEUES:
        yield f"one port {queues}", run("one-port.click", queues)
        yield f"two ports {queues}", run("two-ports.click", queues)


def rates(results, queues):
    """Rates of one port and of two ports, each a list of rounds."""
    return [column(results, f"{ports} {queues}") for ports in ("one port", "two ports")]


def sharing_costs(results):
    """True if two cores with a port each carry more than two cores that share a port or two, outside the spread."""
    separate, *shared = (column(results, f"two ports {q}") for q in QUEUES)
    shared.append(column(results, f"one port {QUEUES[0]}"))
    return are_two_cores(results) and all(compared(separate, of) == "more" for of in shared)


def numbers_of_cores(results):
    """Numbers of cores that served the queues: a set."""
    return {one["cores"] for rounds in results.values() for one in rounds}


def are_two_cores(results):
    """True if two cores served the queues of all results."""
    return numbers_of_cores(results) == {2}


def explanation(results, queues_cost):
    """Sentences on why the rows of two ports differ, as far as the results show it."""
    apart = [(a, b) for a, b in itertools.combinations(QUEUES, 2)
             if compared(column(results, f"two ports {a}"), column(results, f"two ports {b}")) != "no different"]
    if not apart:
        return "Their rounds overlap."
    if not queues_cost and sharing_costs(results):
        return ("Two cores with a port each carry more than two that share ports. So sharing a `net_null` port costs; "
                "more queues on it show no clear cost.")
    pairs = "; ".join(f"{a} and {b}" for a, b in apart)
    is_mixed = are_two_cores(results) and all(a == QUEUES[0] for a, _ in apart)
    return (f"Outside the spread of the rounds these numbers of queues differ: {pairs}. "
            f"{'Two causes are mixed:' if is_mixed else 'This page does not show why.'}")


def mixed(results):
    """Sentences on causes other than queues that differ between one port and two."""
    if not are_two_cores(results):
        return ""
    return ("\nWith two ports and 2 queues each core has a port of its own; with more queues both cores share both\n"
            "ports, and a core has two tasks. A task that is alone on its core goes on by itself, and takes more\n"
            "packets in a poll (last columns). So the quotient mixes the packets of a poll with the sharing of ports.")


def one_over_two(results):
    """Sentence on the numbers of queues with which one port carries less, or more, than two outside the spread."""
    found = {q: compared(*rates(results, q)) for q in QUEUES}
    words = [f"{verdict} than two with {listed(q for q in QUEUES if found[q] == verdict)} queues"
             for verdict in ("less", "more") if verdict in found.values()]
    if not words:
        return "With no number of queues does one port carry less, or more, than two outside the spread."
    return f"Outside the spread one port carries {listed(words)}."


def each_queue(cost, change, cores):
    """Sentence on the cycles of a further queue of a core, between the ends, with at most so many `cores`; empty if the
    ends do not differ.
    """
    if cores >= QUEUES[-1]:
        return "Each queue has a core. "
    if change == "no different":
        return ""
    queues = QUEUES[-1] / cores - QUEUES[0] / min(cores, QUEUES[0])
    each = (cost[QUEUES[-1]] - cost[QUEUES[0]]) / queues
    return f"Between the ends this is {each:+.1f} cycles for each further queue of a core. "


def values(raw):
    results = raw["results"]
    cores = max(numbers_of_cores(results))
    rows = [[q, results[f"one port {q}"][0]["cores"], spread(column(results, f"one port {q}", scale=1e6)),
             spread(column(results, f"two ports {q}", scale=1e6)), quotient(*rates(results, q), 2),
             *(f"{median(results, f'{ports} {q}', 'packets per poll'):.0f}" for ports in ("one port", "two ports"))]
            for q in QUEUES]
    cost = {q: results[f"one port {q}"][0]["cores"] * results[f"one port {q}"][0]["hz"] / median(results, f"one port {q}") for q in QUEUES}
    ends = [column(results, f"one port {q}") for q in (QUEUES[0], QUEUES[-1])]
    told = {"no different": "The cost does not change with the queues beyond the spread of the rounds", "unsteady": "The cost does not grow steadily with the queues", "more": "More queues cost", "less": "More queues cost nothing; they save"}
    # Queues are not the cause of a difference between the ends if the cost goes up and down between them.
    costs = list(cost.values())
    single = [column(results, f"one port {q}") for q in QUEUES]
    same = all(compared(one, other) == "no different" for one, other in itertools.combinations(single, 2))
    found = compared(*ends) if same or costs in (sorted(costs), sorted(costs, reverse=True)) else "unsteady"
    rounds = [max(of) - min(of) for of in ([results[f"one port {q}"][0]["cores"] * one["hz"] / one["rate"] for one in results[f"one port {q}"]] for q in QUEUES)]
    ports = [median(results, f"two ports {q}") for q in QUEUES]
    head = ["queues in all", "cores", "one port, Mpps", "two ports, Mpps", "one over two",
            "packets of a poll, one port", "two ports"]
    return {"verdict": told[found], "one over two": one_over_two(results), "mixed": mixed(results),
            "differ": f"{max(rounds):.0f}", "rounds": of_rounds(len(results[f"one port {QUEUES[0]}"])),
            "explanation": explanation(results, found == "more"), "ports": f"{max(ports) / min(ports):.2f}",
            "table": table(head, rows),
            "costs": listed(f"{one:.0f}" for one in costs), "queues": listed(map(str, QUEUES)), "cores": str(cores),
            "each": each_queue(cost, compared(*ends), cores)}


def draw(axes, raw):
    names = [str(q) for q in QUEUES]
    for ports, color in (("one port", plot.OURS), ("two ports", plot.OTHER)):
        axes[0].plot(names, [median(raw["results"], f"{ports} {q}", scale=1e6) for q in QUEUES], "o-", color=color, label=ports)
    axes[0].set_ylabel("Mpps")
    axes[0].set_ylim(bottom=0)
    axes[0].legend()
    axes[0].set_title("all cores (Figure 4)")
    ratios = [[one / two for one, two in itertools.product(*rates(raw["results"], q))] for q in QUEUES]
    plot.bars(axes[1], names, ratios, unit="one port over two")
    axes[1].set_title("the same queues on one port (Figure 5)")
    for axis in axes:
        axis.set_xlabel("queues in all")


def summary(raw, values):
    least, most = (quotient(*rates(raw["results"], q), 2) for q in (QUEUES[0], QUEUES[-1]))
    verdict = values["verdict"]
    summed = f"one port carries {least} of two with {QUEUES[0]} queues, {most} with {QUEUES[-1]}; {verdict[0].lower()}{verdict[1:]}"
    return [("Server network cards Figures 4 and 5, all queues on one port or on two", "about 10 % lost on one", summed)]


figure = Figure(__file__, steps, values, draw, size=(8, 3.4), panels=2, summary=summary)

if __name__ == "__main__":
    figure.main()
