#!/usr/bin/python3
"""Impact of Network Protocols, Figure 7 and Table 4: the twelve services on one core."""

import pathlib
import random
import statistics
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import callgrind, frames, machine, spread  # noqa: E402
from lib.figure import Figure, claim, column, compared, median, of_rounds, quotient, table  # noqa: E402
import workload  # noqa: E402

SERVICES = [f"{told}_{way}_{order}" for told in ("null", "tag", "match") for way in ("look", "prefix") for order in ("fifo", "sort")]
SECONDS = 1.0
LINE = 64
# Flows of a service: half of its table, so that hardly ever a bucket is full; by DSCP as many as there are.
FLOWS, DSCPS = 2_000, 64
OUTPUTS = [1, 2]  # ports that packets leave by
ROUTES = 100_000  # drawn at random; some are drawn more than once
FIRST_LABEL = 100
# Link rates of the paper's Table 3 in Gbps, its threads for ordering, and its bandwidth of memory in Gbps.
ORDERING = {0.152: (1, 0.38), 0.608: (2, 1.52), 2.488: (6, 6.22), 10: (22, 25), 40: (91, 100)}
# Counts of a service, which are taken in its first round only.
COUNTS = {}
# Least excess of loads and stores, in percent, that counts as more.
LEAST_EXCESS_PERCENT = 2
# Packets a second for each Gbps, as the paper counts them: of 64 bytes, with nothing between them.
BYTES = 64
PPS = 1e9 / (BYTES * 8)
# The paper's Table 4: thousandths of a thread for each Mbps, and memory bandwidth over that of the link.
PAPER = {
    "match_look_fifo": (2.46, 2.88), "match_look_sort": (3.52, 4.63), "match_prefix_fifo": (3.28, 3.06), "match_prefix_sort": (4.34, 4.81),
    "null_look_fifo": (1.31, 0.75), "null_look_sort": (2.38, 2.50), "null_prefix_fifo": (2.13, 0.94), "null_prefix_sort": (3.19, 2.69),
    "tag_look_fifo": (1.97, 1.38), "tag_look_sort": (3.03, 3.13), "tag_prefix_fifo": (2.79, 1.56), "tag_prefix_sort": (3.85, 3.31),
}
NAMED = {"null_prefix_fifo": "IP router", "match_look_sort": "IntServ", "match_prefix_sort": "IntServ by prefix", "tag_look_sort": "MPLS", "null_prefix_sort": "core-stateless"}


def ip(n, dscp):
    """An IP packet of 46 bytes, as frames of 64 have, of the flow n: each flow has a host and a port of its own, every second one the other output."""
    payload, host = bytes(18), n // 2
    udp = struct.pack("!HHHH", 1 + host, 9, 8 + len(payload), 0)
    head = struct.pack("!BBHHHBBH4s4s", 0x45, dscp << 2, 28 + len(payload), 0, 0, 64, 17, 0, bytes([10, 0, 0, 1]), bytes([10, n % 2 + 1, host >> 8, host & 255]))
    return head[:10] + struct.pack("!H", workload.checksum(head)) + head[12:] + udp + payload


def frame(service, n):
    """The packet with what a service wants in front of it: labels, and the state of a core-stateless network."""
    told, way, order = service.split("_")
    label = {("null", "look"): 16 + n % 2, ("tag", "look"): FIRST_LABEL + n}.get((told, way))
    kind = 0x0800 if label is None else 0x8847
    front = b"".join([
        struct.pack("!HBBHIQ", 0x88b5, 1, 0, kind, 7_000_000, 3_000_000) if (told, order) == ("null", "sort") else struct.pack("!H", kind),
        b"" if label is None else struct.pack("!I", label << 12 | 5 << 9 | 1 << 8 | 64)])
    return workload.PCAP_MAC + workload.SOURCE_MAC + front + ip(n, n // 2 % DSCPS)


def capture(service):
    """Packets of the flows in random order."""
    path, rng = machine.WORK / f"qs-{service}.pcap", random.Random(1)
    workload.write_pcap(path, (frame(service, rng.randrange(FLOWS)) for _ in range(frames.COUNT)))
    return path


def flows(service):
    """Handlers that set up the service's neighbours, routes and flows, with their values."""
    told, way, order = service.split("_")
    many = DSCPS if (told, way) == ("tag", "prefix") else FLOWS // 2  # of an output
    wants = f" RATE {80_000 // many}Mbps BURST 10000 PACKET 200" if order == "sort" else ""
    found = [(f"i{output}/arp.insert", f"10.{output}.0.1 02:00:00:00:0{output}:02") for output in OUTPUTS]
    if way == "prefix":
        found.append(("next.ctrl", "\n".join(f"add {route}" for route in routes())))
    if (told, way) == ("tag", "look"):
        labels = range(FIRST_LABEL + 3, FIRST_LABEL + FLOWS)  # the text has the first three
        found.append(("next.ctrl", "\n".join(
            [f"set {FIRST_LABEL} swap 200 10.1.0.1 1", f"set {FIRST_LABEL + 1} swap 201 10.2.0.1 2", f"set {FIRST_LABEL + 2} swap 202 10.1.0.1 1",
             *(f"add {label} swap {label + FLOWS} 10.{label % 2 + 1}.0.1 {label % 2 + 1}" for label in labels)])))
    for output in OUTPUTS if told != "null" else []:
        port = f" PORT {output}" if way == "look" else ""
        if told == "match":
            names = [f"10.0.0.1 {1 + host} 10.{output}.{host >> 8}.{host & 255} 9 udp" for host in range(many)]
        else:
            names = [FIRST_LABEL + 2 * host + output - 1 for host in range(many)] if way == "look" else range(many)
        found.append((f"flows{output if way == 'prefix' else ''}.add", "\n".join(f"{name}{port}{wants}" for name in names)))
    return found


def routes():
    """Routes to the flows' hosts by one neighbour for each output, and others, many of which have the hosts' first octet."""
    rng = random.Random(2)
    found = {(rng.choice([10, rng.randrange(11, 224)]), rng.randrange(3, 256), rng.randrange(256), 24) for _ in range(ROUTES)}
    others = [f"{a}.{b}.{c}.0/{length} 10.{c % 2 + 1}.0.1 {c % 2 + 1}" for a, b, c, length in sorted(found)]
    return [*(f"10.{output}.0.0/20 10.{output}.0.1 {output}" for output in OUTPUTS), *others]


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
        if service not in COUNTS:
            router = start(lab.keep(callgrind.Valgrind(lab, conf, values, ports, 262_143)))
            sums, packets = router.count(4)
            if packets < 1000:
                raise machine.Failed(f"only {packets} packets passed under callgrind\n{router.command}")
            COUNTS[service] = {name: value / packets for name, value in sums.items()}
        return COUNTS[service] | {"rate": native["rate"], "cycles": machine.tsc_hz() / native["rate"]}

    return run


def steps():
    for service in SERVICES:
        yield service, step(service)


def pairs_of_services(word, other):
    """Pairs of services that differ in one word."""
    return [(service, service.replace(word, other)) for service in SERVICES if word in service]


def ordering_cycles(results):
    """Cycles that order by deadlines takes more than first in, first out: of each of six pairs of services."""
    pairs = pairs_of_services("_sort", "_fifo")
    return [median(results, a, "cycles") - median(results, b, "cycles") for a, b in pairs]


def beside_router(results, service):
    """Rate of a service in percent of the IP router's."""
    return quotient(column(results, service, scale=0.01), column(results, "null_prefix_fifo"), 0)


def faster(results, pairs):
    """Words on how many services of pairs are faster, or slower, than the others beyond the spread of the rounds."""
    found = [compared(column(results, a), column(results, b)) for a, b in pairs]
    return f"{found.count('more')} of {len(pairs)} pairs of services, and slower in {found.count('less')}"


def values(raw):
    results, hz = raw["results"], machine.noted_hz(raw["host"])
    rates, needs = [], []
    for service in SERVICES:
        of = {name: median(results, service, name) for name in results[service][0]}
        lines = of["DLmr"] + of["DLmw"]
        name = f"{service} ({NAMED[service]})" if service in NAMED else service
        rates.append([name, spread(column(results, service, scale=1e6)), f"{of['cycles']:.0f}", f"{of['Ir']:.0f}", f"{of['own Ir']:.0f}",
                      f"{of['Dr'] + of['Dw']:.0f}", f"{of['D1mr'] + of['D1mw']:.1f}", f"{lines:.2f}"])
        threads, memory = PAPER[service]
        cores = of["cycles"] * PPS / hz
        needs.append([service, threads, f"{cores:.2f}", memory, f"{(of['D1mr'] + of['D1mw']) * LINE / BYTES:.2f}", f"{lines * LINE / BYTES:.2f}"])
    rate = {service: median(results, service, "rate") for service in SERVICES}
    looks, sorts = pairs_of_services("_look_", "_prefix_"), pairs_of_services("_sort", "_fifo")

    def accesses(service):
        return median(results, service, "Dr") + median(results, service, "Dw")

    def sorting(cost):
        """Least and greatest extra cost of ordering by deadlines over first in, first out."""
        extra = [cost(a) / cost(b) for a, b in sorts]
        return f"{min(extra):.1f} to {max(extra):.1f}"

    paper_looks = sum(PAPER[look][0] < PAPER[prefix][0] for look, prefix in looks)
    more_accesses = sum(accesses(look) > (1 + LEAST_EXCESS_PERCENT / 100) * accesses(prefix) for look, prefix in looks)
    instructions = [median(results, a, "Ir") - median(results, b, "Ir") for a, b in sorts]
    lines = [float(row[-1]) for row in rates]
    pair_cycles = ordering_cycles(results)
    ways = [compared(column(results, a, "cycles"), column(results, b, "cycles")) for a, b in sorts]
    overlaps = ways.count("no different")
    within = (f". In {overlaps} of {len(sorts)} pairs\nthe rounds overlap, so their differences are within the spread, "
              "and the median counts them too") if overlaps else ""
    claim(min(instructions) > 0, "order by deadlines takes more instructions")
    pair_bytes = [LINE * sum(median(results, a, event) - median(results, b, event) for event in ("D1mr", "D1mw"))
                  for a, b in sorts]
    claim(max(lines) < 1.5, "records and tables fit into the caches of the model")
    ordering = [[f"{link:g}", threads, spread([cycles * link * PPS / hz for cycles in pair_cycles]),
                 memory, spread([extra * link / BYTES for extra in pair_bytes], 1)]
                for link, (threads, memory) in ORDERING.items()]
    share = {service: beside_router(results, service) for service in NAMED}
    return {
        "rates": table(["service", "Mpps", "cycles", "instructions", "of these in Ashlar's program", "loads and stores",
                        "misses of the first level", "lines from memory"], rates),
        "needs": table(["service", "threads for 1 Gbps: paper", "cores for 1 Gbps: here", "memory bandwidth over the link's: paper", "here, beyond the first level", "here, from memory"], needs),
        "ordering": table(["link, Gbps", "threads: paper", "cores: here", "bandwidth of memory, Gbps: paper", "beyond the first level: here"], ordering),
        "flows": f"{FLOWS:,}", "routes": f"{len(routes()) - len(OUTPUTS):,}", "dscps": DSCPS,
        "why": (f" By count a look takes over {LEAST_EXCESS_PERCENT} % more loads and stores in {more_accesses}. The look-up of a prefix here\n  loads one or two words, the paper's one at each level of its trie. "
                "In null_look and tag_look a label is also taken off\n  or swapped, and an Ethernet type put on." if more_accesses else ""),
        "looks": faster(results, looks), "paper looks": f"{paper_looks} of {len(looks)}",
        "sorting pairs": f"{ways.count('more')} of {len(sorts)} pairs, and less in {ways.count('less')}",
        "within": within, "overlaps": f", within the spread in {overlaps} of {len(sorts)} pairs" if overlaps else "",
        "sorting instructions": f"{min(instructions):.0f} to {max(instructions):.0f}", "ordering spread": " to ".join(f"{of(pair_cycles) * 10 * PPS / hz:.1f}" for of in (min, max)),
        "sorting": sorting(lambda service: 1 / rate[service]), "paper sorting": sorting(lambda service: PAPER[service][0]),
        "lines": f"{min(lines):.2f} to {max(lines):.2f}", "rounds": of_rounds(len(results[SERVICES[0]])),
        "intserv": share["match_look_sort"], "intserv prefix": share["match_prefix_sort"], "mpls": share["tag_look_sort"], "stateless": share["null_prefix_sort"]}


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
    hz = machine.noted_hz(raw["host"])
    intserv = median(raw["results"], "match_prefix_sort", "cycles") * PPS / hz
    ordering = statistics.median(ordering_cycles(raw["results"])) * 10 * PPS / hz
    return [("Network services Table 3, ordering for 10 Gbps", "22 threads",
             f"{ordering:.2f} cores more than first in, first out, with deadlines and pacing "
             f"({values['ordering spread']} by the services{values['overlaps']})"),
            ("Network services Table 4, IntServ by prefix for 1 Gbps", "4.34 threads", f"{intserv:.2f} cores"),
            ("Network services Figure 7: IntServ, MPLS, core-stateless", "89.8, 112, 113 % of line rate", f"{values['intserv']}, {values['mpls']}, {values['stateless']} % of the IP router")]


figure = Figure(__file__, steps, values, draw, rounds=3, size=(9, 3.6), panels=2, summary=summary)

if __name__ == "__main__":
    figure.main()
