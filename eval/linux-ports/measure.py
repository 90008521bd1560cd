#!/usr/bin/python3
"""Linux, AF_PACKET and AF_XDP on the same veth pairs: throughput, loss and latency, by load."""

import pathlib
import shutil
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import frames, lab as labs, runs  # noqa: E402
from lib.figure import Figure, at_most, median, spread, table  # noqa: E402
import links  # noqa: E402  found by lib.frames

RATES = [25, 50, 100, 200, 300, 400]  # thousands of packets a second
KINDS = {"Linux": links.LinuxVeth, "AF_PACKET": links.RouteVeth, "AF_XDP": links.XdpVeth}
CORES = {"one core": 1, "two cores": 2}
SECONDS = 1.0
# Longest rate of which this share is lost at most still counts as carried.
LOST = 0.005


def between(veth, cores):
    """A router of some kind between two interfaces of one source, which measures latency."""

    class Between(veth):
        CORES = cores

        def connect(self, core):
            # One program holds both ends.
            self.spaces["sink"] = self.spaces["source"]
            super().connect(core)

        def start_source(self, folder, core):
            """Does nothing: the source is started for each rate."""

        def close(self):
            try:
                super().close()
            finally:
                shutil.rmtree(labs.RUNTIME / self.prefix, ignore_errors=True)

    return Between


class Source(labs.Process):
    """A source that sends to s0 and receives from d0."""

    def __init__(self, veth, folder, rate, core):
        ports = ["net_af_packet0,iface=s0,qdisc_bypass=1", "net_af_packet1,iface=d0,framecnt=8192"]
        eal = [word for port in ports for word in ("--vdev", port)]
        # On the router's second core it waits for the router, as a card would.
        command = ["ip", "netns", "exec", veth.spaces["source"].name, "nice", "-n", "19", labs.source_program(), "-l", core, "--no-pci", "--in-memory",
                   "--no-telemetry", "--file-prefix", veth.prefix, "--log-level", "*:error", *eal,
                   "--", frames.fixed(64), int(rate), 8, SECONDS, "back"]
        super().__init__(command, folder / f"{veth.prefix}-{int(rate)}.log")

    result = labs.Source.result


def run(kind, cores):
    """Measurement step: the router at each rate."""

    def step(lab):
        core = labs.MEASURED
        folder = lab.folder / str(lab.number())
        folder.mkdir()
        (folder / "routes4").symlink_to(frames.routes())
        veth = between(KINDS[kind], cores)(folder, core, folder / "router.log")
        found = {}
        try:
            for rate in RATES:
                source = Source(veth, folder, 1000 * rate, 1 - core)
                try:
                    found[str(rate)] = source.result()
                finally:
                    source.close()
        finally:
            veth.close()
        return found

    return step


def steps():
    for cores, count in CORES.items():
        for kind in KINDS:
            yield f"{kind}, {cores}", run(kind, count)


def seen(raw, label, rate, field):
    """A field of the source's results at a rate: the median of the rounds."""
    return median({label: [one[str(rate)] for one in raw["results"][label]]}, label, field)


def offered(raw, label, rate):
    """Thousands of packets a second that the source sent."""
    return seen(raw, label, rate, "sent") / seen(raw, label, rate, "seconds") / 1e3


def came(raw, label, rate):
    return seen(raw, label, rate, "received") / seen(raw, label, rate, "seconds") / 1e3


def lost(raw, label, rate):
    """Part of the packets that was lost at a rate: the median of the rounds."""
    rounds = [one[str(rate)] for one in raw["results"][label]]
    return statistics.median(max(0.0, 1 - one["received"] / one["sent"]) for one in rounds)


def rounds_of(raw, label):
    """Thousands of packets a second that came out in each round, at the rate at which most came out."""
    rate = max(RATES, key=lambda rate: came(raw, label, rate))
    return [one[str(rate)]["received"] / one[str(rate)]["seconds"] / 1e3 for one in raw["results"][label]]


def linux_limits(raw):
    """True if Linux lost packets at some rate, so that its rates are not only what the source could send."""
    return linux_lost(raw) > LOST


def linux_lost(raw):
    """Greatest part of the packets that Linux lost at any rate."""
    return max(lost(raw, f"Linux, {cores}", rate) for cores in CORES for rate in RATES)


def carried(raw, label):
    """The highest rate that was forwarded, and the highest rate with hardly any loss."""
    most = max(came(raw, label, rate) for rate in RATES)
    whole = [came(raw, label, rate) for rate in RATES if lost(raw, label, rate) <= LOST]
    return most, max(whole, default=0.0)


def values(raw):
    rows = []
    for cores in CORES:
        for kind in KINDS:
            label = f"{kind}, {cores}"
            for rate in RATES:
                share = lost(raw, label, rate)
                rows.append([kind, cores, f"{offered(raw, label, rate):.0f}", f"{came(raw, label, rate):.0f}",
                             "0" if share < 0.00005 else f"{100 * share:.2f} %",
                             *(f"{seen(raw, label, rate, field):.0f}" for field in ("p50_us", "p99_us"))])
    best = []
    for cores in CORES:
        linux, linux_whole = carried(raw, f"Linux, {cores}")
        for kind in KINDS:
            most, whole = carried(raw, f"{kind}, {cores}")
            best.append([kind, cores, spread(rounds_of(raw, f"{kind}, {cores}"), 0), f"{most / linux:.2f}", f"{whole:.0f}", f"{whole / max(linux_whole, 1):.2f}"])
    head = ["router", "on", "most, kpps", "of Linux", f"at most {100 * LOST:g} % lost, kpps", "of Linux"]
    sources = [one for rounds in raw["results"].values() for by_rate in rounds for one in by_rate.values()]
    refused = max(map(runs.refused, sources))
    linux = "" if linux_limits(raw) else (f"Linux lost at most {at_most(100 * linux_lost(raw), 1)} %\nat any rate. So its rates are what the source could send, and it may carry more: the columns \"of Linux\" "
                                          "compare with that.\n"
                                          f"Half of its frames take up to {max(seen(raw, 'Linux, one core', rate, 'p50_us') for rate in RATES) / 1e3:.1f} ms on one core: there they wait somewhere. ")
    return {"refused": f"Devices refused up to {100 * refused:.1f} % of the source's frames;" if refused else "No device refused a frame;", "linux": linux,
            "table": table(["router", "on", "offered, kpps", "came out", "lost", "50 %, us", "99 %, us"], rows),
            "best": table(head, best), "rounds": min(map(len, raw["results"].values())),
            "asked": ", ".join(map(str, RATES)), "lost": f"{100 * LOST:g}"}


def draw(axes, raw):
    for cores, style in zip(CORES, ("o-", "s--")):
        for kind, color in zip(KINDS, ("#777777", "#c9a227", "#2a6f97")):
            label = f"{kind}, {cores}"
            loads = [offered(raw, label, rate) for rate in RATES]
            axes[0].plot(loads, [came(raw, label, rate) for rate in RATES], style, color=color, label=label)
            axes[1].plot(loads, [seen(raw, label, rate, "p99_us") for rate in RATES], style, color=color)
    most = max(RATES)
    axes[0].plot([0, most], [0, most], ":", color="#999999")
    axes[0].set(xlabel="offered, kpps", ylabel="came out, kpps", title="rate")
    axes[1].set(xlabel="offered, kpps", ylabel="us", title="99 % of packets", yscale="log")
    axes[0].legend(fontsize=7)


def summary(raw, values):
    return [("Veth pairs, most packets routed by one core: Linux, Ashlar by AF_PACKET, Ashlar by AF_XDP", "not in a paper", ", ".join(f"{carried(raw, f'{kind}, one core')[0]:.0f}" for kind in KINDS) + " kpps" + ("" if linux_limits(raw) else "; Linux lost nearly nothing, so its rate is what the source could send"))]


figure = Figure(__file__, steps, values, draw, rounds=3, size=(8, 3.8), panels=2, summary=summary)

if __name__ == "__main__":
    figure.main()
