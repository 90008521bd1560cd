"""Random configurations of single classes, for Click and `ashlar click`.

A case is one element with random arguments, its neighbours, packets, and a script that sends the packets and calls
handlers. `compare` runs a case with both programs. `shrink` removes what a difference does not need.

By hand: `click_peer.py --click CLICK --ashlar ASHLAR --class Strip --cases 1000 --seed 1`.
"""

import argparse
import os
import random
import re
import struct
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace

# ---------------------------------------------------------------- packets

ADDRESSES = ["10.0.0.1", "10.0.0.2", "10.0.0.255", "10.1.2.3", "1.0.0.1", "2.0.0.2", "192.168.1.7", "0.0.0.0",
             "255.255.255.255", "224.0.0.5", "127.0.0.1", "18.26.4.44"]
ETHERS = ["00:00:c0:ae:67:ef", "02:00:00:00:00:01", "ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:05", "00:50:ba:85:84:a9"]


def ip_bytes(text):
    return bytes(int(part) for part in text.split("."))


def eth_bytes(text):
    return bytes(int(part, 16) for part in text.split(":"))


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def some_bytes(r, length):
    return bytes(r.randrange(256) for _ in range(length))


class Draw(random.Random):
    """Random numbers, and the packets that a class requires."""

    whole = False
    """True if no packet is cut off."""
    fragments = True
    """True if some packets are fragments."""
    options = True
    """True if some packets have IP options."""
    timestamps = True
    """True if IP options may be timestamps or random bytes."""
    bad_options = False
    """True if IP options may be wrong."""

    def cut(self, packet, chance):
        """A packet, possibly truncated."""
        length = self.randrange(len(packet) + 1) if self.random() < chance else len(packet)
        return packet if self.whole else packet[:length]


def ip_options(r):
    """A random list of IP options, not padded."""
    out = b""
    for _ in range(r.choice([1, 1, 1, 2, 3])):
        kind = r.randrange(8)
        if kind == 0:
            out += b"\x01"
        elif kind == 1:
            n = r.choice([1, 2, 3])
            p = r.choice([4, 4, 8, 3, 5, 40, 4 + 4 * n] if r.bad_options else [4, 4, 4 + 4 * n])
            out += bytes([7, 3 + 4 * n, p]) + b"".join(ip_bytes(r.choice(ADDRESSES)) for _ in range(n))
        elif kind == 2:
            n = r.choice([1, 2, 3])
            p = r.choice([4, 4, 8, 3, 5, 4 + 4 * n] if r.bad_options else [4])
            out += bytes([r.choice([131, 137]), 3 + 4 * n, p]) + b"".join(
                ip_bytes(r.choice(ADDRESSES)) for _ in range(n))
        elif kind == 3 and r.timestamps:
            n = r.choice([4, 8])
            out += bytes([68, 4 + n, r.choice([5, 5, 9, 13]), r.choice([0, 1, 3, 0xF0])]) + some_bytes(r, n)
        elif kind == 4:
            out += bytes([148, 4, 0, 0])
        elif kind == 5:
            out += b"\0"
        elif r.timestamps:
            out += some_bytes(r, r.randrange(1, 5))
    return out[:40]


def tcp_bytes(r, payload):
    options = r.choice([b"", b"", b"", b"\x02\x04\x05\xb4", b"\x01\x01\x08\x0a" + some_bytes(r, 8),
                        b"\x02\x04\x02\x00\x04\x02\x03\x03\x07\x00\x00\x00", some_bytes(r, 4)])
    flags = r.choice([2, 0x12, 0x10, 0x18, 0x11, 4, 0, 0x29, r.randrange(256)])
    off = 5 + len(options) // 4
    if r.random() < 0.05:
        off = r.randrange(16)
    return struct.pack(">HHIIBBHHH", tr_port(r), tr_port(r), r.choice([1, 1000, r.getrandbits(32)]),
                       r.choice([0, 2000, r.getrandbits(32)]), off << 4, flags, r.choice([0, 1000, 65535]), 0,
                       r.choice([0, 0, 5])) + options + payload


def tr_port(r):
    return r.choice([20, 21, 22, 53, 80, 80, 1234, 5678, 1024, 65535, 0, 3130, 10000, r.randrange(65536)])


def icmp_bytes(r, payload):
    kind = r.choice([0, 8, 8, 8, 0, 3, 11, 5, 12, 13, 17, 4, r.randrange(256)])
    code = r.choice([0, 0, 0, 1, 3, 4, r.randrange(256)])
    if kind in (3, 11, 5, 12, 4) and r.random() < 0.8:
        payload = ip_packet(r, nested=True)[: r.choice([28, 28, 40, 20, 8, 200])]
    return struct.pack(">BBHHH", kind, code, 0, r.choice([0, 1, 2, 256, r.randrange(65536)]),
                       r.choice([0, 1, 2, 20])) + payload


def ip_packet(r, nested=False, proto=None):
    payload = some_bytes(r, r.choice([0, 0, 1, 4, 7, 8, 14, 22, 40, r.randrange(200)]))
    if proto is None:
        proto = r.choice([6, 6, 17, 17, 1, 1, 4, 50, r.randrange(256)])
        if nested and proto == 1:
            proto = 17
    if proto == 6:
        body = bytearray(tcp_bytes(r, payload))
        at = 16
    elif proto == 17:
        length = 8 + len(payload)
        if r.random() < 0.05:
            length += r.choice([-1, 1, 100, -8])
        body = bytearray(struct.pack(">HHHH", tr_port(r), tr_port(r), max(0, length), 0) + payload)
        at = 6
    elif proto == 1:
        body = bytearray(icmp_bytes(r, payload))
        at = 2
    else:
        body, at = bytearray(payload), None
    src, dst = ip_bytes(r.choice(ADDRESSES)), ip_bytes(r.choice(ADDRESSES[:6] * 3 + ADDRESSES))
    if at is not None:
        pseudo = src + dst + struct.pack(">BBH", 0, proto, len(body)) if proto != 1 else b""
        value = checksum(pseudo + bytes(body))
        if r.random() < 0.1:
            value ^= r.choice([1, 0xFFFF, 0x100])
        if r.random() < 0.05:
            value = 0
        body[at : at + 2] = struct.pack(">H", value)
    options = ip_options(r) if r.options and r.random() < 0.2 else b""
    options += b"\0" * (-len(options) % 4)
    hl = 5 + len(options) // 4
    total = 4 * hl + len(body)
    vers = 4
    trailing = b""
    odd = r.random()
    if odd < 0.04:
        total = max(0, total + r.choice([-1, -8, 1, 50, -40]))
    elif odd < 0.06:
        hl = r.randrange(16)
    elif odd < 0.08:
        vers = r.randrange(16)
    elif odd < 0.14:
        trailing = some_bytes(r, r.choice([1, 6, 18]))
    fragment = r.choice([0] * 8 + [0x4000, 0x4000] + [0x2000, 0x2001, 1, 185, 0x8000] * r.fragments)
    head = bytearray(struct.pack(">BBHHHBBH", vers << 4 | hl, r.choice([0, 0, 0x10, 0xB8, 1, 2, 3, r.randrange(256)]),
                                 total & 0xFFFF, r.choice([0, 1, r.randrange(65536)]), fragment,
                                 r.choice([0, 1, 2, 64, 255, r.randrange(256)]), proto, 0) + src + dst + options)
    if r.random() < 0.95:
        head[10:12] = struct.pack(">H", checksum(bytes(head)))
    return r.cut(bytes(head) + bytes(body) + trailing, 0.08)


def ip6_packet(r):
    address = lambda: r.choice([bytes(15) + b"\1", bytes.fromhex("fe80") + bytes(13) + b"\2",
                                bytes.fromhex("20010db8") + bytes(11) + b"\3", bytes(16),
                                bytes.fromhex("ff02") + bytes(13) + b"\1", bytes(10) + b"\xff\xff" + bytes(4)])
    payload = some_bytes(r, r.choice([0, 8, 20, 40]))
    length = len(payload) + r.choice([0] * 9 + [1, -1 if payload else 0, 100])
    out = struct.pack(">IHBB", r.choice([6] * 9 + [4]) << 28 | r.choice([0, 0, 5, 0x0B800000]), length,
                      r.choice([6, 17, 58, 59, 0, 44]), r.choice([0, 1, 2, 64, 255])) + address() + address() + payload
    return r.cut(out, 0.1)


def arp_packet(r):
    out = struct.pack(">HHBBH", r.choice([1] * 19 + [2]), r.choice([0x800] * 19 + [0x806]), r.choice([6] * 19 + [7]),
                      r.choice([4] * 19 + [6]), r.choice([1, 1, 1, 2, 2, 3])) + eth_bytes(r.choice(ETHERS)) + ip_bytes(
        r.choice(ADDRESSES)) + eth_bytes(r.choice([*ETHERS, "00:00:00:00:00:00"])) + ip_bytes(r.choice(ADDRESSES[:6]))
    return r.cut(out + r.choice([b"", b"", bytes(18)]), 0.06)


def ether_packet(r, inner=None):
    kind = r.random()
    if inner is not None:
        body, etype = inner, 0x800
    elif kind < 0.4:
        body, etype = ip_packet(r), 0x800
    elif kind < 0.7:
        body, etype = arp_packet(r), 0x806
    elif kind < 0.8:
        body, etype = ip6_packet(r), 0x86DD
    else:
        body, etype = some_bytes(r, r.choice([0, 1, 46, 60])), r.choice([0x800, 0x9000, 30, 0x8100])
    tag = b""
    if r.random() < 0.25:
        tag = struct.pack(">HH", r.choice([0x8100] * 5 + [0x88A8]), r.choice([0, 1, 5, 0xFFF, 0x2005, 0xE001, 0x1000]))
    out = eth_bytes(r.choice(ETHERS)) + eth_bytes(r.choice(ETHERS[:2] * 3 + ETHERS)) + tag + struct.pack(
        ">H", etype) + body
    return out.ljust(60, b"\0") if r.whole else r.cut(out, 0.06)


def stations(r):
    """Frames with unicast source addresses."""
    frame = ether_packet(r)
    return frame[:6] + bytes([frame[6] & 0xFE]) + frame[7:] if len(frame) > 6 else frame


def unicast(r):
    """ARP replies between stations, about hosts."""
    a, b = r.choice(ETHERS[:2] + ETHERS[4:]), r.choice(ETHERS[:2])
    asking, asked = r.sample(ADDRESSES[:2] + ADDRESSES[3:7], 2)
    return eth_bytes(b) + eth_bytes(a) + bytes.fromhex("0806000108000604") + struct.pack(">H", r.choice([1, 1, 2])) + eth_bytes(
        a) + ip_bytes(asking) + eth_bytes(b) + ip_bytes(asked) + bytes(18)


def hosts6(r):
    """An IPv6 packet between hosts, without ICMP."""
    while True:
        packet = ip6_packet(r)
        hosts = (bytes.fromhex("fe80") + bytes(13) + b"\2", bytes.fromhex("20010db8") + bytes(11) + b"\3")
        if packet[8:24] in hosts and packet[24:40] in hosts and packet[0] == 0x60 and packet[6] in (6, 17):
            return packet


def routed6(r):
    """An IPv6 packet with a destination that has a route."""
    while True:
        packet = ip6_packet(r)
        if len(packet) >= 40 and any(packet[24:40]):
            return packet


def raw_packet(r):
    return some_bytes(r, r.choice([0, 1, 2, 4, 10, 14, 20, 34, 60, 64, 100, r.randrange(300)]))


def any_packet(r):
    return r.choice([ip_packet, ip_packet, ether_packet, raw_packet])(r)


def forced(proto):
    return lambda r: ip_packet(r, proto=proto) if r.random() < 0.8 else ip_packet(r)


def whole_datagram(r, proto):
    """A packet that is no fragment, and as long as its header says."""
    while True:
        packet = ip_packet(r, proto=proto)
        head = (packet[0] & 15) * 4 if packet else 0
        if proto == 6 and (len(packet) < head + 20 or not 20 <= packet[head + 12] // 16 * 4 <= len(packet) - head):
            continue
        if proto == 17 and len(packet) >= head + 8 and int.from_bytes(packet[head + 4 : head + 6], "big") != len(packet) - head:
            continue
        if len(packet) >= 28 and packet[6] & 0x3F == 0 == packet[7] and packet[0] >> 4 == 4 and packet[9] == proto and (
                head + (20 if proto == 6 else 8) <= int.from_bytes(packet[2:4], "big") == len(packet)):
            return packet


def ping(r):
    """An ICMP message between hosts."""
    hosts = [ip_bytes(address) for address in ("10.0.0.1", "10.0.0.2", "10.1.2.3", "1.0.0.1", "2.0.0.2", "18.26.4.44")]
    while True:
        packet = whole_datagram(r, 1)
        if packet[12:16] in hosts and packet[16:20] in hosts and packet[0] == 0x45:
            return packet


def natural(r):
    """Packets of few flows, in both directions."""
    flows = [("10.0.0.1", 1234, "2.0.0.2", 80), ("10.0.0.2", 1234, "2.0.0.2", 80), ("10.0.0.1", 5678, "1.0.0.1", 21),
             ("10.0.0.1", 1234, "1.0.0.1", 53)]
    outer = [("2.0.0.2", 80, "1.0.0.1", 1234), ("2.0.0.2", 80, "1.0.0.1", 1024), ("2.0.0.2", 80, "1.0.0.1", 1025),
             ("2.0.0.2", 80, "10.0.0.1", 1234)]
    if r.random() < 0.15:
        return ip_packet(r)
    s, sp, d, dp = r.choice(flows * 2 + outer)
    if r.random() < 0.2:
        s, sp, d, dp = d, dp, s, sp
    proto = r.choice([6, 6, 17, 17, 1])
    payload = some_bytes(r, r.choice([0, 0, 4]))
    if proto == 6:
        body = bytearray(struct.pack(">HHIIBBHHH", sp, dp, 1000, 2000, 0x50, r.choice([2, 0x12, 0x10, 0x11, 4, 0x18]),
                                     1000, 0, 0) + payload)
        at = 16
    elif proto == 17:
        body, at = bytearray(struct.pack(">HHHH", sp, dp, 8 + len(payload), 0) + payload), 6
    else:
        kind = r.choice([8, 8, 0, 0, 3, 11])
        if kind in (3, 11):
            inner = struct.pack(">HHHH", dp, sp, 8, 0)
            head = bytearray(struct.pack(">BBHHHBBH", 0x45, 0, 28, 0, 0, 1, 17, 0) + ip_bytes(d) + ip_bytes(s))
            head[10:12] = struct.pack(">H", checksum(bytes(head)))
            payload = bytes(head) + inner
        body, at = bytearray(struct.pack(">BBHHH", kind, 0, 0, r.choice([1, sp]), 7) + payload), 2
    a, b = ip_bytes(s), ip_bytes(d)
    pseudo = a + b + struct.pack(">BBH", 0, proto, len(body)) if proto != 1 else b""
    body[at : at + 2] = struct.pack(">H", checksum(pseudo + bytes(body)))
    head = bytearray(struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), 1, 0, 64, proto, 0) + a + b)
    head[10:12] = struct.pack(">H", checksum(bytes(head)))
    return bytes(head) + bytes(body)


PACKETS = {
    "ip": ip_packet, "ip6": ip6_packet, "ether": ether_packet, "raw": raw_packet, "any": any_packet,
    "tcp": forced(6), "udp": forced(17), "icmp": forced(1), "nat": natural,
    "ping": lambda r: ping(r), "onlytcp": lambda r: whole_datagram(r, 6), "onlyudp": lambda r: whole_datagram(r, 17),
    "arp": lambda r: ether_packet(r), "unicast": lambda r: unicast(r), "hosts6": lambda r: hosts6(r), "routed6": lambda r: routed6(r), "stations": lambda r: stations(r),
}

# ---------------------------------------------------------------- values

NAMES = """AddressInfo(n1 10.0.0.1/24 00:00:c0:ae:67:ef, n2 10.1.2.3, n3 02:00:00:00:00:01, n4 10.0.0.0/8,
  n5 1.0.0.1/32 3ffe::1/64, n6 ::1 10.0.0.2 10.0.0.0/16, n7 0::5);
PortInfo(p1 1234, p2 80/tcp www2 # a comment, p3 53/udp, p4 5678/udp p5);
IPRewriterPatterns(ipat 1.0.0.1 1024-1030# - -, jpat - - 2.0.0.2 -);
"""
GARBAGE = ["", '""', "x", "-", "1.2.3", "1 2", "true", "0x", "1e3", "1.5", "-5", "a b", "08",
           "00:00:00:00:00:01", "1.2.3.4", "1.2.3.4/33", "n1", "nothing", "0x10", "010", "+5", "1_000"]


def one_of(*options, bad=()):
    def draw(r, odd=False):
        return str(r.choice(bad if odd and bad else options))

    return draw


def number(bits):
    top = 2**bits - 1

    def draw(r, odd=False):
        if odd:
            return str(r.choice([top + 1, -1, top * 3]))
        return str(r.choice([0, 1, 2, 5, 7, top, top // 2, "0x1f", "017", hex(top), r.randrange(top + 1),
                             r.randrange(min(top, 100))]))

    return draw


def address(r):
    return r.choice([*ADDRESSES, "n1", "n2", "n1:ip", "n1:bcast", "n1:gw", "n4:gw", "n6", "n5"])


def network(r):
    return r.choice(["10.0.0.0/8", "10.0.0.0/24", "10.0.0.1/24", "10.0.0.1", "0/0", "0.0.0.0/0", "10/8", "10.1/16",
                     "10.1.2.3/255.255.0.0", "2.0.0.0/8", "1.0.0.1/32", "n1", "n1:ipnet", "n2", "n4", "n6",
                     "192.168.1.0/24", "10.1.0.0/31", "10.0.0.0/255.255.255.0", "n6:ipnet"])


def ether(r):
    return r.choice([*ETHERS, "00-00-C0-AE-67-EF", "0:0:c0:ae:67:ef", "n1", "n1:eth", "n3"])


def route(r, odd=False):
    gw = r.choice(["", "", address(r) + " ", "- "])
    return f"{network(r)} {gw}{r.choice([2, 3, 5, -1] if odd else [0])}"


def spec(r, odd=False):
    kind = r.random()
    if kind < 0.06:
        return r.choice(["drop", "discard"])
    if kind < 0.14:
        return r.choice(["pass", "pass 1", "nochange 0", "passthrough 0"] if odd else ["pass 0", "pass 0", "nochange"])
    if kind < 0.24:
        return "keep" + r.choice([" 0 1", " 1 0", "", " 0"] if odd else [" 0 0"])
    if kind < 0.3:
        return r.choice(["pattern ipat 0 1", "pattern nopat 0 1"] if odd else ["pattern ipat 0 0", "pattern jpat 0 0"])
    sport = r.choice(["-", "-", "1024-1030#", "1024-1025#", "1024", "5000-5000", "1024-65535#"] + (["2000-1999", "p1", "0"] if odd else []))
    saddr = r.choice(["1.0.0.1", "1.0.0.1", "-", "n1", "10.0.0.1"])
    daddr = r.choice(["-", "-", "2.0.0.2", "n2"])
    dport = r.choice(["-", "-", "80", "8080"])
    return f"pattern {saddr} {sport} {daddr} {dport} " + r.choice(["0 1", "1 0", "0", "", "0 2"] if odd else ["0 0"])


def addr_spec(r, odd=False):
    if r.random() < 0.3:
        return r.choice(["drop", "discard", "pass 0", "nochange", "keep 0 0"])
    saddr = r.choice(["1.0.0.1", "1.0.0.1", "-", "n1", "1.0.0.1-1.0.0.5#", "1.0.0.0/24#"])
    return f"pattern {saddr} {r.choice(['-', '2.0.0.2'])} {r.choice(['0 1', '1 0'] if odd else ['0 0'])}"


IP_PRIMITIVES = [
    "ip proto tcp", "ip proto udp", "tcp", "udp", "icmp", "ip proto 4", "proto icmp", "host 10.0.0.1", "src host 10.0.0.2",
    "dst host 2.0.0.2", "src net 10.0.0.0/8", "dst net 10.0.0/24", "net 1.0.0.0/8", "src or dst host 10.0.0.1",
    "src and dst host 10.0.0.1", "port 80", "src port 80", "dst port www", "tcp port 80", "udp port 53", "dst tcp port 80",
    "src udp port 1234", "port p1", "port p2", "port p3", "src port > 1000", "dst port <= 80",
    "ip vers 4", "ip hl 5", "ip hl > 5", "ip id 1", "ip tos 16", "ip dscp 46", "ip dscp > 3", "ip ect", "ip ce",
    "ip ttl 64", "ip ttl < 2", "ip ttl >= 64", "ip frag", "ip unfrag", "tcp opt syn", "tcp opt ack", "tcp opt fin",
    "tcp opt rst", "tcp opt psh", "tcp win 1000", "tcp win > 0", "icmp type echo", "icmp type 8", "icmp type 3",
    "icmp type unreachable", "icmp type echo-reply", "ip[9] = 6", "ip[8:1] > 1", "ip[2:2] 28", "ip[0] & 0xf = 5",
    "transp[0:2] = 80", "transp[13] & 2 = 2", "true", "false", "10.0.0.1", "dst 10.0.0.2",
    "src 10.0.0.0/8", "ip len > 28", "ip len 40", "src host n1", "dst net n1", "host n1:bcast", "dst host n2", "net n4",
    "ip frag and udp", "not tcp", "! udp", "port 80 or 53", "src port 80 or 1234", "dst host 10.0.0.1 or 2.0.0.2",
    "ip proto tcp or udp", "ip dscp = 0", "ip tos & 3 = 0", "icmp type != 8", "ip ttl != 64", "not ip frag",
    "src port = 80", "port != 80", "tcp dst port 80", "src tcp port ftp", "ether host 02:00:00:00:00:01",
    "port 70000", "foo", "host", "ip proto", "ip vers 5", "dst port domain", "udp src port 53",
    "src host 10.0.0.1 and dst host 2.0.0.2", "src net 10.0.0.0 mask 255.0.0.0",
    "dst net 10.1.2.3/255.255.0.0",
]


def pattern(r, depth=2):
    if depth == 2 and r.random() < 0.1:
        return r.choice(["-", "any", "all"])
    if depth == 0 or r.random() < 0.35:
        return r.choice(IP_PRIMITIVES)
    kind = r.randrange(7)
    a, b = pattern(r, depth - 1), pattern(r, depth - 1)
    return [f"{a} and {b}", f"{a} or {b}", f"({a}) && ({b})", f"({a}) || {b}", f"not ({a})", f"{a} ? {b} : {r.choice(IP_PRIMITIVES)}",
            f"({a}) and ({b})"][kind]


def rule(r):
    return f"{r.choice(['allow', 'allow', 'deny', 'drop', '0', '1', '2', 'accept', 'block'])} {pattern(r)}"


def clause(r):
    at = r.choice([0, 0, 1, 4, 8, 9, 12, 12, 14, 20, 23, 30])
    if r.random() < 0.05:
        return r.choice(["-", "12", "12/", "x/00", "12/0", "12/08zz", "/08", "-1/00", "12/080"])
    value = r.choice(["08", "0800", "0806", "45", "06", "11", "01", "0a", "0a0000", "4?", "??", "?5", "00", "0001", "8100"])
    mask = r.choice([""] * 5 + ["%" + "".join(r.choice("f0") for _ in value)])
    return f"{r.choice([''] * 6 + ['!'])}{at}/{value}{mask}"


def class_pattern(r):
    return " ".join(clause(r) for _ in range(r.choice([1, 1, 2, 2, 3]))) if r.random() < 0.85 else "-"


def ratio(r):
    return r.choice(["0.1", "0.5", "1", "0", "50%", "1.5", "-0.1", "1/2", "2^-3"])


def one_arp(r):
    """An entry of ARPResponder."""
    if r.random() < 0.15:
        return r.choice(["n1", "n3", "n1:eth", "n2", "n1:ip n3", "n6 n1", "n2 n3:eth", "n4 n1"])
    return " ".join(network(r) for _ in range(r.choice([1, 1, 2, 3]))) + " " + ether(r)


def net6(r):
    return r.choice(["::0/0", "3ffe::/16", "3ffe:1::/32", "::1/128", "2001:db8::/32", "fe80::/10", "n5:ip6net"])


def address6(r):
    return r.choice(["::1", "3ffe::1", "2001:db8::3", "fe80::2", "::", "n5:ip6", "n5", "n7", "::1.2.3.4", "ff02::1"])


def route6(r):
    return f"{net6(r)} {r.choice([address6(r), '::0'])} {r.choice([0, 1, 1, 2])}"


def aggregates(r):
    what = r.choice(["-", "1", "0", "1-5", "1 2 3", "7 0x10", "all"])
    return f"{r.choice(['allow', 'deny', '0', 'drop'])} {what}"


KINDS = {
    "bool": one_of("true", "false", "true", "false", "1", "0", "yes", "no", "t", "TRUE"),
    "u8": number(8), "u16": number(16), "u32": number(32),
    "small": one_of(0, 1, 2, 3, 4, 5, 7, 10, 14, 20, 34, 60, 64, 100, "0x10", "010", bad=(-1,)),
    "int": one_of(0, 1, 2, 3, 4, 5, 10, 14, 20, 60, 100, 1500, -1, -4, -14),
    "pos": one_of(1, 2, 3, 4, 5, 8, 10, 100, bad=(0, -1)),
    "port_number": one_of(0, 0, -1),
    "dur": one_of("0.1", "1s", "100ms", "5", "0.05", "1 min", "1h", "0", "500us", "1.5 sec", "20ms", "1e-2", "0.5", bad=("-1", "1 x")),
    "rate": one_of(10, 100, 1000, 50, 1, 20, bad=("1.5", 0, "100/s", "1kps", "0.1", -1)),
    "bw": one_of("1000Bps", "1kbps", "8Mbps", "100kBps", "1e3Bps", "100Bps", "10Kbps", "8000 bps", 1000, bad=(0, "64", "512bps", "x", "1kBpsx", "-1Bps")),
    "ip": address, "net": network, "eth": ether, "route": route, "spec": spec, "addr_spec": addr_spec,
    "pattern": pattern, "rule": rule, "class_pattern": class_pattern, "ratio": ratio, "arp": one_arp,
    "ip6": address6, "net6": net6, "route6": route6, "aggregates": aggregates,
    "port": one_of(80, 1234, "p1", "p4", 0, 65535, "p5", "0x50", bad=(65536, -1, "www2")),
    "proto": one_of("tcp", "udp", "icmp", 4, 6, 17, 50, 255, "ipip", "esp", "gre", 0, bad=(256, -1, "foo")),
    "etype": one_of("0x0800", "0x0806", 2048, 0, "0x86DD", 65535, "0x8100", bad=("ip", "arp", 65536)),
    "anno": one_of(0, 4, 16, 17, "PAINT", "DST_IP", "AGGREGATE", "VLAN_TCI", "MISC_IP", "PAINT",
                   "SEQUENCE_NUMBER", "FIX_IP_SRC", "ICMP_PARAMPROB", "EXTRA_LENGTH", bad=(44, 47, 48, -1, "PAINT 0", "16 4", "FWD_RATE", "anno 4", "FOO")),
    "str": one_of("x", '"x y"', "abc", '""', "o:", "\\<6162>", "'a'", '"a\\nb"'),
    "text": one_of("abc", '"x y"', "\\<00010203>", '""', '"01234567890123456789"', "\\<45 00>"),
    "time": one_of("1000000000", "1000000000.5", "1000000001", "0", "1", "1000000002.25", "0.5"),
    "icmp_type": one_of("unreachable", "timeexceeded", "echo", "redirect", "parameterproblem", 3, 11, 8, 12, 5, 0,
                        "echo-reply", "sourcequench", bad=(256, -1, "foo")),
    "icmp_code": one_of("host", "net", "port", "needfrag", "transit", 0, 1, 4, 0, 1, 255, "erroratptr", "reassembly", "proto", bad=(256, -1)),
    "vlan": one_of(0, 1, 5, 4094, "ANNO", 5, bad=(4095, 4096, 65535, 65536, "0x2005", -1)),
    "pcp": one_of(0, 1, 7, 5, bad=(8, -1)),
    "ips": lambda r: " ".join(address(r) for _ in range(r.choice([1, 1, 2, 3]))),
    "interfaces": one_of("10.0.0.1/24", "10.1.2.3/16", "192.168.1.7/255.255.255.0", "10.0.0.1/8 1.0.0.1/16", bad=("x", "10.0.0.1/40")),
    "contents": one_of("hex", "HEX", "none", "ascii", "ASCII", bad=("false", "true", "foo")),
    "handler": one_of("2 s.run", "1 s.run", "3 stop", "20 s.run", bad=("s.run", "2 nothing.x", "2 e.reset", "2 e.reset_counts")),
    "agg_field": one_of("ip src", "ip dst", "ip src/8", "ip dst/24", "ip src and dst", "transp sport", "transp dport",
                        "ip[12]", "ip[12:4]", "ip{0:4}", "ip tos", "ip proto", "ip ttl", "ip len", "ip id",
                        "ip src/33", "foo", "ip{96-103}", "ip off", "tcp sport", "ip src/0", "ip dscp",
                        "ip hl", "tcp win"),
    "fields": lambda r: " ".join(r.choice(
        ["timestamp", "ip_src", "ip_dst", "ip_proto", "ip_len", "ip_tos", "ip_ttl", "ip_id", "ip_fragoff", "ip_frag", "ip_sum",
         "ip_hl", "ip_opt", "ip_capture_len", "sport", "dport", "tcp_seq", "tcp_ack", "tcp_flags", "tcp_window", "tcp_opt",
         "tcp_sack", "tcp_urp", "tcp_off", "tcp_sum", "udp_len", "udp_sum", "payload_len", "payload", "payload_md5", "icmp_type",
         "icmp_code", "icmp_flowid", "icmp_seqno", "icmp_nextmtu", "count", "aggregate", "paint", "link", "direction", "first_timestamp",
         "eth_src", "eth_dst", "eth_type", "ntimestamp", "usec1", "ts_sec", "ts_usec", "packet_type", "ip_dscp", "ip_ecn", "data",
         "wire_len", "sequence_number", "tcp_ntopt", "payload_md5_hex", "foo", "ts_usec1", "vlan_tci", "ip_hlen"]) for _ in range(r.choice([1, 3, 5, 8]))),
    "range": one_of("0/4", "16/1", "0/48", "20/4", "4/8", bad=("0", "0-3", "48/1", "4/0", "PAINT", "x", "0/49")),
    "element_name": one_of("e", "nothing", "q0"),
    "thread": one_of("e 0", "e 1", "nothing 0", "e -1", "e x", "e"),
    "sched": one_of("e 1", "e 0.5", "e 2", "e 0", "e x", "nothing 1"),
    "mod": one_of(4, 4, 2, 8, bad=(3, 1, 0, -4)),
    "delta": one_of("FIRST", "DELTA", "NOW", "RANGE", bad=("x", "ABSOLUTE")),
}

# ---------------------------------------------------------------- classes

# Class | ports in, out, processing, packets | arguments: NAME:kind required, [NAME:kind] optional by place, NAME=kind
# by keyword, kind* any number, kind+ one or more | handlers that take values: name:kind
CLASSES = """
ARPQuerier | 2 1-2 h arpq | IP:plain_ip ETH:eth CAPACITY=pos ENTRY_CAPACITY=pos ENTRY_PACKET_CAPACITY=pos TIMEOUT=dur POLL_TIMEOUT=dur BROADCAST_POLL=bool | ipaddr:ip insert:station
ARPResponder | 1 1-2 a unicast | arp* | lookup?:ip
ARPTable | 0 0 a raw | CAPACITY=roomy ENTRY_CAPACITY=roomy ENTRY_PACKET_CAPACITY=pos CAPACITY_SLIM_FACTOR=pos | insert:station clear:none
AdjustTimestamp | 1 1 a any | TIME:dur FIRST=bool ALL=bool | time:dur
AggregateCounter | 1 1-2 a ipa | BYTES=bool IP_BYTES=bool MULTIPACKET=bool EXTRA_LENGTH=bool AGGREGATE_STOP=small AGGREGATE_FREEZE=small AGGREGATE_CALL=call COUNT_STOP=small COUNT_FREEZE=small COUNT_CALL=call BANNER=str | active:bool freeze:bool stop:none reset:none write_text_file:stdout aggregate_call:call count_call:call
AggregateFilter | 1 1-3 h ipa | aggregates+ |
AggregateFirst | 1 1-2 a ipa | |
AggregateIP | 1 1-2 a ip | FIELD:agg_field UNSHIFT_IP_ADDR=bool |
AggregateIPAddrPair | 1 1 a ip | | clear:none
AggregateIPFlows | 1 1-2 h nat | TCP_TIMEOUT=whole TCP_DONE_TIMEOUT=whole UDP_TIMEOUT!whole FRAGMENT_TIMEOUT=whole | clear:none
AggregateLast | 1 1 a ipa | STOP_AFTER_CLEAR=bool | clear:none
AggregateLength | 1 1 a ip | IP=bool |
AggregatePacketCounter | 1-2 1-2 a ipa | ANNO=anno | clear:none received?:small undelivered?:small
AggregatePaint | 1 1 a ip | [BITS:pos] INCREMENTAL=bool |
Align | 1 1 a any | MODULUS:mod OFFSET:natural |
AverageCounter | 1 1 a any | [IGNORE:small] | reset:none
BandwidthMeter | 1 2-3 h any | bw+ |
BandwidthRatedSplitter | 1 2 h any | RATE:bw100 BURST_DURATION=dur BURST_BYTES=pos |
BandwidthRatedUnqueue | 1 1 l/h any | RATE:bw100 BURST_DURATION=dur BURST_BYTES=pos |
BandwidthShaper | 1 1 l any | RATE:bw100 | rate:bw100
Burster | 1 1 l/h any | INTERVAL:dur [BURST:some] | interval:dur
Bypass | 1-2 1-2 h any | [ACTIVE:bool] | active:bool
CheckICMPHeader | 1 1-2 a icmp | VERBOSE=bool DETAILS=bool |
CheckIP6Header | 1 1-2 a ip6 | [BADADDRS:ips6] [OFFSET:zero] |
CheckIPHeader | 1 1-2 a ip | [OFFSET:small] INTERFACES=interfaces BADSRC=ips GOODDST=ips CHECKSUM=bool VERBOSE=bool DETAILS=bool |
CheckIPHeader2 | 1 1-2 a ip | [OFFSET:small] INTERFACES=interfaces BADSRC=ips GOODDST=ips CHECKSUM=bool VERBOSE=bool DETAILS=bool |
CheckLength | 1 1-2 a any | LENGTH:small | length:small
CheckPaint | 1 1-2 a any | COLOR:u8 [ANNO:anno] | color:u8
CheckTCPHeader | 1 1-2 a tcp | VERBOSE=bool DETAILS=bool |
CheckUDPHeader | 1 1-2 a udp | VERBOSE=bool DETAILS=bool |
Classifier | 1 1-3 h ether | class_pattern+ |
Clipboard | 2-4 2-4 h any | range+ |
CoDel | 1 1 l any | TARGET=ms INTERVAL=ms |
Counter | 1 1 a any | COUNT_CALL=handler BYTE_COUNT_CALL=handler | reset:none reset_counts:none count_call:handler byte_count_call:handler
DRRSched | 2-3 1 l any | [QUANTUM:pos] |
DecIP6HLIM | 1 1-2 a ip6 | |
DecIPTTL | 1 1-2 a ip | ACTIVE=bool MULTICAST=bool | active:bool
DelayShaper | 1 1 l any | DELAY:dur | delay:dur
DelayUnqueue | 1 1 l/h any | DELAY:dur | delay:dur
DirectIPLookup | 1 1-3 h ip | route* | add:route set:route remove:route ctrl:rctrl lookup?:ip flush:none
Discard | 1 0 l any | ACTIVE=bool BURST=pos | reset_counts:none
DropBroadcasts | 1 1 a any | |
EnsureEther | 1 1-2 a ether | [ETHERTYPE:etype] [SRC:eth] [DST:eth] |
EtherEncap | 1 1 a any | ETHERTYPE:etype SRC:eth DST:eth | src:eth dst:eth ethertype:etype
EtherMirror | 1 1 a ether | |
EtherRewrite | 1 1 a ether | SRC:eth DST:eth | src:eth dst:eth
EtherSwitch | 2 2 h stations | TIMEOUT=long |
EtherVLANEncap | 1 1 a any | ETHERTYPE:etype SRC:eth DST:eth VLAN_TCI:vlan [VLAN_PCP:pcp] VLAN_ID=vlan NATIVE_VLAN=small | src:eth dst:eth ethertype:etype
FixIPSrc | 1 1 a ip | IPADDR:ip |
FrontDropQueue | 1 1 h/l any | [CAPACITY:pos] | capacity:pos reset:none reset_counts:none
GetEtherAddress | 1 1 a ether | ANNO:anno OFFSET:small |
GetIP6Address | 1 1 a ip6 | OFFSET:addr6_at |
GetIPAddress | 1 1 a ip | OFFSET:addr_at [ANNO:anno] IP=ipword |
HostEtherFilter | 1 1-2 a ether | ETHER:eth [DROP_OWN:bool] [DROP_OTHER:bool] OFFSET=stripped |
Hub | 2-3 2-3 h any | |
ICMP6Error | 1 1 a hosts6 | SRC:ip6 TYPE:icmp_type6 CODE:natural |
ICMPError | 1 1 a ip | SRC:ip TYPE:icmp_type [CODE:icmp_code] BADADDRS=ips MTU=message PMTU=mtu |
ICMPIPEncap | 1 1 a any | SRC:ip DST:ip TYPE:icmp_type [CODE:icmp_code] IDENTIFIER=u16 |
ICMPPingEncap | 1 1 a any | SRC:ip DST:ip IDENTIFIER=u16 |
ICMPPingResponder | 1 1-2 a ping | |
ICMPPingRewriter | 1-2 1-2 h nat | addr_spec+ TIMEOUT=secs GUARANTEE=secs REAP_INTERVAL=secs MAPPING_CAPACITY=some DST_ANNO=bool |
ICMPPingSource | 0-1 1 h icmp | SRC:ip DST:ip INTERVAL=lasting IDENTIFIER=alike LIMIT=pos DATA=text ACTIVE=bool STOP=bool VERBOSE=bool | active:bool src:bare_ip dst:bare_ip reset_counts:none
IP6Fragmenter | 1 1 h ip6 | MTU:mtu6 |
IPAddrPairRewriter | 1-2 1-2 h nat | addr_spec+ TIMEOUT=secs GUARANTEE=secs REAP_INTERVAL=secs MAPPING_CAPACITY=some |
IPAddrRewriter | 1-2 1-2 h nat | source_spec+ TIMEOUT=secs GUARANTEE=secs REAP_INTERVAL=secs MAPPING_CAPACITY=some |
IPClassifier | 1 1-3 h ip | pattern+ | pattern0:pattern
IPEncap | 1 1 a any | PROTO:proto SRC:ip DST:ipanno TTL=u8 DSCP=byte ECT=ect CE=bool TOS=byte DF=bool | src:ip dst:ip
IPFilter | 1 1-3 h ip | rule+ |
IPFragmenter | 1 1-2 h ip | MTU:mtu VERBOSE=bool HEADROOM=sized |
IPGWOptions | 1 1-2 a ip | MYADDR:ip OTHERADDRS=ips |
IPInputCombo | 1 1 a ether | COLOR:byte INTERFACES=interfaces GOODDST=ips |
IPMirror | 1 1 a ip | [DST_ANNO:bool] |
IPOutputCombo | 1 5 h ip | COLOR:byte IPADDR:ip MTU:mtu |
IPPrint | 1 1 a ip | [LABEL:str] CONTENTS=contents PAYLOAD=payload MAXLENGTH=small ID=bool TTL=bool TOS=bool LENGTH=bool TIMESTAMP=bool AGGREGATE=bool PAINT=bool SWAP=bool ACTIVE=bool | active:bool
IPReassembler | 1 1 h ipfrag | |
IPRewriter | 1-2 1-2 h nat | spec+ TCP_TIMEOUT=secs TCP_DONE_TIMEOUT=secs TCP_NODATA_TIMEOUT=secs TCP_GUARANTEE=secs UDP_TIMEOUT=secs UDP_STREAMING_TIMEOUT=secs UDP_GUARANTEE=secs REAP_INTERVAL=secs MAPPING_CAPACITY=some DST_ANNO=bool |
Idle | 0-2 0-2 a any | |
InfiniteSource | 0 1 a any | [DATA:text] LIMIT!lim BURST=some ACTIVE=bool LENGTH=sized STOP=bool TIMESTAMP=bool END_CALL=end_call | length:sized burst:some active:bool
InputSwitch | 2-3 1 h any | [INPUT:port_number] | switch:port_number
LinearIPLookup | 1 1-3 h ip | route* | add:route set:route remove:route ctrl:rctrl lookup?:ip
LinkUnqueue | 1 1 l/h any | LATENCY:dur BANDWIDTH:bw100 | reset:none
LookupIP6Route | 1 1-3 h routed6 | route6* | remove:route6
MSQueue | 1 1 h/l any | [CAPACITY:pos] | capacity:pos reset:none
MarkIP6Header | 1 1 a ip6 | [OFFSET:zero] |
MarkIPCE | 1 1-2 a ip | [FORCE:bool] |
MarkIPHeader | 1 1 a ip | [OFFSET:zero] |
MarkMACHeader | 1 1 a ether | [OFFSET:zero] [LENGTH:zero] |
Meter | 1 2-3 h any | meter+ |
MixedQueue | 1-2 1 h/l any | [CAPACITY:pos] | capacity:pos reset:none reset_counts:none
NotifierQueue | 1 1 h/l any | [CAPACITY:pos] | capacity:pos reset:none reset_counts:none
Null | 1 1 a any | |
Pad | 1 1 a any | [LENGTH:small] ZERO=yes |
Paint | 1 1 a any | COLOR:u8 [ANNO:anno] | color:u8
PaintSwitch | 1 1-3 h any | [ANNO:anno] |
PaintTee | 1 2 h any | COLOR:u8 [ANNO:anno] | color:u8
Print | 1 1 a any | [LABEL:str] [MAXLENGTH:int] CONTENTS=contents TIMESTAMP=bool PRINTANNO=bool ACTIVE=bool | active:bool
PrioSched | 2-3 1 l any | |
PullNull | 1 1 l any | |
PullSwitch | 2-3 1 l any | [INPUT:port_number] | switch:port_number
PushNull | 1 1 h any | |
Queue | 1 1 h/l any | [CAPACITY:pos] | capacity:pos reset:none reset_counts:none
QuickNoteQueue | 1 1 h/l any | [CAPACITY:pos] | capacity:pos reset:none reset_counts:none
FullNoteQueue | 1 1 h/l any | [CAPACITY:pos] | capacity:pos reset:none reset_counts:none
RED | 1 1 l any | MIN_THRESH:pos MAX_THRESH:pos MAX_P:share STABILITY=pos GENTLE=bool | min_thresh:pos max_thresh:pos max_p:share
RadixIPLookup | 1 1-3 h ip | route* | add:route set:route remove:route ctrl:rctrl lookup?:ip
RandomSample | 1 1-2 a any | [SAMPLE:ratio01] DROP=ratio01 ACTIVE=bool | sampling_prob:ratio01 drop_prob:ratio01 active:bool
RangeIPLookup | 1 1-3 h ip | route* | add:route set:route remove:route ctrl:rctrl lookup?:ip flush:none
RatedSource | 0 1 h any | [DATA:text] [RATE:slow] [LIMIT:lim] [ACTIVE:bool] LENGTH=sized STOP=bool |
RatedSplitter | 1 2 h any | RATE:rate BURST_DURATION=dur BURST_SIZE=pos |
RatedUnqueue | 1 1 l/h any | RATE:rate BURST_DURATION=dur BURST_SIZE=pos |
Resize | 1 1 a any | [HEAD:down] [TAIL:down] | head:down tail:down
RoundRobinSched | 2-3 1 l any | |
RoundRobinSwitch | 1 1-3 h any | |
SetEtherAddress | 1 1 a any | ADDR:eth ANNO:anno |
SetIP6Address | 1 1 a any | IP:ip6 |
SetIPAddress | 1 1 a any | IPADDR:ip ANNO=anno | addr:ip
SetIPChecksum | 1 1 a ip | |
SetIPDSCP | 1 1 a ip | DSCP:u8 |
SetIPECN | 1 1 a ip | ECN:ecn |
SetTCPChecksum | 1 1-2 a onlytcp | |
SetTimestamp | 1 1 a any | [TIMESTAMP:time] FIRST=bool |
SetTimestampDelta | 1 1 a any | [TYPE:delta] | reset:none
SetUDPChecksum | 1 1-2 a onlyudp | |
SetVLANAnno | 1 1 a any | VLAN_TCI:vlan [VLAN_PCP:pcp] VLAN_ID=vlan | vlan_id:vlan vlan_pcp:pcp
Shaper | 1 1 l any | RATE:brisk | rate:brisk
SimplePrioSched | 2-3 1 l any | |
SimplePullSwitch | 2-3 1 l any | [INPUT:port_number] | switch:port_number
SimpleQueue | 1 1 h/l any | [CAPACITY:pos] | capacity:pos reset:none reset_counts:none
RoundRobinIPMapper | 0 0 a raw | mapspec+ |
StaticIPLookup | 1 1-3 h ip | route* | lookup?:ip
StaticPullSwitch | 2-3 1 l any | INPUT:port_number |
StaticSwitch | 1 1-3 h any | OUTPUT:port_number |
StoreEtherAddress | 1 1-2 a ether | ADDR:eth OFFSET:ethoff | addr:eth
StoreIPAddress | 1 1-2 a ip | [ADDR:ip] OFFSET:ipoff |
StrideSched | 2-3 1 l any | pos+ | tickets0:pos tickets1:pos
Strip | 1 1 a any | LENGTH:stripped |
StripEtherVLANHeader | 1 1 a ether | [NATIVE_VLAN:small] |
StripIPHeader | 1 1 a ip | |
StripToNetworkHeader | 1 1 a ip | |
Suppressor | 2 2 a any | | active0:bool active1:bool reset:none
Switch | 1 1-3 h any | [OUTPUT:port_number] | switch:port_number
TCPRewriter | 1-2 1-2 h nat | spec+ TCP_TIMEOUT=secs TCP_DONE_TIMEOUT=secs TCP_NODATA_TIMEOUT=secs TCP_GUARANTEE=secs REAP_INTERVAL=secs MAPPING_CAPACITY=some DST_ANNO=bool |
Tee | 1 1-3 h any | [N:pos] |
ThreadSafeQueue | 1 1 h/l any | [CAPACITY:pos] | capacity:pos reset:none reset_counts:none
TimeFilter | 1 1-2 a any | START=time END=end INTERVAL=lasting STOP=bool END_CALL=end_call | extend_interval:dur
TimeRange | 1 1 a any | SIMPLE=bool | reset:none
TimeSortedSched | 1-3 1-2 l any | BUFFER=pos |
TimedSink | 1 0 l any | [INTERVAL:lasting] | interval:dur
TimedSource | 0 1 h any | [INTERVAL:lasting] [DATA:text] LIMIT=lim HEADROOM=small STOP=bool |
TimedUnqueue | 1 1 l/h any | INTERVAL:dur [BURST:pos] | interval:dur
TimestampAccum | 1 1 a any | | reset_counts:none
ToDump | 1 0-1 a any | FILENAME:stdout SNAPLEN=small ENCAP=encap EXTRA_LENGTH=bool UNBUFFERED=bool NANO!no | reset_counts:none
ToIPSummaryDump | 1 0-1 a ip | FILENAME:stdout FIELDS!fields CONTENTS=fields HEADER=bool VERBOSE=bool BANNER=str MULTIPACKET=bool BAD_PACKETS=bool CAREFUL_TRUNC=bool EXTRA_LENGTH=bool | flush:none
Truncate | 1 1 a any | LENGTH:small EXTRA_LENGTH=bool |
UDPIPEncap | 1 1 a any | SRC:ip SPORT:port DST:ipanno DPORT:port [CHECKSUM:bool] | src:ip sport:port dst:ip dport:port
UDPRewriter | 1-2 1-2 h nat | spec+ TIMEOUT=secs STREAMING_TIMEOUT=secs GUARANTEE=secs REAP_INTERVAL=secs MAPPING_CAPACITY=some DST_ANNO=bool UDP_TIMEOUT=secs |
Unqueue | 1 1 l/h any | ACTIVE=bool LIMIT=lim BURST=lim | reset:none active:bool limit:lim burst:lim
Unstrip | 1 1 a any | LENGTH:stripped |
UnstripIPHeader | 1 1 a ip | |
VLANDecap | 1 1 a ether | ANNO=bool ETHERTYPE=etype |
VLANEncap | 1 1 a ether | [VLAN_TCI:vlan] [VLAN_PCP:pcp] VLAN_ID=vlan NATIVE_VLAN=small ETHERTYPE=etype | vlan_tci:vlan vlan_id:vlan vlan_pcp:pcp native_vlan:small
AddressInfo | 0 0 a raw | addrinfo* |
PortInfo | 0 0 a raw | portinfo* |
IPRewriterPatterns | 0 0 a raw | patdef* |
ScheduleInfo | 0 0 a raw | share_of* |
StaticThreadSched | 0 0 a raw | worker* |
RandomSeed | 0 0 a raw | [SEED:u32] | seed:u32
"""

KINDS["source_spec"] = lambda r, odd=False: re.sub(r"2\.0\.0\.2 (?=\d \d$)", "- ", addr_spec(r, odd))
KINDS.update({f"port_below_{n}": one_of(*range(n), -1) for n in (1, 2, 3)})
KINDS.update({
    "end_call": one_of("s.run", "s.run x", "stop", bad=("nothing.x", "e.nothing")), "addr6_at": one_of(0, 8, 24), "addr_at": one_of(0, 12, 16, 2), "plain_ip": one_of(*ADDRESSES[:6], "n2", "n1:ip"), "no": one_of("false"), "yes": one_of("true"), "bw100": one_of("1000Bps", "8Mbps", "100kBps", "80kbps", bad=("x", "1kBpsx", "-1Bps")),
    "port_text": one_of("ip"), "worker": one_of("e 0"), "share_of": one_of("e 1", "e 0.5", "e 2"), "some": one_of(1, 2, 5, 8), "zero": one_of(0), "natural": one_of(0, 1, 2, 3), "share": one_of("0.1", "0.5", "1", "50%", bad=("x",)), "ms": one_of(1, 5, 100, 50), "down": one_of(0, -1, -4, -14, -20), "payload": one_of("hex", "ascii", "false", bad=("foo",)), "stripped": one_of(0, 1, 4, 14, 20),
    "mtu6": one_of(1280, 1500, 2000),
    "slow": one_of(10, 20, 50, 1), "whole": one_of(2, 10, 20), "roomy": one_of(100, 1000), "call": one_of("2 s.run", "1 s.run", "20 s.run"), "end": one_of("1000000000.5", "1000000001", "1", "1000000002.25", "0.5"), "brisk": one_of(50, 100, 1000), "long": one_of(3600, 1000), "sized": one_of(0, 1, 4, 60, 100), "lasting": one_of("0.1", "1s", "5", "20ms", "1e-2"), "alike": one_of(0, 257, 0x2020),
    "bare_ip": one_of(*ADDRESSES), "byte": one_of(0, 1, 5, 127, 255, "0x1f"), "message": one_of(128, 200, 576, 1500),
    "station": lambda r: f"{r.choice(ADDRESSES[:2] + ADDRESSES[3:7])} {r.choice(ETHERS[:2] + ETHERS[4:])}",
    "none": one_of(""), "secs": one_of(1, 2, 5, 10, 60, 20, bad=("1 x",)), "meter": one_of("1", "10", "100", "100", bad=("x", "-1")), "stdout": one_of("-"), "lim": one_of(0, 1, 2, 3, 5, 10), "ect": one_of(0, 1, 2, 3, "true", "false"),
    "ecn": one_of(0, 1, 2, 3, "ect1", "ect2", "ce", "no", "econ", bad=(4, "x")),
    "encap": one_of("IP", "ETHER", "NULL", bad=("ip", "x", "SLL", "802.11")), "mtu": one_of(28, 30, 36, 40, 60, 100, 1500, bad=(-1,)),
    "ratio01": one_of("1", "0", "100%", "1", "0", bad=("1.5", "x")), "ratetype": one_of("PACKETS", "BYTES", bad=("x", "packets")),
    "annolevel": one_of("1.2.3.4 1 10", "10.0.0.0 0 1", "x"), "ipword": one_of("src", "dst", "x"),
    "ethoff": one_of(0, 6, "src", "dst", 60, -1), "ipoff": one_of(12, 16, "src", "dst", 0),
    "icmp_type6": one_of(1, 3, 4, 128, 256, "x"), "ips6": one_of("::1", "x"),
    "iparp": lambda r: f"{address(r)} {ether(r)}", "ipanno": lambda r: r.choice([address(r), address(r), "DST_ANNO"]),
    "rctrl": lambda r: f"{r.choice(['add', 'remove', 'set', 'x'])} {route(r)}",
    "mapspec": lambda r: r.choice(["- - 2.0.0.2 - 0 1", "1.0.0.1 1024-1030# - - 0 1", "drop", "ipat 0 1", "keep 0 1"]),
    "mapper": lambda r: r.choice(["2 1", "- - 2.0.0.2 - 0 1 1", "- - 2.0.0.3 - 0 1 2", "x"]),
    "addrinfo": lambda r: f"{r.choice(['a', 'b', 'n1', 'a'])} {' '.join(r.choice([address(r), network(r), ether(r), address6(r), net6(r)]) for _ in range(r.choice([0, 1, 2, 3])))}",
    "portinfo": one_of("a 80", "a 80/tcp", "b 53/udp c", "a 80 # x", "# all", "x", "a 80/sctp", "a 70000", "a b", "http 81/tcp"),
    "patdef": lambda r: f"{r.choice(['a', 'b', 'a'])} " + r.choice(["1.0.0.1 1024-1030# - -", "- - - -", "- -", "", "1.0.0.1 80 2.0.0.2 90"]),
})


@dataclass(frozen=True)
class Spec:
    name: str
    inputs: tuple
    outputs: tuple
    processing: str
    packets: str
    args: tuple
    handlers: tuple


def span(text):
    low, _, high = text.partition("-")
    return int(low), int(high or low)


def read_specs():
    out = {}
    for line in CLASSES.strip().splitlines():
        name, ports, args, handlers = (part.strip() for part in line.split("|"))
        i, o, processing, packets = ports.split()
        out[name] = Spec(name, span(i), span(o), processing, packets, tuple(args.split()),
                         tuple(h.split(":") for h in handlers.split()))
    return out


SPECS = read_specs()

# Kinds of packets that stand for a set-up, and what they are made as.
SETUPS = {"ipa": "ip", "ipfrag": "ip", "arpq": "ip"}


# Kinds of which Click takes an empty argument or a negative number, or refuses several words; or that are decimal here.
PLAIN = {"ip", "aggregates", "byte", "icmp_type", "icmp_code", "small", "some", "dur", "str", "text", "stdout", "share_of"}


def value(r, kind, odd=0.04):
    if r.random() < odd:
        return r.choice([text for text in GARBAGE if text[:1] not in ("", "-", "0") and " " not in text] if kind in PLAIN else GARBAGE)
    draw = KINDS[kind]
    return draw(r, r.random() < odd * 3) if "odd" in draw.__code__.co_varnames else draw(r)


# Classes that Click takes without an argument that the manual requires.
LAX = {"AdjustTimestamp", "EtherVLANEncap", "ICMP6Error"}

# Classes whose argument has no keyword in Click, or another one than in the manual.
PLACE_ONLY = {"SetIPAddress", "InputSwitch"}

# Classes with one argument for each port.
PER_INPUT = {"spec", "addr_spec", "source_spec"}
PER_OUTPUT = {"pattern", "class_pattern"}


def once(entries):
    """Entries of ARPResponder without repeated prefixes."""
    alike = {"10/8": "10.0.0.0/8", "n4": "10.0.0.0/8", "n1:ipnet": "10.0.0.0/24", "10.0.0.1/24": "10.0.0.0/24", "n1": "10.0.0.1", "n1:ip": "10.0.0.1",
             "10.0.0.0/255.255.255.0": "10.0.0.0/24", "10.1.2.3/255.255.0.0": "10.1/16", "0/0": "0.0.0.0/0", "n2": "10.1.2.3"}
    seen, out = set(), []
    for entry in entries:
        prefixes = [alike.get(word, word) for word in entry.split()[:-1]]
        if len({*prefixes} - seen) == len(prefixes):
            seen |= {*prefixes}
            out.append(entry)
    return out


def arguments(r, spec, inputs, outputs):
    out = []
    odd = r.choice([0, 0, 0, 0.08])
    keyed = False  # what stands by place may not follow a keyword
    for arg in spec.args:
        match = re.fullmatch(r"(\w+)([*+])", arg)
        if match:
            low = 1 if match[2] == "+" else 0
            count = r.choice([low, 1, 1, 2, 2, 3])
            if match[1] in PER_INPUT | PER_OUTPUT:
                count = inputs if match[1] in PER_INPUT else outputs
            if spec.name in ("BandwidthMeter", "Meter"):
                count = outputs - 1
            for _ in range(count):
                out.append(value(r, match[1], odd))
            continue
        match = re.fullmatch(r"(\[)?(\w+)([:=!])(\w+)\]?", arg)
        optional, name, sign, kind = match[1] is not None, match[2], match[3], match[4]
        if kind == "port_number":
            kind = f"port_below_{max(inputs, outputs)}"
        if sign == "!":
            out.append(f"{name} {value(r, kind, odd)}")
        elif sign == "=":
            if r.random() < min(0.35, 2 / len(spec.args) + 0.1):
                out.append(f"{name} {value(r, kind, odd) or '-'}")
        elif optional:
            if r.random() < 0.5:
                keyed = keyed or r.random() < 0.4
                out.append((f"{name} " if keyed else "") + value(r, kind, odd))
            else:
                keyed = True
        elif r.random() < 0.99 or spec.name in LAX:
            keyed = keyed or r.random() < 0.05
            out.append((f"{name} " if keyed else "") + value(r, kind, odd))
    if outputs > 1:
        out = [re.sub(r" 0 0$", lambda m: r.choice([" 0 1", " 0 1", " 1 0", " 0 0"]), a) for a in out]
    if any(a.startswith("INTERFACES ") for a in out):  # which stands for both
        out = [a for a in out if not a.startswith(("BADSRC ", "GOODDST "))]
    if any(a.startswith("VLAN_ID ") for a in out):
        out = [a for a in out if a.startswith(("VLAN_ID ", "ETHERTYPE ", "SRC ", "DST ", "NATIVE_VLAN "))] if spec.name != "EtherVLANEncap" else [
            a for a in out if not a.startswith("VLAN_ID ")]
    if spec.name == "VLANEncap" and not any(a.startswith(("VLAN_ID ", "VLAN_TCI ")) for a in out):
        out = [*(a for a in out if re.match("[A-Z_]+ ", a)), "VLAN_ID 5"]
    if any(a.startswith("DROP ") for a in out) and spec.name == "RandomSample":
        out = [a for a in out if a.startswith(("DROP ", "ACTIVE "))]
    if spec.name == "TimeFilter" and any(a.startswith("INTERVAL ") for a in out):
        out = [a for a in out if not a.startswith(("START ", "END "))]
    if spec.name == "SetVLANAnno" and not any(not re.match("VLAN_PCP ", a) for a in out):
        out.append("VLAN_ID 5")
    if spec.name == "ARPResponder":
        out = once(out)
    if spec.name in PLACE_ONLY:
        out = [re.sub(r"^(IPADDR|INPUT|OUTPUT) ", "", a) for a in out]
    if r.random() < 0.01:
        # What could be an argument by place is none behind keywords in Click.
        out.append(r.choice(["NOTHING 1", ""] + ["5", "x"] * (not any("[" in arg for arg in spec.args))))
    return out


@dataclass(frozen=True)
class Case:
    """A case: one element with its neighbours, packets and script."""

    spec: Spec
    args: tuple
    inputs: int
    outputs: int
    pull: bool
    before: tuple
    """Elements in front of the element under test."""
    packets: tuple
    """Input and bytes of each packet."""
    steps: tuple
    """Lines of the script; `send N` sends packet N."""
    names: bool = True

    def text(self):
        spec = self.spec
        lines = [NAMES] if self.names else []
        lines.append(f"e :: {spec.name}({', '.join(self.args)});")
        pull_in = spec.processing.startswith("l") or (spec.processing == "a" and self.pull)
        pull_out = spec.processing.endswith("l") or (spec.processing == "a" and self.pull)
        before = " -> ".join(self.before)
        before = before + " -> " if before else ""
        for i in range(self.inputs):
            queue = f"q{i} :: Queue(100) -> " if pull_in else ""
            lines.append(f"i{i} :: Null -> {before.format(i=i)}{queue}[{i}]e;")
        for o in range(self.outputs):
            after = f"{AFTER[spec.name]} -> " if spec.name in AFTER else ""
            unqueue = f"{PULLERS.get(spec.name, 'Unqueue')} -> " if pull_out and (o == 0 or spec.processing != "a") else ""
            lines.append(f"e[{o}] -> {unqueue}{after}Print(o{o}, -1, TIMESTAMP true, PRINTANNO true) -> Discard;")
        used = {int(s.split()[1]) for s in self.steps if s.startswith("send ")}
        for n, (port, data) in enumerate(self.packets):
            if n in used:
                lines.append(f"s{n} :: InfiniteSource(DATA \\<{data.hex()}>, LIMIT 1, ACTIVE false) -> i{port};")
        if self.inputs:
            for i in range(self.inputs):
                if not any(p == i and n in used for n, (p, _) in enumerate(self.packets)):
                    lines.append(f"Idle -> i{i};")
        script = []
        for step in self.steps:
            if step.startswith("send "):
                n = step.split()[1]
                script += [f"write s{n}.active true", "wait 0.01037"]
            else:
                script += step.split("; ")
        script.append("stop")
        lines.append("s :: Script(TYPE PASSIVE, print \"called\");")
        lines.append("DriverManager(" + ",\n  ".join(script) + ");")
        return "\n".join(lines) + "\n"


# Classes that tell nobody when there is nothing to pull: asked again and again, they would hold simulated time.
PULLERS = dict.fromkeys("SimpleQueue SimplePullSwitch StaticPullSwitch MixedQueue Shaper BandwidthShaper".split(), "TimedUnqueue(0.00373)")

UNIVERSAL = {"name", "class", "ports", "handlers", "tasks", "cycles", "xcycles", "icounts", "scheduled", "home_thread",
             "home_thread_id", "tickets", "bandwidth_tickets"}


# Handlers whose answers differ, and why: docs/click.md says it for users.
UNREAD = {
    # The manual says `ip`; Click answers nothing.
    "AggregateIP": "header",
    # Decisions that lead to the same outputs.
    "Classifier": "program", "IPFilter": "program",
    # Rates are estimates, over other times than Click's.
    "Counter": "rate bit_rate byte_rate", "Meter": "rate", "BandwidthMeter": "rate", "AverageCounter": "rate byte_rate",
    # Click tells the settings in place of what was written.
    "AggregateCounter": "aggregate_call count_call", "ARPQuerier": "drops stats responses broadcast table", "Discard": "active",
    **dict.fromkeys("""BandwidthRatedSplitter BandwidthRatedUnqueue BandwidthShaper InputSwitch
                    PullSwitch SimplePullSwitch Switch RandomSample RatedSplitter RatedUnqueue SetVLANAnno VLANEncap StrideSched
                    RandomSeed ICMPIPEncap ICMPPingEncap Shaper""".split(), "config rate native_vlan"),
    "EtherVLANEncap": "config native_vlan vlan_pcp vlan_id",
    "ICMPPingSource": "config summary rtt_min rtt_avg rtt_max", "InfiniteSource": "data", "RatedSource": "data rate", "RED": "config stats avg_queue_size",
    "TimeFilter": "start end interval", "ToIPSummaryDump": "config", "IPClassifier": "program config", "IPRewriter": "tcp_lookup udp_lookup", "TCPRewriter": "lookup",
    "ARPTable": "table",
    "TimestampAccum": "time average_time", "CoDel": "config stats", "IPAddrRewriter": "table mappings", "IPRateMonitor": "look", "LinkUnqueue": "bandwidth",
    "MarkIPCE": "drops", "TimedSource": "data", "UDPIPEncap": "dst", "SetIPDSCP": "dscp", "LookupIP6Route": "table", "SetTimestampDelta": "first", "ICMPPingRewriter": "table mappings",
}

# Classes that drop what is too short for them, where Click works on the bytes behind a packet.
WHOLE = set("""
AggregateIPAddrPair AggregateIPFlows Bypass CheckIP6Header DecIP6HLIM DecIPTTL GetEtherAddress GetIP6Address GetIPAddress
HostEtherFilter IPReassembler MarkIP6Header MarkIPCE MarkIPHeader MarkMACHeader SetIPChecksum SetTCPChecksum SetUDPChecksum
EtherSwitch LookupIP6Route Strip StripIPHeader StripEtherVLANHeader VLANDecap StoreEtherAddress StoreIPAddress SetIPDSCP SetIPECN FixIPSrc IPMirror IPRateMonitor
UDPIPEncap VLANEncap EtherVLANEncap EtherMirror EtherRewrite IPPrint IPInputCombo IPOutputCombo ICMPPingResponder ICMPError ICMP6Error IP6Fragmenter
""".split())

# Classes for which a fragment is another thing than in Click: IPFilter drops those that hide the transport header.
UNFRAGMENTED = {"AggregateIPFlows", "IPFilter", "ICMPPingResponder", "SetTCPChecksum", "SetUDPChecksum"}

# Classes that look at IP options one by one.
BAD_OPTIONS = {"CheckIPHeader", "CheckIPHeader2", "MarkIPHeader"}

# Elements behind a class that take away what Click's class does not note.
AFTER = {"CheckIP6Header": "SetIP6Address(::)"}

# Classes that have as many inputs as outputs.
SQUARE = {"EtherSwitch", "Hub", "AggregatePacketCounter"}


def read(handler, argument=""):
    """A script step that reads a handler."""
    return f'print "@{handler}"; print $(e.{handler} {argument})' if argument else f'print "@{handler}"; print $(e.{handler})'


def make(r, spec, handlers):
    inputs = r.randint(*spec.inputs)
    outputs = inputs if spec.name in SQUARE else r.randint(*spec.outputs)
    r.whole = spec.name in WHOLE
    r.fragments = spec.name not in UNFRAGMENTED
    r.options = spec.name != "IPOutputCombo"
    r.timestamps = spec.name != "IPGWOptions"
    r.bad_options = spec.name in BAD_OPTIONS
    packet = spec.packets
    before = []
    draw = PACKETS.get(SETUPS.get(packet, packet)) or PACKETS["any"]
    if packet in ("ip", "tcp", "udp", "icmp", "nat", "ipa", "ipfrag", "onlytcp", "onlyudp", "ping"):
        before.append("CheckIPHeader(0)"
                      if spec.name not in ("CheckIPHeader", "CheckIPHeader2", "MarkIPHeader") else "Null")
    if packet == "ipa" or spec.name == "AggregateIPFlows":
        before.append("IPClassifier(not (src host 0.0.0.0 or dst host 0.0.0.0))")
    if packet == "ipa":
        before.append(r.choice(["AggregateIP(ip src)", "AggregateIP(ip dst)", "AggregateIP(ip[15])"]))
    if packet in ("ip6", "routed6"):
        before.append("MarkIP6Header(0)" if spec.name != "MarkIP6Header" else "Null")
    if spec.name == "Unstrip":
        before.append("Pad(64) -> Strip(20)")
    if spec.name in ("Strip", "Clipboard"):
        before.append("Pad(64)")
    if packet == "arpq":
        before.append("CheckIPHeader(0)")
    if spec.name == "StoreIPAddress":
        before.append("SetIPAddress(10.0.0.2)")
    if r.random() < 0.3:
        before.insert(r.randrange(len(before) + 1), "Paint(%d)" % r.choice([0, 1, 2, 5, 255]))
    if r.random() < 0.2:
        before.append(f"SetIPAddress({r.choice(ADDRESSES)})")
    count = r.choice([0, 1, 2, 3, 4, 6, 10, 20]) if inputs else 0
    packets = []
    for _ in range(count):
        port = r.randrange(inputs)
        make_packet = draw
        if packet == "arpq":
            make_packet = (lambda r: ether_packet(r)) if port == 1 else ip_packet
        packets.append((port, make_packet(r)))
    if spec.name == "ARPQuerier":
        before = ["Null"]
    steps = []
    args = arguments(r, spec, inputs, outputs)
    unread = UNIVERSAL | set(UNREAD.get(spec.name, "").split())
    unread |= {f"pattern{n}" for n in range(outputs, 16)} | {f"tickets{n}" for n in range(inputs, 32)}
    if not any(re.match("DETAILS (true|1|yes|t)$", arg) for arg in args):
        unread.add("drop_details")
    reads = [n for n, flags in handlers.items() if "r" in flags and n not in unread]
    values = dict((h[0].rstrip("?"), h[1]) for h in spec.handlers)
    asks = {h[0].rstrip("?") for h in spec.handlers if h[0].endswith("?")}
    writes = [n for n in values if n not in asks and "w" in handlers.get(n, "")]

    def call():
        if reads and r.random() < 0.6:
            n = r.choice(reads)
            steps.append(read(n) if n not in asks else read(n, value(r, values[n])))
        elif asks and r.random() < 0.5:
            n = r.choice(sorted(asks))
            steps.append(read(n, value(r, values[n])))
        elif writes:
            n = r.choice(writes)
            v = value(r, values[n], 0 if values[n] == "port_number" else 0.005)
            if "," not in v:
                steps.append(f"write e.{n} {v}".rstrip() + "; wait 0.00011")

    busy = r.choice([0, 0.1, 0.5])
    for n in range(count):
        if r.random() < busy:
            call()
        steps.append(f"send {n}")
        if r.random() < 0.1:
            steps.append(f"wait {r.choice(['0.10713', '1.0391', '0.5177', '5.0371', '0.00317', '60.0413'])}")
    if not inputs:
        for _ in range(r.choice([0, 1, 3, 6])):
            call()
            steps.append(f"wait {r.choice(['0.10713', '1.0391', '0.02137', '0.3119'])}")
    steps.append("wait 0.5233")
    for n in reads:
        if n not in asks:
            steps.append(read(n))
    return Case(spec, tuple(args), inputs, outputs, r.random() < 0.15, tuple(before), tuple(packets),
                tuple(steps), True)


# ---------------------------------------------------------------- running

@dataclass
class Result:
    status: int
    out: str
    err: str


class Peers:
    """The two programs, Click and Ashlar."""

    def __init__(self, click, ashlar, folder):
        self.programs = ([click, "--simtime"], [ashlar, "click", "--simtime"])
        self.folder = folder
        self.handlers_of = {}

    def write(self, text):
        path = os.path.join(self.folder, "case.click")
        with open(path, "w") as file:
            file.write(text)
        return path

    def start(self, program, path):
        return subprocess.Popen([*program, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder,
                                stdin=subprocess.DEVNULL)

    def both(self, text, limit=6):
        path = self.write(text)
        running = [self.start(p, path) for p in self.programs]
        out = []
        for p in running:
            try:
                a, b = p.communicate(timeout=limit)
                out.append(Result(p.returncode, STAMP.sub(r"\1", a.decode("latin-1")), STAMP.sub(r"\1", b.decode("latin-1"))))
            except subprocess.TimeoutExpired:
                p.kill()
                p.communicate()
                out.append(Result(-99, "", "timeout"))
        return out

    def handlers(self, spec):
        """Handlers of a class that both programs have, with their flags in Click, from a configuration that both accept.
        """
        if spec.name in self.handlers_of:
            return self.handlers_of[spec.name]
        found = {}
        r = Draw(1)
        for _ in range(60):
            case = make(r, spec, {})
            both = self.both(replace(case, steps=("print $(e.handlers)",)).text())
            if all(result.status == 0 for result in both):
                of_click, of_ashlar = (listed_handlers(result.out) for result in both)
                found = {n: shared_flags(flags, of_ashlar[n]) for n, flags in of_click.items() if n in of_ashlar}
                break
        self.handlers_of[spec.name] = found
        return found


def listed_handlers(text):
    """Names and flags listed by a handler `handlers`."""
    lines = (line.split() for line in text.splitlines())
    return {words[0]: words[1] for words in lines if len(words) == 2}


def shared_flags(of_click, of_ashlar):
    """Read and write flags of a handler that both programs have."""
    return "".join(flag for flag in "rw" if flag in of_click and flag in of_ashlar)


NOISE = re.compile(r"expensive Packet::|warning: |^$|no route for|would query for|^  |Packet::pull|While (configuring|initializing) "
                   r"|packets transmitted|bad (lengths|input packet)|fragment or short packet|Not an ARP packet|has no handler `tickets`|there is no element|IP6 header check failed")

# Handlers whose lines come in another order.
UNORDERED = {"table", "tcp_table", "udp_table", "mappings", "tcp_mappings", "udp_mappings"}


def answers(text):
    """Output of a run, without parts that may differ: trailing white space, the order of tables, remaining seconds."""
    out, name = [], ""
    for section in re.split(r"^(@\w+)$", text, flags=re.MULTILINE):
        if section.startswith("@") and "\n" not in section:
            name = section[1:]
            out.append(section)
            continue
        lines = [line.rstrip() for line in section.strip().splitlines()]
        if name in UNORDERED:
            lines = sorted(re.sub(r" exp\d+$", "", line) for line in lines)
        out += lines
    return "\n".join(out)


STAMP = re.compile(r"\b(\d{1,10}\.\d{6})\d{3}\b")


def settled(line):
    """A line of Print without nanoseconds, which Click's clock readings change in FIRST_TIMESTAMP."""
    def first_stamp(match):
        nanoseconds = int.from_bytes(bytes.fromhex(match[2]), "little")
        if 10**18 <= nanoseconds < 11 * 10**17:
            nanoseconds -= nanoseconds % 1000
        return match[1] + nanoseconds.to_bytes(8, "little").hex() + match[3]

    return re.sub(r"(\| [0-9a-f]{64})([0-9a-f]{16})([0-9a-f]{16}(?: \||\s*$))", first_stamp, line)


def shown(result):
    """Output of a run, without parts that may differ."""
    packets, messages = [], []
    for line in result.err.splitlines():
        (packets if re.match(r"o\d: ", line) else messages).append(settled(line))
    messages = [m for m in messages if not NOISE.search(m)]
    return packets, messages


def difference(a, b, wording):
    """Kind of difference as a word, and the two differing texts; None if there is no difference."""
    if a.status < 0:
        return None  # the original crashed or did not end
    if (a.status == 0) != (b.status == 0):
        kind = {0: "taken", 1: "refused", -99: "endless"}.get(b.status, "crash")
        return kind, a.err[-600:], b.err[-600:]
    if a.status == 0:
        pa, ma = shown(a)
        pb, mb = shown(b)
        if answers(a.out) != answers(b.out):
            return "stdout", answers(a.out), answers(b.out)
        if pa != pb:
            return "packets", "\n".join(pa), "\n".join(pb)
        if wording and ma != mb:
            return "messages", "\n".join(ma), "\n".join(mb)
        if len(ma) != len(mb):
            return "message count", "\n".join(ma), "\n".join(mb)
    elif wording and a.err != b.err:
        return "errors", a.err, b.err
    return None


# Elements without which a class works on packets that it does not expect.
NEEDED = re.compile("Check|Mark|AggregateIP")


def shrink(peers, case, kind, wording):
    def still(c):
        found = difference(*peers.both(c.text()), wording)
        return found is not None and found[0] == kind

    changed = True
    rounds = 0
    while changed and rounds < 4:
        changed = False
        rounds += 1
        size = max(1, len(case.steps) // 2)
        while size >= 1:
            at = 0
            while at < len(case.steps):
                smaller = replace(case, steps=case.steps[:at] + case.steps[at + size :])
                if smaller.steps != case.steps and still(smaller):
                    case, changed = smaller, True
                else:
                    at += size
            size //= 2
        for at in reversed(range(len(case.args))):
            smaller = replace(case, args=case.args[:at] + case.args[at + 1 :])
            if still(smaller):
                case, changed = smaller, True
        for at in reversed(range(len(case.before))):
            if NEEDED.match(case.before[at]):
                continue
            smaller = replace(case, before=case.before[:at] + case.before[at + 1 :])
            if still(smaller):
                case, changed = smaller, True
        for change in ({"names": False}, {"pull": False}, {"outputs": case.spec.outputs[0]}, {"inputs": 1}):
            smaller = replace(case, **change)
            if "inputs" in change and (case.inputs <= 1 or case.spec.inputs[0] > 1 or any(p for p, _ in case.packets)):
                continue
            if smaller != case and still(smaller):
                case, changed = smaller, True
    return case


def first_lines(a, b, count=6):
    """The first lines in which two texts differ."""
    of_click, of_ashlar = a.splitlines(), b.splitlines()
    pairs = enumerate(zip(of_click, of_ashlar, strict=False))
    shorter = min(len(of_click), len(of_ashlar))
    at = next((i for i, (x, y) in pairs if x != y), shorter)
    lines = [f"    click  {line}" for line in of_click[at : at + count]]
    return "\n".join(lines + [f"    ashlar {line}" for line in of_ashlar[at : at + count]])


def compare(peers, name, seed, cases, wording=False):
    """The first difference among random cases of a class, shrunk, as text; None if there is none. Also returns counts.
    """
    spec = SPECS[name]
    handlers = peers.handlers(spec)
    r = Draw(f"{name} {seed}")
    counts, shown_difference = Counter(), None
    for _ in range(cases):
        case = make(r, spec, handlers)
        of_click, of_ashlar = peers.both(case.text())
        counts["taken" if of_click.status == 0 else "refused" if of_click.status == 1 else "undefined"] += 1
        counts["packets"] += len(case.packets)
        found = difference(of_click, of_ashlar, wording)
        if not found:
            continue
        counts["differ"] += 1
        if shown_difference is None:
            case = shrink(peers, case, found[0], wording)
            found = difference(*peers.both(case.text()), wording) or found
            shown_difference = f"{name}: {found[0]}\n{case.text()}{first_lines(found[1], found[2])}"
    return shown_difference, counts


def main():
    """Command line for comparisons by hand."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--click", default=os.environ.get("CLICK_BIN"))
    parser.add_argument("--ashlar", default=os.environ.get("ASHLAR_BIN"))
    parser.add_argument("--class", dest="names", action="append", choices=list(SPECS))
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--wording", action="store_true", help="compare messages by their words, too")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="click-peer") as folder:
        peers = Peers(args.click, args.ashlar, folder)
        total = Counter()
        for name in args.names or SPECS:
            found, counts = compare(peers, name, args.seed, args.cases, args.wording)
            if found:
                print(f"--- {found}")
            print(f"=== {name}: " + ", ".join(f"{k} {n}" for k, n in counts.items()), flush=True)
            total += counts
    print("=== all: " + ", ".join(f"{k} {n}" for k, n in total.items()))


if __name__ == "__main__":
    main()
