#!/usr/bin/python3
"""RouteBricks, 6.1: the header is processed once. Measures instructions per packet at a cluster's nodes, and the cost of
its options.
"""

import pathlib
import re
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import machine, spread  # noqa: E402
from lib.figure import Figure, column, compared, median, of_rounds, table  # noqa: E402

COMMAND = machine.ROOT / "eval" / "bench" / "instructions"
NODES = {
    "forward": "minimal forwarding, 32 packets at a time",
    "forward-64": "minimal forwarding, 64 at a time as the nodes below",
    "vlb-transit": "intermediate node, all on by one link",
    "vlb-transit-two": "intermediate node, on by two links, mixed",
    "vlb-output": "output node, to gateways and to hosts on its link",
    "vlb-output-long": "the same by the long way",
    "vlb-input": "input node, with a table of 256K routes (RadixIPLookup)",
    "route": "a router by itself, with that table (DirectIPLookup)",
}
OPTIONS = {
    "vlb-input": "input node",
    "vlb-input-no-flowlets": "without flowlets",
    "vlb-input-resequence": "with RESEQUENCE",
    "vlb-output-long": "output node, by the long way",
    "vlb-output-resequence": "with RESEQUENCE",
}
KEYED = {"enter": "input node", "pass": "intermediate node", "leave": "output node"}
CIPHER = ("encrypt_detached", "decrypt_detached")  # functions of AEGIS-128L without "aegis" in their names
LIKE = "forward-64"  # what nodes behind the input node are compared with
WHERE = [LIKE, "vlb-transit", "vlb-transit-two", "vlb-output"]
BOUND = 1.2
SERVERS = 4
# Gbps that the paper predicts of four servers, and measured.
PAPER = {"64": ("12.7 to 19.4", "12"), "mix": ("33 to 49", "35")}


def run(name):
    def step(_):
        done = subprocess.run([COMMAND, "--functions", name], capture_output=True, text=True)
        found = re.search(r"^instructions \S+ own (\S+) all (\S+)", done.stdout, re.M)
        if done.returncode != 0 or not found:
            raise machine.Failed(done.stderr[-2000:])
        lines = re.findall(r"^function (\S+) (\S+) (.*)$", done.stdout, re.M)
        functions = [[float(n), file, function] for n, file, function in lines]
        return {"own": float(found[1]), "all": float(found[2]), "functions": functions}

    return step


def steps():
    keyed = [f"nodes-{where}{more}" for where in KEYED for more in ("", "-key")]
    for name in dict.fromkeys([*NODES, *OPTIONS, *keyed]):
        yield name, run(name)


def by_costs(results, size, transits):
    """Gbps of four servers of one core each by the measured costs of nodes, for each round of routing alone: each node costs a
    packet as much as routing, plus the node's further instructions.
    """
    alone = figure.other("rb-fig8")["results"]
    route = median(results, "route", "all")
    parts = [("vlb-input", 1), ("vlb-output", 1), ("vlb-transit", transits)]
    found = []
    for one, small in zip(alone[f"route {size}"], alone["route 64"], strict=True):
        per_instruction = 1 / (route * small["rate"])
        seconds = sum(part * (1 / one["rate"] + (median(results, node, "all") - route) * per_instruction) for node, part in parts)
        found.append(SERVERS * one["line bits"] / one["rate"] / seconds / 1e9)
    return found


def by_rules(size):
    """Gbps of four servers of one core each by the paper's rules, for each round: at worst and at best."""
    alone = figure.other("rb-fig8")["results"]
    # A server processes 2R to 3R of its port's rate R; with 64 bytes 2R, as all packets go directly.
    return [[SERVERS * rate / processed for rate in column(alone, f"{app} {size}", "line bits", 1e9)]
            for app, processed in (("route", 2 if size == "64" else 3), ("forward", 2))]


def cluster(results):
    """Table of the rates of four servers by the paper's rules and by the costs of nodes, and words that compare the two."""
    rows, ranges, medians = [], {}, []
    for size, (told, measured) in PAPER.items():
        rules, costs = by_rules(size), [by_costs(results, size, transits) for transits in (1 - 2 / SERVERS, 0)]
        rows.append([f"{size} bytes" if size != "mix" else "mix as on a backbone", told, measured,
                     *(" to ".join(spread(rates, 1) for rates in ends) for ends in (rules, costs))])
        medians.append(" to ".join(f"{statistics.median(rates):.1f}" for rates in costs))
        ranges["the mix" if size == "mix" else f"{size} bytes"] = compared([*costs[0], *costs[1]], [*rules[0], *rules[1]])
    beside = {"more": "above those of the rules", "less": "below those of the rules",
              "no different": "in a range that overlaps that of the rules"}
    rates = ",\nand ".join(f"the rates with {frames} are {beside[found]}" for frames, found in ranges.items())
    times_route = median(results, "vlb-input", "all") / median(results, "route", "all")
    words = (f"By the costs of nodes {rates}.\n"
             f"An input node, which looks up by RadixIPLookup, takes {times_route:.1f} times as many instructions as a router by itself, which looks up by DirectIPLookup.")
    return {"by costs": ", ".join(medians), "cluster": table(["frames", "paper: predicted, Gbps", "paper: measured", "here, by the paper's rules", "here, by the costs of nodes"], rows), "cost words": words}


def times(results, name):
    """Instructions as a multiple of those of minimal forwarding."""
    return median(results, name, "all") / median(results, LIKE, "all")


def node_alone(results, where, more):
    """Instructions of one node: those of a row with two nodes, minus those of the input node, which is in all rows."""
    before = 0 if where == "enter" else median(results, f"nodes-enter{more}", "all")
    return median(results, f"nodes-{where}{more}", "all") - before


def of_tag(results, where):
    """Part of the instructions that KEY adds at a node which AEGIS-128L takes."""
    def cipher(name):
        return sum(n for n, _, function in results[name][0]["functions"] if function in CIPHER or "aegis" in function)

    before = 0 if where == "enter" else cipher("nodes-enter-key")
    return (cipher(f"nodes-{where}-key") - before) / (node_alone(results, where, "-key") - node_alone(results, where, ""))


def short(file, function):
    """A function's name without the common prefix and suffix."""
    if function.startswith("0x"):
        return f"driver ({file.split('.so')[0]})"
    if file.startswith("libc") or file.startswith("ld-"):
        return f"{function.lstrip('_')} (C library)"
    # Generic arguments and the paths before type names say little.
    return re.sub(r"(?:\w+::)+(?=[A-Z])", "", function).replace("<impl Graph>::", "").replace("|", "\\|")


def values(raw):
    results = raw["results"]
    nodes, options, base = [], [], None
    for name, what in NODES.items():
        own, all = median(results, name, "own"), median(results, name, "all")
        nodes.append([what, name, f"{own:.0f}", f"{all:.0f}", f"{times(results, name):.2f}"])
    for name, what in OPTIONS.items():
        all = median(results, name, "all")
        base = all if not what.startswith("with") else base
        more = "" if all == base else f"{all - base:+.0f}"
        options.append([what, name, f"{all:.0f}", more])
    keyed = []
    for name, what in KEYED.items():
        plain, key = (node_alone(results, name, more) for more in ("", "-key"))
        keyed.append([what, f"{plain:.0f}", f"{key:.0f}", f"{key - plain:+.0f}"])
    where = []
    for name in WHERE:
        sums = {}
        for n, file, function in results[name][0]["functions"]:
            sums[short(file, function)] = sums.get(short(file, function), 0) + n
        where += [[name, f"{n:.1f}", f"`{function}`"] for function, n in sorted(sums.items(), key=lambda one: -one[1])]
    forward = median(results, LIKE, "all")
    named = {name: " ".join(function for *_, function in results[name][0]["functions"]) for name in WHERE}
    both = "sides::agree" in named["vlb-transit"] and "Partition::run" in named["vlb-transit-two"]
    looks = " `Partition::run`\nlooks up packets as `agree` does, and appends each to the batch of its output." if both else ""

    def verdict(name):
        ratio, over = times(results, name), median(results, name, "all") - BOUND * forward
        return f"within it ({ratio:.2f})" if over <= 0 else f"beyond it ({ratio:.2f}, {over:.0f} instructions too many)"

    verdicts = {name: verdict(name) for name in ("vlb-transit", "vlb-transit-two", "vlb-output")}
    plain = {f"{name} plain": f"{median(results, name, 'all') / median(results, 'forward', 'all'):.2f}" for name in verdicts}
    tags = [100 * of_tag(results, where) for where in KEYED]
    drivers = sum(n for n, file, _ in results[LIKE][0]["functions"] if file.startswith("librte"))
    return verdicts | plain | cluster(results) | {
        "tags": f"{min(tags):.0f} to {max(tags):.0f}", "drivers": f"{100 * drivers / forward:.0f}",
        "nodes": table(["node", "row of eval/bench/instructions", "of Ashlar itself", "all", "times minimal forwarding"], nodes),
        "options": table(["node", "row", "instructions", "more"], options),
        "keyed": table(["node", "without KEY", "with KEY", "more"], keyed),
        "where": table(["row", "instructions", "function"], where),
        "looks up": looks, "rounds": of_rounds(figure.other("rb-fig8")["rounds"]), "bound": str(BOUND), "room": f"{(BOUND - 1) * forward:.0f}"}


def draw(axes, raw):
    results = raw["results"]
    names = list(NODES)
    own = [median(results, name, "own") for name in names]
    rest = [median(results, name, "all") - part for name, part in zip(names, own)]
    axes.barh(names, rest, label="drivers and C library")
    axes.barh(names, own, left=rest, label="Ashlar")
    axes.axvline(BOUND * median(results, LIKE, "all"), linestyle="--", color="black", label=f"{BOUND} times minimal forwarding")
    axes.invert_yaxis()
    axes.set(xlabel="instructions per packet")
    axes.legend()


def summary(raw, values):
    one, two, out = (f"{times(raw['results'], name):.2f}" for name in ("vlb-transit", "vlb-transit-two", "vlb-output"))
    return [("RouteBricks 6.1, instructions of a node behind the input node over forwarding's", "1: it only forwards",
             f"{one} on by one link, {two} by two, {out} at the output; our bound is {BOUND}"),
            ("RouteBricks 6.2, four servers: 64 bytes, backbone mix", "12, 35 Gbps, eight cores each", f"{values['by costs']} Gbps (medians), computed for one core each")]


figure = Figure(__file__, steps, values, draw, rounds=1, size=(8, 3.4), lab=False, at_once=2, summary=summary)

if __name__ == "__main__":
    figure.main()
