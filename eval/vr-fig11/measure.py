#!/usr/bin/python3
"""Virtual Routers, Figure 11: two inputs that share an output too slow for both."""

import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import lab  # noqa: E402
from lib.figure import Figure, of_rounds, spread, table  # noqa: E402
from lib.plot import OTHER, OURS  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
LINK = 1_000_000  # packets a second that the output takes
OFFERED = [0.25, 0.5, 0.75, 1, 1.5, 2, 3]  # of the link, by each input
WEIGHTS = {"equal": (1, 1), "one to three": (0.5, 1.5)}
DESIGNS = ["shared", "fair"]
SECONDS = 0.4


def counts(router):
    stats = router.stats()
    sums = {e["name"]: sum(c["packets"] for c in e["copies"]) for e in stats["elements"]}
    return stats["time_ns"] / 1e9, [sums[name] for name in ("in0", "in1", "out0", "out1")]


def run(design, weights):
    def step(here):
        router = here.router(HERE / f"{design}.click", [f"LINK={LINK}", "OUT=net_null0"], ["net_null0,no-rx=1"], (lab.OTHER, lab.MEASURED))
        router.wait_running()
        points = []
        for offered in OFFERED:
            for source, weight in zip(("s0", "s1"), weights):
                router.write(f"{source}.rate", str(int(offered * weight * LINK)))
            time.sleep(0.15)
            start, before = counts(router)
            time.sleep(SECONDS)
            end, after = counts(router)
            points.append([(b - a) / (end - start) for a, b in zip(before, after)])
        return {"points": points}

    return step


def steps():
    for name, weights in WEIGHTS.items():
        for design in DESIGNS:
            yield f"{design}, {name}", run(design, weights)


def point(results, label, n):
    """Rates at a load: of both inputs, and of both at the output; medians over rounds."""
    return [statistics.median(r["points"][n][k] for r in results[label]) for k in range(4)]


def shares(results, label):
    """Percent of the output that input 0 gets at the highest load: a round each."""
    return [100 * one["points"][-1][2] / sum(one["points"][-1][2:]) for one in results[label]]


def overloaded(results):
    """True if a source made fewer packets than it was asked for, beyond 2 %."""
    return any(made < 0.98 * offered * weight * LINK for name, weights in WEIGHTS.items() for design in DESIGNS
               for one in results[f"{design}, {name}"] for offered, rates in zip(OFFERED, one["points"])
               for made, weight in zip(rates, weights))


def values(raw):
    results, rows = raw["results"], []
    for name in WEIGHTS:
        for n, offered in enumerate(OFFERED):
            row = [name, f"{100 * offered:.0f} %"]
            for design in DESIGNS:
                first, second, out0, out1 = point(results, f"{design}, {name}", n)
                row += [f"{first / 1e6:.2f} + {second / 1e6:.2f}", f"{out0 / 1e6:.2f} + {out1 / 1e6:.2f}"]
            rows.append(row)
    head = ["inputs", "asked of each on average, of the link", "shared: in, Mpps", "out", "a queue each: in, Mpps", "out"]
    found = {"table": table(head, rows), "link": f"{LINK / 1e6:.0f}"}
    for name in WEIGHTS:
        for design in DESIGNS:
            found[f"{design} {name}"] = spread(shares(results, f"{design}, {name}"), 0)
    count = len(results[f"{DESIGNS[0]}, equal"])
    return found | {"rounds": of_rounds(count), "middle": of_rounds(count).removesuffix(", least and most"), "overloaded": "some did" if overloaded(results) else "none did"}


def draw(axes, raw):
    for axis, name in zip(axes, WEIGHTS):
        for design, color in zip(DESIGNS, (OTHER, OURS)):
            for flow, style in ((0, "o-"), (1, "s--")):
                rates = [point(raw["results"], f"{design}, {name}", n)[2 + flow] / 1e6 for n in range(len(OFFERED))]
                axis.plot(OFFERED, rates, style, color=color, label=f"{design}, input {flow}")
        axis.set_xlabel("offered by an input on average, of the link")
        axis.set_ylabel("Mpps out")
        axis.set_ylim(bottom=0)
        axis.set_title(f"inputs: {name}")
    axes[0].legend()


def summary(raw, values):
    return [("Virtual Routers Figure 11, share of the input whose core also sends", "fair by a queue each, not measured", f"{values['fair equal']} %; {values['shared equal']} % with one queue; each input offers {OFFERED[-1]} times the link")]


figure = Figure(__file__, steps, values, draw, rounds=2, size=(8, 3.4), panels=2, summary=summary)

if __name__ == "__main__":
    figure.main()
