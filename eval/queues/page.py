"""Generates the page of this folder, README.md and plot.svg, from raw/ and page.md."""

import json
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import capacity  # noqa: E402
import moves  # noqa: E402
from lib import figure, machine, plot, spread  # noqa: E402

RAW = HERE / "raw"
COMMAND = "make bench-queues && eval/queues/run --again target/queues/results.json --keep"
AROUND = 3  # samples of processor time on each side of a point of the curve


def keep(raw):
    """Writes the measured data to raw/, one file for each part."""
    for part in ("capacity", "moves"):
        if part in raw:
            found = {"host": raw["host"], "command": COMMAND, part: raw[part]}
            if part == "moves":
                found["computed"] = raw["computed"]
            (RAW / f"{part}.json").write_text(json.dumps(found, separators=(",", ":")) + "\n")


def load(part):
    path = RAW / f"{part}.json"
    if not path.exists():
        raise machine.Failed(f"{path} is missing: {COMMAND}")
    return json.loads(path.read_text())


def cores(used):
    """Mean number of processors in use, computed from used processor time."""
    pairs = zip(used, used[2 * AROUND:])
    return [((t0 + t1) / 2, (u1 - u0) / (t1 - t0)) for (t0, u0), (t1, u1) in pairs]


def draw(axes, raw):
    shares, loads, processors, latency = axes
    counts = raw["computed"]["rebalance"]["shares"][:-1]
    window = raw["computed"]["rebalance"].get("window", moves.WINDOW)
    first = [n for n in range(len(counts)) if (n + 1) * window <= 1]
    for worker in range(len(counts[0])):
        at = [100 * counts[n][worker] / max(sum(counts[n]), 1) for n in first]
        shares.plot([1000 * n * window for n in first], at, label=f"worker {worker}")
    mean = 100 / len(counts[0])
    shares.axhspan(mean * (1 - moves.WITHIN), mean * (1 + moves.WITHIN), color=plot.PAPER, alpha=0.3)
    shares.set(title="a load on one worker is shared out", xlabel="ms", ylabel="% of the packets")
    shares.legend()
    curve = raw["computed"]["scale"]["curve"]
    seconds = [one["s"] for one in curve]
    loads.plot(seconds, [one["packets"] / 1e2 for one in curve])  # kpps: packets of a tenth of a second
    loads.set(title="a load falls and rises", xlabel="s", ylabel="kpps", ylim=0)
    used = cores([one for one in raw["moves"]["scale"]["used"] if one[0] <= seconds[-1]])
    processors.plot(*zip(*used), label="processors in use")
    processors.step(seconds, [one["workers"] for one in curve], where="post", label="workers that send")
    processors.set(title="what it is done with", xlabel="s", ylim=(0, 2.4), xlim=(0, seconds[-1]))
    processors.legend(loc="lower center")
    for key, name in (("p50 us", "median"), ("p99 us", "99 %")):
        latency.plot(seconds, [max(one[key], 1) for one in curve], label=name)
    latency.set(title="from due to sent", xlabel="s", ylabel="us", yscale="log")
    latency.legend()


def busy(*raw):
    """A warning if the machine had other work during a measurement."""
    load = max(float(one["host"]["load before"]) for one in raw)
    if load < figure.BUSY:
        return ""
    return (f"\n> Measured beside other work (load {load:.1f} on this machine), which takes cores away for longer than rings hold: ratios, losses and\n"
            "> delays below are of that, too. The command under \"Measured on\" writes this page anew, on a quiet machine.\n")


def ms(packets, rate):
    return f"{packets / rate * 1e3:.0f}"


def above_two(gains):
    """Sentence about rounds in which two workers carried more than twice what one carried."""
    above = sum(gain > 2 for gain in gains)
    if not above:
        return "In no round did two workers carry more than twice what one carried."
    return (f"In {above} of {len(gains)} rounds two\nworkers carried more than twice what one carried. A second core alone cannot do that. The turns of one and of two are some\n"
            "seconds apart and in other memory; what of that helps two is not known.")


def testpmd_words(rates):
    """Sentence that compares the times of testpmd and Ashlar for a packet, on one core."""
    one = {kind: statistics.median(rates[f"{kind} {core}"][n] for (core,) in capacity.SINGLES for n in range(len(rates[f"{kind} {core}"])))
           for kind in ("testpmd", "route")}
    part = one["route"] / one["testpmd"]
    return f"Its packets take {part:.2f} of the time of Ashlar's, so resources\nthat the cores share may affect it more." if part < 1 else ""


def capacity_values(raw):
    rates = raw["capacity"]
    ratios = {"ceiling": capacity.gains(rates, "testpmd"), "gain": capacity.gains(rates, "route"), "of ceiling": capacity.of_ceiling(rates)}
    return {name: spread(each, 3) for name, each in ratios.items()} | {
        "rounds": len(ratios["gain"]), "above two": above_two(ratios["gain"]), "testpmd": testpmd_words(rates)}


def away(found):
    """Longest time without a poll of a queue, longest time in which others had a worker's core, and stolen time as the
    host reports it.
    """
    if not (machine := found.get("machine")):
        return "not noted"
    wait = max(wait for _, wait in machine["turns ms"])
    return f"{machine['unpolled ms']} ms, {wait} ms, {sum(machine['stolen s']):.2f} s"


def moves_values(raw):
    found = raw["computed"]
    rebalance, scale = found["rebalance"], found["scale"]
    high, low, again = scale["phases"]
    offered = raw["moves"]["rebalance"]["offered"]
    ring = raw["moves"]["ring"]
    total = sum(seconds for seconds, _ in raw["moves"]["scale"]["profile"])
    used = [u for t, u in raw["moves"]["scale"]["used"] if t <= total]
    values = {
        "carried": ", ".join(f"{rate / 1e3:.0f}" for rate in raw["moves"]["carried"]), "ring": f"{ring}", "offered": f"{offered / 1e3:.0f}", "high": f"{high['rate'] / 1e3:.0f}",
        "third": f"{3 * raw['moves']['ring'] / (offered / 2):.2f}",
        "window ms": f"{1e3 * rebalance.get('window', moves.WINDOW):.0f}", "ring ms": ms(ring, offered / 2), "high ring ms": ms(ring, high["rate"] / 2),
        "seconds": moves.say_seconds(rebalance["seconds"]), "uneven": moves.say_seconds(rebalance["uneven"]),
        # Unknown in results that were kept before it was computed.
        "rebalance busy": f"{rebalance['busy']:.2f}" if "busy" in rebalance else "not computed",
        "saved": f"{100 * (1 - (used[-1] - used[0]) / (2 * total)):.0f}",
        "phases": figure.table(
            ["offered, kpps", "workers that send", "processors in use", "median, us", "99 %, us", "longest, us"],
            [[f"{p['rate'] / 1e3:.0f}", len(p["shares"]), p["cores"], p["p50 us"], p["p99 us"], p["longest us"]] for p in (high, low, again)])}
    for name, one, rate in (("rebalance", rebalance, offered), ("scale", scale, high["rate"])):
        values |= {f"{name} {key}": f"{one[key]:,}" for key in ("packets", "lost", "missed", "reordered", "wrong sources", "wrong counts")}
        values |= {f"{name} away": away(one), f"{name} deepest": f"{one['deepest']:,}", f"{name} deepest ms": ms(one["deepest"], rate / 2)}
    return values


def write():
    """Makes the plot and the page from raw/."""
    one, two = load("capacity"), load("moves")
    plot.write(HERE / "plot.svg", lambda axes: draw(axes, two), (13, 3.2), 4)
    hosts = {"command": f"    {COMMAND}", "capacity host": figure.host_table(one), "moves host": figure.host_table(two)}
    text = figure.fill((HERE / "page.md").read_text(), hosts | capacity_values(one) | moves_values(two))
    title, rest = text.split("\n", 1)
    (HERE / "README.md").write_text(f"{title}\n{busy(one, two)}{rest}")
