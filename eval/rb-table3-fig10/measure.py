#!/usr/bin/python3
"""RouteBricks, Table 3 and Figure 10: instructions and memory accesses per packet."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import callgrind, frames, machine, runs  # noqa: E402
from lib.figure import Figure, at_most, claim, column, listed, median, of_rounds, quotient, table  # noqa: E402
from lib.runs import APPS, NAMES  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
BURSTS = [1, 8, 32]
SIZES = [64, 1024]
PAPER = {"forward": (1033, 1.19), "route": (1512, 1.23), "ipsec": (14221, 0.55)}
LINE = 64  # bytes that a miss moves


def settings(app, burst):
    return [f"BURST={burst}", *runs.values_of(app)]


def step(app, size, burst, more=()):
    def run(lab):
        conf, capture, values = HERE / f"{app}.click", frames.fixed(size), settings(app, burst)
        native = runs.endless(conf, capture, values)(lab)
        lab.end_all()
        counted = callgrind.per_packet(lab, conf, capture, values, more=more)
        return counted | {"native rate": native["rate"], "cycles": machine.tsc_hz() / native["rate"]}

    return run


def steps():
    for app in APPS:
        for burst in BURSTS[:-1]:
            yield f"{app} 64 {burst}", step(app, 64, burst)
        for size in SIZES:
            yield f"{app} {size} {BURSTS[-1]}", step(app, size, BURSTS[-1], callgrind.WRITE_BACKS)


def accesses(results, label):
    """Loads and stores per packet."""
    return median(results, label, "Dr") + median(results, label, "Dw")


def lines(results, label):
    """Cache lines per packet that missed the last-level cache."""
    return median(results, label, "DLmr") + median(results, label, "DLmw")


def written_back(results, app, size):
    """Cache lines per packet that the last level writes back to memory."""
    return sum(median(results, f"{app} {size} {BURSTS[-1]}", event) for event in callgrind.WRITTEN)


def io_bytes(size):
    """Bytes that a frame and its descriptor would take on an I/O link: without the check sequence, with 16 for the descriptor."""
    return size - 4 + 16


def limits(results, app):
    """Packets per second that both cores, and that the memory, could sustain."""
    bounds = figure.other("rb-table2")["results"]
    cores = 2 * median(results, f"{app} 64 32", "native rate")
    memory = median(bounds, "2 threads", "random write bytes") / LINE / lines(results, f"{app} 64 32")
    return cores, memory


def bottleneck(results):
    """Resource that limits each application, and the gain of a server with four times the cores and twice the memory
    bandwidth.
    """
    found, low = {}, []
    for app in APPS:
        cores, memory = limits(results, app)
        # This page's rate is of few rounds; Figure 8's page has more, of nearly the same configuration.
        rates = [2 * rate for rate in column(figure.other("rb-fig8")["results"], f"{app} 64")] + [cores]
        gains = [min(4 * rate, 2 * memory) / min(rate, memory) for rate in rates]
        least, most = f"{min(gains):.1f}", f"{max(gains):.1f}"
        found |= {f"{app} cores": f"{cores / 1e6:.0f}", f"{app} memory": f"{memory / 1e6:.0f}",
                  f"{app} limit": "the cores" if cores < memory else "the memory", f"{app} next": least if least == most else f"{least} to {most}"}
        if any(2 * memory < 4 * rate for rate in rates):
            low.append(NAMES[app])
    words = ("The memory's bound is what two cores write, and the memory's own limit may lie higher: "
             f"then the larger server's figure is too low for {listed(low)}.\n")
    bounds = figure.other("rb-table2")["results"]
    orders = [median(bounds, "2 threads", field, 1e9) for field in ("read bytes", "random write bytes")]
    claim(orders[0] > orders[1], "memory is faster in order than at random")
    return found | {"next low": words if low else "", "in order": f"{orders[0]:.0f}", "at random": f"{orders[1]:.0f}"}


def paced_of(app):
    """Cycles per packet of an application in Figure 9 at each rate asked of the source, without the row "most": a list of
    rounds each.
    """
    nine = figure.other("rb-fig9")["results"]
    return [column(nine, label, "cycles per packet") for label in nine if label.startswith(app) and not label.endswith("most")]


def values(raw):
    results = raw["results"]
    main, load = [], []
    for app in APPS:
        label = f"{app} 64 32"
        instructions, cycles = median(results, label, "Ir"), median(results, label, "cycles")
        paper, cpi = PAPER[app]
        mark = " (*)" if app == "ipsec" else ""
        main.append([app, paper, f"{instructions:.0f}", f"{median(results, label, 'own Ir'):.0f}", cpi,
                     f"{cycles / instructions:.2f}{mark}", f"{paper * cpi:.0f}", f"{cycles:.0f}"])
        for label in [f"{app} 64 {burst}" for burst in BURSTS] + [f"{app} 1024 32"]:
            _, size, burst = label.split()
            first = median(results, label, "D1mr") + median(results, label, "D1mw")
            load.append([
                app, size, burst, f"{median(results, label, 'Ir'):.0f}", f"{median(results, label, 'cycles'):.0f}",
                f"{accesses(results, label):.0f}", f"{median(results, label, 'I1mr'):.1f}", f"{first:.1f}", f"{lines(results, label):.2f}",
                f"{LINE * lines(results, label):.0f}"])
    small, large = "forward 64 32", "forward 1024 32"
    paced = [one for app in APPS for one in paced_of(app)]
    table_1 = figure.other("rb-table1")["results"]
    counts = column(table_1, "counts 1,1", "Ir")
    apart = ""
    if len(counts) > 1:
        apart = (f"\n  Instructions per packet differ by up to {at_most(100 * (max(counts) / min(counts) - 1))} % "
                 "between runs of [rb-table1](../rb-table1) with `BURST` 1.")
    eight = figure.other("rb-fig8")
    again = {app: machine.noted_hz(eight["host"]) / median(eight["results"], f"{app} 64") for app in APPS}
    dearer = all(min(min(one) for one in paced_of(app)) > median(results, f"{app} 64 32", "cycles") for app in APPS)
    most_written = max(written_back(results, app, size) for app in APPS for size in SIZES)
    claim(most_written < 0.1, "hardly a line is written back")
    by_burst = {app: [median(results, f"{app} 64 {burst}", "Ir") for burst in BURSTS] for app in APPS}
    claim(all(counts == sorted(counts, reverse=True) for counts in by_burst.values()), "a packet costs fewer instructions the more packets are taken at a time")
    moved = [[lines(results, f"{app} 64 {burst}") for burst in BURSTS] for app in APPS]
    written = [[app, *(f"{written_back(results, app, size):.2f}" for size in SIZES)] for app in APPS]
    noise = "Cycles are of one round here, too, so differences between rows of cycles can be noise.\n\n"
    return bottleneck(results) | {
        "turn 1": f"{median(table_1, 'alone 1,1', 'packets per poll'):.0f}", "count apart": apart, "rounds": of_rounds(raw["rounds"]), "bytes change": at_most(100 * max(max(one) / min(one) - 1 for one in moved)), "memif": ", which costs more" if dearer else "", "apart": f"{max(max(one) / min(one) for one in paced):.1f}", "again": ", ".join(f"{again[app]:.0f}" for app in APPS),
        "noise": noise if raw["rounds"] == 1 else "",
        "written": table(["application", *(f"{size} bytes" for size in SIZES)], written),
        "table 3": table(["application", "instructions: paper", "here", "of these in Ashlar's program", "cycles per instruction: paper", "here",
                          "cycles: paper", "here"], main),
        "figure 10": table(["application", "bytes", "BURST", "instructions", "cycles", "loads and stores",
                            "instruction misses of the first level", "data misses of the first level", "lines from memory", "bytes from memory"], load),
        "cpu rounds": quotient(column(eight["results"], "forward 64"), column(eight["results"], "forward 1024")),
        "cpu ratio": f"{median(results, large, 'cycles') / median(results, small, 'cycles'):.1f}",
        "memory ratio": f"{lines(results, large) / lines(results, small):.1f}",
        "io 64": 2 * io_bytes(64), "io 1024": 2 * io_bytes(1024), "io ratio": f"{io_bytes(1024) / io_bytes(64):.1f}"}


def draw(axes, raw):
    results = raw["results"]
    left, right = axes
    names = [str(burst) for burst in BURSTS]
    for app in APPS:
        left.plot(names, [median(results, f"{app} 64 {b}", "Ir") for b in BURSTS], "o-", label=f"{app}, instructions")
        left.plot(names, [median(results, f"{app} 64 {b}", "cycles") for b in BURSTS], "s--", label=f"{app}, cycles")
        right.plot(names, [LINE * lines(results, f"{app} 64 {b}") for b in BURSTS], "o-", label=app)
    left.set(xlabel="BURST", ylabel="per 64-byte packet", ylim=(0, None))
    most = max(LINE * lines(results, f"{app} 64 {b}") for app in APPS for b in BURSTS)
    right.set(xlabel="BURST", ylabel="bytes from memory per 64-byte packet", ylim=(0, 1.2 * most))
    left.legend()
    right.legend()


def summary(raw, values):
    instructions = ", ".join(f"{median(raw['results'], f'{app} 64 32', 'Ir'):.0f}" for app in APPS)
    return [("RouteBricks Table 3, instructions of a packet: forward, route, IPsec", "1033, 1512, 14221", instructions),
            ("RouteBricks 5.3, a server with four times the cores and twice the memory: forward, route, IPsec", "4.0, 3.1, 4.1 times (38.8, 19.9, 5.8 Gbps)",
             f"{', '.join(values[f'{app} next'] for app in APPS)} times, computed"),
            ("RouteBricks 5.3, a packet of 1024 bytes over one of 64, forwarding: cycles, bytes from memory", "1.6, 6",
             f"{values['cpu ratio']}, {values['memory ratio']} (both with a copy by the core; bytes fetched only)")]


figure = Figure(__file__, steps, values, draw, rounds=1, size=(8, 3.4), panels=2, summary=summary)

if __name__ == "__main__":
    figure.main()
