#!/usr/bin/python3
"""Distribution of recorded traffic over queues, for every mode of classification."""

import collections
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import frames, lab  # noqa: E402
from lib.figure import Figure, table  # noqa: E402
from lib.plot import OTHER, OURS  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
QUEUES = [2, 4, 8]
ADDRESSES = 14  # named in the mode `address`
FLOWS = 256  # named in the mode `flow`


def packets(path):
    """The frames of a classic pcap file."""
    data, at = path.read_bytes(), 24
    while at + 16 <= len(data):
        length = int.from_bytes(data[at + 8:at + 12], "little")
        yield data[at + 16:at + 16 + length]
        at += 16 + length


def addresses(path):
    """The most frequent unicast destination addresses."""
    count = collections.Counter(f[:6] for f in packets(path) if not f[0] & 1)
    return [address.hex(":") for address, _ in count.most_common(ADDRESSES)]


def flows(path):
    """Rules for the largest flows, each with its own bucket."""
    count = collections.Counter()
    for f in packets(path):
        ports = 14 + 4 * (f[14] & 15)
        if f[12:14] == b"\x08\0" and f[23] in (6, 17) and len(f) >= ports + 4:
            count[f[23], f[26:34], f[ports:ports + 4]] += 1
    rules = []
    for bucket, ((protocol, addresses, ports), _) in enumerate(count.most_common(FLOWS)):
        ends = [(".".join(map(str, addresses[at:at + 4])), int.from_bytes(ports[at // 2:at // 2 + 2])) for at in (0, 4)]
        rules.append(f"{'tcp' if protocol == 6 else 'udp'}/{ends[0][0]}/{ends[0][1]}/{ends[1][0]}/{ends[1][1]}={bucket}")
    return rules


def prefixes():
    """Prefixes that give each bucket a sixteenth of all IPv4 addresses, and IPv6."""
    return [f"{16 * n}.0.0.0/4" for n in range(16)] + ["::/0"]


def modes():
    """Modes of CLASSIFY by name."""
    path, _ = frames.real()
    return {
        "hash, symmetric key": "hash",
        "hash, Microsoft's key": "hash KEY microsoft",
        f"address, {ADDRESSES} of them": f"address {' '.join(addresses(path))}",
        f"flow, {FLOWS} of them": f"flow {' '.join(flows(path))}",
        "prefix, /4": f"prefix {' '.join(prefixes())}",
        "program, by protocol": "program program",
    }


def run(mode):
    def step(here):
        path, what = frames.real()
        conf = here.folder / "sorted.click"
        conf.write_text((HERE / "sorted.click").read_text().replace("$FILE", str(path)).replace("$MODE", mode))
        if not mode.startswith("program"):
            conf.write_text("".join(l for l in conf.read_text().splitlines(True) if not l.startswith("program")))
        router = here.router(conf, cores=(lab.OTHER, lab.MEASURED))
        router.wait_running()
        steer = lab.until(lambda: steer_of(router), router, "an element of class Steer")
        total = -1
        while (loads := read(router, steer)) is None or sum(loads) != total:
            total = sum(loads or [])
            time.sleep(0.2)
        return {"loads": loads, "traffic": what}

    return step


def steer_of(router):
    return next((e["name"] for e in router.stats()["elements"] if e["class"] == "Steer"), None)


def read(router, steer):
    """Number of packets by bucket."""
    text = router.ask("GET", f"/v1/handlers/{steer}.loads")
    return None if text is None else [int(word) for word in text.split()]


def steps():
    for name, mode in modes().items():
        yield name, run(mode)


def dealt(loads, queues):
    """Load of the fullest queue relative to the mean, if buckets are assigned in turn, as at the start."""
    sums = [sum(loads[n::queues]) for n in range(queues)]
    return max(sums) * queues / sum(loads)


def spread_out(loads, queues):
    """Load of the fullest queue relative to the mean, if buckets are assigned greedily: the largest bucket first, to the
    least loaded queue.
    """
    sums = [0] * queues
    for load in sorted(loads, reverse=True):
        sums[sums.index(min(sums))] += load
    return max(sums) * queues / sum(loads)


def values(raw):
    results, rows = raw["results"], []
    for name, rounds in results.items():
        loads = rounds[0]["loads"]
        used = sum(1 for load in loads if load)
        rows.append([name, f"{used} of {len(loads)}", f"{100 * max(loads) / sum(loads):.1f} %",
                     *(f"{dealt(loads, n):.2f} / {spread_out(loads, n):.2f}" for n in QUEUES)])
    head = ["mode", "buckets used", "in the fullest", *(f"{n} queues" for n in QUEUES)]
    first = next(iter(results.values()))[0]
    return {"table": table(head, rows), "packets": f"{sum(first['loads']):,}", "traffic": first["traffic"]}


def draw(axes, raw):
    results = raw["results"]
    places = range(len(results))
    for shift, (how, color, label) in enumerate(((dealt, OTHER, "dealt out in turn"), (spread_out, OURS, "spread evenly"))):
        heights = [how(rounds[0]["loads"], 4) for rounds in results.values()]
        axes.bar_label(axes.bar([p + 0.38 * shift for p in places], heights, 0.36, color=color, label=label), fmt="%.2f")
    axes.set_xticks([p + 0.19 for p in places], [name.replace(", ", ",\n") for name in results])
    axes.axhline(1, color="#555555", linewidth=0.8)
    axes.set_ylabel("fullest queue over the mean")
    axes.set_title("4 queues")
    axes.legend()


def summary(raw, values):
    four = {name: dealt(rounds[0]["loads"], 4) for name, rounds in raw["results"].items()}
    best, worst = min(four, key=four.get), max(four, key=four.get)
    traffic = "Recorded" if values["traffic"].startswith("real") else "Made-up"
    return [(f"{traffic} traffic over four queues: packets of the fullest over the mean", "not in a paper",
             f"{four[best]:.2f} ({best}) to {four[worst]:.2f} ({worst}), of six ways to classify")]


figure = Figure(__file__, steps, values, draw, rounds=1, size=(7.5, 3.4), timed=False, summary=summary)

if __name__ == "__main__":
    figure.main()
