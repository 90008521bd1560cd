#!/usr/bin/python3
"""RouteBricks, Figure 7: combined gain of multiple queues and batching, with each switched off in turn."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import lab, plot, runs  # noqa: E402
from lib.figure import Figure, column, compared, dropped, median, of_rounds, quotient, spread, table  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
# Name: configuration, kp, kn, options of `ashlar run`.
DESIGNS = {
    "neither": ("one-queue.click", 1, 1, []),
    "batches only": ("one-queue.click", 32, 16, []),
    "batches only, kn = 32": ("one-queue.click", 32, 32, []),
    "queues only": ("multi-queue.click", 1, 1, []),
    "both": ("multi-queue.click", 32, 16, []),
    "both, not optimised": ("multi-queue.click", 32, 16, ["--no-optimize"]),
}
# Figures of the paper's text. Its Table 1 has 1.46 Gbps with multiple queues and no batches, and 9.77 with both.
PAPER = {"neither": "1 (6.7 times less than both)", "queues only": f"{6.7 * 1.46 / 9.77:.1f}, computed from its Table 1", "both": "6.7"}
XEON = 6.7 / 11


def steps():
    for name, (conf, kp, kn, options) in DESIGNS.items():
        def run(here, conf=conf, kp=kp, kn=kn, options=options):
            ports = ["net_null0,size=64,copy=1", "net_null1,size=64,copy=1"]
            router = here.router(
                HERE / conf, ["A=net_null0", "B=net_null1", f"KP={kp}", f"KN={kn}"], ports,
                (lab.OTHER, lab.MEASURED), options=options)
            router.wait_sending()
            return router.measure(runs.SECONDS)

        yield name, run


def over(results, name, base):
    """Words on the rate of a design over that of another."""
    return quotient(column(results, name), column(results, base))


def larger_kn(results):
    """Sentences on one queue with kn = 32."""
    name = "batches only, kn = 32"
    return (" With kn = 32 a send task takes as many\n"
            f"  as a receive task: then {dropped(results, name)} % are dropped, "
            f"and multiple queues, with kn = 16, give {over(results, 'both', name)} times\n"
            "  the rate of one queue with kn = 32.")


def values(raw):
    results = raw["results"]
    base = median(results, "neither")
    rows = [[name, PAPER.get(name, "not in the paper"), spread(column(results, name, scale=1e6)),
             "1.0" if name == "neither" else over(results, name, "neither")] for name in DESIGNS]
    as_fast = {"less": "more slowly than", "more": "faster than", "no different": "within the spread as fast as"}[
        compared(column(results, "both, not optimised"), column(results, "both"))]
    rows.append(["neither, on the shared-bus Xeon", f"{XEON:.1f} (11 times less than both)", f"{base / 1e6 * XEON:.2f}, computed by the paper's ratio", ""])
    alone = figure.other("rb-table1")["results"]
    return {"table": table(["multiple queues and batches", "paper, gain", "here: Mpps, two cores", "gain"], rows),
            "rounds": of_rounds(len(results["both"])),
            "lost": dropped(results, "batches only"), "lost single": dropped(results, "neither"),
            "larger kn": larger_kn(results),
            "gain": over(results, "both", "neither"), "queues": over(results, "both", "batches only"), "batches": over(results, "both", "queues only"),
            "poll": f"{median(results, 'queues only', 'packets per poll'):.1f}",
            "poll table 1": f"{median(alone, 'alone 1,1', 'packets per poll'):.1f}",
            "batches table 1": quotient(column(alone, "alone 32,16"), column(alone, "alone 1,1")),
            "nehalem": f"{1 / XEON:.1f}", "as fast": as_fast}


def draw(axes, raw):
    rates = [column(raw["results"], name, scale=1e6) for name in DESIGNS]
    plot.bars(axes, [name.replace(", ", ",\n") for name in DESIGNS], rates)
    axes.set_title("64 B, two ports, any to any, two cores")


def summary(raw, values):
    return [("RouteBricks Figure 7, a queue for each core and batches, over one queue and none", "6.7 times, eight cores", f"{values['gain']} times, two cores")]


figure = Figure(__file__, steps, values, draw, size=(7, 3.4), summary=summary)

if __name__ == "__main__":
    figure.main()
