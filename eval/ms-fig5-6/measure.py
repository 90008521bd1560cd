#!/usr/bin/python3
"""Multistage routers, Figures 1, 5 and 6: one router by frame size, and one balancer by kind and number of outputs."""

import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import frames, machine, runs  # noqa: E402
from lib.figure import Figure, column, compared, median, of_rounds, quotient, spread, table  # noqa: E402
import balancer  # noqa: E402

SIZES = [64, 128, 256, 512, 1024, 1518]
BACKS = [1, 2, 3]
# Figures of the paper's text in kpps at 64 bytes. For DTX it has words only: "little improvement".
PAPER = {"router": 640, "ODB": 640, "DTX-3": 1488}
# Bits of a frame on a wire beside its bytes: preamble and gap.
GAP = 160


def dtx(backs):
    """The file of a balancer that only looks at Ethernet headers, with this number of outputs, which all lead to one port."""
    path = machine.WORK / f"dtx-{backs}.click"
    path.write_text(balancer.way_in(2, "round-robin", backs))
    return path


def odb():
    """The file of a balancer whose packets first pass a router's graph."""
    route = runs.conf_of("route").read_text()
    way = "-> BalanceIn(lb) -> out :: ToDevice($OUT);"
    path = machine.WORK / "odb.click"
    path.write_text(balancer.pool(2, "round-robin") + route.replace("-> out :: ToDevice($OUT);", way))
    return path


def steps():
    routes = runs.values_of("route")
    for size in SIZES:
        yield f"router {size}", lambda lab, size=size: runs.endless(runs.conf_of("route"), frames.fixed(size), routes)(lab)
    yield "ODB", lambda lab: runs.endless(odb(), frames.fixed(64), routes)(lab)
    for backs in BACKS:
        yield f"DTX-{backs}", lambda lab, backs=backs: runs.endless(dtx(backs), frames.fixed(64))(lab)


def port_cost(results, n):
    """Words on the rate of a balancer with n outputs, beside one with an output less."""
    more, less = (column(results, f"DTX-{outputs}") for outputs in (n, n - 1))
    change = f"{100 * (statistics.median(more) / statistics.median(less) - 1):+.0f} %"
    within = " (within the spread)" if compared(more, less) == "no different" else ""
    return f"{change}{within} for the {'second' if n == 2 else 'third'} output"


def of_router(results, label):
    """Rate of a balancer over that of one router."""
    return quotient(column(results, label), column(results, "router 64"), 2)


def values(raw):
    results = raw["results"]
    sizes = []
    for size in SIZES:
        label = f"router {size}"
        line = 1e6 / (8 * size + GAP)  # kpps of a wire of 1 Gbit/s
        told = f"{min(PAPER['router'], line):,.0f}"
        gbps = median(results, label) * 8 * size / 1e9
        sizes.append([size, told, spread(column(results, label, scale=1e3), 0), f"{gbps:.1f}"])
    kinds = []
    for label in ["ODB", *[f"DTX-{backs}" for backs in BACKS]]:
        told = PAPER.get(label)
        kinds.append([
            label, f"{told:,}" if told else "little more than ODB" if label == "DTX-1" else "", f"{told / PAPER['router']:.2f}" if told else "",
            spread(column(results, label, scale=1e3), 0), of_router(results, label), spread(column(results, label, "packets per poll"), 0)])
    worth = (f"With three outputs it carries {of_router(results, f'DTX-{BACKS[-1]}')} routers' packets here,\n"
             f"and at least {PAPER['DTX-3'] / PAPER['router']:.1f} in the paper (with three ports), whose front port is full.")
    falls_by_outputs = compared(column(results, f"DTX-{BACKS[-1]}"), column(results, "DTX-1")) == "less"
    return {
        "sizes": table(["bytes", "paper, kpps", "here, kpps", "here, Gbit/s"], sizes),
        "kinds": table(["balancer", "paper, kpps", "paper, of a router", "here, kpps", "here, of a router", "packets for each poll"], kinds),
        "falls": quotient(column(results, "router 64"), column(results, "router 1518")),
        "rounds": of_rounds(len(results["router 64"])),
        "outputs cost": " and ".join(port_cost(results, n) for n in BACKS[1:]) + (
            ".\nThree outputs carry less than one, outside the spread, probably because each burst is split" if falls_by_outputs else ""),
        "worth": worth,
    }


def draw(axes, raw):
    results = raw["results"]
    left, right = axes
    left.plot(SIZES, [median(results, f"router {size}", scale=1e6) for size in SIZES], "o-", label="here")
    left.plot(SIZES, [min(0.64, 1e3 / (8 * size + GAP)) for size in SIZES], "--", label="paper's router, 1 Gbit/s")
    left.set(xlabel="bytes of a frame", ylabel="Mpps, one core")
    left.set_ylim(0)
    left.legend(fontsize=7)
    labels = ["ODB", *[f"DTX-{backs}" for backs in BACKS]]
    right.bar(labels, [median(results, label, scale=1e6) for label in labels])
    right.axhline(median(results, "router 64", scale=1e6), linestyle="--", color="gray")
    right.set(ylabel="Mpps, one core")


def summary(raw, values):
    return [("Multistage Figures 1 and 5, a router with frames of 64 and 1,518 bytes", "640; 81 kpps, the port's 1 Gbit/s",
             ", ".join(f"{median(raw['results'], f'router {size}', scale=1e3):,.0f}" for size in (64, 1518)) + " kpps, one core, no link"),
            ("Multistage Figure 6, packets of the balancers ODB, DTX-1 and DTX-3 (three back ports; here three outputs to one) over one router's", "1.00, little more, 2.33",
             ", ".join(of_router(raw["results"], kind) for kind in ("ODB", "DTX-1", "DTX-3")))]


figure = Figure(__file__, steps, values, draw, rounds=3, size=(8.6, 3.4), panels=2, summary=summary)

if __name__ == "__main__":
    figure.main()
