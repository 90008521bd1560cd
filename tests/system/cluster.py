"""The demonstration behind `make cluster`: four servers as one router (RB4), with real traffic by traffic matrices.

Namespaces are made on this machine and always removed at the end. Cables are paced (cables.py): external ones carry
R, internal ones 1.05 times 2R/N. For each matrix (loads.py) every host sends numbered, timestamped UDP packets at an
even pace. Throughput, order, loss and latency are computed from the hosts' records of each packet; loads of links and
paths of packets from the servers' counters.

The exit status is 0 if the cluster came up and kept its bounds: each pair of an admissible matrix got 0.95 of what it sent,
no link was given more than 1.05 of 2R/N, inputs shared an output that all wanted (Jain's index of 0.95), and no packet
was lost that no server or cable says it dropped. Times and rates are not judged: they are the machine's.
"""

import argparse
import json
import math
import sys
from pathlib import Path

from cables import QUEUE
from loads import MATRICES, Load, Outcome, quantile, run
from net import Failed, Lab, left_behind, stop_on_signals
from paced_host import sizes
from rb4 import NAMES, Rb4, internal

PICTURE = """
  host ha ─── a ─────── b ─── host hb      four servers, each a router process in a namespace of its own;
              │ ╲     ╱ │                  full mesh of internal links of 2R/N; one external port of rate R each;
              │   ╳     │                  Direct VLB: R/N straight to each output node, the rest by a third node
  host hd ─── d ─────── c ─── host hc
"""
EXPLAINED = {
    "uniform": "each to all others",
    "permutation": "each all to the next: straight links carry half of that",
    "adverse": "each R/N to the next and the rest to the one after it: quota, phase 1 and phase 2 meet on a link",
    "incast": f"all to {NAMES[0]}, whose port carries a third of that",
    "trace": f"{NAMES[0]} replays a trace to {NAMES[-1]}",
}
# Bounds for admissible matrices: least part of its share that a pair gets, and greatest load of a link. For incast:
# Jain's index over the inputs of an output that all want.
LEAST_SHARE, MOST_LINK, LEAST_FAIRNESS = 0.95, 1.05, 0.95


def pairs(outcome: Outcome) -> None:
    print(f"  {'pair':8}{'sent':>9}{'lost':>7}{'Mbit/s':>9}{'share':>8}{'reordered':>11}{'p50 us':>9}{'p99 us':>9}")
    rates, shares = outcome.rates(), outcome.shares()
    for (a, b), pair in outcome.pairs.items():
        order, times = pair.order, pair.latencies
        print(f"  {a} → {b}  {pair.sent:>10}{pair.lost:>7}{rates[a, b] / 1e6:>9.2f}{shares[a, b]:>8.3f}"
              f"{100 * order['reordered_flows'] / max(order['flows'], 1):>10.2f}%{quantile(times, 0.5):>9.0f}{quantile(times, 0.99):>9.0f}")


def servers(outcome: Outcome) -> None:
    """Prints the servers' own counters."""
    links, processed, spread = outcome.links(), outcome.processed(), outcome.spread()
    print("\n  what internal links were given in units of 2R/N, and what each server processed in units of R:")
    for a in NAMES:
        row = "".join(f"  → {b} {links[a, b]:.3f}" for b in NAMES if b != a)
        print(f"    {a}{row}    c {processed[a]:.2f}")
    print(f"  ways: {spread['direct']} packets straight within the quota, {spread['straight']} straight otherwise, {spread['phase1']} "
          f"({outcome.balanced():.1%}) by a third node; {spread['kept']} kept the way of their flow, {spread['moved']} left it\n")


def results(outcome: Outcome, before: str = "") -> None:
    order, times = outcome.order(), outcome.latencies()
    found = {
        "throughput": f"{sum(outcome.rates().values()) / 1e6:.2f}",
        "fairness": f"{outcome.fairness():.4f}",
        "reordered": f"{100 * order['reordered_flows'] / max(order['flows'], 1):.3f}",
        "lost": f"{sum(pair.lost for pair in outcome.pairs.values())}",
        "latency-p50": f"{quantile(times, 0.5):.1f}",
        "latency-p99": f"{quantile(times, 0.99):.1f}",
    }
    for name, value in found.items():
        print(f"cluster {before}{name} {value}", flush=True)


def bounds(outcome: Outcome) -> dict[str, tuple[float, bool]]:
    """Bounds by name: the measured value, and true if it is within the bound."""
    unnamed = outcome.lost_without_name()
    books = {"lost-without-name": (unnamed, unnamed == 0)}
    if outcome.load.trace:
        return books
    if not outcome.load.admissible:
        return {"fairness": (outcome.fairness(), outcome.fairness() >= LEAST_FAIRNESS)} | books
    least, most = min(outcome.shares().values()), max(outcome.links().values())
    return {"least-share": (least, least >= LEAST_SHARE), "most-loaded-link": (most, most <= MOST_LINK)} | books


def matrix(bed: Rb4, load: Load) -> Outcome:
    name = "trace" if load.trace else load.matrix
    print(f"{name}: {EXPLAINED[name]}; {load.load:.0%} of R from each for {load.seconds:g} s\n", flush=True)
    outcome = run(bed, load)
    pairs(outcome)
    servers(outcome)
    return outcome


def demonstrate(lab: Lab, asked: argparse.Namespace) -> int:
    print("RB4: four servers, one router (network namespaces on this machine)")
    print(PICTURE)
    # On so slow a cable a full queue takes tens of milliseconds each way, which is no fault of a link.
    beat = math.ceil(8e3 * QUEUE / internal(asked.rate * 1e6))
    options = f'heartbeat = "{beat}ms"\ndead = "{8 * beat}ms"' + (f'\nresequence = "{asked.resequence}"' if asked.resequence else "")
    bed = Rb4(lab, f"{asked.rate:g}Mbps", options=options, delta=asked.delta, paced=asked.rate * 1e6)
    bed.start("--workers", str(asked.workers))
    bed.meet((4,))
    least, most = sizes(asked.size)
    print(f"  R = {asked.rate:g} Mbit/s, links {2 * asked.rate / len(NAMES):g} Mbit/s; packets of {least} to {most} bytes, "
          f"{asked.flows} flows a pair\n", flush=True)
    loads = [Load(name, asked.rate * 1e6, asked.load, asked.seconds, asked.size, asked.flows, asked.trace)
             for name in asked.matrix or (["trace"] if asked.trace else MATRICES)]
    outcomes = [matrix(bed, load) for load in loads]
    bed.stop()
    if asked.json:
        asked.json.write_text(json.dumps([outcome.facts() for outcome in outcomes], indent=1) + "\n")
    return judge(outcomes)


def judge(outcomes: list[Outcome]) -> int:
    """Prints the results; those of the first matrix come last and under plain names. Returns the exit status."""
    first, *others = outcomes
    broken = False
    for outcome in others:
        results(outcome, f"{outcome.load.matrix}-")
    for outcome in outcomes:
        for name, (value, good) in bounds(outcome).items():
            if name != "fairness":
                print(f"cluster {outcome.load.matrix}-{name} {value:.4f}")
            if not good:
                print(f"  ✗ {outcome.load.matrix}: {name} is {value:.4f}, outside of its bound")
            broken |= not good
    results(first)
    silent = [f"{a} → {b}" for outcome in outcomes for (a, b), pair in outcome.pairs.items() if not pair.arrivals]
    if silent:
        print(f"  ✗ nothing came through: {', '.join(silent)}")
    return 1 if silent or broken else 0


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--matrix", action="append", choices=list(MATRICES), help="one of these only; default all")
    arguments.add_argument("--rate", type=float, default=24.0, help="R in Mbit/s (default 24)")
    arguments.add_argument("--load", type=float, default=0.9, help="share of R that each host sends (default 0.9)")
    arguments.add_argument("--seconds", type=float, default=7.0, help="how long each matrix is sent (default 7)")
    arguments.add_argument("--size", type=int, default=1000, help="bytes of a packet with its IP header, in the mean (default 1000)")
    arguments.add_argument("--flows", type=int, default=32, help="flows of each pair (default 32)")
    arguments.add_argument("--workers", type=int, default=1, help="workers of each server (default 1)")
    arguments.add_argument("--delta", default="100ms", help="how long flows keep their ways (default 100ms)")
    arguments.add_argument("--resequence", help="how long packets wait for others, such as 2ms (default not at all)")
    arguments.add_argument("--trace", type=Path, help="replay this from the first server to the last instead (see paced_host.py)")
    arguments.add_argument("--json", type=Path, help="a file for all results")
    asked = arguments.parse_args()
    stop_on_signals()
    with Lab() as lab:
        try:
            status = demonstrate(lab, asked)
        except Failed as error:
            print(f"  ✗ {error}")
            status = 1
    if left := left_behind(lab):
        print(f"left behind: {', '.join(left)}", file=sys.stderr)
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
