"""Sentences and rows that hand-written pages must have, computed from raw results.

A page named here is written by hand. So a figure on it could differ from its raw results without anybody noticing. `missing()`
computes the texts again; `tests/system/test_pages.py` fails if a page lacks one. Run this file to see what pages lack.
"""

import json
import pathlib
import re
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "eval"))
from lib import ratios, spread  # noqa: E402


def raw(folder, name):
    """Raw results of a folder of eval/."""
    return json.loads((ROOT / "eval" / folder / name).read_text())


def quartiles(values, digits=3):
    low, _, high = statistics.quantiles(values, n=4)
    return f"{low:.{digits}f}-{high:.{digits}f}"


def row(*cells):
    """Beginning of a row of a table; an empty cell at the end ends it."""
    return "| " + " | ".join(cells) + " |"


def lookup():
    """Rows of eval/lookup: nanoseconds of structures, and rte_fib's best function over Poptrie."""
    kinds = {"random": "random over all 2^32", "inside": "random, in random prefixes", "32k-groups": "the same, 32,767 random ids",
             "local": "16,384 hosts by Zipf's law", "long": "only below prefixes longer than 24 bits"}
    found, medians = [], {}
    for file, words in kinds.items():
        times = raw("lookup", f"raw/2026-11-23-{file}.json")["nanoseconds per lookup"]
        medians[file] = {name: statistics.median(values) for name, values in times.items()}
        best = min((name for name in times if name.startswith("rte_fib")), key=medians[file].get)
        compared = ratios(times[best], times["ours poptrie"])
        tail = row(spread(times["ours dir-24-8"], 1), f"{spread(times[best], 1)}, {best.split()[1]}")
        found += [f"| {words} | {spread(times['ours poptrie'], 1)} |", tail, spread(compared, 2)]
    structures = [("stride-4", "stride 4 (QS3)", 0), ("radix", "radix", 0), ("poptrie", "Poptrie", 1), ("dir-24-8", "DIR-24-8 (32-bit entries)", 1)]
    for name, words, digits in structures:
        found.append(row(words, *(f"{medians[file][f'ours {name}']:.{digits}f}" for file in ("random", "inside", "local"))))
    for kind, words in (("random", "for random addresses"), ("inside", "in random prefixes"), ("local", "for hosts by Zipf's law")):
        vector, scalar = medians[kind]["rte_fib avx512"], min(medians[kind][f"rte_fib {name}"] for name in ("macro", "inline", "uni"))
        found.append(f"{vector / scalar:.2f} {words}" if kind != "random" else f"took {vector / scalar:.2f} of the time of its best scalar one {words}")
    six = raw("lookup", "raw/2026-11-23-ipv6.json")
    for name, words in (("poptrie", "Poptrie (101 instructions)"), ("dir-24-8", "DIR-24-8 continued by 8 bits"), ("stride-4", "stride 4"), ("radix", "radix")):
        found.append(row(words, spread(six["nanoseconds per lookup"][f"ours {name}"], 1), f"{six['bytes'][name] / 1e6:.1f} MB"))
    for options, files in (("", ("memory", "memory-radix")), (" --no-huge", ("memory-no-huge", "memory-radix-no-huge"))):
        with_huge, radix = (raw("lookup", f"raw/2026-11-23-{file}.json") for file in files)
        huge = f"{with_huge['HugetlbPages'] / 1e6:.1f} MB" if with_huge["HugetlbPages"] else "0"
        found.append(f"| `eval/lookup/memory{options}` | {with_huge['VmRSS'] / 1e6:.1f} MB | {huge} |")
        found.append(row(f"{with_huge['bytes'] / 1e6:.1f} MB", f"{radix['bytes'] / 1e6:.1f} MB"))
    return found


def classify():
    """Cells of eval/classify: instructions of a lookup, and of IPFilter before it counted packets."""
    text = (ROOT / "eval/classify/raw/2026-11-21.txt").read_text().split("Later that day")[1]
    look_ups = re.findall(r"lookup: \d+ instructions, ([\d.]+) per packet", text)
    filters = re.findall(r"in its place \d+: ([\d.]+) per packet", text)
    sizes = ("acl1, 959", "acl1, 10,000", "fw1, 812", "fw1, 10,000")
    rows = [f"| {size} | {float(value):.0f} |" for size, value in zip(sizes, look_ups, strict=True)]
    return [*rows, f"{', '.join(filters[:-1])} and {filters[-1]}"]


def routes():
    """Rows of eval/routes."""
    found = []
    files = ("raw/2026-11-22-turns.json", "raw/2026-11-22-touched.json")
    windows = ("no change", "netlink burst", "table by BGP", "churn")
    first, second = (raw("routes", file)["results"] for file in files)

    def rate(of, form, versions=(4, 6)):
        bursts = [of["bursts"][f"IPv{version} by {form}"] for version in versions]
        return sum(one["routes"] for one in bursts) / sum(one["add"] for one in bursts)

    for form, words in (("object", "netlink, routes added a second by next-hop object, IPv4 / IPv6"), ("gateway", "the same by gateway")):
        found.append(row(words, *(" / ".join(f"{rate(of, form, (version,)):,.0f}" for version in (4, 6)) for of in (first["linux"], first["ashlar"]))))
    found.append(row("table by BGP", *(f"{first[kind]['table seconds']:.1f} s" for kind in ("linux", "ashlar"))))
    for kind in ("linux", "ashlar"):
        found.append(" / ".join(f"{first[kind]['windows'][name]['longest us'] / 1e3:.1f}" for name in windows) + " ms")

    def parts(of, part):
        return " / ".join(f"{of['ashlar']['windows'][name]['worker us'][part] / 1e3:.1f}" for name in windows) + " ms"

    for part, words in (("turn", "longest turn: no change / burst / table / churn"), ("run", "its parts: run"), ("wait", "wait"), ("control", "control")):
        found.append(row(words, parts(first, part), parts(second, part)))
    found.append(row("`netlink-per-second`", *(f"{rate(of['ashlar'], 'object'):,.0f}" for of in (first, second))))
    found.append(row("`bgp-full-table-seconds`", *(f"{of['ashlar']['table seconds']:.1f}" for of in (first, second))))
    lost = [sum(window["lost"] for window in of["ashlar"]["windows"].values()) for of in (first, second)]
    found.append(row("`rss-mb`, `lost`", *(f"{of['ashlar']['rss mb']:.0f}, {count}" for of, count in zip((first, second), lost, strict=True))))
    found.append(row("Linux alone: IPv4 routes a second by next-hop object, table by BGP", *(
        f"{rate(of['linux'], 'object', (4,)):,.0f}, {of['linux']['table seconds']:.1f} s" for of in (first, second))))
    return found


def hz(of):
    """Cycles of the time-stamp counter per second, of the machine of raw results."""
    return float(re.search(r"time-stamp counter (\d+) MHz", of["host"]["cpu"])[1]) * 1e6


def ipsec():
    """Rows of eval/ipsec: ratios with their goals, and cycles."""
    of = raw("ipsec", "raw.json")
    rates = of["packets per second"]
    peers = {"gcm-64/ipsec-secgw": ("seal-gcm-64", "secgw-gcm-64", 1.15), "gcm-64/crypto-perf": ("seal-gcm-64", "perf-gcm-64", 0.85),
             "gcm-1024/ipsec-secgw": ("seal-gcm-1024", "secgw-gcm-1024", 1.0), "gcm-1024/crypto-perf": ("seal-gcm-1024", "perf-gcm-1024", 0.9),
             "cbc-sha1-64/ipsec-secgw": ("seal-cbc-sha1-64", "secgw-cbc-sha1-64", 1.0), "two-workers/ceiling": ("two-workers", "two-processes", 0.9),
             "10000-sas/one": ("seal-to-each-10000", "seal-to-each-1", 0.9)}
    values = {name: (ratios(rates[ours], rates[theirs]), goal) for name, (ours, theirs, goal) in peers.items()}
    seal_open_plain = zip(rates["seal-gcm-64"], rates["open-gcm-64"], rates["plain"], strict=True)
    values["decrypt/encrypt"] = ([(1 / seal) / (1 / both - 1 / seal + 1 / plain) for seal, both, plain in seal_open_plain], 0.9)
    found = []
    for name, (rounds, goal) in values.items():
        verdict = "met" if statistics.median(rounds) >= goal else "missed"
        found.append(row(name, f"{statistics.median(rounds):.3f}", quartiles(rounds), f"{min(rounds):.3f}-{max(rounds):.3f}", f"{goal}: {verdict}"))
    for name in ("seal-gcm-64", "seal-gcm-1024", "seal-cbc-sha1-64", "open-gcm-64", "plain", "seal-to-each-1", "forward-64", "secgw-gcm-64", "secgw-gcm-1024",
                 "secgw-cbc-sha1-64", "perf-gcm-64", "perf-gcm-1024", "seal-to-each-10000", "forward-1024"):
        low, _, high = statistics.quantiles(rates[name], n=4)
        found.append(f"| `{name}` | {hz(of) / statistics.median(rates[name]):.0f} ({hz(of) / high:.0f}-{hz(of) / low:.0f}) |")
    return found


BENCH = [("forward", "testpmd-io"), ("forward-counter", "forward"), ("route", "l3fwd-lpm"), ("route", "l3fwd-fib"), ("route-poptrie", "l3fwd-lpm"),
         ("route-counter", "route"), ("router", "l3fwd-lpm"), ("route6", "route"), ("linux-router", "router"), ("forward-memif", "testpmd-memif"),
         ("route-veth", "linux-veth"), ("xdp-veth", "linux-veth")]
DAYS = ("2026-11-23", "2026-11-23-fast", "2026-11-24", "2026-11-29-short")


def days():
    """Rates by peer of the days that eval/bench compares."""
    return [raw("bench", f"raw/{day}.json") for day in DAYS]


def bench():
    """Rows of eval/bench."""
    of = raw("bench", "raw/2026-11-23.json")
    rates, found = of["packets per second"], []
    for name, values in rates.items():
        digits = 3 if max(values) < 1e6 else 1
        found.append(f"| `{name}` | {spread([value / 1e6 for value in values], digits)} | {hz(of) / statistics.median(values):.0f} |")
    for ours, theirs in BENCH:
        values = ratios(rates[ours], rates[theirs])
        found.append(re.compile(rf"\| {ours}/{theirs} \| (\*\*)?{statistics.median(values):.3f}(\*\*)? \| {quartiles(values)} \|"))
    measured = days()
    for ours, theirs in (("forward", "testpmd-io"), ("route", "l3fwd-lpm"), ("route", "l3fwd-fib"), ("router", "l3fwd-lpm"), ("route6", "route")):
        cells = []
        for one in (day["packets per second"] for day in measured):
            values = ratios(one[ours], one[theirs]) if ours in one and theirs in one else []
            cells.append(f"{statistics.median(values):.3f} ({quartiles(values)})" if values else "")
        found.append(re.sub(r"\|  \|", "| |", row(f"{ours}/{theirs}", *cells)))
    base = [hz(day) / statistics.median(day["packets per second"]["testpmd-io"]) for day in measured]
    found.append(row("`testpmd-io`, cycles a packet", *(f"{cycles:.0f}" for cycles in base)))
    for name, words in (("forward", "above that: `forward`"), *((name, f"`{name}`") for name in ("l3fwd-lpm", "l3fwd-fib", "route", "router"))):
        added = []
        for day, less in zip(measured, base, strict=True):
            values = day["packets per second"].get(name)
            added.append(f"{hz(day) / statistics.median(values) - less:.0f}" if values else "")
        found.append(re.sub(r"\|  \|", "| |", row(words, *added)))
    links = [raw("bench", f"raw/{day}-links.json")["packets per second"] for day in ("2026-11-24", "2026-11-28")]
    for name in ("linux-veth", "route-veth", "xdp-veth"):
        found.append(row(f"`{name}`", *(spread([rate / 1e3 for rate in one[name]], 0) for one in links)))
    for name in ("route-veth", "xdp-veth"):
        each = [ratios(one[name], one["linux-veth"]) for one in links]
        found.append(row(f"{name}/linux-veth", *(f"{statistics.median(v):.3f}, {quartiles(v)} ({min(v):.3f}-{max(v):.3f})" for v in each)))
    return found


def readme():
    """Speed that README.md states: least and greatest median of all days."""
    found = []
    for other in ("l3fwd-lpm", "l3fwd-fib"):
        rates = [day["packets per second"] for day in days()]
        medians = [statistics.median(ratios(one["route"], one[other])) for one in rates if other in one]
        found.append(f"{min(medians):.2f} to {max(medians):.2f} times")
    return found


def multistage():
    """Instructions that docs/multistage.md states: a balancer's beyond plain forwarding."""
    own = {name: values["own"] for name, values in raw("bench", "instructions.json").items()}
    round_robin, flows, back = (f"{own[name] - own['forward']:.0f}" for name in ("balance-rr", "balance-flows", "balance-back"))
    return [f"{round_robin} more for round robin over two ports, {flows} more by flows, and {back} more on the way back"]


def qos():
    """Cycles and a ratio that docs/qos.md states: of the order of a DeadlineQueue, and of two threads that share it."""
    threads = raw("qs-fig5", "raw.json")["results"]["many"]
    shared = ratios([one["binsort-2-mpps"] for one in threads], [one["binsort-1-mpps"] for one in threads])
    cycles = raw("services", "raw.json")["results"]
    lengths = [int(name.rsplit("-", 1)[1]) for name in cycles if name.startswith("binsort-cycles-")]
    return [f"A lock around one order {'would not' if max(shared) < 1 else 'may'} help: "
            f"two threads that share it move together {spread(shared)} times as many packets as one thread",
            f"At the worst queue length from {min(lengths):,} to {max(lengths):,} packets, the order of a DeadlineQueue takes "
            f"{spread(cycles['binsort-cycles'], 0)} cycles to enqueue and dequeue a packet"]


PAGES = {"eval/lookup/README.md": lookup, "eval/classify/README.md": classify, "eval/routes/README.md": routes, "eval/ipsec/README.md": ipsec,
         "eval/bench/README.md": bench, "README.md": readme, "docs/multistage.md": multistage, "docs/qos.md": qos}


def missing(page):
    """Texts that the raw results of a page ask for, and the page lacks."""
    text = " ".join((ROOT / page).read_text().replace("**", "").split())
    lacks = []
    for wanted in PAGES[page]():
        has = wanted.search(text) if isinstance(wanted, re.Pattern) else " ".join(wanted.replace("**", "").split()) in text
        if not has:
            lacks.append(wanted.pattern if isinstance(wanted, re.Pattern) else wanted)
    return lacks


if __name__ == "__main__":
    for name in PAGES:
        for line in missing(name):
            print(f"{name}: {line}")
