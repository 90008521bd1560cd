#!/usr/bin/python3
"""RouteBricks, Figure 3: number of servers for a router of N ports, for four configurations."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib.figure import Figure, claim, table  # noqa: E402
from lib.lab import printed  # noqa: E402
from lib.plot import COLORS  # noqa: E402

MODELS = {"current": "current servers", "more-nics": "more NICs", "faster": "faster servers, more NICs"}
POWERS = [4 << n for n in range(10)]
# Beside the powers of two: between them, and around the ends of the meshes.
PORTS = sorted({*POWERS, *(3 * n // 2 for n in POWERS if n < 2048), 17, 18, 19, 20, 33, 34, 153, 154, 306, 307, 768, 769})
SHOWN = [4, 16, 32, 34, 64, 128, 154, 256, 307, 512, 1024, 2048]
PAPER = {"current": "32", "more-nics": "128", "faster": "2048"}


def run(model):
    return lambda _: printed("cluster", "plan", "--server", model, "--json", "--ports", ",".join(map(str, PORTS)))


def steps():
    for model in MODELS:
        yield model, run(model)


def by_ports(raw, model):
    return {plan["ports"]: plan for plan in raw["results"][model][0]}


def kind(plan):
    return "mesh" if plan["stages"] == 0 else plan["topology"]


def mesh_end(plans):
    """Maximum number of ports of a mesh, and the greatest power of two not above it."""
    ports = [n for n, plan in plans.items() if plan["stages"] == 0]
    return max(ports), max(n for n in ports if n & (n - 1) == 0)


def values(raw):
    plans = {model: by_ports(raw, model) for model in MODELS}
    rows = []
    for n in SHOWN:
        row = [n]
        for model in MODELS:
            plan = plans[model][n]
            row.append(f"{plan['servers']} ({kind(plan)})")
        current = plans["current"][n]
        row += [f"{current['switched_cost']:.0f}", f"{current['latency_ns'][0] / 1e3:.0f}-{current['latency_ns'][1] / 1e3:.0f}"]
        rows.append(row)
    ends = []
    for model, name in MODELS.items():
        most, power = mesh_end(plans[model])
        plan = plans[model][most]
        ends.append([name, plan["ports_per_server"], plan["slots_internal"], plan["fan_out"] + 1, most, power, PAPER[model]])
    check = plans["current"][1024]
    cheaper = {model: [n for n, plan in plans[model].items() if plan["switched_cost"] < plan["servers"]] for model in MODELS}
    claim(all(plans[model][n]["stages"] for model in MODELS for n in cheaper[model]), "switches are cheaper only where servers need an n-fly")
    claim(not cheaper["faster"], "faster servers are cheaper than switches everywhere")
    return {
        "table": table(["ports", *MODELS.values(), "current servers, 48-port switches", "current servers: us"], rows),
        "ends": table(["servers", "ports of each", "cards for links", "servers in a mesh, at most", "ports", "power of two", "paper"],
                      ends),
        "check": f"{check['transit_servers'] / check['ports']:.0f} more servers for each port and {check['latency_ns'][0] / 1e3:.0f} us",
        "balanced": f"{check['latency_ns'][1] / 1e3:.0f}",
        "least": f"{check['transit_by_processing']:,}",
        "busy": f"{100 * check['transit_load_bps'] / check['load_bps']:.0f} %",
        "current": ranges(plans["current"], cheaper["current"]), "more-nics": ranges(plans["more-nics"], cheaper["more-nics"]),
        "gap": ", ".join(str(n) for n, p in plans["current"].items() if p["stages"] and n < 33) or "none",
    }


def ranges(planned, chosen):
    """Words for the chosen numbers of ports: ranges in which all planned ones are chosen."""
    runs = []
    for n in sorted(planned):
        if n in chosen and runs and runs[-1][-1] == last:
            runs[-1].append(n)
        elif n in chosen:
            runs.append([n])
        last = n
    return " and ".join(f"from {run[0]} to {run[-1]}" for run in runs)


def draw(axes, raw):
    for (model, name), color in zip(MODELS.items(), COLORS):
        plans = by_ports(raw, model)
        axes.plot(list(plans), [p["servers"] for p in plans.values()], "-", color=color, label=name)
        meshes = [n for n, p in plans.items() if p["stages"] == 0]
        axes.plot(meshes, [plans[n]["servers"] for n in meshes], "o", color=color, markersize=3)
    plans = by_ports(raw, "current")
    axes.plot(list(plans), [p["switched_cost"] for p in plans.values()], "--", color="#555555", label="48-port switches, as servers")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set(xlabel="external ports N of 10 Gbit/s (dots: full mesh)", ylabel="servers N'")
    axes.legend()


def summary(raw, values):
    return [("RouteBricks Figure 3, 1,024 ports, current servers", "2 more servers for each port, 96 us", f"{values['check']}, computed")]


figure = Figure(__file__, steps, values, draw, rounds=1, size=(7, 4.2), lab=False, summary=summary)

if __name__ == "__main__":
    figure.main()
