#!/usr/bin/python3
"""Virtual Routers, Figure 6: which function of the packet's path accesses memory, and how often."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import callgrind, frames, runs  # noqa: E402
from lib.figure import Figure, claim, table  # noqa: E402

APPS = ["forward", "route"]
# Loads and stores of a packet below which a function is put with the others.
LEAST = 1.0
PAPER = 10


def step(app):
    def run(lab):
        return callgrind.by_function_per_packet(lab, runs.CONF / f"{app}.click", frames.fixed(64), runs.values_of(app))

    return run


def steps():
    for app in APPS:
        yield app, step(app)


def functions(raw, app):
    """Functions of an application with their accesses, first-level misses and lines from memory for each packet, most accesses first; the rest together at the end."""
    found, rest = [], [0.0, 0.0, 0.0]
    for one in raw["results"][app][0]["functions"]:
        of = [one["Dr"] + one["Dw"], one["D1mr"] + one["D1mw"], one["DLmr"] + one["DLmw"]]
        if of[0] < LEAST:
            rest = [a + b for a, b in zip(rest, of)]
        else:
            name = one["name"].strip(":")
            found.append(("(without a name)" if name.startswith("0x") else name, one["object"], of))
    found.sort(key=lambda row: -row[2][0])
    return [*found, ("all others", "", rest)]


def sums(raw, app):
    return [sum(values) for values in zip(*(of for _, _, of in functions(raw, app)))]


def values(raw):
    found = {"paper": PAPER}
    for app in APPS:
        rows = [[f"`{name}`" if held else name, held, f"{of[0]:.1f}", f"{of[1]:.2f}", f"{of[2]:.2f}"] for name, held, of in functions(raw, app)]
        all_of = sums(raw, app)
        rows.append(["**sum**", "", *(f"{value:.1f}" for value in all_of)])
        found |= {app: table(["function", "in", "loads and stores", "misses of the first level", "lines from memory"], rows),
                  f"{app} accesses": f"{all_of[0]:.0f}", f"{app} hits": f"{100 * (1 - all_of[1] / all_of[0]):.0f}", f"{app} lines": f"{all_of[2]:.1f}"}
    claim(max(sums(raw, app)[2] for app in APPS) < PAPER, "fewer lines come from memory than in the paper")
    return found


def draw(axes, raw):
    for axis, app in zip(axes, APPS):
        rows = functions(raw, app)[:8]
        axis.barh(range(len(rows)), [of[0] for _, _, of in rows])
        axis.set_yticks(range(len(rows)), [name[-28:] for name, _, _ in rows], fontsize=7)
        axis.invert_yaxis()
        axis.set(title=app, xlabel="loads and stores of a packet")


def summary(raw, values):
    return [("Virtual Routers Figure 6, lines from memory of a packet", f"about {PAPER}, of which 3 for each transfer by the card", f"{values['forward lines']} forwarding, {values['route lines']} routing, by a model of the caches; no card")]


figure = Figure(__file__, steps, values, draw, rounds=1, size=(9, 3.4), panels=2, timed=False, summary=summary)

if __name__ == "__main__":
    figure.main()
