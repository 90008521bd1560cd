#!/usr/bin/python3
"""RouteBricks, Figure 9: cycles per packet against the input rate, without empty polls."""

import itertools
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import frames, machine, model, plot, runs  # noqa: E402
from lib.figure import Figure, column, compared, listed, median, of_rounds, spread, table  # noqa: E402
from lib.runs import APPS, NAMES  # noqa: E402

RATES = [0.25, 1, 2, 3, 4, 6, 0]  # Mpps; 0 = as fast as the router takes them
GROUP = 32  # packets that leave the source together, so that polls find the same at every rate that it sets
KEPT = 0.9  # part of the asked rate from which the source sets the rate, not the router
BUSY = 0.9  # part of a core's cycles below which the core does not limit a round
EMPTY_SPREAD = 1.5  # factor between cycles of empty polls above which the core's own speed probably changed
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
    """Labels of the rates that the source set: those of which the router took nearly all, and the least."""
    first, *others = labels(app)[:-1]
    kept = [label for label in others if median(results, label, scale=1e6) >= KEPT * float(rate_of(label))]
    return [first, *kept]


def cycles(results, label):
    return column(results, label, "cycles per packet")


def available(results, label):
    """Cycles per packet that a core has at a rate."""
    return median(results, label, "hz") / median(results, label)


def miscounted(results, app):
    """Labels of the rates that the source set, with more cycles per packet by the median than a core has."""
    return [label for label in paced(results, app)[1:] if median(results, label, "cycles per packet") > available(results, label)]


def ends(results, app):
    """Labels of the least and of the greatest rate that the source set and whose cycles a core has."""
    wrong = miscounted(results, app)
    right = [label for label in paced(results, app) if label not in wrong]
    return right[0], right[-1]


def told(changes):
    """Words on changes of cycles (`more`, `less`, `no different`), given by application."""
    words = {"less": "fall for", "more": "rise for", "no different": "do not change for"}
    apps = {change: [NAMES[app] for app in changes if changes[app] == change] for change in words}
    return ", and ".join(f"{words[change]} {listed(names)}" for change, names in apps.items() if names)


def rises(results, app):
    """Pairs of rates that the source sets, the lower one first, between which the cycles rise outside the spread."""
    return [(slow, fast) for slow, fast in itertools.combinations(paced(results, app), 2)
            if compared(cycles(results, fast), cycles(results, slow)) == "more"]


def greatest_rise(results, app, pairs):
    """Words on the pair of an application's rates, of `pairs`, between which the median rises most."""
    middle = {label: median(results, label, "cycles per packet") for label in paced(results, app)}
    slow, fast = max(pairs, key=lambda pair: middle[pair[1]] / middle[pair[0]])
    return f"{NAMES[app]} from {rate_of(slow)} to {rate_of(fast)} Mpps"


def trend(results):
    """Sentences on the cycles at the rates that the source sets."""
    ends_of = {app: ends(results, app) for app in APPS}
    changes = {app: compared(cycles(results, last), cycles(results, first)) for app, (first, last) in ends_of.items()}
    words = f"From the least to the greatest rate, outside the spread of the rounds, cycles {told(changes)}."
    found = {app: rises(results, app) for app in APPS}
    if count := sum(map(len, found.values())):
        total = sum(math.comb(len(paced(results, app)), 2) for app in APPS)
        most = [greatest_rise(results, app, pairs) for app, pairs in found.items() if pairs]
        rounds = len(cycles(results, labels(APPS[0])[0]))
        chance = total / math.comb(2 * rounds, rounds)
        words += (f" Of {total} pairs of rates they rise outside the spread in {count},\n"
                  f"{'for' if count == len(most) else 'by most for'} {listed(most)}. "
                  f"Chance alone gives {chance:.1f} pairs with {rounds} round{'s' * (rounds > 1)}. ")
        words += ("So this is no sign of a limit by memory." if count <= chance
                  else "So the rounds do not show that memory is no limit.")
    else:
        words += " Outside the spread they rise between no two rates, so the rounds show no limit by memory; a rise within the spread could not be seen."
    if falls := [app for app in APPS if changes[app] == "less"]:
        words += " The paper finds no change at all. Why cycles fall was not measured."
        grown = {app: per_poll(results, last) / per_poll(results, first) for app, (first, last) in ends_of.items()}
        larger = [NAMES[app] for app in falls if grown[app] > 1.1]
        words += f" For {listed(larger)} larger polls at the greatest rate may be a part of it." if larger else ""
    words += core_speed(results)
    return words


def core_speed(results):
    """Sentence on the cycles of an empty poll in single rounds at the rates that the source sets; empty if they hardly
    differ.
    """
    labels_paced = [label for app in APPS for label in paced(results, app)]
    rounds = [one for label in labels_paced for one in results[label] if one["empty polls"]]
    found = [one["cycles per empty poll"] for one in rounds]
    if not found or max(found) <= EMPTY_SPREAD * min(found):
        return ""
    return (f"\nAn empty poll, which runs the same instructions each time, takes {min(found):.0f} to {max(found):.0f} cycles "
            "in single rounds, so probably\nthe speed of the core itself changed between rounds, "
            "and this is probably a part of the differences between rounds.")


def per_poll(results, label):
    return median(results, label, "packets per poll")


def polls(results):
    """Words on the packets of a poll, by application: least and most of the medians at rates that the source sets."""
    found = {app: [per_poll(results, label) for label in paced(results, app)] for app in APPS}
    return listed(f"{min(of):.1f} to {max(of):.1f} for {NAMES[app]}" for app, of in found.items())


def percent(parts):
    """Least and most of parts, in percent."""
    least, most = (f"{100 * part:.0f}" for part in (min(parts), max(parts)))
    return f"{least} %" if least == most else f"{least} to {most} %"


def miscounts(results):
    """Sentences on counts that are more than a core has: of medians, and of single rounds."""
    words = ""
    if wrong := [f"{NAMES[app]} at {rate_of(label)} Mpps" for app in APPS for label in miscounted(results, app)]:
        words += f" For {listed(wrong)} the median is more than a core has, so it is not taken as the greatest rate."
    used, app, label = max((model.part_used(one, one["hz"]), app, label) for app in APPS for label in labels(app) for one in results[label])
    if round(100 * used) > 100:
        words += (f"\nIn single rounds packets take up to {100 * used:.0f} % of a core by the count ({NAMES[app]}, row \"{rate_of(label)}\"). "
                  "More than all is an error\nof the count, which is of one poll in about 60. A counted poll also reads the counter, and looks up the way of its packets anew, so\n"
                  "cycles of short ways, such as forwarding's, are probably somewhat too high.")
    return words


def subtracted(results):
    """Sentences on the part of a core that is counted for forwarding at the least and the greatest rate, and on the cycles
    of a packet by the paper's subtraction.
    """
    counted, cost = [], []
    for label in ends(results, APPS[0]):
        rounds = [(one, one["hz"] * one["seconds"]) for one in results[label]]
        counted.append(f"{percent([(one['cycles'] + one['empty cycles']) / core for one, core in rounds])} at {rate_of(label)} Mpps")
        cost.append(spread([(core - one["empty cycles"]) / one["received"] for one, core in rounds], 0))
    return (f"Both counts together are this part of a core's cycles for {NAMES[APPS[0]]}: {listed(counted)}. "
            f"By the paper's subtraction\na packet would take {listed(cost)} cycles there.")


def limit(results):
    """Sentences on the cycles that packets take at the highest rate, of those that a core has."""
    rounds = {app: results[labels(app)[-1]] for app in APPS}
    used = {app: [model.part_used(one, one["hz"]) for one in rounds[app]] for app in APPS}
    parts = listed(f"{percent(used[app])} for {NAMES[app]}" for app in APPS)
    words = f"In the row \"most\" packets take this part of a core's cycles: {parts}."
    for app in APPS:
        if max(used[app]) < BUSY:
            words += f" So {NAMES[app]} does not reach the available cycles here."
            rejected = [runs.refused(one["source"]) for one in rounds[app]]
            if max(rejected) < 0.1:
                words += (f" The ring refused only {percent(rejected)} of its packets, "
                          "so the source probably is the limit.")
    return words


def values(raw):
    results, rows, found, against_most = raw["results"], [], {"group": GROUP}, {}
    for app in APPS:
        for label in labels(app):
            rows.append([
                app, rate_of(label), spread(column(results, label, scale=1e6)), spread(cycles(results, label), 0),
                f"{per_poll(results, label):.1f}",
                f"{median(results, label, 'empty polls') / median(results, label, 'seconds') / 1e6:.2f}",
                f"{median(results, label, 'cycles per empty poll'):.0f}",
                f"{100 * median(results, label, 'asleep'):.0f} %",
                f"{available(results, label):.0f}"])
        (slow, fast), full = ends(results, app), labels(app)[-1]
        against_most[app] = compared(cycles(results, full), cycles(results, fast))
        first, last = (spread(cycles(results, label), 0) for label in (slow, fast))
        found[f"{app} paced"] = f"{first} at {rate_of(slow)} Mpps and {last} at {rate_of(fast)}"
        found[f"{app} paper"] = f"{PAPER[app]:.0f}"
    found["most trend"] = told(against_most)
    found["most per poll"] = f"{max(max(column(results, labels(app)[-1], 'packets per poll')) for app in APPS):.0f}"
    points = [cycles(results, label) for app in APPS for label in paced(results, app)]
    found["widest"] = f"{max(max(one) / min(one) for one in points):.1f}"
    limited = [f"{NAMES[app]} at {rate_of(label)} Mpps" for app in APPS for label in labels(app)[:-1] if label not in paced(results, app)]
    found["limited"] = f" Of {listed(limited)} the router, by the median, took less than {100 * KEPT:.0f} % of the asked rate, so there the source did not set it alone." if limited else ""
    head = ["application", "asked, Mpps", "forwarded, Mpps", "cycles per packet", "packets per poll that found some",
            "empty polls, M/s", "cycles per empty poll", "asleep", "cycles available per packet"]
    return found | {"table": table(head, rows), "rounds": of_rounds(len(points[0])), "trend": trend(results),
                    "limit": limit(results), "polls": polls(results), "miscounts": miscounts(results), "subtracted": subtracted(results)}


def draw(axes, raw):
    results = raw["results"]

    def points(chosen):
        return sorted((median(results, label, scale=1e6), median(results, label, "cycles per packet")) for label in chosen)

    # Only rates that the source sets are joined: the others are another measurement.
    for app, color in zip(APPS, plot.COLORS):
        axes.plot(*zip(*points(paced(results, app))), "o-", color=color, label=app)
        others = [label for label in labels(app) if label not in paced(results, app)]
        axes.plot(*zip(*points(others)), "o", color=color, fillstyle="none")
    every = [point for app in APPS for point in points(labels(app))]
    most = max(rate for rate, _ in every)
    top = 1.3 * max(cost for _, cost in every)
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
