#!/usr/bin/python3
"""RouteBricks, 3.2 and 6.2: Direct VLB in virtual time, for every traffic matrix, and RB10's reordering."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import frames  # noqa: E402
from lib.figure import Figure, claim, listed, table  # noqa: E402
from lib.lab import simulate  # noqa: E402
from lib.plot import OTHER, OURS, PAPER  # noqa: E402

MATRICES = ["uniform", "permutation", "random", "adverse", "hotspot", "incast"]
# Virtual milliseconds: a link of 64 servers carries 3500 packets in that time, and one of 256 servers 900.
SIZES = {4: 100, 16: 40, 64: 60, 256: 60, 2048: 0.3}
WARMUP = {4: 10, 16: 10, 64: 5, 256: 2.5, 2048: 0.2}
# The larger sizes take up to two minutes of a quiet processor for each matrix, the largest a gigabyte. There each input must get some
# packets through the output that all want: that takes longer, with less work where each offers a tenth.
LARGE = {256: {"permutation": [], "incast": []}, 2048: {"permutation": [], "incast": ["--load", "0.1", "--time", "25"]}}
FLOWS, MORE_FLOWS = 4096, 65_536  # of each input
FINER_NAME = f"random, {MORE_FLOWS:,} flows"
# FLOWS over 63 intermediate nodes to each output are coarse: the same with MORE_FLOWS, and without flowlets.
FINER = {64: {FINER_NAME: ["--flows", str(MORE_FLOWS), "--flowlets", str(MORE_FLOWS)], "random, by packets": ["--delta", "0"]}}
RANDOM_OUTPUTS = 6  # of an input in the matrix random: one for each of its permutations
MODEL = ["--burst", "0.5", "--queue", "1.5"]  # both shorter than by default, so that they count for less in a short time
ORDER = {
    "Direct VLB": ["--delta", "0"],
    "with flowlets": [],
    "Direct VLB, resequencer": ["--delta", "0", "--resequence", "2"],
    "flowlets, resequencer": ["--resequence", "2"],
}
PAPER_ORDER = {"Direct VLB": "5.5 %", "with flowlets": "0.15 %"}


def matrix(n, name):
    more = LARGE.get(n, {}).get(name, []) + FINER.get(n, {}).get(name, [])
    time = [] if "--time" in more else ["--time", str(SIZES[n])]
    return lambda _: simulate("--ports", str(n), "--matrix", name.split(",")[0], *time, "--warmup", str(WARMUP[n]), *MODEL, *more,
                              *(["--flowlets", "4096"] if n >= 256 else []))


def fly(name):
    return lambda _: simulate("--fly", "4,2", "--matrix", name, "--time", "30", "--warmup", "10", "--c", "5.25", *MODEL)


def order(options):
    def step(_):
        path, what = frames.real()
        return simulate("--ports", "4", "--trace", str(path), "--time", "200", "--warmup", "20", *options) | {"traffic": what}

    return step


def steps():
    for n in SIZES:
        for name in matrices(n):
            yield f"{n} {name}", matrix(n, name)
    for name in ("uniform", "permutation", "random"):
        yield f"fly {name}", fly(name)
    for name, options in ORDER.items():
        yield name, order(options)


def matrices(n):
    return [*LARGE.get(n, MATRICES), *FINER.get(n, {})]


def drops(one):
    all_packets = one["packets_in"]
    return ", ".join(f"{name} {100 * n / all_packets:.2f} %" for name, n in one["drops"].items() if n) or "none"


def row(label, one):
    links, latency, late = one["links"], one["latency_ns"], one["reordering"]
    fair = one["input_fairness"]
    pair = one["pair_least"]
    return [label, f"{100 * one['delivered_bytes'] / one['offered_bytes']:.1f} %", "" if pair is None else f"{pair:.3f}",
            "" if fair is None else f"{fair:.4f}", f"{links['mean']:.2f}", f"{links['p99']:.2f}",
            f"{links['max']:.2f}", f"{links['excess_bytes'] / 1500:+.0f}", f"{one['c']['mean']:.2f}", f"{one['c']['max']:.2f}",
            f"{sum(k * n for k, n in enumerate(one['hops'])) / max(sum(one['hops']), 1):.2f}",
            f"{latency['p50'] / 1e3:.0f} / {latency['p99'] / 1e3:.0f}", f"{100 * late['late'] / max(late['packets'], 1):.2f} %", drops(one)]


HEAD = ["matrix", "delivered", "least pair", "Jain", "links: mean", "p99", "max", "excess", "c: mean", "max", "links passed", "us: p50 / p99",
        "late packets", "dropped"]


def values(raw):
    results = {label: rounds[0] for label, rounds in raw["results"].items()}
    out = {f"n{n}": table(HEAD, [row(name, results[f"{n} {name}"]) for name in matrices(n)]) for n in SIZES}
    out |= {f"time{n}": f"{time:g} ms" for n, time in SIZES.items()}
    out["fly"] = table(HEAD, [row(name, results[f"fly {name}"]) for name in ("uniform", "permutation", "random")])
    rows = []
    for name in ORDER:
        one = results[name]
        order = one["reordering"]
        rows.append([name, PAPER_ORDER.get(name, ""), f"{100 * order['reordered_flows'] / order['flows']:.3f} %",
                     f"{100 * order['runs'] / order['packets']:.3f}", f"{100 * order['late'] / order['packets']:.3f} %",
                     f"{one['latency_ns']['p50'] / 1e3:.0f} / {one['latency_ns']['p99'] / 1e3:.0f}"])
    out["order"] = table(["", "paper", "flows, of those with two packets or more", "runs of late packets, for 100 packets", "late packets, of all", "us: p50 / p99"], rows)
    first = results["Direct VLB"]
    out["traffic"] = f"{first['traffic']}: {first['reordering']['packets']:,} packets, {first['reordering']['flows']:,} flows of more than one packet"
    claim(results["with flowlets"]["reordering"]["late"] == 0 < first["reordering"]["late"], "the real flows fit on paths of their own")
    claim(all(results[name]["reordering"]["late"] == 0 for name in ORDER if "resequencer" in name), "the resequencer removes all reordering")
    claim(all(results[f"{n} uniform"]["c"]["mean"] > 2 for n in SIZES if n not in LARGE), "with uniform traffic servers process more than 2R")
    shares = [first["reordering"][part] / first["reordering"][whole] for part, whole in (("reordered_flows", "flows"), ("runs", "packets"), ("late", "packets"))]
    claim(min(shares) > 0.055, "without flowlets more leaves in another order than in the paper, by each measure")
    late = {name: results[f"64 {name}"]["reordering"] for name in ("random", *FINER[64])}
    out |= {f"late {place}": f"{100 * late[name]['late'] / late[name]['packets']:.3f} %" for place, name in zip(("few", "flows", "packets"), late)}
    for place, name, flows in (("few", "random", FLOWS), ("flows", FINER_NAME, MORE_FLOWS)):
        out[f"of a flow {place}"] = f"{late[name]['packets'] / (64 * flows):.1f}"
    out["flows a path"] = f"{FLOWS / RANDOM_OUTPUTS / (64 - 1):.0f}"
    out["later"] = f"{(results['Direct VLB, resequencer']['latency_ns']['p50'] - first['latency_ns']['p50']) / 1e6:.1f}"
    largest = results["2048 incast"]
    out["incast packets"] = f"{largest['packets_out'] / (largest['servers'] - 1):.0f}"
    for place, name in (("straight", "Direct VLB"), ("straight flowlets", "with flowlets")):
        one = results[name]
        out[place] = f"{100 * one['straight'] / (one['straight'] + one['balanced']):.0f} %"
    uniform = {n: (2 + (n - 2) / (n * (n - 1)), results[f"{n} uniform"]["c"]["mean"]) for n in SIZES if n not in LARGE}
    out["uniform"] = ", ".join(f"{rule:.2f} with {n} servers ({here:.2f} here)" for n, (rule, here) in uniform.items())
    above = [n for n, (rule, here) in uniform.items() if here > rule]
    out["spread more"] = f" With {listed(above)} servers more is spread, for reasons that were not examined." if above else ""
    mesh = {label: one for label, one in results.items() if label.split()[0] in ("4", "16", "64")}
    good = [one for label, one in mesh.items() if label.split()[1].rstrip(",") in MATRICES[:4]]
    out["least"] = f"{min(one['pair_least'] for one in good):.3f}"
    fair = [one["input_fairness"] for one in results.values() if one["input_fairness"] is not None]
    out["jain"] = f"{min(fair):.3f}"
    of_64 = [one for label, one in mesh.items() if label.startswith("64 ") and one in good]
    out["excess64"] = f"{max(one['links']['excess_bytes'] for one in of_64) / 1500:.0f}"
    out["most"] = f"{max(one['links']['max'] for one in [*good, results['256 permutation']]):.2f}"
    flies = [one for label, one in results.items() if label.split()[0] == "fly"]
    out["most_fly"] = f"{max(one['links']['max'] for one in flies):.2f}"
    out["least_fly"] = f"{min(one['pair_least'] for one in flies):.3f}"
    for place, name in (("few", "random"), *zip(("flows", "packets"), FINER[64])):
        out[place] = f"{results[f'64 {name}']['links']['max']:.2f}"
    return out


def draw(axes, raw):
    results = {label: rounds[0] for label, rounds in raw["results"].items()}
    left, right = axes
    sizes = list(SIZES)
    for name in MATRICES:
        shown = [n for n in sizes if n not in LARGE]  # the times of the larger are too short for it
        left.plot(shown, [results[f"{n} {name}"]["c"]["mean"] for n in shown], "o-", label=name, markersize=3)
    left.axhspan(2, 3, color=PAPER, alpha=0.15, label="paper: 2 to 3")
    left.set_xscale("log", base=2)
    left.set(xlabel="servers", ylabel="processed by a server, in units of R", ylim=(0, 3.4))
    left.legend(fontsize=7)
    places = range(len(ORDER))
    for shift, (field, whole, color, label) in enumerate((("reordered_flows", "flows", OURS, "flows"), ("late", "packets", OTHER, "packets"))):
        shares = [100 * results[name]["reordering"][field] / results[name]["reordering"][whole] for name in ORDER]
        bars = right.bar([p + 0.4 * shift for p in places], shares, 0.38, color=color, label=label)
        right.bar_label(bars, fmt="%.2f", fontsize=7)
    right.set_xticks([p + 0.2 for p in places], [name.replace(", ", ",\n").replace("with ", "with\n") for name in ORDER], fontsize=7)
    right.set_ylabel("% that left in another order")
    right.legend(fontsize=7)


def summary(raw, values):
    return [("RouteBricks 3.2, Valiant balancing in virtual time: least part of a pair's admissible load; fairness of inputs", "1; each its fair share",
             f"{values['least']} with 4 to 64 servers; Jain's index {values['jain']} at least with 4 to 2,048")]


figure = Figure(__file__, steps, values, draw, rounds=1, size=(9, 3.6), panels=2, lab=False, at_once=2, summary=summary)

if __name__ == "__main__":
    figure.main()
