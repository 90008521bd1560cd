"""Requirements of RFC 1812 on ICMP, 4.3 and 5.2.7, and on options, 4.2.2 and 5.3.13 (docs/conformance.md)."""

import struct
import time

import pytest
from conformance import (SERVER_MTU, TTL, Probe, l3, linux_differs, one_hop, patch4, probe, rate_limited, running,  # noqa: F401
                         sum4)
from scapy.compat import raw
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption, defragment, fragment
from scapy.packet import Packet, Raw
from scapy.utils import checksum
from wire import BROADCAST

PARAMETER_PROBLEM, UNREACHABLE, TIME_EXCEEDED, REDIRECT = 12, 3, 11, 5
OWN = ("10.0.1.1", "10.0.2.1")
DAY_MS = 86_400_000


def echo(probe: Probe, dst: str = OWN[0], load: bytes = b"ping", options: bytes = b"", **fields) -> Packet:
    return IP(src=probe.a.ip4, dst=dst, ttl=TTL, options=[IPOption(options)] if options else [],
              **fields) / ICMP(id=77, seq=5) / Raw(load)


def replied(probe: Probe, request: Packet) -> IP:
    """The router's reply to an echo request, checked for addresses, checksums, identifiers and data."""
    data = probe.send(request)
    got = probe.take(probe.a, "an echo reply")
    answer = l3(got)
    header, asked = got[IP].ihl * 4, (data[0] & 15) * 4
    assert sum4(answer) == answer and checksum(answer[header:]) == 0
    assert (answer[header], answer[header + 1]) == (0, 0)
    assert answer[header + 4:] == data[asked + 4:], "identifier, sequence number and data"
    assert (got[IP].src, got[IP].dst) == (IP(data).dst, IP(data).src)
    return got[IP]


def options(ip: Packet) -> bytes:
    return raw(ip)[20:ip.ihl * 4]


# 4.3.3.6: echo.


@pytest.mark.parametrize("address", OWN)
def test_echo_requests_to_every_own_address_are_answered_from_it(probe: Probe, address: str):
    reply = replied(probe, echo(probe, address))
    assert reply.ttl != TTL, "4.3.2.2: not the request's TTL"


@pytest.mark.parametrize("size", [0, 1, 1472, 1771])
def test_all_data_of_an_echo_request_comes_back(probe: Probe, size: int):
    replied(probe, echo(probe, load=bytes(n * 7 & 0xff for n in range(size))))


def test_a_fragmented_echo_request_is_reassembled_and_answered(probe: Probe):
    """The request is at least as long as the largest MTU of the attached networks, and its fragments also arrive out of
    order.
    """
    for order in (1, -1):
        request = echo(probe, load=bytes(range(256)) * 6 + b"end", id=order & 0xfff)
        for piece in fragment(request, 600)[::order]:
            probe.send(piece)
        got = probe.take(probe.a, "an echo reply")
        assert got[ICMP].type == 0 and raw(got[ICMP])[4:] == raw(request[ICMP])[4:]


def test_a_reply_that_is_too_long_for_the_link_is_cut(probe: Probe):
    request = IP(src=probe.b.ip4, dst=OWN[1], id=9) / ICMP(id=3) / Raw((bytes(range(256)) * 7)[:1772])
    for piece in fragment(request, 1480):
        probe.send(piece, probe.b)
    whole = defragment([IP(l3(probe.take(probe.b, f"fragment {n}"))) for n in range(2)])
    assert raw(whole[0].payload)[4:] == raw(request[ICMP])[4:]


def test_an_echo_request_with_a_wrong_checksum_is_not_answered(probe: Probe):
    request = raw(echo(probe))
    probe.swallows(request[:22] + bytes([request[22] ^ 1]) + request[23:])


def test_a_reply_has_the_type_of_service_and_precedence_of_the_request(probe: Probe):
    for tos in (0x00, 0x10, 0x48, 0xa0, 0xc0, 0xe0):
        assert replied(probe, echo(probe, tos=tos)).tos == tos


@linux_differs("answers unicast in a broadcast frame")
def test_an_echo_request_to_a_broadcast_is_not_answered(probe: Probe):
    """A router may be silent; Ashlar is, so that it cannot be used to multiply traffic."""
    for address in ("10.0.1.255", "255.255.255.255", "224.0.0.1"):
        probe.swallows(echo(probe, address), mac=BROADCAST)
    probe.swallows(echo(probe), mac=BROADCAST)


def test_record_route_of_an_echo_request_is_completed_and_comes_back(probe: Probe):
    slots = bytes([10, 9, 9, 9]) + bytes(8)
    got = options(replied(probe, echo(probe, options=bytes([7, 15, 8]) + slots)))
    # The router adds its address for the request. It may add it for the reply, too, as Linux does.
    assert got[:2] == bytes([7, 15]) and got[2] in (12, 16) and got[3:7] == slots[:4]
    assert got[7:11] == bytes([10, 0, 1, 1]) and got[11:15] == (got[7:11] if got[2] == 16 else bytes(4))


def test_timestamps_of_an_echo_request_are_completed_and_come_back(probe: Probe):
    got = options(replied(probe, echo(probe, options=bytes([0x44, 12, 5, 0]) + bytes(8))))
    assert got[:2] == bytes([0x44, 12]) and got[2] in (9, 13) and got[3] == 0 and near_now(got[4:8])


@linux_differs("accepts no source routes by default")
def test_the_source_route_of_an_echo_request_is_reversed(probe: Probe):
    """The route ended here: from a by 10.0.1.4 to the router; so the reply goes by 10.0.1.4 to a."""
    gateway = probe.near[4]
    route = bytes([0x83, 7, 8, *map(int, gateway.ip4.split("."))])
    probe.send(echo(probe, options=route), gateway)
    got = probe.take(gateway, "an echo reply on its way back")
    assert got[ICMP].type == 0 and got[IP].dst == gateway.ip4
    assert options(got[IP])[:7] == bytes([0x83, 7, 4, *map(int, probe.a.ip4.split("."))])


def test_messages_that_a_router_should_not_answer_are_not_answered(probe: Probe):
    """Information requests (4.3.3.7), unknown types (4.3.2.1), replies, and types that RFC 6918 retired."""
    for kind in (0, 1, 2, 7, 14, 15, 16, 17, 18, 37, 42, 200, 255):
        message = bytes([kind, 0, 0, 0]) + b"\0\1\0\1" + bytes(8)
        total = checksum(message)
        message = message[:2] + struct.pack("!H", total) + message[4:]
        probe.swallows(IP(src=probe.a.ip4, dst=OWN[0], proto=1) / Raw(message))


def test_a_redirect_to_the_router_changes_no_route(probe: Probe):
    probe.route("10.21.0.0/16", probe.far[3])
    inner = IP(src=OWN[1], dst="10.21.0.9") / UDP() / b"x"
    probe.swallows(IP(src=probe.far[3].ip4, dst=OWN[1]) / ICMP(type=5, code=1, gw=probe.far[4].ip4) / inner,
                   probe.far[3])
    probe.crosses(probe.udp4(dst="10.21.0.9"), to=probe.far[3])


# 4.3.3.1, 5.2.7.1: what the router itself does not offer.


def test_an_unknown_protocol_to_the_router_is_answered(probe: Probe):
    for address in OWN:
        error = IP(src=probe.a.ip4, dst=address, proto=253, ttl=TTL) / Raw(b"what is this")
        probe.error4(error, UNREACHABLE, 2, source=address)


def test_a_closed_port_of_the_router_is_answered(probe: Probe):
    for address in OWN:
        probe.error4(probe.udp4(dst=address), UNREACHABLE, 3, source=address)


def test_a_host_that_does_not_answer_is_unreachable(probe: Probe):
    """3.3.2: one of the waiting packets is answered, and only when address resolution has failed."""
    packet = probe.udp4(dst="10.0.2.99")
    probe.error4(packet, UNREACHABLE, 1, timeout=30.0)


# 4.3.2: error messages.


def test_the_quotation_is_as_long_as_fits_and_true(probe: Probe):
    for size in (28, 29, 100, 547, 548, 549, 576, 1500, 1800):
        probe.error4(probe.udp4(ttl=1, size=size, load=b"."), TIME_EXCEEDED, 0)


def test_an_error_leaves_from_the_address_of_the_link_by_which_it_leaves(probe: Probe):
    probe.error4(probe.udp4(ttl=1), TIME_EXCEEDED, 0)
    probe.error4(probe.udp4(src=probe.b.ip4, dst=probe.a.ip4, ttl=1), TIME_EXCEEDED, 0, frm=probe.b)
    # The path back is not the path by which the packet came.
    probe.route("10.22.0.0/16", probe.far[3])
    packet = probe.udp4(src="10.22.0.9", ttl=1)
    probe.send(packet)
    got = probe.take(probe.far[3], "an error on another link")
    assert (got[IP].src, got[IP].dst, got[ICMP].type) == (OWN[1], "10.22.0.9", TIME_EXCEEDED)


def test_an_error_has_the_type_of_service_of_its_packet_and_precedence_6(probe: Probe):
    for tos in (0x00, 0x10, 0x08, 0xe4, 0x28):
        assert probe.error4(probe.udp4(ttl=1, tos=tos), TIME_EXCEEDED, 0).tos == 0xc0 | tos & 0x1c


@pytest.mark.parametrize("kind", [3, 4, 5, 11, 12])
def test_there_is_no_error_about_an_error(probe: Probe, kind: int):
    inner = IP(src=probe.b.ip4, dst=probe.a.ip4) / UDP() / b"12345678"
    message = IP(src=probe.a.ip4, dst=probe.b.ip4, ttl=1) / ICMP(type=kind) / inner
    probe.swallows(message)


def test_there_is_an_error_about_other_icmp(probe: Probe):
    for kind in (0, 8, 13):
        probe.error4(IP(src=probe.a.ip4, dst=probe.b.ip4, ttl=1) / ICMP(type=kind) / b"ping", TIME_EXCEEDED, 0)


def test_there_is_no_error_about_a_later_fragment(probe: Probe):
    probe.swallows(probe.udp4(ttl=1, frag=100))
    probe.swallows(probe.udp4(dst="10.77.0.1", frag=1, flags="MF"))
    probe.error4(probe.udp4(ttl=1, flags="MF"), TIME_EXCEEDED, 0)


def test_there_is_no_error_about_a_link_layer_broadcast_or_multicast(probe: Probe):
    for mac in (BROADCAST, "01:00:5e:00:00:01"):
        for packet in (probe.udp4(ttl=1), probe.udp4(dst="10.77.0.1"), probe.udp4(dst=OWN[0]),
                       IP(src=probe.a.ip4, dst=OWN[0], proto=253) / b"what"):
            probe.swallows(packet, mac=mac)


def test_there_is_no_error_about_a_packet_to_many(probe: Probe):
    for address in ("224.0.0.1", "255.255.255.255", "10.0.1.255", "10.0.2.255", "239.1.1.1"):
        probe.swallows(probe.udp4(dst=address, ttl=1))
        probe.swallows(probe.udp4(dst=address))


@linux_differs("answers a broadcast address of its link")
def test_no_error_goes_to_an_address_that_is_not_one_host(probe: Probe):
    for address in ("0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255", "10.0.1.255"):
        probe.swallows(probe.udp4(src=address, ttl=1))
        probe.swallows(probe.udp4(src=address, dst="10.77.0.1"))
        probe.swallows(probe.udp4(src=address, dst=OWN[0]))


def test_there_is_no_error_about_a_bad_header(probe: Probe):
    packet = raw(probe.udp4(ttl=1))
    probe.swallows(packet[:10] + b"\0\0" + packet[12:])
    probe.swallows(patch4(packet, (2, b"\0\x13")))


def test_the_rate_of_errors_is_limited(probe: Probe):
    """A flood gets some answers, but far fewer than it has packets; the test waits for the end of the limit."""
    packets = [raw(probe.udp4(ttl=1)) for _ in range(4000)]
    with probe.limited():
        begin = time.monotonic()
        probe.flood(packets)
        probe.wire.flush()
        most = rate_limited(begin)
        answers = [frame for frame in probe.a.end.seen if ICMP in frame]
        probe.a.end.seen.clear()
    assert all(frame[ICMP].type == TIME_EXCEEDED for frame in answers)
    assert 1 <= len(answers) <= most
    recovered(probe)


def recovered(probe: Probe) -> None:
    """Waits until the rate limit allows errors again, for the next cases."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        probe.send(probe.udp4(ttl=1))
        probe.wire.flush()
        if probe.a.end.seen:
            probe.a.end.seen.clear()
            return
    raise AssertionError("no errors any more")


# 5.2.7.2: redirects.


@pytest.fixture
def detour(probe: Probe) -> Probe:
    """A network whose gateway is on the link of the sender."""
    probe.route("10.23.0.0/16", probe.near[3])
    return probe


def test_a_host_that_could_go_straight_is_redirected_and_its_packet_forwarded(detour: Probe):
    packet = detour.udp4(dst="10.23.0.9")
    data = detour.send(packet)
    frames = [detour.take(detour.a.end, "a redirect and the packet") for _ in range(2)]
    redirect = next(frame for frame in frames if ICMP in frame)
    assert one_hop(data) in [l3(frame) for frame in frames]
    assert redirect.dst == detour.a.mac and redirect[IP].src == OWN[0]
    assert (redirect[ICMP].type, redirect[ICMP].code, redirect[ICMP].gw) == (REDIRECT, 1, detour.near[3].ip4)
    assert checksum(raw(redirect[IP].payload)) == 0


def test_the_rate_of_redirects_is_limited(detour: Probe):
    """A flood is forwarded completely, and causes far fewer redirects."""
    packets = [raw(detour.udp4(dst="10.23.0.9")) for _ in range(3000)]
    with detour.limited():
        begin = time.monotonic()
        detour.flood_whole(packets)
        most = rate_limited(begin)
        frames = list(detour.a.end.seen)
        detour.a.end.seen.clear()
    redirects = [frame for frame in frames if ICMP in frame]
    assert all(frame[ICMP].type == REDIRECT for frame in redirects)
    assert len(redirects) <= most and sum(UDP in frame and ICMP not in frame for frame in frames) == len(packets)


def test_a_host_that_is_not_on_the_gateways_link_is_not_redirected(detour: Probe):
    detour.route("10.24.0.0/16", detour.near[4])
    detour.crosses(detour.udp4(src="10.24.0.9", dst="10.23.0.9"), frm=detour.near[4], to=detour.near[3])


def test_a_packet_from_another_link_is_not_redirected(detour: Probe):
    detour.crosses(detour.udp4(src=detour.b.ip4, dst="10.23.0.9"), frm=detour.b, to=detour.near[3])


@linux_differs("accepts no source routes by default")
def test_a_source_routed_packet_is_not_redirected(detour: Probe):
    """A source-routed packet is not forwarded if source routes are refused; in either case there is no redirect."""
    route = bytes([0x83, 7, 8, 10, 9, 9, 9])
    detour.send(detour.udp4(dst="10.23.0.9", options=route))
    got = detour.take(detour.a.end, "the packet, or a refusal")
    assert ICMP not in got or got[ICMP].type != REDIRECT


# 4.2.2.1, 4.2.2.6, 5.3.13: options of forwarded packets.


def near_now(stamp: bytes) -> bool:
    """True if a timestamp is close to the present time of day in UTC, in milliseconds."""
    now = int(time.time() * 1000) % DAY_MS
    return abs(int.from_bytes(stamp) - now) < 60_000


def forwarded(probe: Probe, option: bytes) -> bytes:
    """The options of a packet after this router; everything else must be as after any router."""
    packet = raw(probe.udp4(options=option))
    probe.send(packet)
    got = l3(probe.take(probe.b, "the packet"))
    header = (packet[0] & 15) * 4
    assert sum4(got) == got and got[header:] == packet[header:] and len(got) == len(packet)
    expected = one_hop(packet)
    assert (got[:10], got[12:20]) == (expected[:10], expected[12:20])
    return got[20:header]


def test_unrecognised_options_pass_unchanged(probe: Probe):
    for option in (bytes([0x5e, 4, 1, 2]), bytes([0xde, 8]) + b"abcdef", bytes([0x1a, 2, 1, 1]),
                   bytes([0x99, 40]) + bytes(range(38))):
        assert forwarded(probe, option) == option


def test_security_stream_and_padding_options_pass_unchanged(probe: Probe):
    for option in (bytes([0x82, 11]) + bytes(9) + b"\0", bytes([0x88, 4, 0, 9]), b"\1\1\1\1", b"\0\0\0\0"):
        assert forwarded(probe, option) == option


@linux_differs("writes zeros behind it")
def test_the_end_of_options_ends_them(probe: Probe):
    """Bytes after the end that look like an option are ignored."""
    assert forwarded(probe, b"\0\x07\x01\x63") == b"\0\x07\x01\x63"


def test_record_route_gets_the_address_of_the_link_out(probe: Probe):
    """4.2.2.2: the address is not that of the link on which the packet arrived."""
    got = forwarded(probe, bytes([7, 11, 4]) + bytes(8) + b"\0")
    assert got == bytes([7, 11, 8, 10, 0, 2, 1]) + bytes(5)


def test_a_full_record_route_passes_unchanged(probe: Probe):
    option = bytes([7, 7, 8, 10, 9, 9, 9, 0])
    assert forwarded(probe, option) == option


def test_a_timestamp_is_added(probe: Probe):
    got = forwarded(probe, bytes([0x44, 12, 5, 0]) + bytes(8))
    assert got[:4] == bytes([0x44, 12, 9, 0]) and near_now(got[4:8]) and got[8:] == bytes(4)


@linux_differs("takes the address of the link by which it came")
def test_a_timestamp_is_added_with_the_address(probe: Probe):
    got = forwarded(probe, bytes([0x44, 12, 5, 1]) + bytes(8))
    assert got[:4] == bytes([0x44, 12, 13, 1]) and got[4:8] == bytes([10, 0, 2, 1]) and near_now(got[8:])


def test_a_timestamp_is_added_where_any_own_address_asks_for_it(probe: Probe):
    for address in (bytes([10, 0, 1, 1]), bytes([10, 0, 2, 1])):
        got = forwarded(probe, bytes([0x44, 12, 5, 3]) + address + bytes(4))
        assert got[:8] == bytes([0x44, 12, 13, 3]) + address and near_now(got[8:])
    other = bytes([0x44, 12, 5, 3, 10, 9, 9, 9]) + bytes(4)
    assert forwarded(probe, other) == other


def test_the_overflow_of_a_timestamp_is_counted(probe: Probe):
    got = forwarded(probe, bytes([0x44, 8, 9, 0x20]) + b"full")
    assert got == bytes([0x44, 8, 9, 0x30]) + b"full"


@pytest.mark.parametrize("option, at", [
    (bytes([7, 7, 3]) + bytes(5), 22),            # pointer before the first slot
    (bytes([7, 2, 1, 1]), 21),                    # too short for a pointer
    (bytes([0x44, 8, 9, 0xf0]) + bytes(4), None),  # no room to count on (RFC 791)
    (bytes([0x5e, 1, 1, 1]), 21),                 # shorter than its own header
    (bytes([0x5e, 9, 1, 1]), 21),                 # longer than the header
    (bytes([0x5e, 0, 1, 1]), 21),
])
def test_a_bad_option_is_answered_with_a_parameter_problem(probe: Probe, option: bytes, at: int | None):
    """The pointer names the faulty byte, or the option's first or second byte."""
    packet = probe.udp4(options=option)
    data = probe.send(packet)
    got = probe.take(probe.a, "a parameter problem")
    assert (got[ICMP].type, got[ICMP].code) == (PARAMETER_PROBLEM, 0)
    assert 20 <= got[ICMP].ptr <= 23 if at is None else got[ICMP].ptr in (20, at)
    message = l3(got)[got[IP].ihl * 4:]
    assert checksum(message) == 0 and message[28:8 + len(data)] == data[20:], "4.3.3.5: unchanged"


# 5.3.13.4, 5.2.4.1, 5.2.2: source routes.


def source_routed(kind: int, hop: str, final: str = "") -> bytes:
    """The option of a packet to the router that must be forwarded to `hop`."""
    hops = b"".join(bytes(map(int, address.split("."))) for address in (hop, final) if address)
    return bytes([kind, 3 + len(hops), 4]) + hops


@pytest.mark.parametrize("kind", [0x83, 0x89])
@linux_differs("accepts no source routes by default")
def test_a_source_route_is_followed_and_the_way_recorded(probe: Probe, kind: int):
    data = probe.send(probe.udp4(dst=OWN[0], options=source_routed(kind, probe.b.ip4)))
    got = l3(probe.take(probe.b, "the packet on its way"))
    assert sum4(got) == got and got[8] == TTL - 1
    assert got[16:20] == bytes([10, 0, 2, 2]) and got[20:27] == bytes([kind, 7, 8, 10, 0, 2, 1])
    assert got[28:] == data[28:]


@linux_differs("accepts no source routes by default")
def test_own_addresses_in_a_source_route_are_passed_over(probe: Probe):
    """5.2.3: the pointer advances until it finds another router's address."""
    probe.send(probe.udp4(dst=OWN[0], options=source_routed(0x83, OWN[1], probe.b.ip4)))
    got = l3(probe.take(probe.b, "the packet on its way"))
    assert got[16:20] == bytes([10, 0, 2, 2]) and got[20:23] == bytes([0x83, 11, 12])


@linux_differs("accepts no source routes by default")
def test_a_loose_route_may_lead_through_other_routers_and_a_strict_one_may_not(probe: Probe):
    probe.route("10.25.0.0/16", probe.far[3])
    probe.send(probe.udp4(dst=OWN[0], options=source_routed(0x83, "10.25.0.9")))
    probe.take(probe.far[3], "the packet on its way")
    probe.send(probe.udp4(dst=OWN[0], options=source_routed(0x89, "10.25.0.9")))
    got = probe.take(probe.a, "a refusal")
    assert (got[ICMP].type, got[ICMP].code) == (UNREACHABLE, 5)


def test_two_source_routes_are_a_parameter_problem(probe: Probe):
    route = bytes([0x83, 7, 4, *map(int, probe.b.ip4.split("."))])
    probe.send(probe.udp4(dst=OWN[0], options=route + b"\1" + route))
    got = probe.take(probe.a, "a parameter problem")
    assert (got[ICMP].type, got[ICMP].ptr) == (PARAMETER_PROBLEM, 28)
