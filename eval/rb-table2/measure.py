#!/usr/bin/python3
"""RouteBricks, Table 2: upper bounds of the components of this machine."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import frames, lab, machine, model, plot, runs  # noqa: E402
from lib.figure import Figure, column, listed, median, of_rounds, quotient, spread, table  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
CONF = runs.CONF / "forward.click"
CORES = [1, 2]


def program():
    """The compiled bounds.rs."""
    return lab.built(HERE / "bounds.rs", ["rustc", "--edition", "2024", "-O", "-C", "target-cpu=native"])


def bounds(threads):
    def run(here):
        process = here.keep(lab.Process([program(), threads], here.folder / f"bounds{here.number()}"))
        if process.process.wait(lab.STARTUP) != 0:
            raise machine.Failed(f"{process.command}\n{process.output()}")
        return json.loads(process.output()) | {"hz": machine.tsc_hz()}

    return run


def steps():
    for threads in CORES:
        yield f"{threads} threads", bounds(threads)
    for size in (64, 1024):
        yield f"memif {size}", lambda here, s=size: runs.fed(CONF, frames.fixed(s), 0, back=True)(here)


def values(raw):
    results = raw["results"]

    def both(field, scale=1e9, digits=2):
        return [spread(column(results, f"{n} threads", field, scale), digits) for n in CORES]

    hz = median(results, "1 threads", "hz")
    gbps = [spread([2 * 8 * size * rate / 1e9 for rate in column(results, f"memif {size}")], 1) for size in (64, 1024)]
    memif = "memif: one core forwards, the other sends"
    rows = [
        ["cores (here: the time-stamp counter)", "8 x 2.8 GHz", "none", f"{hz / 1e9:.2f} GHz", f"{len(CORES) * hz / 1e9:.2f} GHz"],
        ["memory, random writes, GB/s of lines", "51.3 (410 Gbps)", "32.8 (262 Gbps)", *both("random write bytes")],
        ["memory, reading in order, GB/s", "", "", *both("read bytes")],
        ["memory, copying, GB/s read and written", "", "", *both("copy bytes")],
        ["memory, loads that wait for each other, ns", "", "", *both("load ns", 1, 0)],
        ["between cores: a line there and back, ns", "200 Gbps between sockets", "144 Gbps", "",
         spread(column(results, "2 threads", "bounce ns"), 0)],
        [f"{memif}; 1024 B frames both ways, Gbps", "2 x 200 Gbps (I/O), 64 Gbps (PCIe)", "117 (I/O), 50.8 (PCIe)",
         gbps[1], ""],
        [f"{memif}; 64 B frames both ways, Gbps", "", "", gbps[0], ""],
    ]
    loads = column(results, "1 threads", "load ns")
    writes = column(results, "2 threads", "random write bytes", 64e6)  # millions of lines a second
    kinds = {"random writes": "random write bytes", "copies": "copy bytes"}
    gains = [f"{kind} by a factor of {quotient(*(column(results, f'{n} threads', field) for n in (2, 1)), 2)}" for kind, field in kinds.items()]
    bounds_of = f"The second core raises {listed(gains)}."
    reached = {kind: model.cores_bound(results, field) for kind, field in kinds.items()}
    if below := [kind for kind in kinds if reached[kind]]:
        bounds_of += f" So two cores do not reach the\n  memory's own limit for {listed(below)}."
    if unknown := [kind for kind in kinds if not reached[kind]]:
        limit = "they reach it" if below else "two cores reach\n  the memory's own limit"
        bounds_of += f" Whether {limit} for {listed(unknown)} is not known."
    bounces = column(results, "2 threads", "bounce ns")
    return {
        "rounds": of_rounds(len(bounces)), "bounds of": bounds_of, "bounce rounds": f"{max(bounces) / min(bounces):.1f}",
        "table": table(["part", "paper: nominal", "paper: by benchmark", "here: one core", "two cores"], rows),
        "load": spread(loads, 0), "ten": spread([10 * load for load in loads], 0),
        "writes": spread(writes, 0), "at 10": spread([rate / 10 for rate in writes], 1)}


def draw(axes, raw):
    kinds = {"random write bytes": "random writes", "read bytes": "reads in order", "copy bytes": "copies"}
    bars = {name: [median(raw["results"], f"{threads} threads", field, 1e9) for field in kinds]
            for threads, name in zip(CORES, ("one core", "two cores"))}
    plot.groups(axes, list(kinds.values()), bars, "GB/s")


def summary(raw, values):
    return [("RouteBricks Table 2, memory by random writes", "262 Gbps", f"{spread(column(raw['results'], '2 threads', 'random write bytes', 1e9 / 8), 0)} Gbps by two cores; the memory's own limit is not shown")]


figure = Figure(__file__, steps, values, draw, rounds=2, size=(6, 3.4), summary=summary)

if __name__ == "__main__":
    figure.main()
