#!/usr/bin/python3
"""RouteBricks, Figure 9: cycles per packet against the input rate, without empty polls."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import frames, machine, runs  # noqa: E402
from lib.figure import Figure, column, compared, median, of_rounds, spread, table  # noqa: E402

APPS = ["forward", "route", "ipsec"]
RATES = [0.25, 0.5, 1, 2, 3, 4, 6, 0]  # Mpps; 0 = as fast as the router takes them
GROUP = 32  # packets that leave the source together, so that polls find the same at every rate that it sets
NAMES = {"forward": "forwarding", "route": "routing", "ipsec": "IPsec"}
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
    for app in APPS:
        for label in labels(app):
            rows.append([
                app, label.split()[1], spread(column(results, label, scale=1e6)), spread(column(results, label, "cycles per packet"), 0),
                f"{median(results, label, 'packets per poll'):.1f}",
                f"{median(results, label, 'empty polls') / median(results, label, 'seconds') / 1e6:.2f}",
                f"{median(results, label, 'cycles per empty poll'):.0f}",
                f"{100 * median(results, label, 'asleep'):.0f} %",
                f"{median(results, label, 'hz') / median(results, label):.0f}"])
        slow, full = labels(app)[0], labels(app)[-1]
        paced = [median(results, label, "cycles per packet") for label in labels(app)[:-1]]
        found[f"{app} paced"] = f"{min(paced):.0f} to {max(paced):.0f}"
        found[f"{app} most"] = compared(*(column(results, label, "cycles per packet") for label in (full, slow)))
        rates = column(results, full)
        found[f"{app} rates"] = f"{max(rates) / min(rates):.1f}"
        found[f"{app} slow"] = f"{median(results, slow, 'cycles per packet'):.0f}"
        found[f"{app} full"] = f"{median(results, full, 'cycles per packet'):.0f}"
        found[f"{app} paper"] = f"{PAPER[app]:.0f}"
    used = [100 * part_used(one) for app in APPS for one in results[labels(app)[-1]] if part_used(one) >= BUSY]
    found |= {"busy": f"{100 * BUSY:.0f}", "used": f" ({min(used):.0f} to {max(used):.0f} % of them)" if used else ""}
    points = [column(results, label, "cycles per packet") for app in APPS for label in labels(app)[:-1]]
    rises = [compared(*(column(results, label, "cycles per packet") for label in (labels(app)[-2], labels(app)[0]))) for app in APPS]
    found["most per poll"] = f"{max(max(column(results, labels(app)[-1], 'packets per poll')) for app in APPS):.0f}"
    widest = max(max(one) / min(one) for one in points)
    rising = [NAMES[app] for app, rise in zip(APPS, rises) if rise == "more"]
    differ = f"beyond the rounds of a point, which differ by a factor of up to {widest:.1f}"
    found["flat"] = f"a rise with the rate for {' and '.join(rising)} {differ}. The paper finds none." if rising else f"no rise with the rate {differ}. The paper finds the same."
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
    return [("RouteBricks Figure 9, cycles: forward, route, IPsec", "1229, 1860, 7822 at every rate", f"{values['forward paced']}, {values['route paced']}, {values['ipsec paced']}")]


figure = Figure(__file__, steps, values, draw, rounds=2, summary=summary)

if __name__ == "__main__":
    figure.main()
