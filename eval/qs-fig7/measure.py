#!/usr/bin/python3
"""Impact of Network Protocols, Figure 7 and Table 4: the twelve services on one core."""

import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import callgrind, frames, machine  # noqa: E402
from lib.figure import Figure, median, table  # noqa: E402
import workload  # noqa: E402

SERVICES = [f"{told}_{way}_{order}" for told in ("null", "tag", "match") for way in ("look", "prefix") for order in ("fifo", "sort")]
SECONDS = 1.5
LINE = 64
# Packets a second of frames of 64 bytes, with what is between them, for each Gbps.
PPS = 1e9 / (84 * 8)
# Of the paper's Table 4: threads that hide latency, for each Gbps, and memory bandwidth over that of the link.
PAPER = {
    "match_look_fifo": (2.46, 2.88), "match_look_sort": (3.52, 4.63), "match_prefix_fifo": (3.28, 3.06), "match_prefix_sort": (4.34, 4.81),
    "null_look_fifo": (1.31, 0.75), "null_look_sort": (2.38, 2.50), "null_prefix_fifo": (2.13, 0.94), "null_prefix_sort": (3.19, 2.69),
    "tag_look_fifo": (1.97, 1.38), "tag_look_sort": (3.03, 3.13), "tag_prefix_fifo": (2.79, 1.56), "tag_prefix_sort": (3.85, 3.31),
}
NAMED = {"null_prefix_fifo": "IP router", "match_prefix_sort": "IntServ", "tag_look_sort": "MPLS", "null_prefix_sort": "core-stateless"}


def ip(output):
    """An IP packet of 46 bytes, as in frames of 64. It belongs to one of two flows, each with its own output."""
    tos, payload = (46 << 2, 10 << 2)[output], bytes(18)
    udp = struct.pack("!HHHH", 1, 9, 8 + len(payload), 0)
    head = struct.pack("!BBHHHBBH4s4s", 0x45, tos, 28 + len(payload), 0, 0, 64, 17, 0, bytes([10, 0, 0, 1]), bytes([10, output + 1, 0, 1]))
    return head[:10] + struct.pack("!H", workload.checksum(head)) + head[12:] + udp + payload


def frame(service, output):
    """The packet with the headers that a service needs in front of it: labels, and the state of a core-stateless
    network.
    """
    told, way, order = service.split("_")
    labels = {("null", "look"): (16, 17), ("tag", "look"): (100, 101)}.get((told, way))
    kind = 0x8847 if labels else 0x0800
    front = b"".join([
        struct.pack("!HBBHIQ", 0x88b5, 1, 0, kind, 7_000_000, 3_000_000) if (told, order) == ("null", "sort") else struct.pack("!H", kind),
        struct.pack("!I", labels[output] << 12 | 5 << 9 | 1 << 8 | 64) if labels else b""])
    return workload.PCAP_MAC + workload.SOURCE_MAC + front + ip(output)


def capture(service):
    path = machine.WORK / f"qs-{service}.pcap"
    workload.write_pcap(path, (frame(service, n % 2) for n in range(frames.COUNT)))
    return path


def flows(service):
    """Handlers that set up the service's flows, with their values."""
    told, way, order = service.split("_")
    wants = " RATE 40Gbps BURST 1000000 PACKET 1500" if order == "sort" else ""
    ends = ["10.0.0.1 1 10.1.0.1 9 udp", "10.0.0.1 1 10.2.0.1 9 udp"]
    names = {("tag", "look"): ["100 PORT 0", "101 PORT 1"], ("tag", "prefix"): ["46", "10"],
             ("match", "look"): [f"{end} PORT {n}" for n, end in enumerate(ends)], ("match", "prefix"): ends}.get((told, way), [])
    tables = ["flows", "flows"] if way == "look" else ["flows1", "flows2"]
    return [(f"{to}.add", name + wants) for to, name in zip(tables, names)]


def step(service):
    conf = machine.ROOT / "conf" / "services" / f"{service}.click"

    def run(lab):
        file = capture(service)
        values = ["DEV0=net_pcap0", "DEV1=net_null1", "DEV2=net_null2", "LINK=100Gbps"]
        ports = [f"net_pcap0,rx_pcap={file},infinite_rx=1", "net_null1,no-rx=1", "net_null2,no-rx=1"]

        def start(router):
            router.wait_running()
            for handler, value in flows(service):
                router.write(handler, value)
            router.wait_sending()
            return router

        native = start(lab.router(conf, values, ports, buffers=262_143)).measure(SECONDS)
        lab.end_all()
        router = start(lab.keep(callgrind.Valgrind(lab, conf, values, ports, 262_143)))
        sums, packets = router.count(4)
        if packets < 1000:
            raise machine.Failed(f"only {packets} packets passed under callgrind\n{router.command}")
        return {name: value / packets for name, value in sums.items()} | {"rate": native["rate"], "cycles": machine.tsc_hz() / native["rate"]}

    return run


def steps():
    for service in SERVICES:
        yield service, step(service)


def values(raw):
    results, hz = raw["results"], machine.noted_hz(raw["host"])
    rates, needs = [], []
    for service in SERVICES:
        of = {name: median(results, service, name) for name in results[service][0]}
        lines = of["DLmr"] + of["DLmw"]
        name = f"{service} ({NAMED[service]})" if service in NAMED else service
        rates.append([name, f"{of['rate'] / 1e6:.2f}", f"{of['cycles']:.0f}", f"{of['Ir']:.0f}", f"{of['own Ir']:.0f}",
                      f"{of['Dr'] + of['Dw']:.0f}", f"{of['D1mr'] + of['D1mw']:.1f}", f"{lines:.2f}"])
        threads, memory = PAPER[service]
        cores = of["cycles"] * PPS / hz
        needs.append([service, threads, f"{cores:.2f}", memory, f"{lines * LINE / 84:.2f}"])
    rate = {service: median(results, service, "rate") for service in SERVICES}
    def cheaper(cost):
        """Number of the six pairs in which exact match is cheaper than prefix match, given the services' costs."""
        looks = [service for service in SERVICES if "_look_" in service]
        return sum(cost(look) < cost(look.replace("_look_", "_prefix_")) for look in looks), len(looks)

    def sorting(cost):
        """Least and greatest extra cost of ordering by deadlines over first in, first out."""
        ratios = sorted(cost(service) / cost(service.replace("_sort", "_fifo")) for service in SERVICES if service.endswith("_sort"))
        return f"{ratios[0]:.1f} to {ratios[-1]:.1f}"

    looks, pairs = cheaper(lambda service: 1 / rate[service])
    paper_looks, _ = cheaper(lambda service: PAPER[service][0])
    lines = [float(row[-1]) for row in rates]
    share = {service: f"{100 * rate[service] / rate['null_prefix_fifo']:.0f}" for service in NAMED}
    return {
        "rates": table(["service", "Mpps", "cycles", "instructions", "of these not in DPDK's libraries", "loads and stores",
                        "misses of the first level", "lines from memory"], rates),
        "needs": table(["service", "threads for 1 Gbps: paper", "cores for 1 Gbps: here", "memory bandwidth over the link's: paper", "here"], needs),
        "looks": f"{looks} of {pairs}", "paper looks": f"{paper_looks} of {pairs}",
        "sorting": sorting(lambda service: 1 / rate[service]), "paper sorting": sorting(lambda service: PAPER[service][0]),
        "lines": f"{min(lines):.1f} to {max(lines):.1f}", "rounds": len(results[SERVICES[0]]),
        "intserv": share["match_prefix_sort"], "mpls": share["tag_look_sort"], "stateless": share["null_prefix_sort"]}


def draw(axes, raw):
    results = raw["results"]
    left, right = axes
    at = range(len(SERVICES))
    left.barh(at, [median(results, s, "rate") / 1e6 for s in SERVICES])
    right.barh(at, [median(results, s, "Dr") + median(results, s, "Dw") for s in SERVICES])
    for panel in axes:
        panel.set_yticks(list(at), SERVICES, fontsize=7)
        panel.invert_yaxis()
    left.set(xlabel="million packets a second, one core")
    right.set(xlabel="loads and stores of a packet")


def summary(raw, values):
    return [("Network services Figure 7: IntServ, MPLS, core-stateless", "89.8, 112, 113 % of line rate", f"{values['intserv']}, {values['mpls']}, {values['stateless']} % of the IP router")]


figure = Figure(__file__, steps, values, draw, rounds=1, size=(9, 3.6), panels=2, summary=summary)

if __name__ == "__main__":
    figure.main()
