#!/usr/bin/python3
"""Virtual Routers, Figures 8 and 10: assignment of forwarding work to cores."""

import os
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import frames, lab, machine, model, plot, runs  # noqa: E402
from lib.figure import Figure, at_most, column, compared, of_rounds, quotient, spread, table  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
# Configuration: what it is, in the paper, cores.
PLACEMENTS = {
    "one-core": ("one core", "8(a): 1.6 Mpps", 1),
    "by-direction": ("one core in, one out", "8(b): less than 8(a) without a shared cache; 8(c): more with one", 2),
    "by-path": ("a core for each path", "8(d): the best", 2),
    "crossing": ("a core for each port, packets cross", "10, left: limited by memory", 2),
    "same-core": ("a core for each port, the same queues, packets stay", "", 2),
    "four-cores": ("two cores in, two out", "10, right: noticeably more than left", 4),
}


def run(name):
    def step(here):
        capture = frames.fixed(64)
        devices = ["IN0=net_pcap0", "OUT0=net_null1", "IN1=net_pcap2", "OUT1=net_null3", f"ROUTES={frames.routes()}"]
        ports = [*lab.vdevs(capture), *lab.vdevs(capture, 2)]
        count = PLACEMENTS[name][2]
        cores = (lab.OTHER, lab.MEASURED)[-count:] if count <= 2 else range(count)
        router = here.router(HERE / f"{name}.click", devices, ports, cores, buffers=262_143)
        router.wait_sending()
        return router.measure_stages(runs.SECONDS) | {"hz": machine.tsc_hz()}

    return step


def steps():
    for name, (_, _, cores) in PLACEMENTS.items():
        if cores <= os.cpu_count():
            yield name, run(name)


def cost(results, name, kind):
    """Cycles per packet of a placement's tasks of one kind, over rounds."""
    return statistics.median(model.step_cycles(one, kind) for one in results[name])


def by_model(results):
    """Packets a second by the model: with one core per direction, which is also measured; and for the right side of
    Figure 10, with four cores.
    """
    hz = results["crossing"][0]["hz"]
    inside, outside = (cost(results, "by-direction", kind) for kind in ("FromDevice", "ToDevice"))
    return {"by-direction": model.chain([(inside, 1), (outside, 1)], hz), "four cores": model.chain([(inside, 2), (outside, 2)], hz)}


def single_rounds(results):
    """Results of each round alone."""
    return [{name: [of[n]] for name, of in results.items()} for n in range(len(results["crossing"]))]


def four_cores(results):
    """Packets a second of four cores by the model, for each round."""
    return [by_model(one)["four cores"] for one in single_rounds(results)]


def round_costs(results, kind):
    """Words on the cycles per packet of one kind of tasks, with one core for each direction, over single rounds."""
    return spread([cost(one, "by-direction", kind) for one in single_rounds(results)], 0)


def errors(results):
    """Errors of the model in percent, with one core for each direction, for each round."""
    return [model.error(by_model(one)["by-direction"], one["by-direction"][0]["rate"])
            for one in single_rounds(results)]


def four_beside_two(results):
    """Words on the computed rate of four cores beside the measured one of two whose packets cross."""
    words = {"more": "better than two, like the paper's.", "less": "worse than two, unlike the paper's.",
             "no different": "within the spread of two cores' rounds, so this page does not show which are better."}
    return words[compared(four_cores(results), column(results, "crossing"))]


def over_one(results, name):
    """Rate of a placement over that of one core."""
    return quotient(column(results, name), column(results, "one-core"), 2)


def beside(results, name, other):
    """Rate of a placement over that of another, of any two rounds; with a remark if the rounds overlap."""
    ones, others = column(results, name), column(results, other)
    remark = ", within the spread of the rounds," if compared(ones, others) == "no different" else ""
    return quotient(ones, others, 2) + remark


def shared_cache(results):
    """Words on a core for each direction beside the paper's, whose two cores shared the second level or no cache."""
    return {"less": "less than one core, as in 8(b); the cores here share the third level only, "
                    "those of 8(c) the second",
            "more": "more than one core, as in 8(c)",
            "no different": "within the spread of one core"}[compared(column(results, "by-direction"), column(results, "one-core"))]


def values(raw):
    results = raw["results"]
    crossing = column(results, "crossing")
    four, one = four_cores(results), column(results, "one-core")
    rows = [[what, paper, spread(column(results, name, scale=1e6)),
             1 if name == "one-core" else over_one(results, name)]
            for name, (what, paper, _) in PLACEMENTS.items() if name in results]
    rows.append(["**computed:** two cores in, two out", "10, right: noticeably more than left",
                 spread([rate / 1e6 for rate in four]), quotient(four, one, 2)])
    lost = {name: max(1 - one["sent"] / one["received"] for one in results[name]) for name in ("crossing", "same-core")}
    kept = "When they stay, none is dropped." if lost["same-core"] < 0.0005 else f"When they stay, up to {at_most(100 * lost['same-core'], 1)} %."
    return {"table": table(["placement", "paper", "here, Mpps of both paths", "of one core"], rows),
            "direction": over_one(results, "by-direction"), "path": over_one(results, "by-path"),
            "cross": beside(results, "crossing", "same-core"), "queue": beside(results, "same-core", "by-path"), "shared cache": shared_cache(results),
            "caches": (". That is more than twice in all rounds, probably as a core's own caches then serve one path"
                       if min(column(results, "by-path")) > 2 * max(one) else ""),
            "lost": at_most(100 * max(0, lost["crossing"])), "kept": kept,
            "rounds": of_rounds(len(crossing)), "crossing": f"{max(crossing) / min(crossing):.1f}", "four": four_beside_two(results),
            "in": round_costs(results, "FromDevice"), "out": round_costs(results, "ToDevice"),
            "error": spread(errors(results), 0)}


def draw(axes, raw):
    names = list(raw["results"])
    plot.bars(axes, [n.replace("-", "\n") for n in names], [column(raw["results"], n, scale=1e6) for n in names])
    axes.set_title("two paths, IPv4 forwarding, 64 B")


def summary(raw, values):
    results = raw["results"]
    four = quotient(four_cores(results), column(results, "one-core"), 2)
    words = four_beside_two(results).split(",")[0].rstrip(".")
    return [("Virtual Routers Figure 10, paths that cross: two cores, four cores", "four are noticeably better",
             f"{over_one(results, 'crossing')} and, computed, {four} times one core: four are {words}"),
            ("Virtual Routers Figure 8, two cores for two paths", "a core for each path is best", f"a core for each path {values['path']} times one core for both; a core for each direction {values['direction']} times")]


figure = Figure(__file__, steps, values, draw, size=(7, 3.4), rounds=2, summary=summary)

if __name__ == "__main__":
    figure.main()
