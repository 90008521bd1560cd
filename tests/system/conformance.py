"""Shared parts of the conformance cases of docs/conformance.md: a router between two links with several stations each,
and functions that state which frames must leave.

Scapy acts for all stations. A case sends a packet and states exactly what leaves the router. Any other frame that
leaves by the end of the case (except ARP requests and the like) is a fault. Whole frames are compared, so TTL,
checksum, options and padding need no separate assertion.

The links are those of topology.py, the client's with a larger MTU than the server's. The cases run
against the kernel's forwarding too (`ASHLAR_ROUTER=linux`); where it differs, `linux_differs` says so.
"""

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from net import Failed, Lab
from scapy.compat import raw
from scapy.layers.inet import ICMP, IP, UDP, IPOption
from scapy.layers.inet6 import ICMPv6ND_NS, ICMPv6ND_RA, ICMPv6ND_RS, IPv6
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet, Raw
from scapy.utils import checksum
from topology import CONFIGURATION, KIND, Network
from wire import End, Wire

CLIENT_MTU, SERVER_MTU = 1800, 1500
STATIONS = range(2, 6)
ICMP_LEN = 8
# Size of a burst that fits into every queue on the path, in packets.
BURST = 200
# Time to live of packets under test; no router starts with this value.
TTL = 57
# RFC 1812, 4.3.2.3.
ERROR_MAX4 = 576
# RFC 4443, 2.4 c.
ERROR_MAX6 = 1280


def linux_differs(why: str) -> pytest.MarkDecorator:
    """Marks a case in which the kernel behaves differently, rightly or not."""
    return pytest.mark.xfail(KIND == "linux", reason=f"Linux: {why}", strict=True)


@dataclass(frozen=True)
class Station:
    """A host on one of the links."""

    end: End
    mac: str
    ip4: str
    ip6: str
    ll6: str


def l3(frame: Packet) -> bytes:
    """Bytes after the Ethernet header, as received."""
    return frame.original[14:]


def chatter(frame: Packet) -> bool:
    """True if a router may send this frame at any time."""
    if ARP in frame:
        return frame[ARP].op == 1
    mld = IPv6 in frame and frame[IPv6].dst in ("ff02::16", "ff02::2", "ff02::6a")
    return mld or any(kind in frame for kind in (ICMPv6ND_NS, ICMPv6ND_RS, ICMPv6ND_RA))


def sum4(header: bytes) -> bytes:
    """An IPv4 packet with a corrected header checksum."""
    length = (header[0] & 15) * 4
    zeroed = header[:10] + b"\0\0" + header[12:length]
    return header[:10] + checksum(zeroed).to_bytes(2, "big") + header[12:]


def patch4(packet: bytes, *changes: tuple[int, bytes]) -> bytes:
    """An IPv4 packet with bytes replaced at offsets, and a corrected header checksum."""
    for at, new in changes:
        packet = packet[:at] + new + packet[at + len(new):]
    return sum4(packet)


def sum6(packet: bytes) -> int:
    """The checksum over an ICMPv6 message directly after the IPv6 header; 0 if it is right."""
    message = packet[40:]
    return checksum(packet[8:40] + len(message).to_bytes(4, "big") + b"\0\0\0\x3a" + message)


def rate_limited(begin: float) -> float:
    """Maximum number of errors that a router may have sent since the time `begin`: 1000 per second, and 100 at once."""
    return 110 + 1000 * (time.monotonic() - begin)


def one_hop(packet: bytes) -> bytes:
    """The packet after forwarding by a plain router."""
    if packet[0] >> 4 == 6:
        return packet[:7] + bytes([packet[7] - 1]) + packet[8:]
    return patch4(packet, (8, bytes([packet[8] - 1])))


class Probe:
    """The router, as seen from its links."""

    def __init__(self, network: Network, wire: type[Wire] = Wire):
        self.network, self.wire = network, wire(network)
        self._routes: set[str] = set()
        self.near = self._stations(self.wire.client, 1)
        self.far = self._stations(self.wire.server, 2)
        self.a, self.b = self.near[2], self.far[2]
        self._count = 0

    def _stations(self, end: End, net: int) -> dict[int, Station]:
        made = {}
        for n in STATIONS:
            mac = end.mac if n == 2 else f"02:00:00:00:0{net}:0{n}"
            made[n] = Station(end, mac, f"10.0.{net}.{n}", f"fd00:{net}::{n}", f"fe80::{net}:{n}")
            for address in (made[n].ip4, made[n].ip6, made[n].ll6):
                end.answers[address] = mac
        return made

    def near_of(self, ip4: str) -> Station:
        """The station on the client's link with this address."""
        return next(station for station in self.near.values() if station.ip4 == ip4)

    # Packets.

    def udp4(self, *, src: str = "", dst: str = "", size: int | None = None, options: bytes = b"",
             load: bytes = b"", **fields) -> IP:
        """A unique UDP datagram from a to b; `size` is its total length."""
        self._count += 1
        fields.setdefault("id", self._count)
        fields.setdefault("ttl", TTL)
        head = IP(src=src or self.a.ip4, dst=dst or self.b.ip4,
                  options=[IPOption(options)] if options else [], **fields)
        head = head / UDP(sport=20000 + self._count % 1000, dport=33000)
        load = load or f"case {self._count}".encode()
        if size is not None:
            load = (load + bytes(range(256)) * 300)[:size - len(raw(head))]
        return head / Raw(load)

    def udp6(self, *, src: str = "", dst: str = "", size: int | None = None, ext: Packet | None = None,
             load: bytes = b"", **fields) -> IPv6:
        """A unique UDP datagram over IPv6; `ext` are extension headers."""
        self._count += 1
        fields.setdefault("hlim", TTL)
        head = IPv6(src=src or self.a.ip6, dst=dst or self.b.ip6, **fields)
        if ext is not None:
            head = head / ext
        head = head / UDP(sport=20000 + self._count % 1000, dport=33000)
        load = load or f"case {self._count}".encode()
        if size is not None:
            load = (load + bytes(range(256)) * 300)[:size - len(raw(head))]
        return head / Raw(load)

    # Sending.

    def send(self, packet: Packet | bytes, frm: Station | None = None, mac: str = "") -> bytes:
        """Sends an IP packet from a station to the router (or to `mac`); returns the IP packet."""
        frm = frm or self.a
        data = raw(packet)
        version = data[0] >> 4 if data else 4
        if isinstance(packet, Packet):
            version = 6 if IPv6 in packet else 4
        frm.end.send(Ether(src=frm.mac, dst=mac or frm.end.router_mac, type=0x86dd if version == 6 else 0x800)
                     / Raw(data))
        return data

    def flood(self, packets: list[bytes], frm: Station | None = None, kind: int = 0x800) -> None:
        """Sends packets as fast as possible."""
        frm = frm or self.a
        head = raw(Ether(src=frm.mac, dst=frm.end.router_mac, type=kind))
        for packet in packets:
            frm.end.tap.send(head + packet)

    def flood_whole(self, packets: list[bytes], kind: int = 0x800) -> None:
        """Sends packets in bursts, each when the previous one has passed, so that no queue overflows."""
        for burst in range(0, len(packets), BURST):
            self.flood(packets[burst:burst + BURST], kind=kind)
            self.wire.flush()

    # Packets that must come out.

    def take(self, at: Station | End, what: str, match: Callable[[Packet], bool] | None = None,
             timeout: float = 20.0) -> Packet:
        """The next frame that leaves the router on a link, without chatter, or the next one that matches."""
        end, seen = (at.end if isinstance(at, Station) else at), []

        def wanted(frame: Packet) -> bool:
            if chatter(frame) and match is None:
                return False
            if match is not None and not match(frame):
                seen.append(frame)
                return False
            return True

        try:
            got = end.expect(wanted, timeout)
        except Failed as error:
            raise Failed(f"{what} should have come, but: {error}") from None
        if isinstance(at, Station) and at.mac != got.dst:
            raise Failed(f"{what} should go to {at.mac}: {got.show(dump=True)}")
        if got.src != end.router_mac:
            raise Failed(f"{what} should come from {end.router_mac}: {got.show(dump=True)}")
        return got

    def gets(self, at: Station, packet: bytes) -> None:
        """Checks that the router sends exactly this IP packet to this station, as its next packet."""
        got = self.take(at, f"packet {packet.hex()}")
        if l3(got) != packet:
            raise Failed(f"wanted {packet.hex()}\n   got {l3(got).hex()}\n{got.show(dump=True)}")

    def crosses(self, packet: Packet | bytes, frm: Station | None = None, to: Station | None = None,
                then: bytes | None = None, mac: str = "") -> None:
        """Checks that the packet is forwarded, as `then` or else with a TTL (hop limit) reduced by one, and nothing
        else.
        """
        data = self.send(packet, frm, mac)
        self.gets(to or self.b, one_hop(data) if then is None else then)

    def body6(self, at: Station, length: int) -> bytes:
        """Bytes after the IPv6 header of the next packet on a link. It may arrive in fragments, in order: a router may
        fragment its own packets for links of any MTU.
        """
        body = b""
        while len(body) < length:
            packet = l3(self.take(at, f"byte {len(body)} of {length}"))
            body += packet[48:] if packet[6] == 44 else packet[40:]
        return body

    def nothing(self) -> None:
        """Waits until all sent frames are handled, and checks that nothing more has left the router."""
        self.wire.flush()
        for end in (self.wire.client, self.wire.server):
            if left := [frame for frame in end.seen if not chatter(frame)]:
                raise Failed(f"unexpected at {end.side.interface}: {left[0].show(dump=True)}")

    def swallows(self, packet: Packet | bytes, frm: Station | None = None, mac: str = "") -> None:
        """Checks that the packet is dropped silently."""
        self.send(packet, frm, mac)
        self.nothing()

    def error4(self, packet: Packet | bytes, kind: int, code: int, *, frm: Station | None = None,
               rest: bytes = bytes(4), source: str = "", timeout: float = 20.0) -> IP:
        """Checks that the packet is answered with this ICMP message, correct in all fields, and not forwarded. `rest` is
        the second word of the message. `source` is an alternative source address; for packets to the router itself
        RFC 1122, 3.2.1.3 requires it.
        """
        frm = frm or self.a
        data = self.send(packet, frm)
        got = self.take(frm, f"ICMP {kind}/{code}", timeout=timeout)
        ip, answer = got[IP], l3(got)
        wrong = functools.partial(self._wrong, got)
        header = ip.ihl * 4
        message = answer[header:]
        # 4.2.2.3: reserved bits are zero.
        if sum4(answer) != answer or ip.len != len(answer) or answer[1] & 1 or answer[6] & 0x80:
            wrong("header")
        if (message[0], message[1], message[4:8]) != (kind, code, rest) or checksum(message) != 0:
            wrong(f"message, wanted {kind}/{code} {rest.hex()}, sum {checksum(message):#x}")
        if ip.src not in (frm.end.router4, source) or ip.dst != IP(data).src:
            wrong("address")
        if ip.ttl < 30 or ip.ttl == data[8] or ip.flags.MF or ip.frag:
            wrong("TTL or fragment")
        quote = message[ICMP_LEN:]
        length = min(len(data), ERROR_MAX4 - header - ICMP_LEN)
        # Forwarding may have changed TTL and checksum already (4.3.2.3).
        alike = quote[:8] + data[8:9] + quote[9:10] + data[10:12] + quote[12:]
        if len(quote) != length or alike != data[:length]:
            wrong(f"quotation, wanted {data[:length].hex()}")
        return ip

    def error6(self, packet: Packet | bytes, kind: int, code: int, *, frm: Station | None = None, word: int = 0,
               timeout: float = 20.0, mac: str = "", source: tuple[str, ...] = ()) -> IPv6:
        """Checks that the packet is answered with this ICMPv6 message, correct in all fields, and not forwarded. `word`
        is its second word (a pointer, an MTU); `source` is an alternative source address.
        """
        frm = frm or self.a
        data = self.send(packet, frm, mac)
        got = self.take(frm, f"ICMPv6 {kind}/{code}", timeout=timeout)
        ip, answer = got[IPv6], l3(got)
        wrong = functools.partial(self._wrong, got)
        if answer[6] != 58 or ip.plen != len(answer) - 40 or ip.hlim < 30 or ip.hlim == data[7]:
            wrong("header")
        message = answer[40:]
        if sum6(answer) != 0 or (message[0], message[1]) != (kind, code) or message[4:8] != word.to_bytes(4, "big"):
            wrong(f"message, wanted {kind}/{code} {word:#x}, sum {sum6(answer):#x}")
        if ip.src not in (frm.end.router6, *source) or ip.dst != IPv6(data).src:
            wrong("address")
        quote = message[ICMP_LEN:]
        length = min(len(data), ERROR_MAX6 - 40 - ICMP_LEN)
        if len(quote) != length or quote[:7] + data[7:8] + quote[8:] != data[:length]:
            wrong(f"quotation, wanted {data[:length].hex()}")
        return ip

    def only_so_many_wait(self, packets: list[bytes], stranger, kind: int = 0x800) -> None:
        """Floods the router with packets to an unknown station, which then answers for its address: some packets must
        have waited, in order, including the latest.
        """
        self.flood(packets, kind=kind)
        stranger.asked()
        stranger.answers()
        self.wire.flush()
        got = [l3(frame) for frame in stranger.end.seen if frame.dst == stranger.mac]
        stranger.end.seen.clear()
        assert 1 <= len(got) < len(packets) and got[-1] == one_hop(packets[-1])
        sent = {one_hop(packet): n for n, packet in enumerate(packets)}
        order = [sent[packet] for packet in got]
        assert order == sorted(set(order)), "in order, and none twice"

    def next_hops(self, flow: Callable[[int], Packet]) -> set[str]:
        """MAC addresses to which packets of 48 flows leave; the three packets of a flow must leave to one."""
        used = set()
        for number in range(1, 49):
            macs = set()
            for _ in range(3):
                self.send(flow(number))
                macs.add(self.take(self.b.end, f"a packet of flow {number}").dst)
            assert len(macs) == 1, number
            used |= macs
        return used

    @staticmethod
    def _wrong(got: Packet, what: str) -> None:
        raise Failed(f"wrong {what} in {got.show(dump=True)}\n{got.original.hex()}")

    # The router's settings.

    def introduce(self) -> None:
        """Makes the router resolve all stations, so that cases about other things neither wait for it nor lose packets.
        """
        for here, there in ((self.near, self.far), (self.far, self.near)):
            for n in STATIONS:
                self.crosses(self.udp4(src=here[2].ip4, dst=there[n].ip4), here[2], there[n])
                self.crosses(self.udp6(src=here[2].ip6, dst=there[n].ip6), here[2], there[n])

    def tidy(self) -> None:
        """Removes remaining state of a case."""
        for prefix in list(self._routes):
            self.unroute(prefix)

    @contextlib.contextmanager
    def limited(self) -> Iterator[None]:
        """Sets the kernel's rate limit for ICMP errors, which Ashlar always has."""
        space = self.network.router_space
        if KIND == "linux":
            space.sysctl(net__ipv4__icmp_ratelimit=1000, net__ipv6__icmp__ratelimit=1000)
        yield
        if KIND == "linux":
            space.sysctl(net__ipv4__icmp_ratelimit=0, net__ipv6__icmp__ratelimit=0)

    def route(self, prefix: str, *via: Station, local: bool = False) -> None:
        """Adds a route for a prefix through one of these stations, by their link-local addresses if `local`."""
        self._routes.add(prefix)
        six = ":" in prefix
        six_by = "ll6" if local else "ip6"
        hops = [(getattr(station, six_by) if six else station.ip4, station.end.side.interface) for station in via]
        if KIND == "linux":
            words = [f"nexthop via {address} dev {device}" for address, device in hops]
            self.network.router_space.ip(f"{'-6 ' if six else ''}route replace {prefix} {' '.join(words)}")
        else:
            words = [f"{address} {int(device[-1]) + 1}" for address, device in hops]
            self.network.router.cli("set", f"rt{6 if six else 4}.set", f"{prefix} {' | '.join(words)}")

    def unroute(self, prefix: str) -> None:
        """Removes a route added by `route`."""
        self._routes.remove(prefix)
        six = ":" in prefix
        if KIND == "linux":
            self.network.router_space.ip(f"{'-6 ' if six else ''}route del {prefix}")
        else:
            self.network.router.cli("set", f"rt{6 if six else 4}.remove", prefix)


def start(lab: Lab, *definitions: str) -> Probe:
    """Starts the router of conf/ip-router.click, or the kernel; `definitions` are Ashlar's."""
    network = Network(lab, client_mtu=CLIENT_MTU, server_mtu=SERVER_MTU, quiet=True, workers=1)
    if KIND == "linux":
        network.router.start()
        network.router_space.sysctl(
            net__ipv4__icmp_ratelimit=0, net__ipv6__icmp__ratelimit=0, net__ipv4__fib_multipath_hash_policy=1,
            net__ipv6__fib_multipath_hash_policy=1, net__ipv4__neigh__eth1__retrans_time_ms=300,
            net__ipv6__neigh__eth1__retrans_time_ms=300, net__ipv4__conf__all__rp_filter=0)
    else:
        network.router.start(CONFIGURATION, f"MTU0={CLIENT_MTU}", f"MTU1={SERVER_MTU}",
                             "SOURCE_ROUTES=true", *definitions)
    return Probe(network)


@pytest.fixture(scope="module")
def running() -> Iterator[Probe]:
    with Lab() as lab:
        made = start(lab)
        made.introduce()
        yield made


@pytest.fixture
def probe(running: Probe, request: pytest.FixtureRequest) -> Iterator[Probe]:
    """The router of the module; each case ends with the check that nothing else has left."""
    running.wire.flush()
    for end in (running.wire.client, running.wire.server):
        end.clear()
    yield running
    running.tidy()
    if not (KIND == "linux" and request.node.get_closest_marker("xfail")):
        running.nothing()
