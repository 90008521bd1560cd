"""Sends a flood of packets to a router: `flood.py KIND INTERFACE RATE SECONDS ROUTER-MAC ARGUMENT...`, in a namespace.

Kinds, with their arguments:
    arp ADDRESS          who-has ADDRESS, each from another sender of its /16
    nd ADDRESS           neighbour solicitations for ADDRESS, each from another sender of its /64
    ttl FROM TO          UDP with one hop left, IPv4 or IPv6
    udp FROM TO          UDP to port 9 and up: nobody listens, or nobody is there
    syn FROM TO          TCP connections to TO's BGP, each from another port
    scan FROM NETWORK    UDP to every address of NETWORK in turn

Prints `sending`, and at the end the number of packets and seconds. Frames are made in advance.
"""

import ipaddress
import itertools
import random
import socket
import struct
import sys
import time

OURS = bytes.fromhex("020000000066")
DIFFERENT = 4096


def checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ip(source: str, target, protocol: int, payload: bytes, ttl: int = 64) -> tuple[int, bytes]:
    """An IP packet and its EtherType."""
    a, b = ipaddress.ip_address(source), ipaddress.ip_address(target)
    if a.version == 6:
        return 0x86DD, struct.pack("!IHBB", 6 << 28, len(payload), protocol, ttl) + a.packed + b.packed + payload
    start = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 0, 0, ttl, protocol, 0) + a.packed + b.packed
    return 0x0800, start[:10] + struct.pack("!H", checksum(start)) + start[12:] + payload


def transport(source: str, target, protocol: int, segment: bytes, at: int) -> bytes:
    """A segment with its checksum, whose field is at byte `at`."""
    a, b = ipaddress.ip_address(source), ipaddress.ip_address(target)
    whole = a.packed + b.packed + struct.pack("!HH", protocol, len(segment)) + segment + b"\0" * (len(segment) % 2)
    return segment[:at] + struct.pack("!H", checksum(whole)) + segment[at + 2:]


def udp(source: str, target, port: int, ttl: int = 64) -> tuple[int, bytes]:
    segment = struct.pack("!HHHH", 1024 + port % 60000, port, 26, 0) + bytes(18)
    return ip(source, target, 17, transport(source, target, 17, segment, 6), ttl)


def syn(source: str, target: str, port: int) -> tuple[int, bytes]:
    segment = struct.pack("!HHIIBBHHH", port, 179, port, 0, 5 << 4, 2, 1024, 0, 0)
    return ip(source, target, 6, transport(source, target, 6, segment, 16))


def arp(target: str, number: int) -> bytes:
    sender = ipaddress.IPv4Address((int(ipaddress.IPv4Address(target)) & 0xFFFF0000) + 256 + number)
    mac = b"\x02\x01" + number.to_bytes(4)
    return struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + mac + sender.packed + bytes(6) + socket.inet_aton(target)


def nd(target: str, number: int) -> tuple[int, bytes]:
    address = ipaddress.IPv6Address(target)
    source = str(ipaddress.IPv6Address((int(address) >> 64 << 64) + 0x10000 + number))
    message = struct.pack("!BBHI", 135, 0, 0, 0) + address.packed + b"\x01\x01\x02\x01" + number.to_bytes(4)
    group = ipaddress.IPv6Address(int(ipaddress.IPv6Address("ff02::1:ff00:0")) + (int(address) & 0xFFFFFF))
    return ip(source, group, 58, transport(source, group, 58, message, 2), 255)


def frames(kind: str, router: bytes, words: list[str]):
    """The frames to send: an endless sequence, or a list to be repeated."""
    def to(mac: bytes, made: tuple[int, bytes]) -> bytes:
        return mac + OURS + struct.pack("!H", made[0]) + made[1]

    numbers = range(DIFFERENT)
    match kind, words:
        case "arp", [target]:
            return [to(b"\xff" * 6, (0x0806, arp(target, n))) for n in numbers]
        case "nd", [target]:
            group = b"\x33\x33\xff" + ipaddress.IPv6Address(target).packed[-3:]
            return [to(group, nd(target, n)) for n in numbers]
        case "ttl", [source, target]:
            return [to(router, udp(source, target, 9 + n, ttl=1)) for n in numbers]
        case "udp", [source, target]:
            return [to(router, udp(source, target, 9 + n)) for n in numbers]
        case "syn", [source, target]:
            return [to(router, syn(source, target, 1024 + n)) for n in numbers]
        case "scan", [source, network]:
            hosts = list(itertools.islice(ipaddress.ip_network(network).hosts(), 2, 1 << 17))
            random.Random(1).shuffle(hosts)
            return [to(router, udp(source, host, 9)) for host in hosts]
    raise SystemExit(__doc__)


def main(kind: str, interface: str, rate: str, seconds: str, router: str, *words: str) -> None:
    made = frames(kind, bytes.fromhex(router.replace(":", "")), list(words))
    out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    out.bind((interface, 0))
    print("sending", flush=True)
    sent, start, refused = 0, time.monotonic(), 0
    each = itertools.cycle(made)
    while (now := time.monotonic() - start) < float(seconds):
        for frame in itertools.islice(each, max(0, int(now * float(rate)) - sent)):
            try:
                out.send(frame)
            except OSError:
                refused += 1
            sent += 1
        time.sleep(0.001)
    print(f"sent {sent - refused} in {time.monotonic() - start:.2f} s, refused {refused}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
