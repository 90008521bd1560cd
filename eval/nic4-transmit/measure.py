#!/usr/bin/python3
"""Server network cards, section 3 (NIC4): transmit queues served in turn, by priority and up to rates."""

import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import lab, plot, spread  # noqa: E402
from lib.figure import Figure, at_most, claim, of_rounds, table  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
LINK = 1_000_000  # packets a second that the port takes
LIMITS = [0.2, 0.15]  # of the first and the last queue, of the link
# At 0.35 each the rule leaves the last queue a part of its rate.
EQUAL = [[load] * 4 for load in (0.1, 0.2, 0.3, 0.35, 0.5, 0.8)]  # offered to the queues, of the link
UNEQUAL = [0.8, 0.3, 0.8, 0.8]  # a common queue would give the third 2.7 times the rate of the second
SECONDS = 0.5
# Seconds between setting a load and measuring it. An idle link may send 20 ms of packets at once. A load 5 % above the link's
# rate uses up this burst in 0.4 s.
SETTLE_SECONDS = 1
ATTEMPTS = 5  # at a load that the sources did not offer
OFFERED = 0.98  # least part of a load that counts as offered


def counts(router):
    stats = router.stats()
    sums = {e["name"]: sum(c["packets"] for c in e["copies"]) for e in stats["elements"]}
    return stats["time_ns"] / 1e9, [sums[f"{way}{n}"] for way in ("in", "out") for n in range(4)]


def run(here):
    first, last = (int(limit * LINK) for limit in LIMITS)
    values = [f"LINK={LINK}", f"FIRST={first}", f"LAST={last}", "OUT=net_null0"]
    router = here.router(HERE / "queues.click", values, ["net_null0,no-rx=1"], (lab.OTHER, lab.MEASURED))
    router.wait_running()
    points = []
    for loads in [*EQUAL, UNEQUAL]:
        for n, load in enumerate(loads):
            router.write(f"s{n}.rate", str(int(load * LINK)))
        for _ in range(ATTEMPTS):
            time.sleep(SETTLE_SECONDS)
            start, before = counts(router)
            time.sleep(SECONDS)
            end, after = counts(router)
            point = [(b - a) / (end - start) / LINK for a, b in zip(before, after)]
            # Sources whose core the machine's host takes away offer less.
            if is_offered(point, loads):
                break
        points.append(point)
    return {"points": points, "loads": [*EQUAL, UNEQUAL], "limits": LIMITS}


def is_offered(point, loads):
    """True if the sources offered about these loads."""
    return all(offered >= OFFERED * load for offered, load in zip(point, loads))


def steps():
    yield "queues", run


def ideal(loads, limits):
    """Rates of the queues by the rule, as parts of the link: strict priority, then in turn, up to the rates."""
    first = min(loads[0], limits[0])
    left = 1 - first
    second = min(loads[1], max(left / 2, left - loads[2]))
    third = min(loads[2], max(left / 2, left - loads[1]))
    return [first, second, third, min(loads[3], limits[1], left - second - third)]


def limits_of(raw):
    """Limits of the first and the last queue in the results."""
    return raw["results"]["queues"][0]["limits"]


def measured(raw):
    """Loads, and for each the points of the rounds in which it was offered. Loads without such a round are left out."""
    rounds = raw["results"]["queues"]
    loads = rounds[0]["loads"]
    found = []
    for k, load in enumerate(loads):
        if points := [one["points"][k] for one in rounds if is_offered(one["points"][k], load)]:
            found.append((load, points))
    return found


def rates(points, n):
    """Rates of a queue, as parts of the link, for each round."""
    return [point[4 + n] for point in points]


def worst(raw):
    """Greatest median distance between a queue's rate and the rate by the rule for the offered packets, of the link."""
    distances = []
    for _, points in measured(raw):
        ideals = [ideal(point[:4], limits_of(raw)) for point in points]
        for n in range(4):
            distances.append(statistics.median(abs(rate - ought[n]) for rate, ought in zip(rates(points, n), ideals)))
    return max(distances)


def is_equal(loads):
    """True if all queues are offered the same."""
    return len(set(loads)) == 1


def names(raw):
    """Names of the queues."""
    first, last = limits_of(raw)
    return [f"first, up to {first:g}", "second, in turn", "third, in turn", f"last, up to {last:g}"]


def name_of(loads):
    """Name of the loads offered to the queues, as the table has it."""
    return f"{loads[0]:g} each" if is_equal(loads) else ", ".join(f"{load:g}" for load in loads)


def points_of(raw):
    """Number of points at which the load was offered, and of all points."""
    rounds = raw["results"]["queues"]
    return sum(len(points) for _, points in measured(raw)), len(rounds) * len(rounds[0]["points"])


def left_out(raw):
    """Sentences on the points at which the load was not offered; empty if there are none."""
    offered, count = points_of(raw)
    if offered == count:
        return ""
    words = f" Not offered even then, and left out: {count - offered} of {count} points."
    kept = [loads for loads, _ in measured(raw)]
    gone = [name_of(loads) for loads in raw["results"]["queues"][0]["loads"] if loads not in kept]
    return words + (f" No round is left of {'; '.join(gone)}." if gone else "")


def values(raw):
    rounds, rows = len(raw["results"]["queues"]), []
    for loads, points in measured(raw):
        oughts = enumerate(ideal(loads, limits_of(raw)))
        rows.append([name_of(loads), *(f"{spread(rates(points, n), 3)}; {ought:.2f}" for n, ought in oughts)])
    claim(worst(raw) < 0.005, "each queue gets the rate that its rule gives it")
    unequal = any(not is_equal(loads) for loads, _ in measured(raw))
    second = (": with unequal loads,\n"
              "  the second gets all that it wants, and the third what the second leaves (last row)")
    # Rates of the last queue by the rule, as parts of what it may send.
    lasts = [ideal(loads, limits_of(raw))[3] / min(loads[3], limits_of(raw)[1]) for loads, _ in measured(raw)]
    rest = any(0.01 < last < 0.99 for last in lasts)
    single = rounds > 1 and any(len(points) == 1 for _, points in measured(raw))
    return {"table": table(["offered", *names(raw)], rows), "link": f"{LINK / 1e6:.0f}",
            "worst": f"{at_most(100 * worst(raw), 1)} %", "rounds": of_rounds(rounds) + ("; a rate without parentheses is of one round" if single else ""),
            "unequal": second if unequal else "", "attempts": ATTEMPTS, "missing": left_out(raw),
            "last": "the rest, up to its rate" if rest else "its rate where enough is left, and nothing where nothing is left"}


def draw(axes, raw):
    equal = [(loads, points) for loads, points in measured(raw) if is_equal(loads)]
    offered = [loads[0] for loads, _ in equal]
    for n, (name, color) in enumerate(zip(names(raw), plot.COLORS)):
        axes.plot(offered, [statistics.median(rates(points, n)) for _, points in equal], "o", color=color, label=name)
        axes.plot(offered, [ideal(loads, limits_of(raw))[n] for loads, _ in equal], color=color, linewidth=0.8)
    axes.set(xlabel="offered to each queue, of the link", ylabel="sent, of the link", ylim=0)
    axes.legend()


def summary(raw, values):
    offered, count = points_of(raw)
    part = f", at the {offered} of {count} points at which the load was offered" if offered < count else ""
    return [("Server network cards, transmit queues in turn, by priority, up to rates", "what cards do; not measured",
             f"each queue within {values['worst']} of the link's rate of what the rule gives it (by the medians){part}")]


figure = Figure(__file__, steps, values, draw, rounds=3, size=(6, 3.4), summary=summary)

if __name__ == "__main__":
    figure.main()
