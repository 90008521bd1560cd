#!/usr/bin/python3
"""Virtual Routers, Figure 2: what one core forwards of what is offered, and with more paths."""

import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import frames, lab, machine, plot, runs, spread  # noqa: E402
from lib.figure import Figure, column, compared, listed, median, of_rounds, quotient, table  # noqa: E402

# Millions of packets a second that are offered, by the bytes of a frame.
OFFERED = {64: [1, 2, 4, 6, 8, 10, 12, 16], 1024: [0.5, 1, 1.5, 2, 2.5, 3, 4]}
PATHS = [1, 2, 4, 6]
# Greatest part of a load that may be lost if the load counts as carried.
LOST = 0.01
# Frames of a capture that several paths read.
FEW = 8_192
PAPER = 2.5
# Percent of its time that a core sleeps or polls in vain, above which a load does not fill it.
IDLE = 10
# Percent of a load that are many to lose while the load does not fill the core.
MANY = 10


def paths(count, size):
    """A step: so many pairs of an endless capture and nowhere, on one core."""

    def run(here):
        capture = frames.fixed(size, FEW)  # the driver keeps a buffer for each frame
        conf = here.folder / f"{count}-paths.click"
        conf.write_text("".join(f"FromDevice(net_pcap{2 * n}) -> ToDevice(net_null{2 * n + 1});\n" for n in range(count)))
        router = here.router(conf, [], [vdev for n in range(count) for vdev in lab.vdevs(capture, 2 * n)], buffers=262_143)
        router.wait_sending()
        return router.measure(runs.SECONDS)

    return run


def steps():
    for size, offered in OFFERED.items():
        for rate in offered:
            yield f"{size} at {rate}", lambda here, s=size, r=rate: runs.fed(runs.CONF / "forward.click", frames.fixed(s), r * 1e6)(here)
        for count in PATHS:
            yield f"{size}, {count} paths", paths(count, size)


def offered(results, label):
    """Load from the source, in millions of packets a second, for each round."""
    return [runs.offered(one["source"]) / 1e6 for one in results[label]]


def lost(results, label):
    """The part of what was offered that the ring had no place for: a round each."""
    return [runs.refused(one["source"]) for one in results[label]]


def carried(results, size):
    """Rates of the greatest load that is carried by the medians, in millions a second, for each round; 0 if none is."""
    labels = [f"{size} at {rate}" for rate in OFFERED[size]]
    rates = [column(results, label, scale=1e6) for label in labels if statistics.median(lost(results, label)) <= LOST]
    return max(rates, key=statistics.median, default=[0.0])


def idle(raw, label):
    """Percent of its time that the core sleeps or polls without finding a packet: a round each."""
    hz = machine.noted_hz(raw["host"])
    return [100 * (one["asleep"] + one["empty cycles"] / hz / one["seconds"]) for one in raw["results"][label]]


def values(raw):
    results, curve, rows = raw["results"], [], []
    for size, rates in OFFERED.items():
        for rate in rates:
            label = f"{size} at {rate}"
            curve.append([size, f"{rate:g}", spread(offered(results, label)), spread(column(results, label, scale=1e6)),
                          f"{spread([100 * part for part in lost(results, label)], 1)} %"])
        rows.append([size, *(spread(column(results, f"{size}, {n} paths", scale=1e6), 1) for n in PATHS)])
    # Idle time and loss of each round, in percent, by size, for all loads.
    points = {size: [(percent, 100 * part) for rate in rates for label in [f"{size} at {rate}"]
                     for percent, part in zip(idle(raw, label), lost(results, label), strict=True)]
              for size, rates in OFFERED.items()}
    full = {size: sum(percent <= IDLE for percent, _ in of) for size, of in points.items()}
    fills = listed(f"{full[size]} of {len(of)} with {size} bytes" for size, of in points.items())
    losing = sum(percent > IDLE and part > MANY for of in points.values() for percent, part in of)
    idles = {size: idle(raw, f"{size} at {rates[-1]}") for size, rates in OFFERED.items()}
    filled = {size: sum(percent <= IDLE for percent in percents) for size, percents in idles.items()}
    partly = any(max(percents) > IDLE for percents in idles.values())
    fall = {size: median(results, f"{size}, {PATHS[-1]} paths") / median(results, f"{size}, {PATHS[0]} paths") for size in OFFERED}
    memory = {size: f"{PATHS[-1] * FEW * size / 2**20:.0f}" for size in OFFERED}
    taken = f"\n  One path's frames of 1024 bytes take {FEW * 1024 / 2**20:.0f} MiB, those of {PATHS[-1]} take {memory[1024]} MiB."
    verdicts = {size: compared(column(results, f"{size}, {PATHS[-1]} paths"), column(results, f"{size}, {PATHS[0]} paths")) for size in OFFERED}
    slower, alike = ([size for size in OFFERED if verdicts[size] == verdict] for verdict in ("less", "no different"))
    # Frames of 1024 bytes must suffer most, or the cache does not explain the fall.
    cache = ""
    if 1024 in slower and fall[1024] < 0.8 * fall[64]:
        cache = (f"{taken} The part of the L3 cache that the core gets seems not to hold more than one path's.\n"
                 f"  With 64 bytes {PATHS[-1]} paths take {memory[64]} MiB. "
                 "So most of the fall is probably the cache's, not the paths'.")
    elif slower:
        cache = f"\n  This page does not show why the rate falls with {listed(slower)} bytes{f'; with {listed(alike)} bytes the rounds of {PATHS[-1]} paths and of one overlap' if alike else ''}."
    polls = {size: [median(results, f"{size}, {n} paths", "packets per poll") for n in (PATHS[0], PATHS[-1])] for size in OFFERED}
    fewer = [f"{many:.0f} in place of {few:.0f} ({size} bytes)" for size, (few, many) in polls.items() if many < 0.9 * few]

    def kept(size, count=PATHS[-1]):
        """Rate of `count` paths over that of one."""
        return quotient(column(results, f"{size}, {count} paths"), column(results, f"{size}, {PATHS[0]} paths"), 2)

    # If a few paths find as few packets at the rate of one, smaller polls do not explain the fall.
    second_poll = f"{median(results, f'64, {PATHS[1]} paths', 'packets per poll'):.0f}"
    too = " too" if second_poll == f"{polls[64][1]:.0f}" else ""
    second = ""
    if polls[64][1] < 0.9 * polls[64][0]:
        second = (f" With {PATHS[1]} paths it finds {second_poll}{too}, "
                  f"at {kept(64, PATHS[1])} of one path's rate (64 bytes).")

    return {
        "curve": table(["bytes", "asked of the source, Mpps", "offered, Mpps", "forwarded, Mpps", "lost"], curve), "paths": table(["bytes", *(f"{n} path{'s' if n > 1 else ''}, Mpps" for n in PATHS)], rows),
        "small": spread(carried(results, 64), 1), "large": spread(carried(results, 1024), 1),
        "kept": kept(64), "kept large": kept(1024), "paper": PAPER,
        "one": spread(column(results, "64, 1 paths", scale=1e6), 1),
        "most paths": PATHS[-1], "rounds": of_rounds(len(results["64, 1 paths"]))} | {
            f"idle {size}": spread(percents, 0) for size, percents in idles.items()} | {
            "cache": cache, "few": f"{FEW:,}", "six": f"{median(results, f'64, {PATHS[-1]} paths', scale=1e6):.1f}",
            "fills": fills, "limit": IDLE,
            "losing": (f" In {losing} of {sum(map(len, points.values()))} rounds more than {MANY} % were lost "
                       f"although the core had more than {IDLE} % of its time left; why was not looked into."
                       if losing else ""),
            "no bend": (f" With 64 bytes the paper's curve bends at a full core. Here the greatest load fills the core in {filled[64]} of {len(idles[64])} rounds,\n"
                        "so this bend is not shown." if filled[64] < len(idles[64]) else ""),
            "lower": (f"\n  In rounds that left the core more than {IDLE} % of its time, the source could not make more, or more was lost. So this may be no bound of the core."
                      if partly else ""),
            "polls": (f" With {PATHS[-1]} paths a poll finds fewer packets: {', '.join(fewer)}.{second}"
                      if fewer else "")}


def draw(axes, raw):
    results = raw["results"]
    for axis, (size, rates) in zip(axes, OFFERED.items()):
        labels = [f"{size} at {rate}" for rate in rates]
        points = sorted((statistics.median(offered(results, label)), median(results, label, scale=1e6)) for label in labels)
        axis.plot(*zip(*points), marker="o", label="through memif")
        most = max(at for at, _ in points)
        axis.plot([0, most], [0, most], color=plot.COLORS[5], linewidth=0.8, label="all of it")
        axis.set(title=f"{size} bytes, one path", xlabel="offered, Mpps", ylabel="forwarded, Mpps", ylim=0, xlim=0)
        axis.legend()


def summary(raw, values):
    return [("Virtual Routers Figure 2, 64 bytes, one core, more paths", f"{PAPER} Mpps; more paths add nothing",
             f"{values['one']} Mpps by one path of {FEW:,} frames, {values['six']} by six: {values['kept']} of it")]


figure = Figure(__file__, steps, values, draw, rounds=3, size=(8, 3.4), panels=2, summary=summary)

if __name__ == "__main__":
    figure.main()
