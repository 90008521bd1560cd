"""Routes and frames, the same for all programs under measurement: pseudo-random, from a seed."""

import ipaddress
import random
import struct

# Percentage of prefixes by their length, in the IPv4 and IPv6 default-free zones.
LENGTHS4 = {24: 60, 23: 10, 22: 12, 21: 5, 20: 5, 19: 3, 18: 2, 17: 1, 16: 2}
LENGTHS6 = {48: 48, 32: 13, 44: 9, 40: 9, 36: 6, 29: 5, 46: 5, 42: 5}

PCAP_MAC = bytes.fromhex("027063617000")  # what net_pcap calls its first port
SOURCE_MAC = bytes.fromhex("020000000003")
LABELS = range(16, 1040)


def prefixes(count, lengths, bits, top, seed):
    """Distinct prefixes (address, length); `top` makes the first bits of an address."""
    rng = random.Random(seed)
    population, weights = zip(*lengths.items())
    found = {}
    while len(found) < count:
        length = rng.choices(population, weights)[0]
        address = top(rng) >> (bits - length) << (bits - length)
        found[(address, length)] = None
    return list(found)


def routes4(count=262_144, seed=1):
    """Unicast IPv4 prefixes outside network 127, because a router drops packets to it and l3fwd does not."""

    def address(rng):
        any_but_127 = rng.randrange(1 << 24, 223 << 24)
        return any_but_127 + (1 << 24) * (any_but_127 >= 127 << 24)

    return prefixes(count, LENGTHS4, 32, address, seed)


def routes6(count=65_536, seed=2):
    """IPv6 prefixes in 2000::/3."""
    return prefixes(count, LENGTHS6, 128, lambda r: 1 << 125 | r.getrandbits(125), seed)


def destinations(routes, bits, count, seed):
    """Distinct random addresses, each within one of the routes."""
    rng = random.Random(seed)
    found = {}
    while len(found) < count:
        address, length = rng.choice(routes)
        found[address | rng.getrandbits(bits - length)] = None
    return list(found)


def checksum(header):
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def labelled(frame, label):
    """The same frame with an MPLS label and a TTL of 64."""
    return frame[:12] + struct.pack("!HI", 0x8847, label << 12 | 0x100 | 64) + frame[14:]


def frame4(dst, size):
    """A UDP datagram in a frame of `size` bytes, without frame check sequence."""
    length = size - 14
    header = struct.pack("!BBHHHBBHII", 0x45, 0, length, 0, 0, 64, 17, 0, 0x0A000109, dst)
    header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    udp = struct.pack("!HHHH", 5000, 5001, length - 20, 0)
    return PCAP_MAC + SOURCE_MAC + b"\x08\x00" + header + udp + bytes(length - 28)


def frame6(dst, size):
    """Like `frame4`, over IPv6."""
    length = size - 14 - 40
    header = struct.pack("!IHBB", 6 << 28, length, 59, 64)
    addresses = bytes.fromhex("fd000001000000000000000000000009") + dst.to_bytes(16, "big")
    return PCAP_MAC + SOURCE_MAC + b"\x86\xdd" + header + addresses + bytes(length)


def write_pcap(path, frames):
    with open(path, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for frame in frames:
            out.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)


def write_all(folder, frames=65_536, size=60):
    """Writes tables and captures for all runs; a frame of 60 bytes is one of 64 on the wire."""
    four, six = routes4(), routes6()
    text4 = [f"{ipaddress.IPv4Address(a)}/{n}" for a, n in four]
    text6 = [f"{ipaddress.IPv6Address(a)}/{n}" for a, n in six]
    full6 = [f"{ipaddress.IPv6Address(a).exploded}/{n}" for a, n in six]
    (folder / "routes4").write_text("".join(f"{p} 1\n" for p in text4))
    (folder / "routes6").write_text("".join(f"{p} 1\n" for p in text6))
    (folder / "gateway4").write_text("".join(f"add {p} 10.0.2.254 2\n" for p in text4))
    (folder / "l3fwd4").write_text("".join(f"R{p} 1\n" for p in text4))
    (folder / "l3fwd6").write_text("".join(f"R{p} 1\n" for p in full6[:16]))  # not measured; it wants a file
    to4 = destinations(four, 32, frames, 3)
    to6 = destinations(six, 128, frames, 4)
    write_pcap(folder / "in4.pcap", (frame4(a, size) for a in to4))
    labels = random.Random(5).choices(LABELS, k=len(to4))
    write_pcap(folder / "in-mpls.pcap", (labelled(frame4(a, size - 4), label) for a, label in zip(to4, labels)))
    write_pcap(folder / "in6.pcap", (frame6(a, max(size, 60)) for a in to6))
