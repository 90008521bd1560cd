"""The page of this folder: README.md and plot.svg, of raw.json and page.md."""

import json
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from lib import figure, machine, plot, ratios, runs, spread  # noqa: E402
from lib.figure import claim, compared, listed, table  # noqa: E402

name = HERE.name
# Loads offered to two routers, in the unit of the page.
LOADS = ["0.5", "0.9", "1.1", "1.5", "2", "3"]
# Packets of one router in a row.
RUNS = ["32", "1"]
TITLES = {
    "cost": "ports of its own, and shares", "two-to-one": "shares 2:1", "virtual": "shares 2:1, in virtual time", "neighbour": "a neighbour that takes all", "overload": "a neighbour's overload",
    "isolated": "routers that are processes, by links", "direct": "routers that are processes, with devices", "namespaces": "Linux namespaces", "many": "many routers"}
PAPER_XEN = 0.05
# Packets that the first router beside a neighbour gets in a measurement of a second; its neighbour's load is a multiple.
PACED = 20_000
# Figure 16 on another host: mark of its processor, commit, and Mpps with one router and with 1,000. Its raw results are
# in the history of raw.json.
OTHER_HOST = ("2596 MHz", "1e4a9cf5", 16.9, 6.9)
# Least rate of a router with shares of ports over one with ports of its own.
GOAL_SHARED = 0.95
# Greatest cost of a look-up over that with one router.
GOAL = 1.1
# Greatest memory of a router, in KiB.
GOAL_KIB = 50
# Least part of its rate that a router keeps beside a neighbour that never ends, in percent.
GOAL_KEPT = 97
# Part of the rate in line below which queues forward less: by more than loads differ.
LESS = 0.99
# Greatest growth of a router's latency beside a neighbour that is offered too much, in percent.
GOAL_GROWTH = 3


def load():
    path = HERE / "raw.json"
    if not path.exists():
        raise machine.NotMeasured(f"{path} is missing: measure first, with eval/routers/run --keep")
    raw = json.loads(path.read_text())
    if missing := [part for part in TITLES if part not in raw]:
        raise machine.NotMeasured(f"{path} has no results of {', '.join(missing)}: measure them, with eval/routers/run {' '.join(missing)} --keep")
    return raw


def middle(values, scale=1.0):
    return statistics.median(values) / scale


def over(ones, others):
    """Ratios of two lists of results, one for each round."""
    return spread(ratios(ones, others))


def mpps(values):
    return spread([value / 1e6 for value in values])


def counts(raw):
    """Numbers of routers that part `many` has measured, in order."""
    return sorted((n for n in raw["many"] if n.isdigit()), key=int)


def totals(raw, run):
    """Millions of packets a second of all routers together, one router first."""
    many = raw["many"]
    one = many[counts(raw)[0]]["rate of 1"][run]
    return [(1, one), *((int(n), many[n]["rate of all"][run]) for n in counts(raw))]


def by_number(raw, part):
    """Rates by the number of isolated routers that share one core, of a part of the results."""
    return sorted((int(name.split()[0]), rates) for name, rates in raw[part].items() if name.endswith(" isolated"))


def shares(raw, scheme):
    """By load: what the first and the second router forward, of what both can do."""
    return {load: [middle(rates) for rates in zip(*raw["two-to-one"][f"{scheme} {load}"], strict=True)] for load in LOADS}


def memory(raw, n):
    """KiB that each of n routers takes beside the first one."""
    return (raw["many"][n]["memory of all"] - raw["many"][n]["memory of 1"]) / (int(n) - 1)


SCHEMES = {"inline": "in line (a)", "queues": "queues in software (b)", "hardware": "a port with a queue for each router (c)"}


def in_virtual_time(raw):
    """Table of what two routers forward, by scheme and load."""
    of = raw["virtual"]
    rows = [[load, *(" + ".join(f"{rate:.2f}" for rate in of[f"{scheme} {load}"][:2]) for scheme in SCHEMES)] for load in LOADS]
    return table(["offered", *SCHEMES.values()], rows)


def deviation(raw, scheme):
    """Greatest difference from the ideal rates, in percent of the worker's capacity."""
    of = [rates for name, rates in raw["virtual"].items() if name.startswith(f"{scheme} ")]
    return 100 * max(abs(is_ - ought) for rates in of for is_, ought in zip(rates[:2], rates[2:], strict=True))


def look_up_ratios(raw, n, run=RUNS[0]):
    """Cycles of a look-up with n routers over those with one router, for each round."""
    of = raw["many"][n]
    return ratios(of["cycles of all"][run], of["cycles of 1"][run])


def look_ups(raw):
    many = raw["many"]
    alone = [f"{middle(many[counts(raw)[0]]['cycles of 1'][run]):.1f}" for run in RUNS]
    rows = [["1", alone[0], "1", alone[1], "1", "", ""]]
    for n in counts(raw):
        row, of = [f"{int(n):,}"], many[n]
        for run in RUNS:
            row += [f"{middle(of['cycles of all'][run]):.1f}", spread(look_up_ratios(raw, n, run))]
        rows.append([*row, f"{memory(raw, n):.1f}", f"{middle(of['add ms']):.1f}"])
    return table(["routers", "32 in a row: cycles of a look-up", "over one router", "each packet for another router: cycles", "over one router", "KiB a router", "`add`, ms"], rows)


def overload(raw):
    rows = []
    for name in ("light", "heavy"):
        of = {when: raw["overload"][f"{name} {when}"] for when in ("half", "all", "ten")}
        cost = 1e9 / middle([one["blue"] for one in of["ten"]])
        lost = (f"{spread([max(0, 100 * one['lost']) for one in of[when]])} %" for when in ("half", "ten"))
        rows.append([name, f"{cost:,.0f} ns", *(spread([one["p95"] for one in of[when]], 1) for when in of), *lost])
    return table(["the neighbour", "it handles a packet every, at the greatest load", "offered half", "1.1 times", "ten times the half", "lost of the first router's packets: at half",
                  "at ten times the half"], rows)


def light(raw):
    """Words on the load of the neighbours: how many times their measure they handle, and their loads over "half"."""
    def of(name, when):
        return raw["overload"][f"{name} {when}"]

    def handled(name):
        """Packets that a neighbour handles at the greatest load, over its measure."""
        half, most = ([one["blue"] for one in of(name, when)] for when in ("half", "ten"))
        return spread([part / 2 for part in ratios(most, half)], 1)

    def times(name, when):
        """The neighbour's packets over those of "half": one factor for each round."""
        first, load = ([one["sent"] + one["refused"] - PACED for one in of(name, loads)] for loads in ("half", when))
        return ratios(load, first)

    words = (f"At the greatest load the light neighbour handles {handled('light')} times its measure, "
             f"the heavy one {handled('heavy')} times. ")

    def span(name, when):
        least, greatest = (f"{of(times(name, when)):.1f}" for of in (min, max))
        return least if least == greatest else f"{least} to {greatest}"

    sent = " and ".join(f"{span(name, 'all')} and {span(name, 'ten')} times for the {name} one" for name in ("light", "heavy"))
    return words + (f"Loads are rounded to multiples of {PACED:,} packets\na second, and the source may fall short of the greatest. So the second and third load are not 2.2 and 10 times the first, but\n{sent}. ")


def where_lost(raw):
    """Words on where packets are lost beside a neighbour."""
    rounds = [one for name, of in raw["overload"].items() if name != "host" for one in of]
    near = all(abs(one["lost"] - runs.refused(one)) < 0.01 for one in rounds)
    words = f"{'Nearly all' if near else 'Some'} packets that the first router misses are lost before the worker sees them, when the source finds the ring of the memif full."
    others = [100 * one["lost"] for one in rounds if not one["refused"] and one["lost"] > 0.0005]
    return words + (f" In {len(others)} round{'s' * (len(others) > 1)} up to {max(others):.2f} % were lost although the ring was never full; where was not looked into." if others else "")


def growth(raw, name):
    """Growth of the 95th percentile from "half" to "ten times the half", in percent: one for each round."""
    half, ten = ([one["p95"] for one in raw["overload"][f"{name} {when}"]] for when in ("half", "ten"))
    return [100 * (times - 1) for times in ratios(ten, half)]


def overload_words(raw):
    """Words on the growth of latency beside a neighbour."""
    grows = {name: growth(raw, name) for name in ("light", "heavy")}
    missed = max(map(statistics.median, grows.values())) > GOAL_GROWTH
    why = ("Probably each packet that the neighbour gets too much costs a look at its header while the first router's packets wait. If so, only a port\n"
           "with a queue for each router avoids it. ")
    return {f"{name} grows": spread(percents, 0) for name, percents in grows.items()} | {
        "where lost": where_lost(raw), "overload goal": f"{GOAL_GROWTH} %: {'missed' if missed else 'met'}", "why grows": why if missed else "", "light": light(raw)}


def queues_less(raw):
    """Sentences about the loads at which both routers together forward less by queues than in line, in all rounds."""
    def both(scheme, load):
        return [high + low for high, low in raw["two-to-one"][f"{scheme} {load}"]]

    less = [load for load in LOADS if max(both("queues", load)) < LESS * min(both("inline", load))]
    if not less:
        return ""
    loads = f"loads of {listed(less)}" if less[1:] else f"a load of {less[0]}"
    words = f"By queues both together forward less than in line at {loads}, in all rounds."
    below = [load for load in less if float(load) < 1]
    return words + "".join(
        f" At {load}, below the unit, they forward {spread(both('queues', load))}." for load in below)


def in_line(raw):
    """Words on the live rates with sharing in line at the greatest load."""
    high, low = shares(raw, "inline")["3"]
    part = high / (high + low)
    if high + low > 0.85 * float(LOADS[-1]) and abs(part - 0.4) < 0.02:
        return "So in line\nneither router is short of the worker here, and the rates have the offered 40:60, as the paper's have beyond saturation."
    return f"The first router\nhas {100 * part:.0f} % of what is forwarded (40 % are offered)."


def beside_linux(raw):
    of, rows = raw["namespaces"], []
    for n in sorted({name.split()[1] for name in of if name.startswith("namespaces ")}, key=int):
        linux, ours = of[f"namespaces {n}"], of[f"shares {n}"]
        lost = [[max(0, 100 * part) for part in of[f"{kind} {n} lost"]] for kind in ("namespaces", "shares")]
        lost = [f"{spread(percents, 0)} %" for percents in lost]
        rows.append([n, spread([r / 1e6 for r in linux], 3), lost[0], spread([r / 1e6 for r in ours], 3), lost[1], over(ours, linux)])
    return table(["routers", "Linux, Mpps", "lost", "Ashlar, Mpps", "lost", "Ashlar over Linux"], rows)


def hosts(raw):
    rows = [[TITLES[part], *(raw[part]["host"][name] for name in ("date", "commit", "load before", "cpu"))] for part in TITLES]
    return table(["part", "date", "commit", "load before", "processor"], rows)


def shared_core(rates):
    """Sentence about the rate of isolated routers as more of them share a core."""
    (_, one), (most, all_of) = rates[0], rates[-1]
    words = f"{most} together carry {100 * middle(all_of) / middle(one):.0f} % of what one carries"
    if compared(all_of, one) == "no different":
        return f"{words}, within the spread of the rounds"
    same = [str(n) for n, of in rates[1:-1] if compared(of, one) == "no different"]
    return f"{words}; {listed(same)} as much as one within the spread of the rounds" if same else words


def cache(raw):
    """Sentence about the rate of all routers as their number grows."""
    rates = totals(raw, RUNS[0])
    first, last = (f"{rate:.{1 if rate >= 1 else 2}f}" for rate in (middle(of, 1e6) for of in (rates[0][1], rates[-1][1])))
    words = f"{first} Mpps with one router, {last} with {rates[-1][0]:,}"
    flat = [n for n, of in rates[1:] if middle(of) > 0.9 * middle(rates[0][1])]
    return f"{words}; at least 90 % of one router's with {flat[-1]:,}" if flat else words


def all_cycles(raw):
    """Sentences about the cycles of a packet with the greatest number of routers, and about the same figure on another host."""
    host, most = raw["many"]["host"], counts(raw)[-1]
    of, hz = raw["many"][most], machine.noted_hz(host)
    cycles = [hz / rate for rate in of["rate of all"][RUNS[0]]]
    share = 100 * statistics.median(ratios(of["cycles of all"][RUNS[0]], cycles))
    alone = hz / middle(totals(raw, RUNS[0])[0][1])
    words = (f"With {int(most):,} routers a packet takes {statistics.median(cycles):,.0f} cycles in all, {share:.0f} % of them for the look-up; with one router {alone:,.0f}. "
             f"Where the other cycles go was not looked into. With each packet for another router all of them carry {middle(of['rate of all'][RUNS[1]], 1e6):.2f} Mpps.")
    mark, commit, one, many = OTHER_HOST
    if mark in host["cpu"]:
        return words
    return (f"{words}\nOn a host with a time-stamp counter of {mark} an earlier program (commit {commit}) carried "
            f"{one} Mpps with one router and {many} with 1,000.")


def other_host(raw):
    """Words on Figure 16 on another host."""
    mark, _, one, many = OTHER_HOST
    return "" if mark in raw["many"]["host"]["cpu"] else f" ({one} and {many} on another host with an earlier program)"


def no_hugepages(devices):
    """Words on the cost of isolation with devices."""
    slower = compared(devices["1 isolated"], devices["in the process"]) == "less"
    return "DPDK has no hugepages in an isolated process" + ("; that this makes it slower is likely and was not measured. " if slower else ". ")


def cost_goal(parts):
    """Words on the goal of what sharing costs, by rates with shares over rates with ports of its own."""
    words = ": missed" if middle(parts) < GOAL_SHARED else ": met"
    return words + (" by the median; rounds are on both sides of it" if min(parts) < GOAL_SHARED <= max(parts) else "")


def in_cache(raw):
    """Sentence about the cost of the smallest number of routers, which the second-level cache holds."""
    few = counts(raw)[0]
    ratio = middle(look_up_ratios(raw, few))
    if ratio > GOAL and int(few) * memory(raw, few) < raw["many"]["second level KiB"]:
        return f" Its size alone does not explain the factor {ratio:.2f} of {few} routers, which take {int(few) * memory(raw, few):.0f} KiB; why was not looked into."
    return ""


def missed(raw):
    """Sentence about the goal of look-ups beside other routers."""
    above = [n for n in counts(raw) if middle(look_up_ratios(raw, n)) > GOAL]
    if not above:
        return "All numbers of routers meet the first goal"
    return f"{int(above[0]):,} routers miss the first goal{' already' if above[0] != counts(raw)[-1] else ''}"


def values(raw):
    cost, own, devices = raw["cost"], raw["isolated"], raw["direct"]
    mapped = devices["in the process"]
    one = own["1 isolated"]
    rows = []
    curves = {scheme: shares(raw, scheme) for scheme in ("inline", "queues")}
    for load in LOADS:
        rows.append([load, *(" + ".join(map(spread, zip(*raw["two-to-one"][f"{scheme} {load}"], strict=True))) for scheme in curves)])
    proportion = {scheme: [high / low for high, low in raw["two-to-one"][f"{scheme} 3"]] for scheme in curves}
    carried = sum(curves["inline"]["3"]) / 3
    most_round = max(sum(rates) for load in LOADS for rates in raw["two-to-one"][f"queues {load}"])
    kept = [100 * part for part in ratios(raw["neighbour"]["beside"], raw["neighbour"]["alone"])]
    claim(deviation(raw, "queues") <= 1 and deviation(raw, "hardware") <= 1, "queues are within 1 % of the ideal")
    together = [sum(raw["virtual"][f"queues {load}"][:2]) for load in ("1.5", "3")]
    claim(together[1] < together[0], "with a greater load both together forward less by queues in software")
    last = {scheme: raw["virtual"][f"{scheme} 3"] for scheme in SCHEMES}
    beyond = {f"virtual {scheme}": f"{rates[0] / rates[1]:.1f}:1" for scheme, rates in last.items()}
    return beyond | {
        "virtual": in_virtual_time(raw), "inline misses": f"{deviation(raw, 'inline'):.0f}", "looks": look_ups(raw), "shares": table(["offered", "in line", "queues"], rows), "overload": overload(raw), "linux": beside_linux(raw), "hosts": hosts(raw),
        "isolated": table(["routers", "Mpps", "over one in the process"], [["in the process", mpps(own["shared"]), "1"], *(
            [f"{n} isolated", mpps(of), over(of, own["shared"])] for n, of in by_number(raw, "isolated"))]),
        "shared/none": over(cost["shared"], cost["own"]), "shares differ": "" if compared(cost["shared"], cost["own"]) != "no different" else "; the rounds overlap, so no cost is shown", "all cycles": all_cycles(raw), "cost goal": cost_goal(ratios(cost["shared"], cost["own"])), "own": f"{middle(cost['own'], 1e6):.1f}", "falls": shared_core(by_number(raw, "isolated")), "direct falls": shared_core(by_number(raw, "direct")),
        "direct": table(["routers", "Mpps", "over one in the process"], [["in the process", mpps(mapped), "1"], *(
            [f"{n} isolated, on one core", mpps(of), over(of, mapped)] for n, of in by_number(raw, "direct")),
            ["2 isolated, a core each", mpps(devices["2 apart"]), over(devices["2 apart"], mapped)]]),
        "direct/process": over(devices["1 isolated"], mapped),
        "common mpps": f"{middle(cost['shared'], 1e6):.1f}",
        "direct mpps": f"{middle(devices['1 isolated'], 1e6):.1f}", "apart mpps": f"{middle(devices['2 apart'], 1e6):.1f}",
        "apart": over(devices["2 apart"], devices["1 isolated"]),
        "cache": cache(raw), "missed": missed(raw), "goal": GOAL, "rounds": figure.of_rounds(len(cost["own"])), "many rounds": figure.of_rounds(len(raw["many"][counts(raw)[0]]["cycles of 1"][RUNS[0]])).removesuffix(", least and most"),
        "kib": f"{memory(raw, counts(raw)[-1]):.1f}", "kib goal": f"goal {GOAL_KIB}: {'missed' if memory(raw, counts(raw)[-1]) > GOAL_KIB else 'met'}",
        "one routes": f"{100 * int(counts(raw)[0]):,}", **overload_words(raw), "cache kib": raw["many"]["second level KiB"], "few": in_cache(raw),
        "in cache": f"{raw['many']['second level KiB'] / memory(raw, counts(raw)[-1]):.0f}",
        "isolated/shared": over(one, own["shared"]),
        "isolated mpps": f"{middle(one, 1e6):.2f}", "times xen": f"{middle(one, 1e6) / PAPER_XEN:.0f}",
        "queues 3": f"{spread(proportion['queues'])} to 1", "inline carried": f"{100 * carried:.0f} %",
        "in line": in_line(raw),
        "queues most": (f"It is no limit of the worker: by queues it forwards up to {most_round:.1f} of it in a round. "
                        if most_round > 1.05 else ""),
        "queues less": queues_less(raw),
        "isolated rounds": f"{max(max(of) / min(of) for n, of in by_number(raw, 'isolated') if n > 1):.1f}", "no hugepages": no_hugepages(devices),
        "goal shared": GOAL_SHARED, "neighbour kept": f"{spread(kept)} %",
        "neighbour goal": f"goal {GOAL_KEPT} %: {'missed' if middle(kept) < GOAL_KEPT else 'met'}",
        "command": f"    eval/routers/run --routers {' '.join(counts(raw))} --keep"}


def draw(axes, raw):
    common, many, ideal, two, own, mapped, linux = axes
    for scheme, style in (("inline", "--"), ("queues", "-")):
        for at, what in ((0, "high"), (1, "low")):
            ideal.plot([float(load) for load in LOADS], [raw["virtual"][f"{scheme} {load}"][at] for load in LOADS], style, color=plot.COLORS[at], marker="o",
                       label=f"{what}, {scheme}")
    ideal.set(title="Figures 17, 18 in virtual time", xlabel="offered, of the worker's capacity", ylabel="forwarded, of the worker's capacity", ylim=0)
    ideal.legend()
    plot.groups(common, ["Figures 14 (left), 20"], {"ports of its own": [middle(raw["cost"]["own"], 1e6)], "shares of two ports": [middle(raw["cost"]["shared"], 1e6)]}, "Mpps")
    common.set(title="one common domain, one core")
    numbers = sorted({int(name.split()[1]) for name in raw["namespaces"] if name.startswith("namespaces ")})
    beside = {what: [middle(raw["namespaces"][f"{kind} {n}"], 1e3) for n in numbers] for what, kind in (("Linux", "namespaces"), ("Ashlar", "shares"))}
    plot.groups(linux, [f"{n} router{'s' * (n > 1)}" for n in numbers], beside, "kpps")
    linux.set(title="Linux namespaces beside, one core")
    for run in RUNS:
        points = totals(raw, run)
        label = f"{run} packets of a router in a row" if run != "1" else "each packet for another router"
        many.plot([n for n, _ in points], [middle(of, 1e6) for _, of in points], marker="o", label=label)
    many.set(title="Figure 16: routers share one process", xlabel="routers", ylabel="Mpps", xscale="log", ylim=0)
    many.legend()
    loads = [float(load) for load in LOADS]
    for scheme, style in (("inline", "--"), ("queues", "-")):
        of = shares(raw, scheme)
        for at, name, color in ((0, "high", plot.COLORS[0]), (1, "low", plot.COLORS[1])):
            two.plot(loads, [of[load][at] for load in LOADS], style, color=color, marker="o", label=f"{name}, {scheme}")
    two.set(title="The same live", xlabel="offered, in the unit of the page", ylabel="forwarded, in the unit of the page", ylim=0)
    two.legend()
    for axis, points, base, title in (
            (own, by_number(raw, "isolated"), raw["isolated"]["shared"], "Figure 19: isolated, by links, on one core"),
            (mapped, by_number(raw, "direct"), raw["direct"]["in the process"], "Figures 14, 21: isolated, direct mapping, on one core")):
        axis.plot([n for n, _ in points], [middle(of, 1e6) for _, of in points], marker="o", label="processes of their own")
        axis.axhline(middle(base, 1e6), color=plot.PAPER, label="one, in the process")
        axis.set(title=title, xlabel="routers", ylabel="Mpps", ylim=0)
        axis.legend()
    mapped.plot([2], [middle(raw["direct"]["2 apart"], 1e6)], marker="s", label="two, a core each")
    mapped.legend()


def rows():
    """Rows for the table of all figures."""
    raw = load()
    found = values(raw)

    def row(part, *words):
        host = raw[part]["host"]
        return [*words, f"[{name}]({name})", host["commit"], host["date"]]

    return [
        row("cost", "Virtual Routers Figure 14, left: a domain that shares ports over a router with its own", "no number in the text", found["shared/none"] + found["shares differ"]),
        row("isolated", "Virtual Routers Figures 19, 20, hybrid scheme: isolated over common, by links",
            "0.05 of close to 7 Mpps", found["isolated/shared"]),
        row("direct", "Virtual Routers Figure 14 and 3.3.3: isolated over common, direct mapping",
            "a fraction with containers; as much with Xen, about 7 Mpps on six cores",
            f"{found['direct/process']}; {found['apart mpps']} Mpps on two cores"),
        row("cost", "Virtual Routers Figure 20: one common domain", "close to 7 Mpps with six flows", f"{found['common mpps']} Mpps on one core, no cards"),
        row("many", "Virtual Routers Figure 16: many routers in one process on one core, 64 bytes", "flat until caches overflow", found["cache"] + other_host(raw)),
        row("virtual", "Virtual Routers Figures 15, 17, 18: 2:1 at three times the capacity, in virtual time", "missed in line, nearly held by two cards",
            f"{found['virtual inline']} in line, {found['virtual queues']} by queues in software, {found['virtual hardware']} by a simulated port with a queue for each router"),
        row("two-to-one", "Virtual Routers Figures 15(b), 18: 2:1, live, at three times what the queues forward of two million packets a second", "queues in software not measured; nearly held by two cards", f"{found['queues 3']} by queues in software"),
        row("isolated", "Virtual Routers Figure 19: domains behind a shared one", "0.05 Mpps", f"{found['isolated mpps']} Mpps with one domain"),
        row("isolated", "Virtual Routers 3.3.3: domains on one core, by links",
            "falls with their number, by direct mapping (Figure 21)", found["falls"]),
        row("direct", "Virtual Routers Figure 21: domains on one core, direct mapping", "falls with their number", found["direct falls"]),
    ]


def write_page():
    """Makes plot and page of raw.json."""
    raw = load()
    plot.write(HERE / "plot.svg", lambda axes: draw(axes, raw), (29, 3.6), 7)
    busiest = max((raw[part]["host"] for part in TITLES if part != "virtual"), key=lambda host: float(host["load before"]))
    (HERE / "README.md").write_text(figure.warned(figure.fill(figure.page_text(HERE), values(raw)), busiest))
