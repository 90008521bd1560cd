"""Adds routes to the kernel by netlink, a thousand per system call; messages are built before the measurement."""

import itertools
import socket
import struct
import sys
import time

from tables import BITS, FAMILY

NEWROUTE, DELROUTE, GETROUTE, NEWNEXTHOP = 24, 25, 26, 104
NHA_ID, NHA_OIF, NHA_GATEWAY = 1, 5, 6
ERROR = 2
REQUEST, ACK, REPLACE, CREATE = 1, 4, 0x100, 0x400
DST, OIF, GATEWAY, PRIORITY, NH_ID = 1, 4, 5, 6, 30
METRIC = 32
MAIN, BGP, UNIVERSE, UNICAST = 254, 186, 0, 1
SOL_NETLINK, NETLINK_EXT_ACK, SO_SNDBUFFORCE = 270, 11, 32
CHUNK = 64 << 10


class Refused(Exception):
    """The kernel refused a message."""


def messages(version, routes, hop, kind=NEWROUTE, flags=CREATE | REPLACE):
    """Chunks of messages for routes (address, length, hop). `hop(number)` returns the attributes of a next hop. The last
    message of each chunk requests an acknowledgement.
    """
    size = BITS[version] // 8
    hops = {number: hop(number) for number in {number for _, _, number in routes}}
    tail = len(next(iter(hops.values())))
    body = struct.Struct(f"=IHHII BBBBBBBBI HHI HH{size}s {tail}s")
    per_chunk = CHUNK // body.size
    chunks, numbers = [], itertools.count(1)
    for start in range(0, len(routes), per_chunk):
        part = routes[start:start + per_chunk]
        last = len(part) - 1
        chunks.append(b"".join(
            body.pack(
                body.size, kind, REQUEST | flags | (ACK if at == last else 0), next(numbers), 0,
                FAMILY[version], length, 0, 0, MAIN, BGP, UNIVERSE, UNICAST, 0,
                8, PRIORITY, METRIC, 4 + size, DST, address.to_bytes(size), hops[number])
            for at, (address, length, number) in enumerate(part)))
    return chunks


def by_gateway(version, gateways, interface):
    """Messages for routes with a gateway; `gateways(hop)` is its address as a number."""
    size = BITS[version] // 8
    return lambda hop: struct.pack(
        f"=HH{size}s HHI", 4 + size, GATEWAY, gateways(hop).to_bytes(size), 8, OIF, interface)


def by_object(base):
    """Messages for routes with a next-hop object, whose number is `base` plus that of the hop."""
    return lambda hop: struct.pack("=HHI", 8, NH_ID, base + hop)


def objects(version, hops, base, gateways, interface):
    """Chunks of messages that create or replace the next-hop objects of these hops, numbered `base` plus the hop's
    number.
    """
    size = BITS[version] // 8
    body = struct.Struct(f"=IHHII BBBBI HHI HHI HH{size}s")
    flags = REQUEST | CREATE | REPLACE | ACK
    return [
        body.pack(
            body.size, NEWNEXTHOP, flags, 1, 0, FAMILY[version], 0, BGP, 0, 0, 8, NHA_ID, base + hop, 8, NHA_OIF, interface,
            4 + size, NHA_GATEWAY, gateways(hop).to_bytes(size))
        for hop in hops]


class Sender:
    """A netlink socket in a namespace (made by `space.socket` of tests/system/net.py)."""

    def __init__(self, space):
        self.socket = space.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 8 << 20)
        self.socket.setsockopt(SOL_NETLINK, NETLINK_EXT_ACK, 1)
        self.socket.bind((0, 0))

    def send(self, chunks):
        """Sends all messages, and returns the seconds that the kernel took. Raises an error for any refused message."""
        start = time.monotonic()
        for chunk in chunks:
            self.socket.send(chunk)
            self._answers()
        return time.monotonic() - start

    def _answers(self):
        """Reads until an acknowledgement arrives."""
        while True:
            for kind, number, body in parts(self.socket.recv(64 << 10), "=IHHII"):
                if kind == ERROR:
                    error, = struct.unpack_from("=i", body)
                    if error:
                        raise Refused(f"message {number}: error {-error}: {body!r}")
                    return

    def route(self, version, address):
        """The gateway (bytes; None: destinations are on the link) and the interface index of a route; None if there is
        none.
        """
        size = BITS[version] // 8
        head = struct.pack("=BBBBBBBBI", FAMILY[version], BITS[version], 0, 0, 0, 0, 0, 0, 0)
        body = head + struct.pack(f"=HH{size}s", 4 + size, DST, address.to_bytes(size))
        self.socket.send(struct.pack("=IHHII", 16 + len(body), GETROUTE, REQUEST, 1, 0) + body)
        for kind, _, answer in parts(self.socket.recv(64 << 10), "=IHHII"):
            if kind == ERROR:
                return None
            found = {kind: value for kind, _, value in parts(answer[len(head):], "=HH")}
            return found.get(GATEWAY), int.from_bytes(found[OIF], sys.byteorder)


def parts(data, form):
    """Messages or attributes in a buffer: type, number and content."""
    head, at = struct.Struct(form), 0
    while at + head.size <= len(data):
        length, kind, *more = head.unpack_from(data, at)
        yield kind, more[1] if more else None, data[at + head.size:at + length]
        at += (length + 3) & ~3
