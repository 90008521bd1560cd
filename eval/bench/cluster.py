"""Measurements of a cluster's nodes: configurations and frames of a full mesh of four, as node b receives and sends
them.

This program makes the frames, not the router, so that a node is measured alone. Frames enter at a and leave at c or
d, with b as their intermediate node; or they leave at b.
"""

import ipaddress
import struct

import workload

NODES = "NODES a 1000Gbps b 1000Gbps c 1000Gbps d 1000Gbps, LINKS a-b a-c a-d b-c b-d c-d"
NAME = "bench"
KEYED = f", KEY {bytes(range(16)).hex()}"
# Stations on the link where frames leave: gateways, which frames name by their position from 1, and hosts.
GATEWAYS = [f"10.0.2.{n}" for n in range(254, 250, -1)]
HOSTS = [f"10.0.2.{n}" for n in range(10, 74)]
NEIGHBOURS = " ".join(f"write arp.insert {ip} 02:00:00:00:01:{n:02x}," for n, ip in enumerate(GATEWAYS + HOSTS))
TAG = 0x88B5


def cookie(name):
    """The cookie of a cluster's name in the addresses of its frames: FNV-1a, folded to one byte."""
    state = 0x811C9DC5
    for byte in name.encode():
        state = (state ^ byte) * 0x01000193 & 0xFFFFFFFF
    return state >> 24 ^ state >> 16 & 255 ^ state >> 8 & 255 ^ state & 255


def addresses(node, via, port=0, gateway=1, hops=14, source=0):
    """The two addresses of a frame from a node; crates/cluster/src/address.rs describes them."""
    return struct.pack("!BHBHBHHB", hops << 2 | 2, node, port, gateway, 2, source, via, cookie(NAME))


def tagged(address, packet, flow, sequence):
    """A frame with a tag and without a code; crates/cluster/src/tag.rs describes them."""
    return address + struct.pack("!H16xQHH", TAG, 0, flow, sequence) + b"\x08\x00" + packet


def leaving(n, dst):
    """Addresses of a frame that leaves at b, and its packet's destination. The frame was sent by a, or passed through a.
    Of two packets, one goes to a gateway and the other to a host on the link.
    """
    source = (0, 2, 3)[n * 7919 % 101 % 3]
    more = {"hops": 14 if source == 0 else 13, "source": source}
    if n * 6007 % 97 % 2:
        return addresses(1, 0xFFFF, gateway=n * 4801 % 89 % len(GATEWAYS) + 1, **more), dst
    return addresses(1, 0xFFFF, gateway=0, **more), int(ipaddress.IPv4Address(HOSTS[n * 5003 % 83 % len(HOSTS)]))


def frames(to, tag, count):
    """Frames from a to the nodes in `to`, mixed. Frames that leave at b (1) also come from other nodes."""
    routes = workload.routes4()
    for n, dst in enumerate(workload.destinations(routes, 32, count, 3)):
        node = to[n * 7919 % 101 % len(to)]
        address, dst = leaving(n, dst) if node == 1 else (addresses(node, 1), dst)
        packet = workload.frame4(dst, 60)[14:]
        if not tag:
            yield address + b"\x08\x00" + packet
        else:
            yield tagged(address, packet, n % 4096, n // 4096)


# Number of frames with distinct numbers: more than a run takes.
MANY = 1 << 17
# Neighbours are told while packets come already: where frames may come again, so many that those do not count.
# The same with nodes that hear each other first.
PACKETS = {"vlb-output": 1_000_000, "vlb-output-long": 1_000_000}
PACKETS |= {f"nodes-{where}{more}": 1_000_000 for where in ("enter", "pass", "leave") for more in ("", "-key")}
CAPTURES = {
    "transit": ([2], False, 1 << 16),
    "mixed": ([2, 3], False, 1 << 16),
    "leaving": ([1], False, 1 << 16),
    "leaving-resequence": ([1], True, MANY),
}


def capture(folder, name):
    """The file with the frames of this name, made if it is missing."""
    path = folder / f"vlb-{name}.pcap"
    if not path.exists():
        workload.write_pcap(path, frames(*CAPTURES[name]))
    return path.name


def node(number, more=""):
    return f"vlb :: VLBNode(NAME {NAME}, NODE {number}, {NODES}{more});\n"


def transit(more="", two=False):
    """Node b as an intermediate node between a and c, or between a and c or d."""
    return node("b", more) + f"""
    from :: FromDevice($IN) -> t :: VLBTransit(vlb); Idle -> [1]t; Idle -> [2]t;
    t[0] -> Discard; t[1] -> out :: ToDevice($OUT);
    t[2] -> {"ToDevice(net_null2)" if two else "Discard"};
    t[3] -> here :: VLBOutput(vlb) -> Discard; here[1] -> Discard; t[4] -> Discard;
    """


def stage():
    """Elements through which packets leave, as `ashlar cluster text` writes them."""
    return f"""family :: Classifier(12/0800, 12/86dd);
    family[1] -> six :: VLBOutput6(vlb) -> Discard; six[1] -> Discard;
    family[0] -> leave :: VLBOutput(vlb, 0 {" ".join(GATEWAYS)}); leave[1] -> Discard;
    leave[0] -> arp :: ARPQuerier(10.0.2.1/24, 2:0:0:0:0:1, ENTRY_PACKET_CAPACITY 64); Idle -> [1]arp;
    arp[0] -> out :: ToDevice($OUT); arp[1] -> Discard; arp[2] -> Discard;"""


def output(more="", before="", at_once=False):
    """Node b as the output node, as `ashlar cluster text` writes it."""
    return node("b", more) + f"""
    FromDevice($IN) -> t :: VLBTransit(vlb{", LEAVE leave arp" if at_once else ""}); Idle -> [1]t; Idle -> [2]t;
    t[0] -> Discard; t[1] -> Discard; t[2] -> Discard; t[4] -> Discard;
    t[3] -> {before} {stage()}
    {"t[5] -> out;" if at_once else ""}
    """


def enter(more=""):
    """Node a as the input node: an IP router and VLBInput."""
    return node("a", more) + """
    FromDevice($IN) -> Strip(14) -> CheckIPHeader -> rt :: RadixIPLookup(ROUTES $ROUTES) -> Discard;
    rt[1] -> DecIPTTL -> in :: VLBInput(vlb, b/0/1);
    out :: ToDevice($OUT); in[0] -> out; in[1] -> out; in[2] -> out;
    """


def nodes(where, more=""):
    """Input node a and node b in one router; the cost of a node is the difference. With a key, nodes agree on frame keys
    by heartbeats, so frames cannot be made in advance.
    """
    ways = {
        "enter": "out :: ToDevice($OUT);",
        "pass": "t :: VLBTransit(vlb); t[1] -> out :: ToDevice($OUT); t[2] -> Discard;",
        "leave": f"t :: VLBTransit(vlb); t[1] -> Discard; t[2] -> {stage()}",
    }
    own = {name: f"VLBNode(NAME {NAME}, NODE {name}, NODES a 1000Gbps b 1000Gbps c 1000Gbps, LINKS a-b b-c{more})" for name in "abc"}
    return f"""
    a :: {own["a"]}; vlb :: {own["b"]}; c :: {own["c"]};
    ha :: VLBHeartbeat(a); hb :: VLBHeartbeat(vlb); hc :: VLBHeartbeat(c);
    ha -> Paint(0) -> hb; hb[0] -> Paint(0) -> ha; hb[1] -> Paint(0) -> hc; hc -> Paint(1) -> hb;
    FromDevice($IN) -> Strip(14) -> CheckIPHeader -> VLBInput(a, {"b" if where == "leave" else "c"}/0/1) -> {ways[where]}
    {"" if where == "enter" else "t[0] -> Discard; t[3] -> Discard; Idle -> [1]t;"}
    """


def configurations(folder):
    """Configurations to measure, in the format of `instructions`."""
    plain = ["IN=net_pcap0", "OUT=net_null1"]
    two = [*plain, "--vdev", "net_null2,no-rx=1"]
    routes = [*plain, f"ROUTES={folder}/routes4"]
    reseq = ", RESEQUENCE 2ms"

    def row(text, values, name, first="", out="out"):
        return (text, values, lambda: capture(folder, name), out, first)

    return {
        "vlb-input": (enter(), routes, "in4.pcap", "out", ""),
        "vlb-input-no-flowlets": (enter(", FLOWS 0"), routes, "in4.pcap", "out", ""),
        "vlb-input-resequence": (enter(reseq), routes, "in4.pcap", "out", ""),
        "vlb-transit": row(transit(), plain, "transit"),
        "vlb-transit-two": row(transit(two=True), two, "mixed", out="from"),
        "vlb-output": row(output(at_once=True), plain, "leaving", NEIGHBOURS),
        "vlb-output-long": row(output(), plain, "leaving", NEIGHBOURS),
        "vlb-output-resequence": row(output(reseq, "VLBResequencer(vlb) ->"), plain, "leaving-resequence", NEIGHBOURS),
    } | {
        f"nodes-{where}{name}": (nodes(where, more), plain, "in4.pcap", "out", NEIGHBOURS if where == "leave" else "")
        for where in ("enter", "pass", "leave")
        for name, more in (("", ""), ("-key", KEYED))
    }
