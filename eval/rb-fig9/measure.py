#!/usr/bin/python3
"""RouteBricks, Figure 9: cycles per packet against the input rate, without empty polls."""

import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import frames, machine, runs  # noqa: E402
from lib.figure import Figure, column, compared, listed, median, of_rounds, spread, table  # noqa: E402

APPS = ["forward", "route", "ipsec"]
RATES = [0.25, 0.5, 1, 2, 3, 4, 6, 0]  # Mpps; 0 = as fast as the router takes them
GROUP = 32  # packets that leave the source together, so that polls find the same at every rate that it sets
NAMES = {"forward": "forwarding", "route": "routing", "ipsec": "IPsec"}
KEPT = 0.9  # part of the offered packets from which the source sets the rate, not the router
BUSY = 0.9  # part of a core's cycles from which a round counts as one that the core limits
PAPER = {"forward": 1033 * 1.19, "route": 1512 * 1.23, "ipsec": 14221 * 0.55}  # Table 3: instructions times cycles for each


def steps():
    for app in APPS:
        for rate in RATES:
            def run(lab, app=app, rate=rate):
                conf = runs.conf_of(app)
                result = runs.fed(conf, frames.fixed(64), rate * 1e6, GROUP, runs.values_of(app), options=["--poll"])(lab)
                return result | {"hz": machine.tsc_hz()}

            yield f"{app} {rate or 'most'}", run


def labels(app):
    return [f"{app} {rate or 'most'}" for rate in RATES]


def rate_of(label):
    """Rate in Mpps that the source was asked for."""
    return label.split()[1]


def paced(results, app):
    """Labels of the rates that the source set: those of which the router took nearly all."""
    return [label for label in labels(app)[:-1] if median(results, label, scale=1e6) >= KEPT * float(rate_of(label))]


def part_used(one):
    """Part of a core's cycles that packets took in a round."""
    return one["rate"] * one["cycles per packet"] / one["hz"]


def idle_rounds(results):
    """Words about the rounds at the highest rate in which packets took only a part of the core's cycles."""
    words = []
    for app in APPS:
        for one in results[labels(app)[-1]]:
            used = part_used(one)
            if used < BUSY:
                words.append(f"One round of \"most\" for {NAMES[app]} used only {100 * used:.0f} % of its core and says nothing about a limit.")
    return " ".join(words) or "Every round of \"most\" was such a round."


def values(raw):
    results, rows, found = raw["results"], [], {"group": GROUP}
    trends = {"more": [], "less": [], "no different": []}
    for app in APPS:
        for label in labels(app):
            rows.append([
                app, label.split()[1], spread(column(results, label, scale=1e6)), spread(column(results, label, "cycles per packet"), 0),
                f"{median(results, label, 'packets per poll'):.1f}",
                f"{median(results, label, 'empty polls') / median(results, label, 'seconds') / 1e6:.2f}",
                f"{median(results, label, 'cycles per empty poll'):.0f}",
                f"{100 * median(results, label, 'asleep'):.0f} %",
                f"{median(results, label, 'hz') / median(results, label):.0f}"])
        slow, fast, full = paced(results, app)[0], paced(results, app)[-1], labels(app)[-1]
        first, last = (column(results, label, "cycles per packet") for label in (slow, fast))
        trends[compared(last, first)].append(NAMES[app])
        found[f"{app} paced"] = f"{statistics.median(first):.0f} at {rate_of(slow)} Mpps and {statistics.median(last):.0f} at {rate_of(fast)}"
        found[f"{app} most"] = compared(column(results, full, "cycles per packet"), last)
        rates = column(results, full)
        found[f"{app} rates"] = f"{max(rates) / min(rates):.1f}"
        found[f"{app} full"] = f"{median(results, full, 'cycles per packet'):.0f}"
        found[f"{app} paper"] = f"{PAPER[app]:.0f}"
    used = [100 * part_used(one) for app in APPS for one in results[labels(app)[-1]] if part_used(one) >= BUSY]
    found |= {"busy": f"{100 * BUSY:.0f}", "used": f" ({min(used):.0f} to {max(used):.0f} % of them)" if used else ""}
    points = [column(results, label, "cycles per packet") for app in APPS for label in paced(results, app)]
    found["most per poll"] = f"{max(max(column(results, labels(app)[-1], 'packets per poll')) for app in APPS):.0f}"
    widest = max(max(one) / min(one) for one in points)
    words = {"more": "Outside the spread this is a rise with the rate for", "less": "Outside the spread this is a fall with the rate for", "no different": "It is no change beyond the spread for"}
    found["trend"] = " ".join(f"{words[trend]} {listed(names)}." for trend, names in trends.items() if names)
    found["trend"] += " By the paper's argument, no rise means that memory does not limit one core." if not trends["more"] else ""
    found["trend"] += " The paper finds no change at all. Why cycles fall was not measured." if trends["less"] else ""
    found["trend"] += f" Rounds of a point differ by a factor of up to {widest:.1f}."
    limited = [f"{NAMES[app]} at {rate_of(label)} Mpps" for app in APPS for label in labels(app)[:-1] if label not in paced(results, app)]
    found["limited"] = f" Of {listed(limited)} the router took less than {100 * KEPT:.0f} %, so there the source did not set the rate." if limited else ""
    head = ["application", "offered, Mpps", "sent, Mpps", "cycles per packet", "packets per poll that found some",
            "empty polls, M/s", "cycles per empty poll", "asleep", "cycles available per packet"]
    return found | {"table": table(head, rows), "rounds": of_rounds(len(points[0])), "idle rounds": idle_rounds(results)}


def draw(axes, raw):
    results = raw["results"]
    points = {app: sorted((median(results, l, scale=1e6), median(results, l, "cycles per packet")) for l in labels(app))
              for app in APPS}
    for app in APPS:
        axes.plot(*zip(*points[app]), "o-", label=app)
    most = max(rate for app in APPS for rate, _ in points[app])
    top = 1.3 * max(cycles for app in APPS for _, cycles in points[app])
    hz = median(results, labels("forward")[0], "hz")
    rates = [most * n / 100 for n in range(1, 105)]
    axes.plot(rates, [hz / (rate * 1e6) for rate in rates], "--", color="#555555", label="cycles available, one core")
    axes.set(xlabel="packets per second, millions", ylabel="cycles per packet", xlim=(0, most * 1.05), ylim=(0, top))
    axes.legend()


def summary(raw, values):
    return [("RouteBricks Figure 9, cycles of a packet: forward, route, IPsec", "1229, 1860, 7822 at every rate", "; ".join(values[f"{app} paced"] for app in APPS))]


figure = Figure(__file__, steps, values, draw, rounds=3, summary=summary)

if __name__ == "__main__":
    figure.main()
