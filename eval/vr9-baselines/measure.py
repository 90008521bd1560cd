#!/usr/bin/python3
"""Virtual Routers, sections 2.1 and 2.3: throughput of one core and of all cores, and the influence of memory."""

import os
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import frames, lab, machine, plot, runs  # noqa: E402
from lib.figure import (  # noqa: E402
    Figure, claim, column, compared, cores_of, listed, median, of_rounds, ratios, spread, table)

APPS, SIZES = ["forward", "route"], [64, 1024]
MORE = [n for n in range(2, 7) if n <= os.cpu_count()]  # the paper has up to six paths, with a core each


def path(app, n):
    """Text of a path with a core and ports of its own; each routed path has a table of its own."""
    head, tail = f"FromDevice(net_pcap{2 * n}, CORES {n})", f"ToDevice(net_null{2 * n + 1});\n"
    if app == "forward":
        return f"{head} -> {tail}"
    return (f"{head} -> Strip(14) -> CheckIPHeader -> rt{n} :: DirectIPLookup(ROUTES $ROUTES) -> Discard;\n"
            f"rt{n}[1] -> ttl{n} :: DecIPTTL -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02) -> Counter -> {tail}"
            f"ttl{n}[1] -> Discard;\n")


def several(app, size, cores):
    """A step: a path for each core."""
    def run(here):
        conf = here.folder / f"{app}-{cores}.click"
        conf.write_text("".join(path(app, n) for n in range(cores)))
        ports = [vdev for n in range(cores) for vdev in lab.vdevs(frames.fixed(size), 2 * n)]
        router = here.router(conf, runs.values_of(app), ports, range(cores), buffers=131_071 * cores)
        router.wait_sending()
        return router.measure(runs.SECONDS) | {"hz": machine.tsc_hz()}

    return run


def steps():
    for size in SIZES:
        for app in APPS:
            yield f"{app} {size} 1", lambda here, a=app, s=size: runs.endless(
                runs.CONF / f"{a}.click", frames.fixed(s), runs.values_of(a))(here)
            for cores in MORE:
                yield f"{app} {size} {cores}", several(app, size, cores)


def routing_costs(results, size, cores):
    """Percent of the forwarding rate that routing costs (of the medians), and that the rounds do not show it if they overlap."""
    forward, route = (column(results, f"{app} {size} {cores}") for app in ("forward", "route"))
    words = f"{100 * (1 - statistics.median(route) / statistics.median(forward)):.0f} %"
    return words if compared(route, forward) == "less" else f"{words}, within the spread"


def second_core(results, app, size):
    """Factors by which a second core raises the rate: one for each round."""
    return ratios(*(column(results, f"{app} {size} {cores}") for cores in (2, 1)))


def bandwidth(results):
    """Sentences that compare a second core's gain with large frames, which need more bandwidth, and with small ones."""
    found = {what: compared(second_core(results, app, 1024), second_core(results, app, 64))
             for app, what in zip(APPS, ("forwarding", "routing"))}
    if set(found.values()) == {"more"}:
        return "So the memory's bandwidth does not explain those of 64."
    more, less, same = ([what for what, way in found.items() if way == asked]
                        for asked in ("more", "less", "no different"))

    def gain(apps, way):
        return f"{listed(apps)} {'gain' if len(apps) > 1 else 'gains'} {way} with 1024 bytes than with 64 in all rounds"

    told = [gain(more, "more")] if more else []
    told += [f"{gain(less, 'less')}, as with a shared limit of bandwidth"] if less else []
    told += [f"the rounds of both sizes overlap for {listed(same)}"] if same else []
    sentence = ";\n  ".join(told)
    return (f"{sentence[0].upper()}{sentence[1:]}.\n  "
            "Whether the memory's bandwidth is a part of the limit was not measured.")


def other_time(results, others):
    """Sentence about the same run of another page."""
    apart = [max(of) / min(of) for of in ([median(results, f"{app} 64 1"), median(others, f"{app} 64")] for app in APPS)]
    if any(compared(column(results, f"{app} 64 1"), column(others, f"{app} 64")) != "no different" for app in APPS):
        return f"So these two measurements\n  differ by a factor of up to {max(apart):.1f}, outside the spread of their rounds."
    return "These are within the spread of the rounds."


def values(raw):
    results, rows = raw["results"], []
    for size in SIZES:
        for cores in cores_of(raw):
            rows.append([size, cores, *(spread(column(results, f"{a} {size} {cores}", scale=1e6)) for a in APPS),
                         routing_costs(results, size, cores)])
    counted = figure.other("rb-table3-fig10")["results"]
    bounds = figure.other("rb-table2")["results"]
    found = {"table": table(["bytes", "cores", "forwarding, Mpps", "routing, Mpps", "routing costs"], rows)}
    for app in APPS:
        lines = sum(median(counted, f"{app} 64 32", event) for event in ("DLmr", "DLmw"))
        first = sum(median(counted, f"{app} 64 32", event) for event in ("D1mr", "D1mw"))
        found |= {f"{app} lines": f"{lines:.1f}", f"{app} first": f"{first:.1f}", f"{app} scale": spread(second_core(results, app, 64)),
                  f"{app} ns": f"{1e9 / median(results, f'{app} 64 1'):.0f}"}
        found[f"{app} large"] = spread(second_core(results, app, 1024))
        claim(lines * median(bounds, "1 threads", "load ns") > 1e9 / median(results, f"{app} 64 1"), "accesses to memory overlap")
    found |= {f"same {app}": spread(column(figure.other("rb-fig8")["results"], f"{app} 64", scale=1e6), 1) for app in APPS}
    found |= {"bandwidth": bandwidth(results), "other time": other_time(results, figure.other("rb-fig8")["results"])}
    return found | {"rounds": of_rounds(len(results["forward 64 1"]))} | {"load": f"{median(bounds, '1 threads', 'load ns'):.0f}",
                    "times": f"{median(results, 'forward 64 1') / 2.5e6:.1f}"}


def draw(axes, raw):
    for axis, size in zip(axes, SIZES):
        rates = {a: [median(raw["results"], f"{a} {size} {cores}", scale=1e6) for cores in cores_of(raw)] for a in APPS}
        plot.groups(axis, ["one core", *(f"{n} cores" if n > 2 else "two cores" for n in cores_of(raw)[1:])], rates, "Mpps")
        axis.set_title(f"{size} B")


def summary(raw, values):
    return [("Virtual Routers Figures 2 to 4, 64 bytes, one core", "2.5 Mpps; look-up and TTL cost 30 %", f"{spread(column(raw['results'], 'forward 64 1', scale=1e6), 1)} Mpps; routing costs {routing_costs(raw['results'], 64, 1)}")]


figure = Figure(__file__, steps, values, draw, rounds=3, size=(8, 3.4), panels=2, summary=summary)

if __name__ == "__main__":
    figure.main()
