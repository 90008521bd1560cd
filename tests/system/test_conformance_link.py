"""Requirements of RFC 1812, 3.3.2, with RFC 826 and RFC 1122, 2.3.2, on ARP (docs/conformance.md)."""

import pytest
from conformance import Probe, Station, linux_differs, one_hop, probe, running  # noqa: F401
from scapy.compat import raw
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Packet, Raw
from wire import BROADCAST

OWN = {"near": "10.0.1.1", "far": "10.0.2.1"}


def ask(station: Station, target: str, mac: str = BROADCAST, **fields) -> Packet:
    fields = {"op": 1, "hwsrc": station.mac, "psrc": station.ip4, "hwdst": "00:00:00:00:00:00", **fields}
    return Ether(src=station.mac, dst=mac) / ARP(pdst=target, **fields)


def tell(station: Station, address: str, mac: str, to: str) -> Packet:
    """An ARP reply: the address has this MAC address."""
    end = station.end
    return Ether(src=station.mac, dst=to) / ARP(op=2, hwsrc=mac, psrc=address, hwdst=end.router_mac, pdst=end.router4)


@pytest.fixture
def stranger(probe: Probe) -> "Stranger":
    """An address on the server's link that no station has used before, and for which none answers."""
    Stranger.count += 1
    return Stranger(probe, f"10.0.2.{100 + Stranger.count}")


class Stranger:
    count = 0

    def __init__(self, probe: Probe, ip4: str):
        self.probe, self.ip4 = probe, ip4
        self.end, self.mac = probe.b.end, f"02:00:00:00:99:{self.count:02x}"
        self.station = Station(self.end, self.mac, ip4, "::", "::")

    def asked(self, timeout: float = 20.0) -> Packet:
        """The router's next ARP request for an address, checked in all fields."""
        got = self.probe.take(self.end, f"an ARP request for {self.ip4}",
                              lambda p: ARP in p and p[ARP].op == 1 and p[ARP].pdst == self.ip4, timeout)
        arp = got[ARP]
        assert (got.dst, arp.hwsrc, arp.psrc) == (BROADCAST, self.end.router_mac, self.end.router4)
        assert (arp.hwtype, arp.ptype, arp.hwlen, arp.plen) == (1, 0x800, 6, 4)
        return got

    def answers(self, mac: str = "") -> None:
        self.end.send(tell(self.station, self.ip4, mac or self.mac, self.end.router_mac))


def test_questions_for_the_address_of_the_link_are_answered(probe: Probe):
    for station in (probe.a, probe.b, probe.near[3]):
        for mac in (BROADCAST, station.end.router_mac):
            station.end.send(ask(station, station.end.router4, mac))
            got = probe.take(station, "an ARP reply", lambda p: ARP in p and p[ARP].op == 2)
            arp = got[ARP]
            assert (arp.hwsrc, arp.psrc) == (station.end.router_mac, station.end.router4)
            assert (arp.hwdst, arp.pdst) == (station.mac, station.ip4)


def test_questions_for_other_addresses_are_not_answered(probe: Probe):
    """Neither for other hosts nor for reachable networks: the router is no proxy unless configured."""
    for target in ("10.0.1.3", "10.0.1.99", "10.0.2.2", "10.77.0.1", "10.0.1.255", "0.0.0.0", "255.255.255.255"):
        probe.a.end.send(ask(probe.a, target))
    probe.nothing()


def test_an_address_probe_for_the_routers_address_is_answered(probe: Probe):
    """RFC 5227: the sender has no address yet, and must learn that this one is in use."""
    probe.a.end.send(ask(probe.a, OWN["near"], psrc="0.0.0.0"))
    got = probe.take(probe.a, "an ARP reply", lambda p: ARP in p and p[ARP].op == 2)
    assert got[ARP].psrc == OWN["near"]


@pytest.mark.parametrize("field, value", [("hwtype", 7), ("ptype", 0x86dd), ("hwlen", 8), ("plen", 16), ("op", 3),
                                          ("op", 0)])
def test_arp_of_another_kind_is_not_answered(probe: Probe, field: str, value: int):
    good = bytearray(raw(ask(probe.a, OWN["near"])))
    at, width = {"hwtype": (14, 2), "ptype": (16, 2), "hwlen": (18, 1), "plen": (19, 1), "op": (20, 2)}[field]
    good[at:at + width] = value.to_bytes(width, "big")
    probe.a.end.send(bytes(good))
    probe.nothing()


def test_a_short_arp_packet_is_not_answered(probe: Probe):
    good = raw(ask(probe.a, OWN["near"]))
    for length in range(14, 42, 3):
        probe.a.end.send(good[:length])
    probe.nothing()


def test_packets_wait_until_the_address_is_known(stranger: Stranger, probe: Probe):
    """RFC 1122, 2.3.2.2: at least the latest packet waits; a router must not report the host as unreachable."""
    data = probe.send(probe.udp4(dst=stranger.ip4))
    stranger.asked()
    stranger.answers()
    probe.gets(stranger.station, one_hop(data))
    # Now the station's address is resolved.
    probe.crosses(probe.udp4(dst=stranger.ip4), to=stranger.station)


def test_a_bounded_number_of_packets_waits_and_the_latest_is_among_them(stranger: Stranger, probe: Probe):
    packets = [raw(probe.udp4(dst=stranger.ip4)) for _ in range(1000)]
    probe.only_so_many_wait(packets, stranger)


def test_a_flood_of_packets_makes_no_flood_of_questions(stranger: Stranger, probe: Probe):
    """RFC 1122, 2.3.2.1: about one request a second for each address; up to three may fall into this time."""
    probe.flood([raw(probe.udp4(dst=stranger.ip4)) for _ in range(500)])
    stranger.asked()
    probe.wire.flush()
    more = [p for p in stranger.end.seen if ARP in p and p[ARP].op == 1 and p[ARP].pdst == stranger.ip4]
    assert len(more) <= 3
    stranger.answers()
    probe.wire.flush()
    stranger.end.seen.clear()


def test_a_new_address_of_a_known_host_is_believed(stranger: Stranger, probe: Probe):
    data = probe.send(probe.udp4(dst=stranger.ip4))
    stranger.asked()
    stranger.answers()
    probe.gets(stranger.station, one_hop(data))
    moved = Station(stranger.end, "02:00:00:00:98:01", stranger.ip4, "::", "::")
    # RFC 826: a packet to the router about a known sender updates the entry, whatever its operation.
    stranger.end.send(ask(moved, OWN["far"]))
    probe.take(moved, "an ARP reply", lambda p: ARP in p and p[ARP].op == 2)
    probe.crosses(probe.udp4(dst=stranger.ip4), to=moved)


@pytest.mark.parametrize("mac", [BROADCAST, "01:00:5e:01:02:03", "33:33:00:00:00:01"])
@linux_differs("believes it")
def test_a_host_is_never_at_a_broadcast_or_multicast_address(stranger: Stranger, probe: Probe, mac: str):
    """RFC 1812, 3.3.2, a MUST NOT."""
    data = probe.send(probe.udp4(dst=stranger.ip4))
    stranger.asked()
    stranger.answers(mac)
    probe.nothing()
    stranger.answers()
    probe.gets(stranger.station, one_hop(data))


def test_a_host_is_asked_for_only_on_its_own_link(probe: Probe, stranger: Stranger):
    probe.send(probe.udp4(dst=stranger.ip4))
    stranger.asked()
    assert not [p for p in probe.a.end.seen if ARP in p and p[ARP].pdst == stranger.ip4]
    stranger.answers()
    probe.take(stranger.end, "the packet")


def test_an_answer_for_an_address_of_another_link_is_not_believed(probe: Probe):
    """A host on the client's link cannot take over one on the server's."""
    thief = Station(probe.a.end, "02:00:00:00:97:01", probe.b.ip4, "::", "::")
    thief.end.send(tell(thief, probe.b.ip4, thief.mac, thief.end.router_mac))
    thief.end.send(ask(thief, OWN["near"], psrc=probe.b.ip4))
    probe.wire.flush()
    probe.wire.client.seen.clear()
    probe.crosses(probe.udp4())


def test_no_station_takes_the_routers_own_address(probe: Probe):
    """A station claims the router's address: packets to it are still delivered to the router, and the router's own entry
    stays.
    """
    thief = Station(probe.b.end, "02:00:00:00:97:02", OWN["far"], "::", "::")
    thief.end.send(tell(thief, OWN["far"], thief.mac, thief.end.router_mac))
    thief.end.send(ask(thief, OWN["far"]))
    probe.wire.flush()
    probe.wire.server.seen.clear()
    probe.b.end.send(ask(probe.b, OWN["far"]))
    assert probe.take(probe.b, "an ARP reply", lambda p: ARP in p and p[ARP].op == 2)[ARP].hwsrc == probe.b.end.router_mac


def test_a_frame_shorter_than_its_header_is_dropped(probe: Probe):
    for length in range(14, 15):
        probe.a.end.send((raw(Ether(src=probe.a.mac, dst=probe.a.end.router_mac, type=0x800)))[:length])
    probe.nothing()


def test_ieee_802_3_frames_are_not_taken_for_ip(probe: Probe):
    """The type field holds a length; RFC 1122, 2.3.3, allows a router to ignore RFC 1042."""
    packet = raw(probe.udp4())
    probe.a.end.send(Ether(src=probe.a.mac, dst=probe.a.end.router_mac, type=len(packet)) / Raw(packet))
    probe.nothing()


# IEEE 802.1Q: a tag without a VLAN is a priority.


def test_a_priority_tag_changes_nothing(probe: Probe):
    def tagged(frame: Packet) -> Packet:
        return Ether(src=frame.src, dst=frame.dst) / Dot1Q(vlan=0, prio=5, type=frame.type) / frame.payload

    question = ask(probe.a, OWN["near"])
    probe.a.end.send(tagged(question))
    answer = probe.take(probe.a, "an ARP reply", lambda p: ARP in p and p[ARP].op == 2)
    assert (answer[ARP].hwsrc, answer[ARP].psrc) == (probe.a.end.router_mac, OWN["near"])
    for packet in (probe.udp4(), probe.udp6()):
        kind = 0x86dd if packet.version == 6 else 0x800
        probe.a.end.send(tagged(Ether(src=probe.a.mac, dst=probe.a.end.router_mac, type=kind) / Raw(raw(packet))))
        probe.gets(probe.b, one_hop(raw(packet)))
