#!/usr/bin/python3
"""Multistage routers, Figure 7: throughput of 1 to 4 balancers and 1 to 10 routers, in virtual time."""

import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import machine  # noqa: E402
from lib.figure import Figure, at_most, claim, table  # noqa: E402
from lib.lab import printed  # noqa: E402
from lib.plot import COLORS  # noqa: E402

BALANCERS, ROUTERS = range(1, 5), range(1, 11)
LINE = 1_488_095
ROUTER = 640_000
# Figures of the paper's text: kpps by numbers of balancers and routers.
PAPER = {(1, 1): 640, (1, 3): 1488, (2, 2): 1280, (4, 10): 6000}
COMMAND = machine.ROOT / "eval" / "bench" / "instructions"
COUNTED = ["forward", "router", "balance-rr", "balance-rr-3-ports", "balance-flows", "balance-flows-256", "balance-back"]


def simulated(balancers, routers):
    # Each host sends to others: two ports are the least, and one balancer has both.
    fronts = max(balancers, 2)
    words = ["-n", fronts, "--balancers", balancers, "--backends", routers, "--rate", LINE * balancers / fronts, "--front-port", LINE,
             "--backend", ROUTER, "--back-port", ROUTER, "--round-robin", "--time", 20]
    return printed("balance", "simulate", "--json", *map(str, words))


def counts(_):
    """Instructions of configurations, by callgrind."""
    done = subprocess.run([COMMAND, *COUNTED], capture_output=True, text=True)
    found = {name: {"own": float(own), "commit": machine.code_commit()} for name, own in re.findall(r"^instructions (\S+) own (\S+) ", done.stdout, re.M)}
    if done.returncode != 0 or found.keys() != set(COUNTED):
        raise machine.Failed(f"eval/bench/instructions does not count {', '.join(COUNTED)}\n{done.stderr[-2000:]}")
    return found


def steps():
    for b in BALANCERS:
        for r in ROUTERS:
            yield f"paper {b} {r}", lambda _, b=b, r=r: simulated(b, r)
    yield "costs", counts


def kpps(raw, b, r):
    return raw["results"][f"paper {b} {r}"][0]["carried_pps"] / 1e3


def values(raw):
    costs = raw["results"]["costs"][0]
    head = ["routers", *[f"{b} balancer{'s' if b > 1 else ''}" for b in BALANCERS]]
    rows = [[r, *[f"{kpps(raw, b, r):,.0f}" for b in BALANCERS]] for r in ROUTERS]
    forward = costs["forward"]["own"]
    same = costs["balance-flows-256"]["own"] - costs["balance-flows"]["own"]
    ports = costs["balance-rr-3-ports"]["own"] - costs["balance-rr"]["own"]
    claim(abs(same) < 1, "a balancer costs the same with 2 and with 256 back ends")
    claim(ports > 1, "three back ports cost more than one")
    count = [[name, one["own"], f"{one['own'] - forward:+.1f}", one["commit"]] for name, one in costs.items()]
    most = {b: raw["results"][f"paper {b} {ROUTERS[-1]}"][0] for b in BALANCERS}
    offered = {b: one["offered_pps"] / 1e3 for b, one in most.items()}
    claim(all(abs(rate / (b * LINE / 1e3) - 1) < 0.01 for b, rate in offered.items()), "about the rate of the ports is offered")
    below = [(b, r) for b in BALANCERS for r in ROUTERS if r * ROUTER < b * LINE]
    claim(all(abs(kpps(raw, b, r) / (r * ROUTER / 1e3) - 1) < 0.02 for b, r in below), "below the ports' rate each router adds its own")
    return {
        "offered": ", ".join(f"{rate:,.0f}" for rate in offered.values()),
        "lost": f"{at_most(max(100 * (1 - one['carried_pps'] / one['offered_pps']) for one in most.values()), 1)} %",
        "paper": table(head, rows),
        "text": table(["balancers", "routers", "paper, kpps", "here, kpps"],
                      [[b, r, f"{told:,}", f"{kpps(raw, b, r):,.0f}"] for (b, r), told in PAPER.items()]),
        "ports": f"{ports:.1f}", "costs": table(["configuration", "instructions", "over forward", "commit"], count),
    }


def draw(axes, raw):
    for b, color in zip(BALANCERS, COLORS):
        label = "1 balancer" if b == 1 else f"{b} balancers"
        axes.plot(list(ROUTERS), [kpps(raw, b, r) / 1e3 for r in ROUTERS], "o-", color=color, markersize=3, label=label)
    axes.plot([r for _, r in PAPER], [told / 1e3 for told in PAPER.values()], "k*", label="paper's text")
    axes.set(xlabel="routers", ylabel="Mpps")
    axes.legend(fontsize=7)


def summary(raw, values):
    return [("Multistage Figure 7, four balancers and ten routers", "6,000 kpps", f"{kpps(raw, 4, 10):,.0f} kpps in virtual time, of boxes with the paper's rates")]


figure = Figure(__file__, steps, values, draw, rounds=1, size=(6, 3.6), lab=False, at_once=2, summary=summary)

if __name__ == "__main__":
    figure.main()
