#!/usr/bin/python3
"""RouteBricks, 6.2: latency through one server, as percentiles by load and batch settings."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import frames, runs  # noqa: E402
from lib.figure import Figure, at_most, claim, column, median, spread, table  # noqa: E402

CONF = pathlib.Path(__file__).with_name("forward.click")
RATES = [0.05, 0.5, 1, 2, 4, 6]  # Mpps
# Name: kp, kn, TIMEOUT of ToDevice.
SETTINGS = {
    "kp=1 kn=1": (1, 1, "0"),
    "kp=32 kn=32": (32, 32, "0"),
    "kp=32 kn=16, 10 us": (32, 16, "10us"),
    "kp=32 kn=16, 100 us": (32, 16, "100us"),
}
TIMEOUT_US = 10  # the shorter one
FULL_US = 100  # median, beyond a setting's TIMEOUT, from which a loss is the router's and not of a moment
SERVER_US = round(4 * 2.56 + 12.8 + 0.8, 1)  # the paper's estimate for a server
FIELDS = ["p50_us", "p90_us", "p99_us", "p999_us"]


def steps():
    for rate in RATES:
        for name, (kp, kn, timeout) in SETTINGS.items():
            values = [f"KP={kp}", f"KN={kn}", f"TIMEOUT={timeout}"]
            yield f"{name} at {rate}", lambda lab, r=rate, v=values: runs.fed(
                CONF, frames.fixed(64), r * 1e6, 1, v, back=True)(lab)


def source(raw, label, field):
    """A field of the source's results: the median of the rounds."""
    return median({label: [one["source"] for one in raw["results"][label]]}, label, field)


def offered(raw, label):
    """Packets that the source offered to the router, in millions a second."""
    packets = source(raw, label, "sent") + source(raw, label, "refused")
    return packets / source(raw, label, "seconds") / 1e6


def lost(raw, label):
    packets = source(raw, label, "sent") + source(raw, label, "refused")
    return max(0.0, 1 - source(raw, label, "received") / packets)


def loses(raw, name, rate):
    """True if a setting loses 1 % or more."""
    return round(lost(raw, f"{name} at {rate}"), 4) >= 0.01


def reached(raw, label, rate):
    """True if the source offered about as much as it was asked for."""
    return offered(raw, label) >= 0.9 * rate


def losses(raw):
    """Sentences on settings that lose 1 % or more: those whose median says that packets waited in a full ring, and others."""
    full, other = {}, {}
    for name in SETTINGS:
        for rate in filter(lambda rate: loses(raw, name, rate), RATES):
            timeout = int(SETTINGS[name][2].removesuffix("us"))
            kind = full if source(raw, f"{name} at {rate}", "p50_us") > FULL_US + timeout else other
            kind.setdefault(name, []).append(f"{rate:g}")

    def told(found):
        return "; ".join(f"{name} at {' and '.join(rates)} Mpps" for name, rates in found.items())

    one = column(figure.other("rb-table1")["results"], "memif 1,1", scale=1e6)
    words = []
    if full:
        words.append(f"1 % or more is lost, and half of the packets take over {FULL_US} us, with {told(full)}: there the router is slower than the source, and its ring fills.\n  "
                     f"With kp = kn = 1 and single packets it carries {spread(one, 1)} Mpps on [rb-table1](../rb-table1).")
    if other:
        words.append(f"{'1 % or more is also lost, but with a shorter median,' if full else '1 % or more is lost'} with {told(other)}. With few rounds a point and two shared cores such a loss "
                     "probably comes from other programs on a core.")
    return "\n  ".join(words) or "No setting loses 1 % at any of these rates."


def values(raw):
    rows = []
    for name in SETTINGS:
        for rate in RATES:
            label = f"{name} at {rate}"
            shown = lost(raw, label)
            rows.append([name, f"{rate:g}", f"{offered(raw, label):.2f}", *(f"{source(raw, label, f):.1f}" for f in FIELDS),
                         "0" if shown < 0.00005 else f"{100 * shown:.2f} %",
                         f"{100 * median(raw['results'], label, 'asleep'):.0f} %"])
    batched = "kp=32 kn=32"
    one = f"{batched} at {RATES[2]}"
    alike = [rate for rate in RATES if reached(raw, f"{batched} at {rate}", rate) and reached(raw, f"kp=1 kn=1 at {rate}", rate)
             and not loses(raw, batched, rate) and not loses(raw, "kp=1 kn=1", rate)]
    full, single = ([source(raw, f"{name} at {rate}", "p50_us") for rate in alike] for name in (batched, "kp=1 kn=1"))
    more = max(a - b for a, b in zip(full, single, strict=True))
    where = f"where both got what was asked for and lost less than 1 % ({', '.join(f'{rate:g}' for rate in alike)} Mpps)"
    beside = f"The median is\n  nowhere above that of kp = kn = 1 {where}."
    if more >= 0.05:
        beside = f"The median is at most {at_most(more, 1)} us\n  above that of kp = kn = 1 {where}."
    behind = [rate for rate in RATES if not all(reached(raw, f"{name} at {rate}", rate) for name in SETTINGS)]
    short = f"at {' and '.join(f'{rate:g}' for rate in behind)} Mpps it did not always offer as much" if behind else "it offered that much"
    found = max(median(raw["results"], f"{batched} at {rate}", "packets per poll") for rate in RATES)
    # Text that says so would be wrong if batches filled.
    claim(found < 8, "batches do not fill")
    asleep = f"kp=32 kn=16, 10 us at {RATES[0]}"
    slow = source(raw, asleep, "p50_us")
    without = source(raw, f"{batched} at {RATES[0]}", "p50_us")
    late = (f"A worker that sleeps adds to it: at {offered(raw, asleep):.2g} Mpps the median is {slow:.0f} us\n  with 10 us, and {without:.0f} us without a `TIMEOUT`. So the bound holds "
            "only for a worker that is awake. ") if slow > TIMEOUT_US else ""
    sleeps, awake, asleep_most = (source(raw, f"{batched} at {RATES[0]}", "p50_us"), source(raw, one, "p50_us"),
                                  median(raw["results"], f"{batched} at {RATES[0]}", "asleep"))
    sleep = f"At {offered(raw, f'{batched} at {RATES[0]}'):.2g} Mpps a worker sleeps {100 * asleep_most:.0f} % of the time, and the median is {sleeps:.0f} us."
    if asleep_most > 0.5 and sleeps > 2 * awake:
        sleep = "An idle worker sleeps (last column), and the first packet waits for it. " + sleep
    count = len(raw["results"][one])
    return {"table": table(["setting", "asked, Mpps", "offered", "50 %", "90 %", "99 %", "99.9 %", "lost", "asleep"], rows),
            "typical": f"{source(raw, one, 'p50_us'):.1f}", "typical rate": f"{offered(raw, one):.2g}",
            "sleep": sleep, "short": short, "losses": losses(raw), "rounds": f"{count} round{'s' * (count > 1)}",
            "bounded": f"{source(raw, f'kp=32 kn=16, 10 us at {RATES[1]}', 'p50_us'):.1f}",
            "unbounded": f"{source(raw, f'{batched} at {RATES[1]}', 'p50_us'):.1f}",
            "second rate": RATES[1], "late": late,
            "full median": beside, "found": at_most(found, 1),
            "sum": f"{SERVER_US:.1f}", "two": f"{2 * SERVER_US:.1f}", "three": f"{3 * SERVER_US:.1f}", "dma": f"{4 * 2.56:.1f}"}


def draw(axes, raw):
    for axis, field, title in zip(axes, ("p50_us", "p99_us"), ("median", "99 % below")):
        for name in SETTINGS:
            labels = [f"{name} at {rate}" for rate in RATES if reached(raw, f"{name} at {rate}", rate) and not loses(raw, name, rate)]
            points = [(offered(raw, label), source(raw, label, field)) for label in labels]
            if points:
                axis.plot(*zip(*points), "o-", label=name)
        axis.axhline(24, ls=":", color="#c9a227", label="paper's estimate, 24 us")
        axis.set(xlabel="packets per second, millions", ylabel="us", title=title, yscale="log")
    axes[0].legend(fontsize=7)


def summary(raw, values):
    return [("RouteBricks 6.2, latency of a server", "24 us, estimated, of which 10.2 by DMA and 12.8 for a batch of 16", f"{values['typical']} us median at {values['typical rate']} Mpps, no card and no waiting for batches")]


figure = Figure(__file__, steps, values, draw, rounds=1, size=(8, 3.6), panels=2, summary=summary)

if __name__ == "__main__":
    figure.main()
