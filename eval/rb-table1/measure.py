#!/usr/bin/python3
"""RouteBricks, Table 1: forwarding rate against the batch sizes kp (poll) and kn (port), and what explains it."""

import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import callgrind, frames, machine, model, plot, runs  # noqa: E402
from lib.figure import Figure, claim, column, median, of_rounds, quotient, spread, table  # noqa: E402

CONF = pathlib.Path(__file__).with_name("batches.click")
PAPER = {(1, 1): 1.46, (32, 1): 4.97, (32, 16): 9.77, (32, 32): None}  # Gbps, eight cores
SETTINGS = list(PAPER)
COUNTED = SETTINGS[:3]


def counted(values):
    """A step: misses of the first-level cache and instructions of a packet, from the capture to nowhere."""
    return lambda lab: callgrind.per_packet(lab, CONF, frames.fixed(64), values, 3)


def steps():
    for kp, kn in SETTINGS:
        values = [f"KP={kp}", f"KN={kn}", "TIMEOUT=0"]
        yield f"alone {kp},{kn}", lambda lab, v=values: runs.endless(CONF, frames.fixed(64), v)(lab)
        yield f"memif {kp},{kn}", lambda lab, v=values, n=kn: runs.fed(
            CONF, frames.fixed(64), 0, n, v, back=True)(lab)
        if (kp, kn) in COUNTED:
            yield f"counts {kp},{kn}", counted(values)


def over(results, way, setting, base):
    """Words on the rate of a setting over that of another."""
    return quotient(*(column(results, f"{way} {kp},{kn}") for kp, kn in (setting, base)))


def gain(results, way, kp, kn):
    """Words on the rate of a setting over that of kp = kn = 1."""
    return "1.0" if (kp, kn) == (1, 1) else over(results, way, (kp, kn), (1, 1))


def values(raw):
    results = raw["results"]
    rows = []
    for kp, kn in SETTINGS:
        paper = PAPER[kp, kn]
        row = [kp, kn, f"{paper} ({paper / PAPER[1, 1]:.1f})" if paper else "not tried"]
        for way in ("alone", "memif"):
            rates = column(results, f"{way} {kp},{kn}", scale=1e6)
            row += [spread(rates), gain(results, way, kp, kn)]
        row.append(spread(column(results, f"memif {kp},{kn}", "cycles per packet"), 0))
        rows.append(row)
    head = ["kp", "kn", "paper: Gbps (gain)", "capture to nowhere: Mpps", "gain", "memif and back: Mpps", "gain",
            "cycles per packet there"]
    misses = {n: [one["D1mr"] + one["D1mw"] for one in results[f"counts {n[0]},{n[1]}"]] for n in COUNTED}
    instructions = {n: median(results, f"counts {n[0]},{n[1]}", "Ir") for n in COUNTED}
    claim(statistics.median(misses[1, 1]) < min(misses[32, 1]) and instructions[1, 1] > instructions[32, 1] > instructions[32, 16],
          "a packet that is taken alone misses the cache less, and batches of one cost instructions")
    found = {"alone misses": spread(misses[1, 1], 1), "batch misses": spread(misses[32, 1], 1), "split": f"{instructions[32, 1] - instructions[32, 16]:.0f}",
             "alone instructions": f"{instructions[1, 1]:,.0f}", "batch instructions": f"{instructions[32, 1]:,.0f}"}
    return found | {"table": table(head, rows), "rounds": of_rounds(len(results["alone 1,1"])),
                    "over": over_a_core(raw),
                    "alone kp": over(results, "alone", (32, 1), (1, 1)),
                    "alone kn": over(results, "alone", (32, 16), (32, 1)),
                    "memif kn": over(results, "memif", (32, 16), (32, 1)), "memif kp": kp_of_memif(results), "polls alone": polls_of_capture(results),
                    "paper kp": f"{PAPER[32, 1] / PAPER[1, 1]:.1f}", "paper kn": f"{PAPER[32, 16] / PAPER[32, 1]:.1f}"}


def polls_of_capture(results):
    """Sentences on the packets of a poll from a capture with kn = 1, for kp = 1 and kp = 32."""
    single, batch = (column(results, f"alone {kp},1", "packets per poll") for kp in (1, 32))
    words = f"A poll from a capture finds {spread(single, 1)} packets with kp = 1 (a short turn\ntakes kp packets up to 16 times), and {spread(batch, 1)} with kp = 32."
    return words + (" So the capture does not show what kp gains." if min(single) > 1.5 else "")


def kp_of_memif(results):
    """Sentences on kp over memif: with kn = 1 its polls find few packets."""
    found = column(results, "memif 32,1", "packets per poll")
    words = ("Over memif the source sends packets singly with kn = 1: "
             f"a poll with kp = 32 finds {spread(found, 1)} there.")
    return words + (" So memif does not show what kp gains." if statistics.median(found) < 16 else "")


def over_a_core(raw):
    """Words on rounds over memif in which the counted cycles of a second are more than a core has."""
    hz = machine.noted_hz(raw["host"])
    parts = {(kp, kn): max(model.part_used(one, hz) for one in raw["results"][f"memif {kp},{kn}"])
             for kp, kn in SETTINGS}
    (kp, kn), most = max(parts.items(), key=lambda part: part[1])
    if most <= 1.05:
        return ""
    return (" They are counted in about one poll of 60, and can be too\n  high: "
            f"with kp = {kp} and kn = {kn} they come in a round to {100 * most:.0f} % of what a core has.")


def draw(axes, raw):
    results = raw["results"]
    names = [f"kp={kp}\nkn={kn}" for kp, kn in SETTINGS]
    for axis, way, title in zip(axes, ("alone", "memif"), ("capture to nowhere", "memif and back")):
        plot.bars(axis, names, [column(results, f"{way} {kp},{kn}", scale=1e6) for kp, kn in SETTINGS])
        axis.set_title(f"{title}, one core, 64 B")


def summary(raw, values):
    return [("RouteBricks Table 1, batches (kp = 32, kn = 16) over none", "6.7 times, eight cores",
             " and ".join(f"{gain(raw['results'], way, 32, 16)} times {words}" for way, words in (("memif", "over memif"), ("alone", "from a capture"))) + ", one core")]


figure = Figure(__file__, steps, values, draw, size=(8, 3.4), panels=2, summary=summary)

if __name__ == "__main__":
    figure.main()
