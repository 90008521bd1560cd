"""Requirements of RFC 4443 on a router (docs/conformance.md)."""

import time

import pytest
from conformance import SERVER_MTU, TTL, Probe, l3, linux_differs, probe, rate_limited, running, sum6  # noqa: F401
from scapy.compat import raw
from scapy.layers.inet6 import (ICMPv6DestUnreach, ICMPv6EchoReply, ICMPv6EchoRequest, ICMPv6TimeExceeded,
                                ICMPv6Unknown, IPv6, IPv6ExtHdrFragment)
from scapy.packet import Packet, Raw
from wire import BROADCAST

UNREACHABLE, TOO_BIG, TIME_EXCEEDED, PARAMETER_PROBLEM = 1, 2, 3, 4
OWN = ("fd00:1::1", "fd00:2::1")


def ping(probe: Probe, dst: str = OWN[0], load: bytes = b"ping", **fields) -> Packet:
    return IPv6(**{"src": probe.a.ip6, "dst": dst, "hlim": TTL, **fields}) / ICMPv6EchoRequest(id=7, seq=9, data=load)


def replied(probe: Probe, request: Packet, mac: str = "") -> Packet:
    """The router's reply, checked for checksum, identifiers and data; the case checks the source."""
    data = probe.send(request, mac=mac)
    got = probe.take(probe.a, "an echo reply")
    answer = l3(got)
    assert sum6(answer) == 0 and answer[40:42] == b"\x81\0" and answer[44:] == data[44:]
    assert got[IPv6].dst == request[IPv6].src and got[IPv6].hlim != TTL
    return got[IPv6]


# 4.1, 4.2: echo.


@pytest.mark.parametrize("address", OWN)
def test_echo_requests_to_every_own_address_are_answered_from_it(probe: Probe, address: str):
    assert replied(probe, ping(probe, address)).src == address


@pytest.mark.parametrize("size", [0, 1, 1452, 1752])
def test_all_data_of_an_echo_request_comes_back(probe: Probe, size: int):
    request = ping(probe, load=bytes(n * 7 & 0xff for n in range(size)))
    data = probe.send(request)
    assert probe.body6(probe.a, len(data) - 40)[4:] == data[44:]


def test_an_echo_request_with_a_wrong_checksum_is_not_answered(probe: Probe):
    request = raw(ping(probe))
    probe.swallows(request[:42] + bytes([request[42] ^ 1]) + request[43:])


def test_an_echo_request_to_the_nodes_of_the_link_is_answered_from_one_address(probe: Probe):
    for group, mac in (("ff02::1", "33:33:00:00:00:01"), ("ff02::2", "33:33:00:00:00:02")):
        assert replied(probe, ping(probe, group), mac).src == OWN[0]
        assert replied(probe, ping(probe, group, src=probe.a.ll6), mac).src.startswith("fe80:")


def test_an_echo_request_to_a_link_local_address_is_answered_from_it(probe: Probe):
    own = replied(probe, ping(probe, "ff02::2", src=probe.a.ll6), "33:33:00:00:00:02").src
    assert replied(probe, ping(probe, own, src=probe.a.ll6)).src == own


def test_a_group_that_the_router_is_not_in_is_not_answered(probe: Probe):
    for group in ("ff02::5", "ff02::1:ff99:9999", "ff05::1:3", "ff0e::1"):
        probe.swallows(ping(probe, group), mac="33:33:00:00:00:05")


# 2.4 a, b: messages to the router.


def test_unknown_messages_are_dropped_in_silence(probe: Probe):
    for kind in (5, 99, 100, 101, 127, 129, 138, 139, 140, 144, 200, 201, 255):
        probe.swallows(IPv6(src=probe.a.ip6, dst=OWN[0], hlim=TTL) / ICMPv6Unknown(type=kind) / Raw(bytes(8)))


# 2.2 to 2.4: error messages.


def test_the_quotation_is_as_long_as_fits_into_1280_bytes(probe: Probe):
    for size in (60, 100, 1231, 1232, 1233, 1280, 1500, 1800):
        probe.error6(probe.udp6(hlim=1, size=size, load=b"."), TIME_EXCEEDED, 0)


def test_an_error_comes_from_the_address_of_its_link(probe: Probe):
    probe.error6(probe.udp6(hlim=1), TIME_EXCEEDED, 0)
    probe.error6(probe.udp6(src=probe.b.ip6, dst=probe.a.ip6, hlim=1), TIME_EXCEEDED, 0, frm=probe.b)


def test_a_closed_port_of_the_router_is_answered_from_the_address_asked(probe: Probe):
    """2.2 a."""
    for address in OWN:
        assert probe.error6(probe.udp6(dst=address), UNREACHABLE, 4, source=OWN).src == address


@pytest.mark.parametrize("kind", [1, 2, 3, 4, 100, 127, pytest.param(137, marks=linux_differs("answers redirects"))])
def test_there_is_no_error_about_an_error_or_a_redirect(probe: Probe, kind: int):
    inner = raw(IPv6(src=probe.b.ip6, dst=probe.a.ip6) / Raw(b"12345678"))
    for hops, dst in ((1, probe.b.ip6), (TTL, "fd00:77::1")):
        probe.swallows(IPv6(src=probe.a.ip6, dst=dst, hlim=hops) / ICMPv6Unknown(type=kind) / Raw(bytes(4) + inner))


def test_there_is_an_error_about_other_icmp(probe: Probe):
    for kind in (128, 129, 144):
        message = IPv6(src=probe.a.ip6, dst=probe.b.ip6, hlim=1) / ICMPv6Unknown(type=kind) / Raw(bytes(4) + b"ping")
        probe.error6(message, TIME_EXCEEDED, 0)


def test_there_is_no_error_about_a_packet_to_many(probe: Probe):
    for group in ("ff02::1", "ff02::2", "ff02::5", "ff0e::1"):
        probe.swallows(probe.udp6(dst=group, hlim=1), mac="33:33:00:00:00:01")
        probe.swallows(IPv6(src=probe.a.ip6, dst=group, nh=253, hlim=TTL) / Raw(bytes(8)), mac="33:33:00:00:00:01")


def test_there_is_no_error_about_a_frame_to_many(probe: Probe):
    for mac in (BROADCAST, "33:33:00:00:00:01"):
        for packet in (probe.udp6(hlim=1), probe.udp6(dst="fd00:77::1"), probe.udp6(dst=OWN[0])):
            probe.swallows(packet, mac=mac)


def test_no_error_goes_to_an_address_that_is_not_one_host(probe: Probe):
    for source in ("::", "::1", "ff02::1", "ff0e::1"):
        probe.swallows(probe.udp6(src=source, hlim=1))
        probe.swallows(probe.udp6(src=source, dst="fd00:77::1"))
        probe.swallows(probe.udp6(src=source, dst=OWN[0]))


def test_a_later_fragment_is_answered_unless_it_may_be_an_error(probe: Probe):
    """2.4 e.1: in a later fragment of ICMPv6 the type is unknown."""
    for protocol in (17, 58):
        piece = (IPv6(src=probe.a.ip6, dst=probe.b.ip6, hlim=1) / IPv6ExtHdrFragment(nh=protocol, offset=100, id=1)
                 / Raw(bytes(64)))
        if protocol == 17:
            probe.error6(piece, TIME_EXCEEDED, 0)
    probe.nothing()


def test_a_packet_that_is_too_big_is_answered_whatever_it_is(probe: Probe):
    """3.2: TCP, UDP, echo requests and unknown protocols, with and without extension headers."""
    for protocol in (6, 17, 253):
        packet = IPv6(src=probe.a.ip6, dst=probe.b.ip6, nh=protocol, hlim=TTL) / Raw(bytes(1700))
        probe.error6(packet, TOO_BIG, 0, word=SERVER_MTU)
    probe.error6(ping(probe, probe.b.ip6, load=bytes(1700)), TOO_BIG, 0, word=SERVER_MTU)


def test_a_host_that_does_not_answer_is_unreachable(probe: Probe):
    """3.1, code 3; a sender with several waiting packets gets messages about some of them only."""
    probe.error6(probe.udp6(dst="fd00:2::99"), UNREACHABLE, 3, timeout=30.0)


def test_errors_to_a_link_local_source_come_from_a_link_local_address(probe: Probe):
    """2.2: the source is one that the requesting host can reach and that stays on the link."""
    probe.send(probe.udp6(src=probe.a.ll6, dst=OWN[0]))
    got = probe.take(probe.a, "an unreachable")
    assert ICMPv6DestUnreach in got and got[IPv6].dst == probe.a.ll6 and sum6(l3(got)) == 0
    assert got[IPv6].src.startswith("fe80:") or got[IPv6].src == OWN[0]


def test_the_rate_of_errors_is_limited(probe: Probe):
    """2.4 f, a MUST. A flood gets some answers, but far fewer than it has packets."""
    packets = [raw(probe.udp6(hlim=1)) for _ in range(4000)]
    with probe.limited():
        begin = time.monotonic()
        probe.flood(packets, kind=0x86dd)
        probe.wire.flush()
        most = rate_limited(begin)
        answers = [frame for frame in probe.a.end.seen if ICMPv6TimeExceeded in frame]
        probe.a.end.seen.clear()
    assert 1 <= len(answers) <= most
    end = time.monotonic() + 5
    while time.monotonic() < end:
        probe.send(probe.udp6(hlim=1))
        probe.wire.flush()
        if probe.a.end.seen:
            probe.a.end.seen.clear()
            return
    raise AssertionError("no errors any more")
