"""Packets of all kinds that elements may meet: sound ones, broken ones, and those of a few flows."""

import random
import struct

ADDRESSES = ["10.0.0.1", "10.0.0.2", "10.0.0.255", "10.1.2.3", "1.0.0.1", "2.0.0.2", "192.168.1.7", "0.0.0.0",
             "255.255.255.255", "224.0.0.5", "127.0.0.1", "18.26.4.44"]
QUERIER = "10.0.0.2"
"""Address of ARPQuerier."""
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
    """Random numbers, and the packets that a class needs."""

    whole = False
    """True if no packet is cut off."""
    fragments = True
    """True if some packets are fragments."""
    options = True
    """True if some packets have IP options."""
    any_timestamps = True
    """True if timestamp options may have addresses, and options may be random bytes."""
    bad_options = False
    """True if IP options may be wrong."""
    seq = 1000
    """Sequence number of the last packet of an FTP connection: each packet has another one."""

    def cut(self, packet, chance):
        """Perhaps a part of a packet."""
        length = self.randrange(len(packet) + 1) if self.random() < chance else len(packet)
        return packet if self.whole else packet[:length]


def ip_options(r):
    """A random option list, not padded."""
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
        elif kind == 3 and (r.any_timestamps or b"\x44" not in out):
            n = r.choice([4, 8])
            flags = r.choice([0, 1, 3, 0xF0] if r.any_timestamps else [0, 0xF0])
            out += bytes([68, 4 + n, r.choice([5, 5, 9, 13]), flags]) + some_bytes(r, n)
        elif kind == 4:
            out += bytes([148, 4, 0, 0])
        elif kind == 5:
            out += b"\0"
        elif r.any_timestamps:
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


def arp_frame(r):
    """A frame with an ARP packet for Ethernet and IPv4."""
    while True:
        packet = arp_packet(r)
        if len(packet) >= 28 and packet[:6] == bytes.fromhex("000108000604"):
            return eth_bytes(r.choice(ETHERS)) + eth_bytes(r.choice(ETHERS[:2])) + b"\x08\x06" + packet


HOSTS = ["10.0.0.1", "10.1.2.3", "1.0.0.1", "2.0.0.2", "192.168.1.7"]
"""Hosts that ARPQuerier may ask."""


def querier_packets(r, count):
    """IP packets for input 0 of ARPQuerier, and for input 1 replies of hosts that were asked."""
    asked, packets = [], []
    for _ in range(count):
        if asked and r.random() < 0.4:
            packets.append((1, arp_reply(r, r.choice(asked))))
            continue
        host = ip_bytes(r.choice(HOSTS))
        packet = ip_packet(r)
        packets.append((0, packet[:16] + host + packet[20:]))
        if len(packet) >= 20:
            asked.append(host)
    return packets


def arp_reply(r, host):
    """A reply to ARPQuerier."""
    station = eth_bytes(r.choice([ETHERS[0], ETHERS[1], ETHERS[4]]))
    us = eth_bytes(r.choice(ETHERS))
    return us + station + bytes.fromhex("08060001080006040002") + station + host + us + ip_bytes(QUERIER)


def stations(r):
    """Frames that no group sends."""
    frame = ether_packet(r)
    return frame[:6] + bytes([frame[6] & 0xFE]) + frame[7:] if len(frame) > 6 else frame


def unicast(r):
    """ARP replies from a station to a station, about hosts."""
    a, b = r.choice(ETHERS[:2] + ETHERS[4:]), r.choice(ETHERS[:2])
    asking, asked = r.sample(ADDRESSES[:2] + ADDRESSES[3:7], 2)
    return eth_bytes(b) + eth_bytes(a) + bytes.fromhex("0806000108000604") + struct.pack(">H", r.choice([1, 1, 2])) + eth_bytes(
        a) + ip_bytes(asking) + eth_bytes(b) + ip_bytes(asked) + bytes(18)


def hosts6(r):
    """An IPv6 packet from a host to a host, without ICMP."""
    while True:
        packet = ip6_packet(r)
        hosts = (bytes.fromhex("fe80") + bytes(13) + b"\2", bytes.fromhex("20010db8") + bytes(11) + b"\3")
        whole = int.from_bytes(packet[4:6], "big") == len(packet) - 40
        if whole and packet[8:24] in hosts and packet[24:40] in hosts and packet[0] == 0x60 and packet[6] in (6, 17):
            return packet


def routed6(r):
    """An IPv6 packet that has a destination."""
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
    """No fragment, and as long as its header says."""
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
    """An ICMP message from a host to a host."""
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


def errors(r):
    """Packets of few flows, with ICMP errors of a router on the way."""
    packet = natural(r)
    if packet[9:10] != b"\1" or packet[20:21] not in (b"\3", b"\x0b"):
        return packet
    head = bytearray(packet[:12] + ip_bytes("18.26.4.44") + packet[16:20])
    head[10:12] = bytes(2)
    head[10:12] = struct.pack(">H", checksum(bytes(head)))
    return bytes(head) + packet[20:]


def ftp(r):
    """A packet of an FTP control connection, often a PORT command."""
    port = r.choice([777, 1234, 20, 65535])
    command = r.choice([f"PORT 1,0,0,2,{port >> 8},{port & 255}\r\n"] * 3 + [
        f"PORT 10,0,0,1,{port >> 8},{port & 255}\r\n", "PORT 1,0,0,2\r\n", "USER x\r\n", "", "PORT 1,0,0,2,999,1\r\n",
        f"port 1,0,0,2,{port >> 8},{port & 255}\n"])
    r.seq += r.choice([30, 100])
    body = bytearray(struct.pack(">HHIIBBHHH", r.choice([6587, 6588]), r.choice([21, 21, 21, 2121]), r.seq, 2000, 0x50,
                                 r.choice([0x18, 0x10, 2, 0x11]), 1000, 0, 0) + command.encode())
    ends = ip_bytes(r.choice(["1.0.0.2", "10.0.0.1"])) + ip_bytes("2.0.0.2")
    body[16:18] = struct.pack(">H", checksum(ends + struct.pack(">BBH", 0, 6, len(body)) + bytes(body)))
    head = bytearray(struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), 1, 0, 64, 6, 0) + ends)
    head[10:12] = struct.pack(">H", checksum(bytes(head)))
    return bytes(head) + bytes(body)


PACKETS = {
    "ip": ip_packet,
    "ipa": ip_packet,
    "ipfrag": ip_packet,
    "arpq": ip_packet,
    "ip6": ip6_packet,
    "ether": ether_packet,
    "arpframe": arp_frame,
    "raw": raw_packet,
    "any": any_packet,
    "tcp": forced(6),
    "udp": forced(17),
    "icmp": forced(1),
    "nat": natural,
    "errors": errors,
    "ping": ping,
    "ftp": ftp,
    "onlytcp": lambda r: whole_datagram(r, 6),
    "onlyudp": lambda r: whole_datagram(r, 17),
    "unicast": unicast,
    "hosts6": hosts6,
    "routed6": routed6,
    "stations": stations,
}
