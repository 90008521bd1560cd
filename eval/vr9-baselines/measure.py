#!/usr/bin/python3
"""Virtual Routers, sections 3 and 4: throughput of one core and of all cores, and the influence of memory."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import frames, lab, machine, plot, runs  # noqa: E402
from lib.figure import Figure, claim, column, median, of_rounds, spread, table  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
APPS, SIZES = ["forward", "route"], [64, 1024]


def two(app, size):
    def run(here):
        capture = frames.fixed(size)
        names = ["IN0=net_pcap0", "OUT0=net_null1", "IN1=net_pcap2", "OUT1=net_null3"]
        ports = [*lab.vdevs(capture), *lab.vdevs(capture, 2)]
        router = here.router(HERE / f"two-{app}.click", [*names, *runs.values_of(app)], ports,
                             (lab.OTHER, lab.MEASURED), buffers=262_143)
        router.wait_sending()
        return router.measure(runs.SECONDS) | {"hz": machine.tsc_hz()}

    return run


def steps():
    for size in SIZES:
        for app in APPS:
            yield f"{app} {size} 1", lambda here, a=app, s=size: runs.endless(
                runs.CONF / f"{a}.click", frames.fixed(s), runs.values_of(a))(here)
            yield f"{app} {size} 2", two(app, size)


def values(raw):
    results, rows = raw["results"], []
    for size in SIZES:
        for cores in (1, 2):
            rates = {app: median(results, f"{app} {size} {cores}") for app in APPS}
            rows.append([size, cores, *(spread(column(results, f"{a} {size} {cores}", scale=1e6)) for a in APPS),
                         f"{100 * (1 - rates['route'] / rates['forward']):.0f} %"])
    counted = figure.other("rb-table3-fig10")["results"]
    bounds = figure.other("rb-table2")["results"]
    found = {"table": table(["bytes", "cores", "forwarding, Mpps", "routing, Mpps", "routing costs"], rows)}
    for app in APPS:
        lines = sum(median(counted, f"{app} 64 32", event) for event in ("DLmr", "DLmw"))
        first = sum(median(counted, f"{app} 64 32", event) for event in ("D1mr", "D1mw"))
        scale = median(results, f"{app} 64 2") / median(results, f"{app} 64 1")
        found |= {f"{app} lines": f"{lines:.1f}", f"{app} first": f"{first:.1f}", f"{app} scale": f"{scale:.2f}",
                  f"{app} ns": f"{1e9 / median(results, f'{app} 64 1'):.0f}"}
        large = median(results, f"{app} 1024 2") / median(results, f"{app} 1024 1")
        claim(large > scale, f"the memory's bandwidth does not explain the factor of {app} with 64 bytes")
        found[f"{app} large"] = f"{large:.2f}"
    return found | {"rounds": of_rounds(len(results["forward 64 1"]))} | {"load": f"{median(bounds, '1 threads', 'load ns'):.0f}",
                    "times": f"{median(results, 'forward 64 1') / 2.5e6:.1f}"}


def draw(axes, raw):
    for axis, size in zip(axes, SIZES):
        rates = {a: [median(raw["results"], f"{a} {size} {cores}", scale=1e6) for cores in (1, 2)] for a in APPS}
        plot.groups(axis, ["one core", "two cores"], rates, "Mpps")
        axis.set_title(f"{size} B")


def summary(raw, values):
    return [("Virtual Routers Figures 2 to 4, one core", "2.5 Mpps; look-up and TTL cost 30 %", f"{median(raw['results'], 'forward 64 1', scale=1e6):.1f} Mpps; routing costs {100 - 100 * median(raw['results'], 'route 64 1') / median(raw['results'], 'forward 64 1'):.0f} %")]


figure = Figure(__file__, steps, values, draw, rounds=3, size=(8, 3.4), panels=2, summary=summary)

if __name__ == "__main__":
    figure.main()
