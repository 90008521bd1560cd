#!/usr/bin/python3
"""Impact of Network Protocols, Figures 2 and 3: exact match with at most k flows in a slot: memory, refusals, time, locks."""

import json
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import machine, spread  # noqa: E402
from lib.figure import Figure, at_most, claim, compared, of_rounds, ratios, table  # noqa: E402

# Part of the flows that may be refused, and the memory of the paper's match over its tag at that part, by k.
SHARE = 1e-4
PAPER = {2: "8", 4: "1.5"}
# Bytes of a flow by tag: its record.
RECORD = 128
# Figure 2(b): rate of each flow, with k = 4. The paper's text has the rate of its links, and KB by tag and by match.
FLOW_RATE = 64e3
PAPER_RATE, PAPER_SPACE = 400e6, (210, 318)
# Number of flows that a share of refused flows is of: the example has five seeds. A share below SMALL is of few flows.
REFUSED_OF, SMALL = 5 * 65_536, 3e-5
ENOUGH = 100  # refused flows that are compared with theory
# Ways to count a packet in its flow's record.
WAYS = {"owner": "records owned by a thread", "added": "shared, atomic additions", "lock": "shared, a lock for each",
        "one flow added": "all of one flow, additions", "one flow": "all of one flow, its lock"}


def run(lab):
    program = ["cargo", "run", "--release", "--locked", "--quiet", "-p", "tables", "--example", "matching"]
    done = subprocess.run(program, cwd=machine.ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise machine.Failed(f"the example matching does not run\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def steps():
    yield "matching", run


def least_memory(rows, k):
    """The row with the fewest slots that refuses so few flows."""
    return min((row for row in rows if row["k"] == k and row["theory"] <= SHARE), key=lambda row: row["slots"], default=None)


def share(fraction):
    return "0" if fraction <= 0 else f"{fraction:.1e}"


def times_of(result, **wanted):
    """Nanoseconds of one row of the example, for each round."""
    rows = [row for one in result for row in one["times"]]
    return [row["ns"] for row in rows if all(row.get(name) == value for name, value in wanted.items())]


def minus(ones, others):
    """Differences of two lists, round by round."""
    return [one - other for one, other in zip(ones, others, strict=True)]


def rates_of(result, name, threads):
    """Millions of packets a second of one way and number of threads, for each round."""
    return [row[name] for one in result for row in one["locks"] if row["threads"] == threads]


def two_over_one(result, name):
    """Rate of two threads over that of one, for each round."""
    return ratios(rates_of(result, name, 2), rates_of(result, name, 1))


def second_thread(result):
    """Words on what a second thread adds to each way."""
    words = {"more": "more than one in all rounds", "less": "fewer than one in all rounds",
             "no different": "more or fewer than one by the round"}
    found = {name: compared(two_over_one(result, name), [1]) for name in WAYS}
    told = [", ".join(f"*{WAYS[name]}*" for name in WAYS if found[name] == way) for way in words]
    pairs = zip(words.values(), told, strict=True)
    return " ".join(f"Two threads move {text}: {names}." for text, names in pairs if names)


def values(raw):
    result = raw["results"]["matching"]
    first, ghz = result[0], machine.noted_hz(raw["host"]) / 1e9
    memory = []
    for k in (1, 2, 4, 8):
        row = least_memory(first["refusals"], k)
        memory.append([k, PAPER.get(k, ""), *([f"{row['slots']:g}", f"{row['bytes'] / RECORD:.2f}", share(row["theory"]), share(row["refused"])]
                                              if row else ["more than 1024", "", "", ""])])
    four = least_memory(first["refusals"], 4)["bytes"]
    space = []
    for rate in (100e6, PAPER_RATE, 1e9, 10e9):
        flows = rate / FLOW_RATE
        space.append([f"{rate / 1e6:,.0f}", f"{flows:,.0f}", *(PAPER_SPACE if rate == PAPER_RATE else ("", "")),
                      f"{flows * RECORD / 1e3:,.0f}", f"{flows * four / 1e3:,.0f}"])
    refusals = [[row["k"], f"{row['slots']:g}", share(row["theory"]), share(row["refused"]), f"{row['bytes']:.0f}"] for row in first["refusals"]]
    numbers = sorted({row["flows"] for row in first["times"]})
    rows = []
    for flows in numbers:
        tag = times_of(result, flows=flows, how="tag")
        rows.append([f"{flows:,}", "tag", "", spread(tag, 1), f"{statistics.median(tag) * ghz:.0f}", ""])
        for ip in (4, 6):
            for k in (1, 2, 4, 8):
                ns = times_of(result, flows=flows, ip=ip, k=k)
                rows.append([f"{flows:,}", f"match, IPv{ip}", k, spread(ns, 1), f"{statistics.median(ns) * ghz:.0f}",
                             f"{statistics.median(minus(ns, tag)) * ghz:.0f}"])
    locks = [*([threads, *(spread(rates_of(result, name, threads), 1) for name in WAYS)] for threads in (1, 2)),
             ["two over one", *(spread(two_over_one(result, name)) for name in WAYS)]]
    expected = [(row["refused"] / row["theory"], row["theory"] * REFUSED_OF) for row in first["refusals"]]
    refusals_apart = max(abs(ratio - 1) for ratio, flows in expected if flows > ENOUGH)
    claim(refusals_apart < 0.25, "refusals are as theory has them")
    ours = {k: least_memory(first["refusals"], k)["bytes"] / RECORD for k in PAPER}
    claim(ours[2] < float(PAPER[2]) and ours[4] > float(PAPER[4]), "the paper's factor is larger at k = 2 and smaller at k = 4")
    few = max(round(row["refused"] * REFUSED_OF) for row in first["refusals"] if row["refused"] < SMALL)
    tag = times_of(result, flows=numbers[0], how="tag")
    over, over_six = (minus(times_of(result, flows=numbers[0], ip=ip, k=4), tag) for ip in (4, 6))
    return {
        "memory": table(["k", "memory over tag: paper", "slots for each flow", "memory over tag: here", "refused: theory", "measured"], memory),
        "space": table(["link, Mbps", "flows of 64 kbps", "paper: tag, KB", "match, KB", "here: tag, KB", "match, KB"], space),
        "refusals": table(["k", "slots for each flow", "refused: theory", "measured", "bytes for each flow"], refusals),
        "times": table(["flows", "by", "k", "ns", "cycles", "cycles over tag"], rows),
        "second thread": second_thread(result), "enough": ENOUGH, "refusals apart": at_most(100 * refusals_apart), "locks": table(["threads", *WAYS.values()], locks),
        "over": spread([ns * ghz for ns in over], 0), "over six": spread([ns * ghz for ns in over_six], 0),
        "rounds": of_rounds(len(result)), "few": few, "refused of": f"{REFUSED_OF:,}", "small": f"{SMALL:.0e}"}


def draw(axes, raw):
    left, right = axes
    first = raw["results"]["matching"][0]
    for k in (1, 2, 4, 8):
        rows = [row for row in first["refusals"] if row["k"] == k and row["theory"] > 1e-7]
        line = left.plot([row["bytes"] / RECORD for row in rows], [row["theory"] for row in rows], "-", label=f"k = {k}")[0]
        seen = [row for row in rows if row["refused"] > 0]
        left.plot([row["bytes"] / RECORD for row in seen], [row["refused"] for row in seen], "o", color=line.get_color())
    left.set(xlabel="memory over that of a tag", ylabel="flows refused (line: theory)", xscale="log", yscale="log")
    left.legend()
    result = raw["results"]["matching"]
    for flows in sorted({row["flows"] for row in first["times"]}):
        for ip in (4, 6):
            medians = [statistics.median(times_of(result, flows=flows, ip=ip, k=k)) for k in (1, 2, 4, 8)]
            right.plot([1, 2, 4, 8], medians, "o-", label=f"{flows:,} flows, IPv{ip}")
    right.set(xlabel="flows in the packet's slot (k), all passed", ylabel="ns for a packet", ylim=(0, None))
    right.legend(fontsize=7, loc="upper left")


def summary(raw, values):
    first = raw["results"]["matching"][0]["refusals"]
    four = least_memory(first, 4)["bytes"]
    flows = PAPER_RATE / FLOW_RATE
    return [("Network services Figure 2(a), memory of match at k = 2 and 4 over tag", "8, 1.5", f"{least_memory(first, 2)['bytes'] / RECORD:.2f}, {four / RECORD:.2f}"),
            ("Network services Figure 2(b), 400 Mbps of 64 kbps: KB by tag, by match", "210, 318", f"{flows * RECORD / 1e3:,.0f}, {flows * four / 1e3:,.0f}"),
            ("Network services Figure 3, match at k = 4 over tag", "four threads in place of two (IXP1200)", f"{values['over']} cycles more (IPv4, few flows)")]


figure = Figure(__file__, steps, values, draw, size=(8, 3.4), panels=2, lab=False, timed=True, summary=summary)

if __name__ == "__main__":
    figure.main()
