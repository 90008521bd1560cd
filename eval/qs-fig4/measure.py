#!/usr/bin/python3
"""Impact of Network Protocols, Figure 4: routing by the depth of look-ups and by threads."""

import ipaddress
import os
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import frames, lab, machine, plot, runs, spread  # noqa: E402
from lib.figure import Figure, column, cores_of, median, of_rounds, ratios, table  # noqa: E402

CLASSES = ["TrieIPLookup", "RadixIPLookup"]
CASES = ["best", "average", "worst"]
CORES = [n for n in (1, 2, 4, 8) if n <= os.cpu_count()]
DESTINATION = 14 + 16  # bytes of a frame before it
# Worst over average case with 24 threads in the paper (4.2): bandwidth of memory in percent, over loads of a packet.
PAPER_WORST = (46.3 / 8) / (19.8 / 3)


def destinations():
    """Destinations of the capture's packets."""
    data = frames.fixed(64).read_bytes()
    at = 24
    while at < len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        yield data[at + 16 + DESTINATION:at + 20 + DESTINATION]
        at += 16 + length


def routes(case):
    """A file of routes in which look-ups of the capture's packets end at the first level, where many routes let them, and at the last level."""
    if case == "average":
        return frames.routes()
    path = machine.WORK / f"qs-fig4-{case}"
    nets = [f"{n << 4}.0.0.0/4" for n in range(16)] if case == "best" else [f"{ipaddress.IPv4Address(d)}/32" for d in sorted(set(destinations()))]
    path.write_text("".join(f"{net} 1\n" for net in nets))
    return path


def step(name, case, cores):
    def run(here):
        conf = here.folder / f"{name}-{cores}.click"
        conf.write_text("".join(f"""
            FromDevice(net_pcap{2 * n}, CORES {n}) -> Strip(14) -> CheckIPHeader -> rt{n} :: {name}(ROUTES {routes(case)}) -> Discard;
            rt{n}[1] -> DecIPTTL -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02) -> ToDevice(net_null{2 * n + 1});
            """ for n in range(cores)))
        ports = [vdev for n in range(cores) for vdev in lab.vdevs(frames.fixed(64), 2 * n)]
        router = here.router(conf, [], ports, range(cores) if cores > 1 else (lab.MEASURED,), buffers=131_071 * max(cores, 2))
        router.wait_sending()
        return router.measure(runs.SECONDS)

    return run


def steps():
    for name in CLASSES:
        for case in CASES:
            for cores in CORES:
                yield f"{name} {case} {cores}", step(name, case, cores)


def words(cores):
    return {1: "one core", 2: "two cores"}.get(cores, f"{cores} cores")


def values(raw):
    results, rows = raw["results"], []
    for name in CLASSES:
        for case in CASES:
            rates = [column(results, f"{name} {case} {cores}", scale=1e6) for cores in cores_of(raw)]
            rows.append([name, case, *map(spread, rates), *(spread(ratios(more, rates[0])) for more in rates[1:])])
    fall = {name: [100 * part for part in ratios(*(column(results, f"{name} {case} 1") for case in ("worst", "best")))]
            for name in CLASSES}
    head = [*(f"{words(n)}, Mpps" for n in cores_of(raw)), *(f"{words(n).split()[0]} over one" for n in cores_of(raw)[1:])]
    counts = figure.other("qs3-depths")["results"]["depths"][0]["256K"]["inside"]
    return {name: f"{spread(fall[name], 0)} %" for name in CLASSES} | {
        "paper worst": f"{PAPER_WORST:.2f}", "five or six": f"{100 * sum(counts[4:6]) / sum(counts):.1f}",
        "table": table(["look-up", "case", *head], rows), "rounds": of_rounds(len(results[f"{CLASSES[0]} best 1"]))}


def draw(axes, raw):
    for axis, cores in zip(axes, (cores_of(raw)[0], cores_of(raw)[-1])):
        plot.groups(axis, CASES, {name: [median(raw["results"], f"{name} {case} {cores}", scale=1e6) for case in CASES] for name in CLASSES}, "Mpps")
        axis.set_title(words(cores))


def summary(raw, values):
    return [("Network services Figure 4, worst case over best, one core", 
             f"four threads in place of two; {PAPER_WORST:.2f} of the average case's rate with 24 threads, "
             "by the bandwidths of memory",
             f"{values['TrieIPLookup']} of the rate by a trie of stride 4, {values['RadixIPLookup']} by a Poptrie")]


figure = Figure(__file__, steps, values, draw, rounds=3, size=(8, 3.4), panels=2, summary=summary)

if __name__ == "__main__":
    figure.main()
