#!/usr/bin/python3
"""Server network cards, section 3 (NIC4): transmit queues served in turn, by priority and up to rates."""

import math
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import lab, plot, spread  # noqa: E402
from lib.figure import Figure, claim, of_rounds, table  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
LINK = 1_000_000  # packets a second that the port takes
FIRST, LAST = 0.2, 0.3  # rate limits of the first and the last queue, of the link
OFFERED = [0.1, 0.2, 0.3, 0.5, 0.8]  # to each of the four queues, of the link
QUEUES = ["first, up to 0.2", "in turn", "in turn", "last, up to 0.3"]
SECONDS = 0.5
ATTEMPTS = 5  # at a load that the sources did not offer


def counts(router):
    stats = router.stats()
    sums = {e["name"]: sum(c["packets"] for c in e["copies"]) for e in stats["elements"]}
    return stats["time_ns"] / 1e9, [sums[f"{way}{n}"] for way in ("in", "out") for n in range(4)]


def run(here):
    values = [f"LINK={LINK}", f"FIRST={int(FIRST * LINK)}", f"LAST={int(LAST * LINK)}", "OUT=net_null0"]
    router = here.router(HERE / "queues.click", values, ["net_null0,no-rx=1"], (lab.OTHER, lab.MEASURED))
    router.wait_running()
    points = []
    for offered in OFFERED:
        for n in range(4):
            router.write(f"s{n}.rate", str(int(offered * LINK)))
        for _ in range(ATTEMPTS):
            time.sleep(0.2)
            start, before = counts(router)
            time.sleep(SECONDS)
            end, after = counts(router)
            point = [(b - a) / (end - start) / LINK for a, b in zip(before, after)]
            # Sources whose core the machine's host takes away offer less.
            if min(point[:4]) > 0.98 * offered:
                break
        points.append(point)
    return {"points": points}


def steps():
    yield "queues", run


def ideal(offered):
    """Rates of the queues by the rule, as parts of the link: strict priority, then in turn, up to the rates."""
    first = min(offered, FIRST)
    turn = min(offered, (1 - first) / 2)
    return [first, turn, turn, min(offered, LAST, 1 - first - 2 * turn)]


def rates(raw, point, n):
    """Rates of a queue at a load, as parts of the link, for each round."""
    return [one["points"][point][4 + n] for one in raw["results"]["queues"]]


def worst(raw):
    """The greatest distance of a median from the ideal, of the link."""
    return max(abs(statistics.median(rates(raw, k, n)) - ought) for k, offered in enumerate(OFFERED) for n, ought in enumerate(ideal(offered)))


def values(raw):
    rows = [[offered, *(f"{spread(rates(raw, k, n), 3)}; {ought:.2f}" for n, ought in enumerate(ideal(offered)))] for k, offered in enumerate(OFFERED)]
    claim(worst(raw) < 0.05, "each queue gets what its rule gives it")
    return {"table": table(["offered to each", *QUEUES], rows), "link": f"{LINK / 1e6:.0f}", "worst": f"{math.ceil(1000 * worst(raw)) / 10} %", "rounds": of_rounds(len(raw["results"]["queues"]))}


def draw(axes, raw):
    for n, (name, color) in enumerate(zip(QUEUES, plot.COLORS)):
        label = f"{name} ({n})"
        axes.plot(OFFERED, [statistics.median(rates(raw, k, n)) for k in range(len(OFFERED))], "o", color=color, label=label)
        axes.plot(OFFERED, [ideal(offered)[n] for offered in OFFERED], color=color, linewidth=0.8)
    axes.set(xlabel="offered to each queue, of the link", ylabel="sent, of the link", ylim=0)
    axes.legend()


def summary(raw, values):
    return [("Server network cards, transmit queues in turn, by priority, up to rates", "what cards do; not measured", f"each queue within {values['worst']} of the link's rate of what the rule gives it")]


figure = Figure(__file__, steps, values, draw, rounds=3, size=(6, 3.4), summary=summary)

if __name__ == "__main__":
    figure.main()
