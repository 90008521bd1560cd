"""Scapy as the only sender on both links of the router, for black-box cases.

The fixture `wire` (conftest.py) is a `Wire` around a running router. The hosts' own stacks are
quiet; each end answers ARP requests and neighbour solicitations for the addresses in its
`answers`, and for nothing else:

    def test_ttl(wire):
        wire.client.send(IP(src=wire.client.ip4, dst=wire.server.ip4, ttl=1) / UDP() / b"x")
        error = wire.client.expect(lambda p: ICMP in p and p[ICMP].type == 11)
        wire.server.expect_nothing(lambda p: UDP in p)

Nothing sleeps: waits end when the frame is there. `expect_nothing` sends marked packets after the
ones under test, through every queue of the router, and looks when these have arrived.
"""

import random
import select
import time
from collections.abc import Callable

from net import Failed
from taps import Tap, mac_of
from topology import CLIENT, SERVER, Network, Side

from scapy.config import conf
conf.ipv6_enabled = True
from scapy.layers.inet import ICMP, IP, TCP, UDP  # noqa: E402,F401
from scapy.layers.inet6 import ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6NDOptDstLLAddr, IPv6  # noqa: E402
from scapy.layers.l2 import ARP, Ether  # noqa: E402
from scapy.packet import Packet  # noqa: E402

Match = Callable[[Packet], bool]
BROADCAST = "ff:ff:ff:ff:ff:ff"
# Marked packets go by this many flows, so that each queue of the router carries one.
MARKERS = 24
# Bytes of a mark.
MARK = 16
# Seconds of waiting after the last marked packet, for packets that another core may still process.
GRACE = 0.02


class End:
    """One end of the wire, in place of a host."""

    def __init__(self, wire: "Wire", tap: Tap, side: Side, router_mac: str):
        self._wire, self.tap, self.side = wire, tap, side
        self.mac, self.router_mac = tap.mac, router_mac
        self.ip4, self.ip6 = side.host[4], side.host[6]
        self.router4, self.router6 = side.router[4], side.router[6]
        # Addresses that the end owns: address to MAC.
        self.answers = {self.ip4: self.mac, self.ip6: self.mac}
        self.seen: list[Packet] = []

    def frame(self, packet: Packet) -> Packet:
        """Adds an Ethernet header to the router, unless the packet has one."""
        return packet if isinstance(packet, Ether) else Ether(src=self.mac, dst=self.router_mac) / packet

    def send(self, packet: Packet | bytes) -> bytes:
        """Sends a packet (to the router, if it has no Ethernet header) or the bytes of a frame;
        returns the bytes of the frame."""
        data = packet if isinstance(packet, bytes) else bytes(self.frame(packet))
        self.tap.send(data)
        return data

    def expect(self, match: Match, timeout: float = 20.0) -> Packet:
        """Waits for a matching frame, and removes it and all earlier frames."""
        end = time.monotonic() + timeout
        while True:
            for at, packet in enumerate(self.seen):
                if match(packet):
                    del self.seen[:at + 1]
                    return packet
            if time.monotonic() > end:
                raise Failed(f"no such frame at {self.tap.space} within {timeout:g} s; seen: {self.told()}")
            self._wire.pump(min(0.05, timeout))

    def expect_nothing(self, match: Match) -> None:
        """Checks that packets sent before cause no matching frame."""
        self._wire.flush()
        if found := [p for p in self.seen if match(p)]:
            raise Failed(f"unexpected at {self.tap.space}: {found[0].show(dump=True)}")

    def told(self) -> str:
        """Frames that were received and not removed, for messages."""
        return "; ".join(p.summary() for p in self.seen) or "nothing"

    def clear(self) -> None:
        """Forgets the received frames."""
        self._wire.pump(0)
        self.seen.clear()

    def _receive(self) -> None:
        for frame in self.tap.take():
            if not self._wire.is_marker(frame.data):
                packet = Ether(frame.data)
                self.seen.append(packet)
                self._resolve(packet)

    def _resolve(self, packet: Packet) -> None:
        if ARP in packet and packet[ARP].op == 1:
            asked = packet[ARP]
            if mac := self.answers.get(asked.pdst):
                self.send(Ether(src=mac, dst=asked.hwsrc) / ARP(
                    op=2, hwsrc=mac, psrc=asked.pdst, hwdst=asked.hwsrc, pdst=asked.psrc))
        elif ICMPv6ND_NS in packet:
            target = packet[ICMPv6ND_NS].tgt
            if mac := self.answers.get(target):
                self.send(Ether(src=mac, dst=packet.src) / IPv6(src=target, dst=packet[IPv6].src, hlim=255)
                          / ICMPv6ND_NA(R=0, S=1, O=1, tgt=target) / ICMPv6NDOptDstLLAddr(lladdr=mac))


class Wire:
    """Both ends, around a running router."""

    def __init__(self, network: Network):
        self.network = network
        macs = [mac_of(network.router_space, side.interface) for side in (CLIENT, SERVER)]
        self.client = End(self, Tap(network.client, outgoing=False), CLIENT, macs[0])
        self.server = End(self, Tap(network.server, outgoing=False), SERVER, macs[1])
        self._marks: dict[bytes, int] = {}
        self._heads = {(end, flow): self._head(end, flow) for end in (self.client, self.server)
                       for flow in range(MARKERS)}
        self._random = random.Random(1)

    def other(self, end: End) -> End:
        return self.server if end is self.client else self.client

    def pump(self, timeout: float) -> None:
        """Receives at both ends, waiting at most `timeout` seconds for the first frame."""
        ends = (self.client, self.server)
        select.select([e.tap for e in ends], [], [], timeout)
        for end in ends:
            end._receive()

    def flush(self, timeout: float = 30.0) -> None:
        """Returns when all packets sent before have passed the router: marked packets, sent both ways through all its
        queues, have arrived.
        """
        mark = b"mark" + self._random.randbytes(MARK - 4)
        self._marks[mark] = 0
        for (end, _), head in self._heads.items():
            end.send(head + mark)
        end = time.monotonic() + timeout
        while self._marks[mark] < 2 * MARKERS:
            if time.monotonic() > end:
                raise Failed(f"{self._marks[mark]} of {2 * MARKERS} marked packets crossed the router; "
                             f"client: {self.client.told()}; server: {self.server.told()}")
            self.pump(0.05)
        self.pump(GRACE)
        del self._marks[mark]

    def _head(self, end: End, flow: int) -> bytes:
        """A marked packet without its mark, made once, since every case sends many. It has no checksum, because none
        would fit all marks.
        """
        far, layer = self.other(end), IP if flow % 2 else IPv6
        src, dst = (end.ip4, far.ip4) if flow % 2 else (end.ip6, far.ip6)
        packet = layer(src=src, dst=dst) / UDP(sport=40000 + flow, dport=9, chksum=0) / bytes(MARK)
        return bytes(end.frame(packet))[:-MARK]

    def is_marker(self, frame: bytes) -> bool:
        """Counts marked packets, which are not shown to tests or in messages."""
        mark = frame[-MARK:]
        if not mark.startswith(b"mark"):
            return False
        if mark in self._marks and len(frame) - MARK in map(len, self._heads.values()):
            self._marks[mark] += 1
        return True
