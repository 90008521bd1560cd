"""Requirements of RFC 8200, RFC 4291 and related RFCs on forwarding IPv6 (docs/conformance.md)."""

import struct

import pytest
from conformance import SERVER_MTU, TTL, Probe, linux_differs, one_hop, probe, running  # noqa: F401
from scapy.compat import raw
from scapy.layers.inet import UDP
from scapy.layers.inet6 import (HBHOptUnknown, ICMPv6EchoReply, ICMPv6EchoRequest, IPv6, IPv6ExtHdrDestOpt,
                                IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, IPv6ExtHdrRouting, Pad1, PadN,
                                RouterAlert, fragment6)
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw
from wire import BROADCAST

UNREACHABLE, TOO_BIG, TIME_EXCEEDED, PARAMETER_PROBLEM = 1, 2, 3, 4
OWN = ("fd00:1::1", "fd00:2::1")
# Unknown options by their action bits (RFC 8200, 4.2).
SKIP, DISCARD, REPORT, REPORT_UNICAST = 0x1e, 0x5e, 0x9e, 0xde


def hop_by_hop(*options: Packet) -> Packet:
    return IPv6ExtHdrHopByHop(options=list(options))


def unknown(kind: int) -> Packet:
    return HBHOptUnknown(otype=kind, optdata=b"what")


def ping(probe: Probe, dst: str = OWN[0], load: bytes = b"ping", ext: Packet | None = None, **fields) -> Packet:
    head = IPv6(src=probe.a.ip6, dst=dst, **{"hlim": TTL, **fields})
    return (head / ext if ext is not None else head) / ICMPv6EchoRequest(id=7, seq=9, data=load)


def answered(probe: Probe, request: Packet) -> None:
    probe.send(request)
    got = probe.take(probe.a, "an echo reply")
    assert got[ICMPv6EchoReply].data == request[ICMPv6EchoRequest].data


# RFC 8200, 3: the header.


@pytest.mark.parametrize("version", [0, 4, 5, 7, 15])
def test_another_version_is_dropped(probe: Probe, version: int):
    good = raw(probe.udp6())
    packet = bytes([version << 4]) + good[1:]
    probe.a.end.send(Ether(src=probe.a.mac, dst=probe.a.end.router_mac, type=0x86dd) / Raw(packet))
    probe.nothing()


def test_a_frame_too_short_for_a_header_is_dropped(probe: Probe):
    good = raw(probe.udp6())
    for length in (1, 8, 39):
        probe.swallows(good[:length])


def test_a_packet_shorter_than_its_payload_length_is_dropped(probe: Probe):
    good = raw(probe.udp6(size=200))
    for length in (40, 41, 199):
        probe.swallows(good[:length])


def test_padding_of_the_link_is_not_forwarded(probe: Probe):
    for padding in (b"\0" * 7, b"\xff" * 300):
        good = raw(probe.udp6())
        probe.send(good + padding)
        probe.gets(probe.b, one_hop(good))


def test_traffic_class_and_flow_label_pass_unchanged(probe: Probe):
    for tc, label in ((0, 0), (0xff, 0), (0xb8, 0xfffff), (3, 0x12345), (1, 1)):
        probe.crosses(probe.udp6(tc=tc, fl=label))


def test_every_next_header_passes(probe: Probe):
    """4: routers examine only hop-by-hop options; all other headers pass, known or not."""
    for protocol in (1, 4, 6, 17, 41, 43, 44, 50, 51, 58, 59, 60, 135, 139, 253, 255):
        probe.crosses(IPv6(src=probe.a.ip6, dst=probe.b.ip6, nh=protocol, hlim=TTL) / Raw(b"\xaa" * 40))


def test_a_header_alone_is_forwarded(probe: Probe):
    """4.7: data after "no next header" is ignored, too."""
    probe.crosses(IPv6(src=probe.a.ip6, dst=probe.b.ip6, nh=59, hlim=TTL))
    probe.crosses(IPv6(src=probe.a.ip6, dst=probe.b.ip6, nh=59, hlim=TTL) / Raw(b"behind no next header"))


def test_the_hop_limit_goes_down_by_one(probe: Probe):
    for hops in range(2, 256):
        probe.crosses(probe.udp6(hlim=hops))


@pytest.mark.parametrize("hops", [0, 1])
def test_a_packet_whose_hops_are_over_is_answered_with_time_exceeded(probe: Probe, hops: int):
    probe.error6(probe.udp6(hlim=hops), TIME_EXCEEDED, 0)


@pytest.mark.parametrize("hops", [0, 1])
def test_the_hop_limit_of_packets_to_the_router_does_not_matter(probe: Probe, hops: int):
    for address in OWN:
        answered(probe, ping(probe, address, hlim=hops))


# RFC 8200, 4.2 and 4.3: hop-by-hop options.


def test_options_that_may_be_skipped_pass_unchanged(probe: Probe):
    for options in ([unknown(SKIP)], [Pad1(), PadN(optdata=b"\0\0\0")], [RouterAlert(value=0)],
                    [unknown(SKIP), unknown(0x3e)]):
        probe.crosses(probe.udp6(ext=hop_by_hop(*options)))


def test_an_option_that_must_be_known_drops_the_packet(probe: Probe):
    probe.swallows(probe.udp6(ext=hop_by_hop(unknown(DISCARD))))


@pytest.mark.parametrize("kind", [REPORT, REPORT_UNICAST])
def test_an_option_that_must_be_known_is_answered_with_its_place(probe: Probe, kind: int):
    probe.error6(probe.udp6(ext=hop_by_hop(unknown(kind))), PARAMETER_PROBLEM, 2, word=42)
    probe.error6(probe.udp6(ext=hop_by_hop(PadN(optdata=b"\0\0"), unknown(kind))), PARAMETER_PROBLEM, 2, word=46)


def test_of_a_packet_to_many_only_action_10_is_answered(probe: Probe):
    """RFC 4443, 2.4 e: only this Parameter Problem may be caused by a packet to a group."""
    group = {"dst": "ff02::1", "mac": "33:33:00:00:00:01"}
    probe.error6(probe.udp6(dst=group["dst"], ext=hop_by_hop(unknown(REPORT))), PARAMETER_PROBLEM, 2, word=42,
                 mac=group["mac"])
    for kind in (REPORT_UNICAST, DISCARD):
        probe.swallows(probe.udp6(dst=group["dst"], ext=hop_by_hop(unknown(kind))), mac=group["mac"])


def test_options_of_the_destination_are_not_looked_at_on_the_way(probe: Probe):
    for kind in (SKIP, DISCARD, REPORT, REPORT_UNICAST):
        probe.crosses(probe.udp6(ext=IPv6ExtHdrDestOpt(options=[unknown(kind)])))


def test_options_of_the_destination_are_looked_at_there(probe: Probe):
    answered(probe, ping(probe, ext=IPv6ExtHdrDestOpt(options=[unknown(SKIP)])))
    probe.swallows(ping(probe, ext=IPv6ExtHdrDestOpt(options=[unknown(DISCARD)])))
    for kind in (REPORT, REPORT_UNICAST):
        probe.error6(ping(probe, ext=IPv6ExtHdrDestOpt(options=[unknown(kind)])), PARAMETER_PROBLEM, 2, word=42)


def test_hop_by_hop_options_out_of_their_place_are_an_unknown_header(probe: Probe):
    """4.1: they are allowed only directly after the IPv6 header; the pointer shows where the header was announced."""
    packet = ping(probe, ext=IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0\0\0\0")]) / hop_by_hop(PadN(optdata=b"\0" * 4)))
    probe.error6(packet, PARAMETER_PROBLEM, 1, word=40)


# RFC 8200, 4 and 4.4; RFC 5095: headers of packets to the router.


def test_an_unknown_next_header_is_a_fault_only_at_the_destination(probe: Probe):
    for address in OWN:
        probe.error6(IPv6(src=probe.a.ip6, dst=address, nh=253, hlim=TTL) / Raw(bytes(8)), PARAMETER_PROBLEM, 1,
                     word=6, source=OWN)
    behind = IPv6(src=probe.a.ip6, dst=OWN[0], hlim=TTL) / IPv6ExtHdrDestOpt(nh=253, options=[]) / Raw(bytes(8))
    probe.error6(behind, PARAMETER_PROBLEM, 1, word=40)


def test_no_next_header_to_the_router_ends_in_silence(probe: Probe):
    probe.swallows(IPv6(src=probe.a.ip6, dst=OWN[0], nh=59, hlim=TTL) / Raw(b"rest"))


@pytest.mark.parametrize("kind", [0, 1, 253])
def test_a_routing_header_to_the_router_with_segments_left_is_refused(probe: Probe, kind: int):
    route = IPv6ExtHdrRouting(type=kind, segleft=1, addresses=[probe.b.ip6])
    probe.error6(ping(probe, ext=route), PARAMETER_PROBLEM, 0, word=42)


def test_a_routing_header_without_segments_left_is_ignored(probe: Probe):
    for kind in (0, 253):
        answered(probe, ping(probe, ext=IPv6ExtHdrRouting(type=kind, segleft=0, addresses=["fd00:9::9"])))


def test_a_routing_header_for_others_passes(probe: Probe):
    for kind in (0, 2, 4, 253):
        probe.crosses(probe.udp6(ext=IPv6ExtHdrRouting(type=kind, segleft=1, addresses=["fd00:9::9"])))


# RFC 8200, 4.5 and 5; RFC 8201: fragments and the path MTU.


def test_a_packet_that_just_fits_passes(probe: Probe):
    probe.crosses(probe.udp6(size=SERVER_MTU))


def test_a_packet_that_is_too_big_is_answered_with_the_mtu_and_never_cut(probe: Probe):
    for size in (SERVER_MTU + 1, 1800):
        probe.error6(probe.udp6(size=size), TOO_BIG, 0, word=SERVER_MTU)
    probe.error6(probe.udp6(size=SERVER_MTU + 8, ext=IPv6ExtHdrFragment(m=1, id=1)), TOO_BIG, 0, word=SERVER_MTU)


def test_fragments_are_forwarded_as_they_are_and_not_reassembled(probe: Probe):
    pieces = fragment6(probe.udp6(size=1400, ext=IPv6ExtHdrFragment(id=77)), 600)
    for piece in reversed(pieces):
        probe.crosses(piece)
    # The router does not examine them either: overlapping, endless, or not a multiple of 8.
    for offset, more in ((0, 1), (1, 1), (8191, 1)):
        header = IPv6ExtHdrFragment(nh=17, offset=offset, m=more, id=78)
        probe.crosses(IPv6(src=probe.a.ip6, dst=probe.b.ip6, hlim=TTL) / header / Raw(b"x" * 13))


def pieces_of(request: Packet, size: int, ident: int) -> list[Packet]:
    whole = IPv6(src=request[IPv6].src, dst=request[IPv6].dst, hlim=TTL) / IPv6ExtHdrFragment(id=ident)
    return fragment6(whole / request[IPv6].payload, size)


@pytest.mark.parametrize("order", [1, -1])
def test_fragments_to_the_router_are_reassembled(probe: Probe, order: int):
    """4.5: at least 1500 bytes, in any order."""
    request = ping(probe, load=bytes(range(200)) * 7)
    request = IPv6(raw(request))
    for piece in pieces_of(request, 600, 100 + order)[::order]:
        probe.send(piece)
    body = probe.body6(probe.a, 1408)
    assert body[0] == 129 and body[4:] == raw(request)[44:]


def test_an_atomic_fragment_is_worked_off_by_itself(probe: Probe):
    """RFC 6946: waiting fragments with the same identification are not affected."""
    request = IPv6(raw(ping(probe, load=b"whole" * 100)))
    waiting = pieces_of(request, 400, 55)[1]
    probe.swallows(waiting)
    atomic = IPv6(src=probe.a.ip6, dst=OWN[0], hlim=TTL) / IPv6ExtHdrFragment(nh=58, id=55) / request[IPv6].payload
    probe.send(atomic)
    assert probe.take(probe.a, "an echo reply")[ICMPv6EchoReply].data == b"whole" * 100


@linux_differs("takes a fragment that lies within another for a repetition")
def test_overlapping_fragments_are_dropped_in_silence(probe: Probe):
    """4.5 and RFC 5722: later fragments of the datagram are dropped, too."""
    request = IPv6(raw(ping(probe, load=b"overlap!" * 100)))
    first, second, *rest = pieces_of(request, 400, 56)
    data = raw(request[IPv6].payload)
    overlap = IPv6(src=probe.a.ip6, dst=OWN[0], hlim=TTL) / IPv6ExtHdrFragment(nh=58, id=56, offset=1, m=1)
    for piece in (first, overlap / Raw(data[8:48]), second, *rest):
        probe.send(piece)
    probe.nothing()


def test_a_fragment_that_is_no_multiple_of_8_is_answered(probe: Probe):
    piece = IPv6(src=probe.a.ip6, dst=OWN[0], hlim=TTL) / IPv6ExtHdrFragment(nh=58, id=57, m=1) / Raw(b"\x80" + bytes(12))
    probe.error6(piece, PARAMETER_PROBLEM, 0, word=4)


def test_a_fragment_beyond_the_longest_packet_is_answered(probe: Probe):
    # A protocol other than ICMP: a router must not answer what may be an error.
    piece = (IPv6(src=probe.a.ip6, dst=OWN[0], hlim=TTL) / IPv6ExtHdrFragment(nh=17, id=58, offset=8190)
             / Raw(bytes(40)))
    probe.error6(piece, PARAMETER_PROBLEM, 0, word=42)


def test_a_first_fragment_without_all_headers_is_answered(probe: Probe):
    """RFC 7112, 5; RFC 8200, 4.5."""
    piece = (IPv6(src=probe.a.ip6, dst=OWN[0], hlim=TTL) / IPv6ExtHdrFragment(nh=60, id=59, m=1)
             / Raw(bytes([58, 4]) + b"\1\4" + bytes(4)))
    probe.error6(piece, PARAMETER_PROBLEM, 3, word=0)


# RFC 4291, RFC 4007: addresses.


def test_a_link_local_source_does_not_leave_its_link(probe: Probe):
    probe.send(probe.udp6(src=probe.a.ll6))
    got = probe.take(probe.a, "an unreachable")
    message = got.original[54:]
    assert (message[0], message[1]) == (UNREACHABLE, 2), "beyond scope of source address"


@linux_differs("asks for the host on the link")
def test_a_link_local_destination_is_not_forwarded(probe: Probe):
    for address in (probe.b.ll6, "fe80::99", "febf::1"):
        probe.swallows(probe.udp6(dst=address))


@pytest.mark.parametrize("source", ["::", "::1", "ff02::1", "ff0e::1", pytest.param(
    "::ffff:10.0.1.2", marks=linux_differs("forwards it"))])
def test_a_packet_from_no_host_is_dropped(probe: Probe, source: str):
    probe.swallows(probe.udp6(src=source))


@pytest.mark.parametrize("destination", [pytest.param("::", marks=linux_differs("forwards it")), "::1", pytest.param(
    "::ffff:10.0.2.2", marks=linux_differs("forwards it"))])
def test_a_packet_to_an_illegal_address_is_dropped(probe: Probe, destination: str):
    probe.route("::/0", probe.far[3])
    probe.swallows(probe.udp6(dst=destination))


def test_multicast_is_not_forwarded(probe: Probe):
    for group in ("ff00::5", "ff01::1", "ff02::5", "ff05::5", "ff0e::5", "ff3e::5"):
        probe.swallows(probe.udp6(dst=group), mac="33:33:00:00:00:05")
        probe.swallows(probe.udp6(dst=group))


def test_packets_in_frames_to_groups_or_other_stations_are_not_forwarded(probe: Probe):
    for mac in (BROADCAST, "33:33:00:00:00:01", probe.near[3].mac):
        probe.swallows(probe.udp6(), mac=mac)


@linux_differs("believes it")
def test_the_routers_own_address_as_source_is_not_believed(probe: Probe):
    for source in OWN:
        probe.swallows(probe.udp6(src=source))


def test_the_anycast_address_of_each_subnet_is_the_routers(probe: Probe):
    """RFC 4291, 2.6.1."""
    for address in ("fd00:1::", "fd00:2::"):
        probe.send(ping(probe, address))
        got = probe.take(probe.a, "an echo reply")
        assert ICMPv6EchoReply in got and got[IPv6].src in (*OWN, address)


def test_ipv6_in_a_frame_of_another_type_is_not_forwarded(probe: Probe):
    packet = raw(probe.udp6())
    for kind in (0x800, 0x806, 0x88b5):
        probe.a.end.send(Ether(src=probe.a.mac, dst=probe.a.end.router_mac, type=kind) / Raw(packet))
    probe.nothing()


# Routes.


def test_directly_connected_hosts_are_reached_directly(probe: Probe):
    for n in (3, 4, 5):
        probe.crosses(probe.udp6(dst=probe.far[n].ip6), to=probe.far[n])
    probe.crosses(probe.udp6(src=probe.b.ip6, dst=probe.a.ip6), frm=probe.b, to=probe.a)


def test_without_a_route_the_destination_is_unreachable(probe: Probe):
    probe.error6(probe.udp6(dst="fd00:77::1"), UNREACHABLE, 0)


def test_the_longest_prefix_wins_whatever_the_order(probe: Probe):
    routes = [("fd00:9:1::2/128", 5), ("fd00:9::/32", 3), ("fd00:9:1::/48", 4), ("fd00:9:1:8000::/49", 2)]
    for prefix, n in routes:
        probe.route(prefix, probe.far[n])
    for address, n in (("fd00:9:2::1", 3), ("fd00:9:1::1", 4), ("fd00:9:1::2", 5), ("fd00:9:1::3", 4),
                       ("fd00:9:1:ffff::1", 2)):
        probe.crosses(probe.udp6(dst=address), to=probe.far[n])
    probe.unroute("fd00:9:1::2/128")
    probe.crosses(probe.udp6(dst="fd00:9:1::2"), to=probe.far[4])
    for prefix, _ in routes[1:]:
        probe.unroute(prefix)
    probe.error6(probe.udp6(dst="fd00:9:1::2"), UNREACHABLE, 0)


def test_the_default_route_takes_packets_that_no_other_route_takes(probe: Probe):
    probe.route("::/0", probe.far[3])
    probe.crosses(probe.udp6(dst="2001:db8::7"), to=probe.far[3])
    probe.crosses(probe.udp6())
    probe.unroute("::/0")
    probe.error6(probe.udp6(dst="2001:db8::7"), UNREACHABLE, 0)


def test_several_next_hops_share_the_load_and_keep_each_flow_together(probe: Probe):
    probe.route("fd00:10::/32", probe.far[3], probe.far[4])
    used = probe.next_hops(lambda port: IPv6(src=probe.a.ip6, dst="fd00:10::1") / UDP(sport=1000, dport=port) / b"flow")
    assert used == {probe.far[3].mac, probe.far[4].mac}


def test_the_length_field_counts_not_the_frame(probe: Probe):
    """A payload length of zero without a jumbo option means a packet without payload."""
    good = raw(probe.udp6())
    packet = good[:4] + struct.pack("!H", 0) + bytes([59]) + good[7:]
    probe.send(packet)
    probe.gets(probe.b, one_hop(packet[:40]))
