#!/usr/bin/python3
"""RouteBricks, 6.2: latency through one server, as percentiles by load and batch settings."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import frames, runs  # noqa: E402
from lib.figure import Figure, at_most, claim, median, table  # noqa: E402

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


def losses(raw, name):
    """Text with the rates at which a setting loses 1 % or more. A loss that does not occur at a higher rate is no limit
    of the router.
    """
    rates = [f"{rate:g}" for rate in RATES if round(lost(raw, f"{name} at {rate}"), 4) >= 0.01]
    return f"at {', '.join(rates)} Mpps wanted" if rates else "at none of these rates"


def values(raw):
    rows = []
    for name in SETTINGS:
        for rate in RATES:
            label = f"{name} at {rate}"
            shown = lost(raw, label)
            rows.append([name, f"{offered(raw, label):.2f}", *(f"{source(raw, label, f):.1f}" for f in FIELDS),
                         "0" if shown < 0.00005 else f"{100 * shown:.2f} %",
                         f"{100 * median(raw['results'], label, 'asleep'):.0f} %"])
    batched = "kp=32 kn=32"
    one = f"{batched} at {RATES[2]}"
    full, single = ([source(raw, f"{name} at {rate}", "p50_us") for rate in RATES] for name in (batched, "kp=1 kn=1"))
    more = max(a - b for a, b in zip(full, single, strict=True))
    beside = "So large batches cost\n  no latency: at no load is the median above that of kp = kn = 1."
    if more >= 0.05:
        beside = f"The median is at most {at_most(more, 1)} us\n  above that of kp = kn = 1."
    found = max(median(raw["results"], f"{batched} at {rate}", "packets per poll") for rate in RATES)
    # Text that says so would be wrong if batches filled.
    claim(found < 8, "batches do not fill")
    asleep = f"kp=32 kn=16, 10 us at {RATES[0]}"
    slow = source(raw, asleep, "p50_us")
    late = (f"While a worker sleeps the time ends late: at {offered(raw, asleep):.2g} Mpps the median is {slow:.0f} us\n  with 10 us. So the bound holds "
            "only for a worker that is awake. ") if slow > TIMEOUT_US else ""
    sleeps, awake, asleep_most = (source(raw, f"{batched} at {RATES[0]}", "p50_us"), source(raw, one, "p50_us"),
                                  median(raw["results"], f"{batched} at {RATES[0]}", "asleep"))
    sleep = f"At {offered(raw, f'{batched} at {RATES[0]}'):.2g} Mpps a worker sleeps {100 * asleep_most:.0f} % of the time, and the median is {sleeps:.0f} us."
    if asleep_most > 0.5 and sleeps > 2 * awake:
        sleep = "An idle worker sleeps (last column), and the first packet waits for it. " + sleep
    count = len(raw["results"][one])
    return {"table": table(["setting", "Mpps", "50 %", "90 %", "99 %", "99.9 %", "lost", "asleep"], rows),
            "typical": f"{source(raw, one, 'p50_us'):.1f}", "typical rate": f"{offered(raw, one):.2g}",
            "sleep": sleep, "asked": f"{', '.join(f'{rate:g}' for rate in RATES)} Mpps",
            "loss 1": losses(raw, "kp=1 kn=1"), "loss 32": losses(raw, batched), "rounds": f"{count} round{'s' * (count > 1)}",
            "bounded": f"{source(raw, f'kp=32 kn=16, 10 us at {RATES[1]}', 'p50_us'):.1f}",
            "unbounded": f"{source(raw, f'{batched} at {RATES[1]}', 'p50_us'):.1f}",
            "second rate": RATES[1], "late": late,
            "full median": beside, "found": at_most(found, 1),
            "sum": f"{SERVER_US:.1f}", "two": f"{2 * SERVER_US:.1f}", "three": f"{3 * SERVER_US:.1f}", "dma": f"{4 * 2.56:.1f}"}


def draw(axes, raw):
    for axis, field, title in zip(axes, ("p50_us", "p99_us"), ("median", "99 % below")):
        for name in SETTINGS:
            labels = [f"{name} at {rate}" for rate in RATES]
            points = [(offered(raw, l), source(raw, l, field)) for l in labels if round(lost(raw, l), 4) < 0.01]
            if points:
                axis.plot(*zip(*points), "o-", label=name)
        axis.axhline(24, ls=":", color="#c9a227", label="paper's estimate, 24 us")
        axis.set(xlabel="packets per second, millions", ylabel="us", title=title, yscale="log")
    axes[0].legend(fontsize=7)


def summary(raw, values):
    return [("RouteBricks 6.2, latency of a server", "24 us, estimated", f"{values['typical']} us median at 1 Mpps, no card")]


figure = Figure(__file__, steps, values, draw, rounds=1, size=(8, 3.6), panels=2, summary=summary)

if __name__ == "__main__":
    figure.main()
