#!/usr/bin/python3
"""RouteBricks' four servers with real traffic, compared with the simulator under the same load; and RB10's reordering.
"""

import json
import os
import pathlib
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import frames, machine  # noqa: E402
from lib.figure import Figure, at_most, claim, table  # noqa: E402
from lib.lab import ASHLAR, simulate  # noqa: E402
from lib.plot import OTHER, OURS  # noqa: E402

CLUSTER = machine.ROOT / "tests/system/cluster.py"
MATRICES = ["uniform", "permutation", "adverse", "incast"]
RATE, LOAD, SIZE, FLOWS = 24, 0.9, 1000, 32  # Mbit/s, part of it, bytes with the IP header, flows of a pair
SECONDS, SETTLE = 10.0, 0.1
ETHER = 14
WAIT = "20ms"  # of the resequencer: more than a full queue of an internal cable takes
ORDER = {
    "Direct VLB": ["--delta", "0"],
    "with flowlets": [],
    "Direct VLB, resequencer": ["--delta", "0", "--resequence", WAIT],
    "flowlets, resequencer": ["--resequence", WAIT],
}
SERVERS, HEADROOM = 4, 1.05  # an internal cable carries so many times 2R/N
PAPER_ORDER = {"Direct VLB": "5.5 %", "with flowlets": "0.15 %"}
# Words on incast if live servers send more through third nodes than simulated ones.
INCAST = """ Why more traffic goes through third nodes live was not measured.
  A probable reason: a live server takes packets in batches, and counts the traffic carried for others just before its
  own flows need the direct link. So these flows change to third nodes and stay there. In the simulator packets come
  one by one, and more flows stay on the direct path."""
PAIRS = {"uniform": 3, "permutation": 1, "adverse": 2, "incast": 1}  # of an input


def live(*words):
    """Measures the four servers: results that cluster.py writes for its only load."""
    machine.WORK.mkdir(parents=True, exist_ok=True)
    out = machine.WORK / "rb-live.json"
    out.unlink(missing_ok=True)
    command = [sys.executable, str(CLUSTER), "--json", str(out), "--rate", str(RATE), "--load", str(LOAD), "--seconds", str(SECONDS), *words]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "ASHLAR_BIN": str(ASHLAR)})
    # The exit status is not checked: it says if bounds were kept, which the page shows.
    if not out.exists():
        raise machine.Failed(done.stdout[-2000:] + done.stderr)
    return json.loads(out.read_text())[0]


def simulated(*words):
    """Runs the simulator with cables and queues like those of cables.py, and servers with unlimited processors."""
    time, warmup = (str(1e3 * SECONDS * part) for part in (1 - SETTLE, SETTLE))
    return simulate("--rate", f"{RATE}Mbps", "--load", str(LOAD), "--time", time, "--warmup", warmup, "--c", "100",
                    "--headroom", str(HEADROOM), "--queue", "1", *words)


def flow_of(frame):
    """Five-tuple of the IP packet in an Ethernet frame; None if the frame carries no IP."""
    at = 18 if frame[12:14] == b"\x81\0" else 14
    kind, ip = frame[at - 2:at], frame[at:]
    if kind == b"\x08\0" and len(ip) >= 20:
        protocol, addresses, behind = ip[9], ip[12:20], 4 * (ip[0] & 15)
        first = int.from_bytes(ip[6:8]) & 0x3fff == 0
    elif kind == b"\x86\xdd" and len(ip) >= 40:
        protocol, addresses, behind, first = ip[6], ip[8:40], 40, True
    else:
        return None
    ports = ip[behind:behind + 4] if first and protocol in (6, 17, 132) else b""
    return protocol, addresses, ports


def records():
    """The trace in paced_host.py's format, and its description."""
    path, what = frames.real()
    data, at, flows, out = path.read_bytes(), 24, {}, bytearray()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    while at + 16 <= len(data):
        _, _, stored, original = struct.unpack_from(f"{order}IIII", data, at)
        flow = flow_of(data[at + 16:at + 16 + stored])
        at += 16 + stored
        if flow:
            out += struct.pack("!HI", min(original - ETHER, 1500), flows.setdefault(flow, len(flows)))
    file = machine.WORK / "rb-live.trace"
    file.write_bytes(out)
    return path, file, what


def load_live(name):
    return lambda _: live("--matrix", name, "--size", str(SIZE), "--flows", str(FLOWS))


def load_simulated(name):
    return lambda _: simulated("--matrix", name, "--size", str(SIZE + ETHER), "--flows", str(FLOWS * PAIRS[name]))


def order_live(options):
    def step(_):
        _, file, what = records()
        return live("--trace", str(file), *(f"{word}ms" if word == "0" else word for word in options)) | {"traffic": what}

    return step


def order_simulated(options):
    return lambda _: simulated("--trace", str(records()[0]), *(word.removesuffix("ms") for word in options))


def steps():
    for name in MATRICES:
        yield f"live {name}", load_live(name)
        yield f"simulated {name}", load_simulated(name)
    for name, options in ORDER.items():
        yield f"live {name}", order_live(options)
        yield f"simulated {name}", order_simulated(options)


HEAD = ["matrix", "", "delivered", "least pair", "Jain", "links: mean", "max", "c: mean", "max", "by third nodes", "late packets", "us: p50 / p99"]


def row_live(name, one):
    links, c = one["links"].values(), one["c"].values()
    order, times = one["reordering"], one["latency_us"]
    # Least share of a pair; in incast each share is divided by a fair part of the output.
    least = min(one["shares"].values())
    return [name, "live", f"{100 * one['delivered_bytes'] / one['offered_bytes']:.1f} %", f"{least:.3f}", f"{one['fairness']:.4f}",
            f"{sum(links) / 12:.3f}", f"{max(links):.3f}", f"{sum(c) / 4:.2f}", f"{max(c):.2f}", f"{100 * one['balanced']:.1f} %",
            f"{100 * order['late'] / order['packets']:.3f} %", f"{times['p50']:.0f} / {times['p99']:.0f}"]


def row_simulated(name, one):
    links, c, order, times = one["links"], one["c"], one["reordering"], one["latency_ns"]
    least, fair = one["pair_least"], one["pair_fairness"] if one["input_fairness"] is None else one["input_fairness"]
    return [name, "simulated", f"{100 * one['delivered_bytes'] / one['offered_bytes']:.1f} %", "" if least is None else f"{least:.3f}",
            "" if fair is None else f"{fair:.4f}", f"{links['mean']:.3f}", f"{links['max']:.3f}", f"{c['mean']:.2f}", f"{c['max']:.2f}",
            f"{100 * third(one):.1f} %", f"{100 * order['late'] / order['packets']:.3f} %",
            f"{times['p50'] / 1e3:.0f} / {times['p99'] / 1e3:.0f}"]


def third(simulated):
    """Part of the packets that the simulator sent through third nodes."""
    return simulated["balanced"] / (simulated["straight"] + simulated["balanced"])


def share(order, part, whole):
    return f"{100 * order[part] / max(order[whole], 1):.3f} %"


def values(raw):
    results = {label: rounds[0] for label, rounds in raw["results"].items()}
    rows = [row for name in MATRICES for row in (row_live(name, results[f"live {name}"]), row_simulated(name, results[f"simulated {name}"]))]
    out = {"matrices": table(HEAD, rows), "rate": str(RATE), "minutes": f"{raw['seconds'] / 60:.0f}", "over cable": f"{LOAD / (HEADROOM * 2 / SERVERS):.1f}", "wait": WAIT.replace("ms", " ms"), "seconds": f"{SECONDS:g}"}
    virtual = {label: rounds[0] for label, rounds in figure.other("rb-vlb")["results"].items()}
    rows = []
    for name in ORDER:
        for what, one in (("live", results[f"live {name}"]), ("simulated", results[f"simulated {name}"]), ("rb-vlb", virtual[name])):
            order = one["reordering"]
            times = one.get("latency_us") or {q: one["latency_ns"][q] / 1e3 for q in ("p50", "p99")}
            rows.append([name, PAPER_ORDER.get(name, ""), what, share(order, "reordered_flows", "flows"), share(order, "runs", "packets"),
                         share(order, "late", "packets"), f"{100 * one['delivered_bytes'] / one['offered_bytes']:.2f} %",
                         f"{times['p50']:.0f} / {times['p99']:.0f}"])
    head = ["", "paper", "", "flows", "runs of late packets", "late packets", "delivered", "us: p50 / p99"]
    out["order"] = table(head, rows)
    first = results["live Direct VLB"]
    out["traffic"] = f"{first['traffic']}: {first['reordering']['packets']:,} packets, {first['reordering']['flows']:,} flows of more than one packet"
    good = [results[f"live {name}"] for name in MATRICES[:3]]
    out["least"] = f"{min(min(one['shares'].values()) for one in good):.3f}"
    out["most"] = f"{max(max(one['links'].values()) for one in good):.3f}"
    out["jain"] = f"{results['live incast']['fairness']:.3f}"
    both = [(one, results[f"simulated {name}"]) for name, one in zip(MATRICES, good)]
    medians = [a["latency_us"]["p50"] * 1e3 / b["latency_ns"]["p50"] for a, b in both]
    fewer = [name for name, (a, b) in zip(MATRICES, both) if a["balanced"] < third(b) - 0.05 and sum(a["c"].values()) / 4 < b["c"]["mean"]]
    out["third nodes"] = ("So with live servers less traffic goes through third nodes\n  if direct links can carry more than the quota "
                          f"({', '.join(f'*{name}*' for name in fewer)}). Loads and *c* are lower. ") if fewer else ""
    live_one, simulated_one = both[MATRICES.index("permutation")]
    claim(min(sum(live_one["links"].values()) / 12, simulated_one["links"]["mean"]) > 0.8, "a permutation fills all links")
    out["incast"] = INCAST if results["live incast"]["balanced"] > third(results["simulated incast"]) + 0.02 else ""
    change = [one["reordering"]["late"] > 0 for one in (results["live with flowlets"], virtual["with flowlets"])]
    left = {name: results[f"live {name}"]["reordering"] for name in ORDER if "resequencer" in name}
    late = max(order["late"] / order["packets"] for order in left.values())
    out["resequenced"] = (f"Up to {100 * late:.3f} % of the live packets are late behind it: a packet can also wait until a\nprocess runs, and probably that took longer." if late else
                          "Here it corrects all, live too.")
    out["paths"] = ("With flowlets, flows change path at this rate, while those of *rb-vlb* do not. "
                    if change == [True, False] else "")
    out["faster"] = f"{min(medians):.2f} to {max(medians):.2f}"
    out["cable ms"] = f"{8 * SIZE / (RATE * 1e3 * HEADROOM * 2 / SERVERS):.1f}"
    out["links"] = at_most(max(abs(sum(a["links"].values()) / 12 - b["links"]["mean"]) for a, b in both), 3)
    return out


def draw(axes, raw):
    results = {label: rounds[0] for label, rounds in raw["results"].items()}
    left, right = axes
    places = range(len(MATRICES))
    for shift, (how, color) in enumerate((("live", OURS), ("simulated", OTHER))):
        ones = [results[f"{how} {name}"] for name in MATRICES]
        c = [sum(one["c"].values()) / 4 if how == "live" else one["c"]["mean"] for one in ones]
        left.bar_label(left.bar([p + 0.4 * shift for p in places], c, 0.38, color=color, label=how), fmt="%.2f", fontsize=7)
        late = [100 * one["reordering"]["late"] / one["reordering"]["packets"] for one in (results[f"{how} {name}"] for name in ORDER)]
        right.bar_label(right.bar([p + 0.4 * shift for p in range(len(ORDER))], late, 0.38, color=color, label=how), fmt="%.2f", fontsize=7)
    left.set_xticks([p + 0.2 for p in places], MATRICES, fontsize=8)
    left.set_ylabel("given to a server, in units of R")
    left.margins(y=0.2)
    left.legend(fontsize=7)
    right.set_xticks([p + 0.2 for p in range(len(ORDER))], [name.replace(", ", ",\n").replace("with ", "with\n") for name in ORDER], fontsize=7)
    right.set_ylabel("% of packets that left late")
    right.legend(fontsize=7)


def summary(raw, values):
    return [("RouteBricks 3.2, four live servers: least part of a pair's admissible load; fairness of inputs", "1; each its fair share (in theory)",
             f"{values['least']}; Jain's index {values['jain']}, of one run with ports of {RATE} Mbit/s, "
             "as four servers share two cores")]


figure = Figure(__file__, steps, values, draw, rounds=1, size=(9, 3.6), panels=2, lab=False, summary=summary)

if __name__ == "__main__":
    figure.main()
