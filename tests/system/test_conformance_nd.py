"""Requirements of RFC 4861 on a router on its links (docs/conformance.md)."""

import ipaddress

import pytest
from conformance import TTL, Probe, Station, chatter, l3, one_hop, probe, running, sum6  # noqa: F401
from scapy.compat import raw
from scapy.layers.inet6 import (ICMPv6EchoReply, ICMPv6EchoRequest, ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6ND_RA,
                                ICMPv6ND_Redirect, ICMPv6ND_RS, ICMPv6NDOptDstLLAddr, ICMPv6NDOptSrcLLAddr, IPv6,
                                IPv6ExtHdrFragment)
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

OWN = ("fd00:1::1", "fd00:2::1")
REDIRECT = 137


def solicited_node(address: str) -> tuple[str, str]:
    """The solicited-node group of an address, and the group's MAC address."""
    low = ipaddress.IPv6Address(address).packed[-3:]
    group = ipaddress.IPv6Address(b"\xff\x02" + bytes(9) + b"\x01\xff" + low)
    return str(group), "33:33:ff:" + low.hex(":")


def ask(station: Station, target: str, *, src: str = "", dst: str = "", mac: str = "", hlim: int = 255,
        source_mac: bool = True, **fields) -> Packet:
    """A neighbour solicitation, by default to the solicited-node group."""
    group, group_mac = solicited_node(target)
    packet = (Ether(src=station.mac, dst=mac or group_mac)
              / IPv6(src=src or station.ip6, dst=dst or group, hlim=hlim) / ICMPv6ND_NS(tgt=target, **fields))
    return packet / ICMPv6NDOptSrcLLAddr(lladdr=station.mac) if source_mac else packet


def tell(station: Station, target: str, mac: str, *, dst: str = "", hlim: int = 255, S: int = 1, O: int = 1) -> Packet:
    """A neighbour advertisement: the target has this MAC address."""
    end = station.end
    to = "33:33:00:00:00:01" if dst == "ff02::1" else end.router_mac
    return (Ether(src=station.mac, dst=to) / IPv6(src=target, dst=dst or end.router6, hlim=hlim)
            / ICMPv6ND_NA(R=0, S=S, O=O, tgt=target) / ICMPv6NDOptDstLLAddr(lladdr=mac))


def advertised(probe: Probe, station: Station) -> Packet:
    got = probe.take(station.end, "an advertisement", lambda p: ICMPv6ND_NA in p)
    assert sum6(l3(got)) == 0 and got[IPv6].hlim == 255 and got[ICMPv6ND_NA].code == 0
    return got


def link_local(probe: Probe, station: Station) -> str:
    """The router's link-local address on a link, from which it answers link-local stations."""
    station.end.send(Ether(src=station.mac, dst="33:33:00:00:00:02")
                     / IPv6(src=station.ll6, dst="ff02::2", hlim=TTL) / ICMPv6EchoRequest(data=b"who"))
    got = probe.take(station, "an echo reply", lambda p: ICMPv6EchoReply in p)
    assert ipaddress.IPv6Address(got[IPv6].src).is_link_local
    return got[IPv6].src


class Stranger:
    """An address on the server's link that no station has used before, and for which none answers."""

    count = 0

    def __init__(self, probe: Probe):
        Stranger.count += 1
        self.probe, self.end = probe, probe.b.end
        self.ip6, self.mac = f"fd00:2::{0x1000 + self.count:x}", f"02:00:00:00:96:{self.count:02x}"
        self.station = Station(self.end, self.mac, "0.0.0.0", self.ip6, "::")

    def asked(self, timeout: float = 20.0) -> Packet:
        """The router's next solicitation for an address, checked in all fields (RFC 4861, 4.3 and 7.2.2)."""
        got = self.probe.take(self.end, f"a solicitation for {self.ip6}",
                              lambda p: ICMPv6ND_NS in p and p[ICMPv6ND_NS].tgt == self.ip6, timeout)
        group, mac = solicited_node(self.ip6)
        assert (got.dst, got[IPv6].dst, got[IPv6].hlim, got[ICMPv6ND_NS].code) == (mac, group, 255, 0)
        assert got[ICMPv6NDOptSrcLLAddr].lladdr == self.end.router_mac and sum6(l3(got)) == 0
        return got

    def answers(self, mac: str = "", **more) -> None:
        self.end.send(tell(self.station, self.ip6, mac or self.mac, **more))

    def known(self) -> None:
        """Makes the router resolve the station."""
        data = self.probe.send(self.probe.udp6(dst=self.ip6))
        self.asked()
        self.answers()
        self.probe.gets(self.station, one_hop(data))


@pytest.fixture
def stranger(probe: Probe) -> Stranger:
    return Stranger(probe)


# 7.2.4: answers.


def test_solicitations_for_own_addresses_are_answered(probe: Probe):
    for station in (probe.a, probe.b, probe.near[3]):
        for target in (station.end.router6, link_local(probe, station)):
            for to in ({}, {"dst": target, "mac": station.end.router_mac}):
                station.end.send(ask(station, target, **to))
                got = advertised(probe, station)
                answer = got[ICMPv6ND_NA]
                assert (got.dst, got[IPv6].dst, answer.tgt) == (station.mac, station.ip6, target)
                assert (answer.R, answer.S) == (1, 1) and (answer.O == 1 or to)
                assert got[IPv6].src == target
                # A host that knows the address already need not be told.
                assert to or got[ICMPv6NDOptDstLLAddr].lladdr == station.end.router_mac


def test_a_node_that_looks_whether_an_address_is_free_is_told_by_the_group(probe: Probe):
    """RFC 4862, 5.4.3: the sender has no address yet, so the advertisement goes to a group and is not solicited."""
    probe.a.end.send(ask(probe.a, OWN[0], src="::", source_mac=False))
    got = advertised(probe, probe.a)
    assert (got.dst, got[IPv6].dst) == ("33:33:00:00:00:01", "ff02::1")
    assert (got[ICMPv6ND_NA].S, got[ICMPv6ND_NA].O, got[ICMPv6ND_NA].R) == (0, 1, 1)


def test_the_anycast_address_of_the_subnet_is_told_without_override(probe: Probe):
    """7.2.7."""
    probe.a.end.send(ask(probe.a, "fd00:1::"))
    assert advertised(probe, probe.a)[ICMPv6ND_NA].O == 0


def test_solicitations_for_the_address_of_another_link_are_not_answered(probe: Probe):
    probe.a.end.send(ask(probe.a, OWN[1]))
    probe.nothing()


def test_solicitations_for_other_addresses_are_not_answered(probe: Probe):
    """7.2.8: the router is no proxy."""
    for target in ("fd00:1::3", "fd00:1::99", "fd00:2::2", "fe80::1:3", "fd00:77::1"):
        probe.a.end.send(ask(probe.a, target))
        probe.a.end.send(ask(probe.a, target, dst=OWN[0], mac=probe.a.end.router_mac))
    probe.nothing()


def test_invalid_solicitations_are_dropped(probe: Probe):
    """7.1.1."""
    end, mac = probe.a.end, probe.a.end.router_mac
    good = ask(probe.a, OWN[0], dst=OWN[0], mac=mac)
    end.send(ask(probe.a, OWN[0], hlim=254))
    end.send(ask(probe.a, OWN[0], code=1))
    end.send(ask(probe.a, OWN[0], cksum=0x1234))
    end.send(ask(probe.a, "ff02::1", dst=OWN[0], mac=mac))
    # From the unspecified address, but not to a solicited-node group; from the unspecified address, with a link-layer
    # address.
    end.send(ask(probe.a, OWN[0], src="::", dst=OWN[0], mac=mac, source_mac=False))
    end.send(ask(probe.a, OWN[0], src="::"))
    # An option of no length; a message that is too short.
    end.send(ask(probe.a, OWN[0], source_mac=False) / Raw(b"\x01\x00" + bytes(6)))
    short = IPv6(src=probe.a.ip6, dst=OWN[0], hlim=255, nh=58)
    end.send(Ether(src=probe.a.mac, dst=mac) / short / Raw(raw(good[ICMPv6ND_NS])[:20]))
    probe.nothing()


def test_neighbour_discovery_in_fragments_is_ignored(stranger: Stranger, probe: Probe):
    """RFC 6980: even a single fragment (atomic fragment) is ignored."""
    data = probe.send(probe.udp6(dst=stranger.ip6))
    stranger.asked()
    for whole in (ask(probe.b, OWN[1]), tell(stranger.station, stranger.ip6, stranger.mac)):
        whole = Ether(raw(whole))
        header = whole[IPv6].copy()
        header.remove_payload()
        header.plen = None
        header.nh = 44
        whole[Ether].payload = header / IPv6ExtHdrFragment(nh=58, id=1) / Raw(raw(whole[IPv6].payload))
        stranger.end.send(whole)
    probe.wire.flush()
    assert not [p for p in stranger.end.seen if ICMPv6ND_NA in p or p.dst == stranger.mac]
    stranger.answers()
    probe.gets(stranger.station, one_hop(data))


# 7.2.2: questions.


def test_packets_wait_until_the_address_is_known(stranger: Stranger, probe: Probe):
    stranger.known()
    probe.crosses(probe.udp6(dst=stranger.ip6), to=stranger.station)


def test_a_bounded_number_of_packets_waits_and_the_latest_is_among_them(stranger: Stranger, probe: Probe):
    packets = [raw(probe.udp6(dst=stranger.ip6)) for _ in range(1000)]
    probe.only_so_many_wait(packets, stranger, kind=0x86dd)


def test_a_host_that_does_not_answer_is_unreachable(stranger: Stranger, probe: Probe):
    """7.2.2: code 3 (RFC 4443, 3.1) after three solicitations, not before."""
    probe.error6(probe.udp6(dst=stranger.ip6), 1, 3, timeout=30.0)
    asked = [p for p in stranger.end.seen if ICMPv6ND_NS in p and p[ICMPv6ND_NS].tgt == stranger.ip6]
    assert len(asked) == 3


def test_a_station_that_asks_is_known(stranger: Stranger, probe: Probe):
    """7.2.3: the answer goes to the sender directly, without another solicitation."""
    stranger.end.send(ask(stranger.station, OWN[1]))
    assert advertised(probe, stranger.station).dst == stranger.mac
    assert not [p for p in stranger.end.seen if ICMPv6ND_NS in p and p[ICMPv6ND_NS].tgt == stranger.ip6]


# 7.2.5: advertisements.


def test_a_new_address_is_believed_with_override_only(stranger: Stranger, probe: Probe):
    stranger.known()
    other = "02:00:00:00:95:01"
    stranger.answers(other, O=0)
    probe.wire.flush()
    probe.crosses(probe.udp6(dst=stranger.ip6), to=stranger.station)
    stranger.answers(other, S=0, dst="ff02::1")
    # Packets of one burst that take different ways through the router may change order.
    probe.wire.flush()
    moved = Station(stranger.end, other, "0.0.0.0", stranger.ip6, "::")
    probe.crosses(probe.udp6(dst=stranger.ip6), to=moved)


def test_an_unsolicited_advertisement_makes_no_neighbour(stranger: Stranger, probe: Probe):
    stranger.answers(S=0, dst="ff02::1")
    data = probe.send(probe.udp6(dst=stranger.ip6))
    stranger.asked()
    stranger.answers()
    probe.gets(stranger.station, one_hop(data))


def test_invalid_advertisements_are_not_believed(stranger: Stranger, probe: Probe):
    """7.1.2: from another link, or solicited but sent to a group."""
    data = probe.send(probe.udp6(dst=stranger.ip6))
    stranger.asked()
    stranger.answers(hlim=254)
    stranger.answers(S=1, dst="ff02::1")
    bad = raw(tell(stranger.station, stranger.ip6, stranger.mac))
    stranger.end.send(bad[:56] + bytes([bad[56] ^ 1]) + bad[57:])
    probe.wire.flush()
    assert not [p for p in stranger.end.seen if p.dst == stranger.mac]
    stranger.answers()
    probe.gets(stranger.station, one_hop(data))


# 6.2: router advertisements.


def test_no_advertisements_are_sent_unless_configured(probe: Probe):
    """6.2.1: AdvSendAdvertisements is FALSE by default; a solicitation does not change this."""
    probe.a.end.send(Ether(src=probe.a.mac, dst="33:33:00:00:00:02")
                     / IPv6(src=probe.a.ll6, dst="ff02::2", hlim=255) / ICMPv6ND_RS())
    probe.nothing()
    assert not [p for p in probe.a.end.seen if ICMPv6ND_RA in p]


# 8.2: redirects.


@pytest.fixture
def detour(probe: Probe) -> Probe:
    """A network whose gateway is on the sender's link; the gateway is known by its link-local address, as redirects
    require.
    """
    probe.route("fd00:23::/32", probe.near[3], local=True)
    return probe


def redirects(frames: list[Packet]) -> list[Packet]:
    return [p for p in frames if IPv6 in p and p[IPv6].nh == 58 and l3(p)[40] == REDIRECT]


def test_a_host_that_could_go_straight_is_redirected_and_its_packet_forwarded(detour: Probe):
    own = link_local(detour, detour.a)
    data = detour.send(detour.udp6(dst="fd00:23::9"))
    frames = [detour.take(detour.a.end, "a redirect and the packet") for _ in range(2)]
    got = redirects(frames)[0]
    assert one_hop(data) in [l3(frame) for frame in frames]
    message = got[ICMPv6ND_Redirect]
    assert got.dst == detour.a.mac and got[IPv6].dst == detour.a.ip6
    assert (got[IPv6].src, got[IPv6].hlim, sum6(l3(got))) == (own, 255, 0)
    assert (message.tgt, message.dst, message.code) == (detour.near[3].ll6, "fd00:23::9", 0)
    assert len(l3(got)) <= 1280


def test_the_rate_of_redirects_is_limited(detour: Probe):
    """8.2, a MUST. A flood is forwarded completely, and causes far fewer redirects."""
    packets = [raw(detour.udp6(dst="fd00:23::9")) for _ in range(3000)]
    with detour.limited():
        detour.flood_whole(packets, kind=0x86dd)
        frames = [frame for frame in detour.a.end.seen if not chatter(frame)]
        detour.a.end.seen.clear()
    told = redirects(frames)
    assert len(told) < 1500 and len(frames) - len(told) == len(packets)


def test_a_packet_from_another_link_is_not_redirected(detour: Probe):
    detour.crosses(detour.udp6(src=detour.b.ip6, dst="fd00:23::9"), frm=detour.b, to=detour.near[3])


def test_a_host_that_is_not_on_the_link_is_not_redirected(detour: Probe):
    detour.route("fd00:24::/32", detour.near[4])
    detour.crosses(detour.udp6(src="fd00:24::9", dst="fd00:23::9"), frm=detour.near[4], to=detour.near[3])


def test_a_redirect_to_the_router_changes_no_route(probe: Probe):
    """8.2: a router must not."""
    probe.route("fd00:25::/32", probe.far[3])
    packet = (IPv6(src=probe.far[3].ll6, dst=OWN[1], hlim=255)
              / ICMPv6ND_Redirect(tgt=probe.far[4].ll6, dst="fd00:25::9"))
    probe.swallows(packet, probe.far[3])
    probe.crosses(probe.udp6(dst="fd00:25::9"), to=probe.far[3])
