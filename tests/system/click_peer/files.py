"""Files that classes read: captures and summaries of packets."""

import struct

from .packets import ADDRESSES, any_packet, ether_packet, ip_packet

START_S = 1_000_000_000
"""Begin of simulated time."""


def capture(r, whole):
    """A file as tcpdump writes it, now and then of another kind, with lengths that are wrong, or, unless `whole`, cut off."""
    magic, fraction = r.choice([(0xA1B2C3D4, 1_000_000)] * 3 + [(0xA1B23C4D, 1_000_000_000)])
    order = r.choice("<<>")
    link = r.choice([1, 1, 1, 101, 101, 12, 0, 113, 9])
    snap = r.choice([65535, 2000, 68])
    out = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, snap, link)
    now = START_S * fraction
    for _ in range(r.choice([0, 1, 2, 5, 12])):
        now += r.choice([0, 1, fraction // 1000, fraction // 10, fraction, -fraction // 10])
        data = {1: ether_packet, 101: ip_packet, 12: ip_packet}.get(link, any_packet)(r)
        length = len(data) + r.choice([0, 0, 0, 5, 1000])
        data = data[:snap]
        out += struct.pack(f"{order}IIII", now // fraction, now % fraction, len(data), max(length, len(data))) + data
    return out[: r.randrange(len(out))] if r.random() < 0.05 and not whole else out


FIELDS = {
    "timestamp": lambda r: f"{START_S + r.randrange(3)}.{r.randrange(1_000_000):06}",
    "ip_src": lambda r: r.choice(ADDRESSES),
    "ip_dst": lambda r: r.choice(ADDRESSES),
    "ip_proto": lambda r: r.choice(["T", "U", "I", "6", "17", "1", "50"]),
    "ip_len": lambda r: str(r.choice([20, 28, 40, 60, 100, 1500])),
    "ip_id": lambda r: str(r.randrange(65536)),
    "ip_ttl": lambda r: str(r.choice([0, 1, 64, 255])),
    "ip_tos": lambda r: str(r.choice([0, 1, 16, 184, 255])),
    "ip_fragoff": lambda r: r.choice(["0", "0+", "8", "1480", "1480+"]),
    "ip_frag": lambda r: r.choice([".", "F", "f", "!"]),
    "sport": lambda r: str(r.choice([0, 80, 1234, 65535])),
    "dport": lambda r: str(r.choice([0, 80, 1234, 65535])),
    "tcp_seq": lambda r: str(r.getrandbits(32)),
    "tcp_ack": lambda r: str(r.getrandbits(32)),
    "tcp_flags": lambda r: r.choice([".", "S", "SA", "FA", "PA", "R", "2", "18", "X"]),
    "tcp_window": lambda r: str(r.randrange(65536)),
    "payload_len": lambda r: str(r.choice([0, 1, 100])),
    "payload": lambda r: r.choice(['""', '"abc"', '"a b\\n"', "-"]),
    "count": lambda r: str(r.choice([1, 1, 2, 3])),
    "link": lambda r: str(r.choice([0, 1, 255])),
    "direction": lambda r: r.choice([">", "<", "0", "1"]),
    "aggregate": lambda r: str(r.randrange(1000)),
    "icmp_type": lambda r: r.choice(["8", "0", "3", "echo", "unreachable"]),
    "icmp_code": lambda r: r.choice(["0", "1", "3"]),
}
"""Values of fields of a summary."""


SURE = {"ip_src", "ip_dst", "ip_len", "ip_id", "ip_ttl", "sport", "dport"}
"""Fields of which each line has one with a value: in Click, a line without any IP field is an empty packet."""


def summary(r):
    """A file as ToIPSummaryDump writes it, with lines that are wrong."""
    fields = r.sample(sorted(FIELDS), r.choice([1, 3, 5, 8]))
    sure = next((field for field in fields if field in SURE), "ip_id")
    if sure not in fields:
        fields.append(sure)
    if "ip_len" in fields:
        fields = [field for field in fields if field not in ("payload", "payload_len")]
    lines = ["!IPSummaryDump 1.3"] * (r.random() < 0.8)
    if "payload_len" in fields:
        fields = [field for field in fields if field != "payload"]
    lines.append(f"!data {' '.join(fields)}")
    for _ in range(r.choice([0, 1, 3, 8])):
        values = [FIELDS[field](r) if field == sure or r.random() < 0.97 else r.choice(["-", "x"]) for field in fields]
        lines.append(" ".join(values))
        if r.random() < 0.05:
            lines.append(r.choice(["", "# a comment", "!bad x", "!proto U", "x"]))
    return ("\n".join(lines) + "\n").encode()


def files_of(r, spec, args):
    """Name and bytes of each file that an element of the class reads."""
    if spec.name == "FromDump":
        # Positions behind a packet that is cut off and not taken differ: docs/click.md.
        skips = any(arg.startswith(("START", "SAMPLE")) for arg in args)
        return (("in.pcap", capture(r, skips)),)
    return (("in.txt", summary(r)),) if spec.name == "FromIPSummaryDump" else ()
