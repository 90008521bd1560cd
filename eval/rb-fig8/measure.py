#!/usr/bin/python3
"""RouteBricks, Figure 8: forwarding rate against frame size and application."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import frames, machine, model, runs  # noqa: E402
from lib.figure import Figure, column, compared, listed, median, of_rounds, quotient, spread, table  # noqa: E402
from lib.runs import APPS, NAMES  # noqa: E402

SIZES = [64, 128, 256, 512, 1024, 1518, "mix"]
BUSY = 0.9  # part of a core's cycles from which a round counts as one that the core limits
# Gbps of eight cores; the paper gives no other points in words. 24.6 is all that its network cards carry.
PAPER = {("forward", 64): 9.7, ("forward", "mix"): 24.6, ("route", 64): 6.35, ("route", "mix"): 24.6,
         ("ipsec", 64): 1.4, ("ipsec", "mix"): 4.45}


def capture(size):
    return frames.mix() if size == "mix" else frames.fixed(size)


def bits(size):
    """Bits of a mean frame, including frame check sequence as in the paper."""
    return 8 * (frames.mean_size(frames.mix()) if size == "mix" else size)


def steps():
    for app in APPS:
        for size in SIZES:
            def run(lab, app=app, size=size):
                result = runs.endless(runs.conf_of(app), capture(size), runs.values_of(app))(lab)
                return result | {"line bits": result["rate"] * bits(size)}

            yield f"{app} {size}", run


def told(sizes):
    """Words for sizes."""
    fixed = [size for size in sizes if size != "mix"]
    return listed([*([f"{listed(fixed)} bytes"] if fixed else []), *(["the mix"] if "mix" in sizes else [])])


def odd(results):
    """Words on sizes at which an application seems faster than one that does less for a packet."""
    sizes = [size for size in SIZES if any(
        compared(column(results, f"{more} {size}"), column(results, f"{less} {size}")) == "more"
        for less, more in (APPS[:2], APPS[1:]))]
    if not sizes:
        return ""
    return (f" At {told(sizes)} an application that does more is the faster one beyond the spread: so few rounds do "
            "not show all of the spread.")


def idle(raw):
    """Words on rounds in which packets took only a part of the core's cycles."""
    hz, words = machine.noted_hz(raw["host"]), []
    for size in SIZES:
        for app in APPS:
            used = min(model.part_used(one, hz) for one in raw["results"][f"{app} {size}"])
            if used < BUSY:
                words.append(f" But in a round of {NAMES[app]} with {f'{size} bytes' if size != 'mix' else 'the mix'} packets took only {100 * used:.0f} % of the core's cycles, so its rate is no limit.")
    return "".join(words)


def values(raw):
    results, rows = raw["results"], []
    for size in SIZES:
        row = [size if size != "mix" else "Abilene-like mix"]
        for app in APPS:
            label = f"{app} {size}"
            paper = PAPER.get((app, size))
            row += [f"{paper}" if paper else "", spread(column(results, label, scale=1e6)),
                    spread(column(results, label, "line bits", 1e9), 1)]
        rows.append(row)
    head = ["bytes", "forwarding: paper, Gbps", "Mpps", "Gbps", "routing: paper, Gbps", "Mpps", "Gbps", "IPsec: paper, Gbps", "Mpps", "Gbps"]

    def share(app, size):
        return quotient(column(results, f"{app} {size}"), column(results, f"forward {size}"), 2)

    # The paper's projection: no card or slot bounds the rate, only the links between sockets and I/O hub, of which 80 % can be used. A frame that is
    # copied once is read and written once.
    bounds = figure.other("rb-table2")["results"]
    bus = [0.8 * 8 * copied / 2 / 1e9 for copied in column(bounds, "2 threads", "copy bytes")]
    mix = column(results, "forward mix", "line bits", 1e9)
    alike = [size for size in SIZES
             if compared(column(results, f"route {size}"), column(results, f"forward {size}")) == "no different"]
    return {
        "memory": " The memory's own limit lies higher, as the second core copied about as much as the first." if model.cores_bound(bounds, "copy bytes") else "",
        "odd": odd(results), "idle": idle(raw),
        "bus gbps": spread(bus, 0), "mix gbps": spread(mix, 0), "mix cores": quotient(bus, mix),
        "alike": f" With {told(alike)} the rounds of both overlap." if alike else "",
        "table": table(head, rows), "rounds": of_rounds(len(results["forward 64"])), "share 64": share("route", 64), "share mix": share("route", "mix"),
        "paper share": f"{6.35 / 9.7:.2f}", "ipsec share 64": share("ipsec", 64), "ipsec share mix": share("ipsec", "mix"),
        "ipsec paper share": f"{1.4 / 9.7:.2f}", "ipsec paper share mix": f"{4.45 / 24.6:.2f}",
        "falls": quotient(column(results, "forward 64"), column(results, "forward 1518")),
        "mean": f"{sum(size * share for size, share in frames.ABILENE_LIKE.items()) / 100:.0f}",
        "mix": ", ".join(f"{size} B {share} %" for size, share in frames.ABILENE_LIKE.items())}


def draw(axes, raw):
    names = [str(size) for size in SIZES]
    for axis, field, scale, unit in zip(axes, ("rate", "line bits"), (1e6, 1e9), ("Mpps", "Gbps")):
        for app in APPS:
            axis.plot(names, [median(raw["results"], f"{app} {s}", field, scale) for s in SIZES], "o-", label=app)
        axis.set_ylabel(f"{unit}, one core")
        axis.set_xlabel("bytes of a frame")
        axis.set_ylim(0)
        axis.legend()


def summary(raw, values):
    rates = ", ".join(spread(column(raw["results"], f"{app} 64", scale=1e6), 1) for app in APPS)
    return [("RouteBricks Figure 8, 64 bytes: forward, route, IPsec",
             "18.96, 12.4, 2.7 Mpps (the last two computed from Gbps), 8 cores", f"{rates} Mpps, one core, no card"),
            ("RouteBricks 5.3, forwarding the trace without the cards' limit, projected", "70 Gbps", f"{values['bus gbps']} Gbps: 80 % of what two cores copy, computed")]


figure = Figure(__file__, steps, values, draw, rounds=3, size=(8.6, 3.4), panels=2, summary=summary)

if __name__ == "__main__":
    figure.main()
