#!/usr/bin/python3
"""RouteBricks, 6.2: latency through one server, as percentiles by load and batch settings."""

import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import frames, runs, spread  # noqa: E402
from lib.figure import Figure, at_most, column, compared, listed, of_rounds, table  # noqa: E402

CONF = pathlib.Path(__file__).with_name("forward.click")
RATES = [0.05, 0.5, 1, 4]  # Mpps
SECONDS = 0.3  # of a run; the source measures 0.8 more
REACHED = 0.9  # least part of the asked rate that counts as offered
REPEATS = 4  # runs of a round that are repeated at most, as the source did not offer the asked rate
# Name: kp, kn, TIMEOUT of ToDevice.
SETTINGS = {
    "kp=1 kn=1": (1, 1, "0"),
    "kp=32 kn=32": (32, 32, "0"),
    "kp=32 kn=16, 10 us": (32, 16, "10us"),
    "kp=32 kn=16, 100 us": (32, 16, "100us"),
}
SINGLE, BATCHED, BOUNDED = list(SETTINGS)[:3]
TIMEOUT_US = 10  # the shorter one
FULL_US = 100  # median, beyond a setting's TIMEOUT, from which packets have waited in a full ring
AWAKE = 0.05  # part of the time below which a worker that sleeps counts as awake
SERVER_US = round(4 * 2.56 + 12.8 + 0.8, 1)  # the paper's estimate for a server
FIELDS = ["p90_us", "p99_us", "p999_us"]


def steps():
    left = {"repeats": REPEATS}
    for rate in RATES:
        for name, (kp, kn, timeout) in SETTINGS.items():
            def run(lab, rate=rate, values=(f"KP={kp}", f"KN={kn}", f"TIMEOUT={timeout}")):
                measured = runs.fed(CONF, frames.fixed(64), rate * 1e6, 1, values, back=True, seconds=SECONDS)
                result = measured(lab)
                while offered_by(result) < REACHED * rate and left["repeats"]:
                    left["repeats"] -= 1
                    lab.end_all()
                    result = measured(lab)
                return result

            yield f"{name} at {rate}", run


def offered_by(result):
    """Packets that the source offered to the router in a run, in millions a second."""
    return runs.offered(result["source"]) / 1e6


def lost_by(result):
    """Part of the offered packets that did not come back."""
    source = result["source"]
    return max(0.0, 1 - source["received"] / (source["sent"] + source["refused"]))


class Point:
    """A setting at a rate, over all rounds."""

    def __init__(self, raw, name, rate):
        self.name, self.rate = name, rate
        self.results = raw["results"][f"{name} at {rate}"]
        self.offered = statistics.median(map(offered_by, self.results))
        self.lost = statistics.median(map(lost_by, self.results))
        self.asleep = statistics.median(one["asleep"] for one in self.results)
        self.medians_us = self.latencies("p50_us")

    def latencies(self, field):
        """A field of the source's results, for each round."""
        return [one["source"][field] for one in self.results]

    def loses(self):
        """True if 1 % or more is lost."""
        return round(self.lost, 4) >= 0.01

    def is_carried(self):
        """True if about the asked rate was offered, and less than 1 % lost."""
        return self.offered >= REACHED * self.rate and not self.loses()

    def is_awake(self):
        """True if the point is carried by a worker that hardly sleeps."""
        return self.is_carried() and self.asleep < AWAKE

    def row(self):
        percents = [100 * lost_by(one) for one in self.results]
        lost = "0" if max(percents) < 0.005 else f"{spread(percents)} %"
        others = (f"{statistics.median(self.latencies(field)):.1f}" for field in FIELDS)
        return [self.name, f"{self.rate:g}", spread(list(map(offered_by, self.results))), spread(self.medians_us, 1),
                *others, lost, f"{100 * self.asleep:.0f} %"]


def points(raw):
    """All points, by setting and rate."""
    return {(name, rate): Point(raw, name, rate) for name in SETTINGS for rate in RATES}


def first_awake(found, *names):
    """The least rate at which the workers of all these settings are awake, or None."""
    return next((rate for rate in RATES if all(found[name, rate].is_awake() for name in names)), None)


def losses(found):
    """Sentences on points that lose 1 % or more: those of a router that is too slow, and others."""
    one = column(figure.other("rb-table1")["results"], "memif 1,1", scale=1e6)
    full, other = {}, {}
    for point in found.values():
        if not point.loses():
            continue
        timeout = int(SETTINGS[point.name][2].removesuffix("us"))
        waits = statistics.median(point.medians_us) > FULL_US + timeout
        kind = full if waits and point.offered > min(one) and point.asleep < AWAKE else other
        kind.setdefault(point.name, []).append(f"{point.rate:g}")

    def told(kind):
        return "; ".join(f"{name} at {listed(rates)} Mpps" for name, rates in kind.items())

    words = []
    if full:
        words.append("By the medians of the rounds 1 % or more is lost, and half of the packets take over "
                     f"{FULL_US} us,\n  with {told(full)}: there the router is slower than the\n"
                     "  source, and its ring fills. "
                     f"With kp = kn = 1 and single packets it carries {spread(one, 1)} Mpps on [rb-table1](../rb-table1).")
    if other:
        words.append(f"By the medians of the rounds 1 % or more is {'also ' if full else ''}lost with {told(other)}.\n"
                     "  There the router was not too slow: its worker slept, or half of the packets came back soon, "
                     "or it carries more on\n  [rb-table1](../rb-table1). "
                     "Probably the machine's host took a core away.")
    return "\n  ".join(words) or "By the medians of the rounds no setting loses 1 % at any of these rates."


def beside_single(found):
    """Sentence on the median with kp = kn = 32 beside that of kp = kn = 1."""
    alike = [rate for rate in RATES if found[BATCHED, rate].is_awake() and found[SINGLE, rate].is_awake()]
    if len(alike) < 2:
        return ("At too few rates kn = 32 and kp = kn = 1 were both carried by a worker that stays awake,\n"
                "  so their medians are not compared.")
    above = [rate for rate in alike
             if compared(found[BATCHED, rate].medians_us, found[SINGLE, rate].medians_us) == "more"]
    where = f"at {listed(above)} Mpps" if above else "at none of these rates"
    return ("By the medians of the rounds, and with a worker that stays awake,\n"
            f"  both kn = 32 and kp = kn = 1 carry {listed(alike)} Mpps.\n"
            f"  The median of kn = 32 is above that of kp = kn = 1 beyond the spread {where}.")


def bounded(found):
    """Sentences on the median with a TIMEOUT of 10 us and without one, of a sleeping worker and of an awake one."""
    words = []
    with_bound, without = found[BOUNDED, RATES[0]], found[BATCHED, RATES[0]]
    carried = with_bound.is_carried() and without.is_carried()
    if carried and with_bound.asleep > 0.5 and min(with_bound.medians_us) > max(without.medians_us) + TIMEOUT_US:
        words.append(f"A worker that sleeps adds to the waiting time: at {RATES[0]} Mpps the median is\n"
                     f"  {spread(with_bound.medians_us, 0)} us with 10 us, and {spread(without.medians_us, 0)} us "
                     "without a `TIMEOUT`. So the bound does not hold for a worker that sleeps.")
    if rate := first_awake(found, BOUNDED, BATCHED):
        words.append(f"Of a worker that is awake, at {rate} Mpps, the median is\n"
                     f"  {spread(found[BOUNDED, rate].medians_us, 1)} us with 10 us, and "
                     f"{spread(found[BATCHED, rate].medians_us, 1)} us with kn = 32 and no `TIMEOUT`.\n"
                     f"  90 % of the packets that came back took at most {spread(found[BOUNDED, rate].latencies('p90_us'), 1)} us with 10 us, "
                     f"and {spread(found[BATCHED, rate].latencies('p90_us'), 1)} us without a `TIMEOUT`.")
    return "".join(f" {one}" for one in words)


def sleep(found):
    """Item on the worker's sleep at the least rate, if this point is carried."""
    point, awake = found[BATCHED, RATES[0]], first_awake(found, BATCHED)
    if not point.is_carried() or point.asleep < 0.5:
        return ""
    words = (f"At {RATES[0]} Mpps and kp = kn = 32 a worker sleeps {100 * point.asleep:.0f} % of the time, "
             f"and the median is {spread(point.medians_us, 0)} us.")
    if awake and compared(point.medians_us, found[BATCHED, awake].medians_us) == "more":
        words = f"An idle worker sleeps (last column), and the first packet waits for it. {words}"
    return f"- {words}\n"


def values(raw):
    found = points(raw)
    count = len(found[BATCHED, RATES[0]].results)
    behind = [f"{rate:g}" for rate in RATES if any(found[name, rate].offered < REACHED * rate for name in SETTINGS)]
    typical = "No rate at which the worker stays awake was offered and carried without loss of 1 % with kp = kn = 32."
    if rate := first_awake(found, BATCHED):
        typical = (f"At {rate} Mpps half of the packets that came back took at most "
                   f"{spread(found[BATCHED, rate].medians_us, 1)} us with kp = kn = 32.")
    polls = max(max(column(raw["results"], f"{BATCHED} at {rate}", "packets per poll")) for rate in RATES)
    head = ["setting", "asked, Mpps", "offered", "50 %", "90 %", "99 %", "99.9 %", "lost", "asleep"]
    short = f"at {listed(behind)} Mpps it did not always offer as much" if behind else "it offered about as much"
    fill = f" Batches do not fill here, as a poll that\n  finds packets finds {at_most(polls, 1)} on average at most."
    return {"table": table(head, [point.row() for point in found.values()]), "typical": typical, "sleep": sleep(found),
            "losses": losses(found), "bounded": bounded(found), "beside": beside_single(found), "short": short,
            "rounds": of_rounds(count), "repeats": REPEATS, "count": f"{count} round{'s' * (count > 1)}",
            "fill": fill if polls < 16 else "",
            "sum": f"{SERVER_US:.1f}", "two": f"{2 * SERVER_US:.1f}", "three": f"{3 * SERVER_US:.1f}", "dma": f"{4 * 2.56:.1f}"}


def draw(axes, raw):
    found = points(raw)
    for axis, field, title in zip(axes, ("p50_us", "p99_us"), ("median", "99 % below")):
        for name in SETTINGS:
            carried = [found[name, rate] for rate in RATES if found[name, rate].is_carried()]
            if carried:
                heights = [statistics.median(one.latencies(field)) for one in carried]
                axis.plot([one.offered for one in carried], heights, "o-", label=name)
        axis.axhline(24, ls=":", color="#c9a227", label="paper's estimate, 24 us")
        axis.set(xlabel="packets per second, millions", ylabel="us", title=title, yscale="log")
    axes[0].legend(fontsize=7)


def summary(raw, values):
    found = points(raw)
    here = "no rate was carried by a worker that stays awake"
    if rate := first_awake(found, BATCHED):
        here = (f"{spread(found[BATCHED, rate].medians_us, 1)} us median at {rate} Mpps, "
                "forwarding only, no card and no waiting for batches")
    paper = "24 us, estimated, of which 10.2 by DMA and 12.8 for a batch of 16"
    return [("RouteBricks 6.2, latency of a server", paper, here)]


figure = Figure(__file__, steps, values, draw, rounds=3, size=(8, 3.6), panels=2, summary=summary)

if __name__ == "__main__":
    figure.main()
