"""Requirements of RFC 1812 on forwarding, 4.2, 5.2 and 5.3, case by case (docs/conformance.md)."""

import struct

import pytest
from conformance import SERVER_MTU, Probe, linux_differs, one_hop, patch4, probe, running, sum4  # noqa: F401
from scapy.compat import raw
from scapy.layers.inet import ICMP, IP, UDP, defragment
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from wire import BROADCAST

PARAMETER_PROBLEM, UNREACHABLE, TIME_EXCEEDED = 12, 3, 11
UNRECOGNISED = bytes([0x5e, 6]) + b"what"


def pointer(at: int) -> bytes:
    return bytes([at, 0, 0, 0])


# 5.2.2: the checks of every packet before any processing.


def test_a_wrong_header_checksum_is_dropped(probe: Probe):
    good = raw(probe.udp4())
    for bit in (1, 0x8000):
        probe.swallows(good[:10] + struct.pack("!H", struct.unpack("!H", good[10:12])[0] ^ bit) + good[12:])


def test_the_checksum_is_verified_before_anything_else(probe: Probe):
    """With a wrong checksum nothing in a packet is trusted: not its TTL, options, DF or address."""
    for packet in (probe.udp4(ttl=1), probe.udp4(options=b"\x07\x03\x03"), probe.udp4(dst="10.77.0.1"),
                   probe.udp4(size=SERVER_MTU + 1, flags="DF"),
                   IP(src=probe.a.ip4, dst="10.0.1.1") / ICMP() / b"ping"):
        good = raw(packet)
        probe.swallows(good[:10] + struct.pack("!H", struct.unpack("!H", good[10:12])[0] ^ 0x10) + good[12:])


@pytest.mark.parametrize("version", [0, 3, 5, 6, 15])
def test_another_version_is_dropped(probe: Probe, version: int):
    good = raw(probe.udp4())
    probe.swallows(patch4(good, (0, bytes([version << 4 | 5]))))


@pytest.mark.parametrize("words", range(5))
def test_a_header_length_below_20_bytes_is_dropped(probe: Probe, words: int):
    good = raw(probe.udp4())
    probe.swallows(patch4(good, (0, bytes([0x40 | words]))))
    # Right over 20 bytes too, for a router that sums a fixed length.
    probe.swallows(good[:0] + bytes([0x40 | words]) + sum4(b"\x45" + good[1:])[1:])


def test_a_header_longer_than_the_packet_is_dropped(probe: Probe):
    header = IP(src=probe.a.ip4, dst=probe.b.ip4, proto=17, ihl=15, len=20)
    probe.swallows(raw(header)[:20])
    probe.swallows(sum4(bytes([0x4f]) + raw(header)[1:20]) + bytes(20))


def test_a_total_length_below_the_header_is_dropped(probe: Probe):
    for length in (0, 19):
        probe.swallows(patch4(raw(probe.udp4()), (2, struct.pack("!H", length))))
    with_options = raw(probe.udp4(options=UNRECOGNISED + b"\1\1"))
    probe.swallows(patch4(with_options, (2, struct.pack("!H", 27))))


def test_a_frame_too_short_for_a_header_is_dropped(probe: Probe):
    good = raw(probe.udp4())
    for length in (0, 1, 8, 19):
        probe.swallows(good[:length])


@linux_differs("drops it and says nothing")
def test_a_truncated_packet_is_dropped_with_a_parameter_problem(probe: Probe):
    good = raw(probe.udp4(size=100))
    probe.error4(good[:-1], PARAMETER_PROBLEM, 0, rest=pointer(2))


def test_padding_of_the_link_is_not_forwarded(probe: Probe):
    for padding in (b"\0" * 18, b"\xff" * 300):
        good = raw(probe.udp4(load=b"x"))
        probe.send(good + padding)
        probe.gets(probe.b, one_hop(good))


# 4.2.2.3, 5.2.5, 5.3.2, 5.3.3: fields that are passed as they are.


def test_reserved_bits_are_neither_checked_nor_changed(probe: Probe):
    for tos, flags in ((1, 0), (0, 0x80), (0xff, 0x80)):
        probe.crosses(patch4(raw(probe.udp4()), (1, bytes([tos])), (6, bytes([flags]))))


def test_every_type_of_service_and_precedence_passes_unchanged(probe: Probe):
    for tos in range(256):
        probe.crosses(probe.udp4(tos=tos))


def test_every_protocol_passes_and_its_checksum_is_none_of_the_routers_business(probe: Probe):
    for protocol in (0, 1, 2, 4, 6, 17, 41, 47, 50, 89, 132, 253, 255):
        probe.crosses(IP(src=probe.a.ip4, dst=probe.b.ip4, proto=protocol, id=protocol) / Raw(b"\xaa" * 40))


def test_a_header_alone_is_forwarded(probe: Probe):
    probe.crosses(IP(src=probe.a.ip4, dst=probe.b.ip4, proto=253))


# 5.3.1: time to live.


def test_the_ttl_goes_down_by_one_and_the_checksum_stays_right(probe: Probe):
    for ttl in range(2, 256):
        probe.crosses(probe.udp4(ttl=ttl, id=ttl * 257 & 0xffff))


def test_the_checksum_is_right_at_the_edges_of_its_arithmetic(probe: Probe):
    """Headers with a checksum of 0x0000 or 0xfffe, and headers in which the update carries."""
    base = raw(probe.udp4(ttl=64, id=0))
    start = struct.unpack("!H", base[10:12])[0]
    for wanted in (0x0000, 0x0001, 0xfeff, 0xff00, 0xfffe, 0x00ff, 0x0100):
        # The sum falls as the identification grows; 0xffff stands for zero.
        ident = (start - wanted) % 0xffff
        packet = patch4(base, (4, struct.pack("!H", ident)))
        assert struct.unpack("!H", packet[10:12])[0] in (wanted, 0xffff if wanted == 0 else wanted)
        probe.crosses(packet)


@pytest.mark.parametrize("ttl", [0, 1])
def test_an_expired_packet_is_answered_with_time_exceeded(probe: Probe, ttl: int):
    probe.error4(probe.udp4(ttl=ttl), TIME_EXCEEDED, 0)


def test_a_packet_is_not_dropped_because_the_next_router_will(probe: Probe):
    probe.crosses(probe.udp4(ttl=2))


@pytest.mark.parametrize("ttl", [0, 1])
def test_the_ttl_of_packets_to_the_router_does_not_matter(probe: Probe, ttl: int):
    for address in ("10.0.1.1", "10.0.2.1"):
        probe.send(IP(src=probe.a.ip4, dst=address, ttl=ttl) / ICMP(id=ttl) / b"ping")
        reply = probe.take(probe.a, "an echo reply")
        assert reply[ICMP].type == 0 and reply[IP].ttl > 1


def test_an_expired_multicast_packet_is_not_answered(probe: Probe):
    probe.swallows(probe.udp4(dst="232.1.2.3", ttl=1), mac="01:00:5e:01:02:03")


# 4.2.2.7, 5.2.6: fragments.


def fragments(probe: Probe, packet: bytes, count: int) -> list[bytes]:
    """Sends a packet that is too long and receives its fragments, which must come in order."""
    probe.send(packet)
    got = [probe.take(probe.b, f"fragment {n}").original[14:] for n in range(count)]
    offset = struct.unpack("!H", packet[6:8])[0] & 0x1fff
    for n, piece in enumerate(got):
        header = (piece[0] & 15) * 4
        length, _, word = struct.unpack("!HHH", piece[2:8])
        last = n == count - 1
        assert length == len(piece) <= SERVER_MTU and sum4(piece) == piece, n
        assert word & 0x1fff == offset, "the offset goes on where the last one ended"
        assert bool(word & 0x2000) == (not last or bool(packet[6] & 0x20)), "more fragments"
        assert (length - header) % 8 == 0 or last
        assert piece[4:6] == packet[4:6] and piece[1] == packet[1] and piece[9] == packet[9]
        assert piece[8] == packet[8] - 1 and piece[12:20] == packet[12:20]
        offset += (length - header) // 8
    header = (packet[0] & 15) * 4
    assert b"".join(piece[(piece[0] & 15) * 4:] for piece in got) == packet[header:]
    return got


def test_long_packets_are_cut_into_as_few_fragments_as_possible_in_order(probe: Probe):
    for size in (SERVER_MTU + 1, 1800):
        pieces = fragments(probe, raw(probe.udp4(size=size)), 2)
        assert max(map(len, pieces)) > SERVER_MTU - 8


def test_a_packet_that_just_fits_is_not_fragmented(probe: Probe):
    probe.crosses(probe.udp4(size=SERVER_MTU))
    probe.crosses(probe.udp4(size=SERVER_MTU, flags="DF"))


def test_a_fragment_is_cut_again(probe: Probe):
    """All pieces of a middle fragment have "more fragments" set; of the last fragment, all but one."""
    packet = raw(probe.udp4(size=1796))
    fragments(probe, patch4(packet, (6, struct.pack("!H", 0x2000 | 100))), 2)
    fragments(probe, patch4(packet, (6, struct.pack("!H", 100))), 2)
    fragments(probe, patch4(packet, (6, struct.pack("!H", 0x2000))), 2)


@linux_differs("clears the reserved flag")
def test_reserved_bits_are_copied_into_fragments(probe: Probe):
    packet = patch4(raw(probe.udp4(size=1700)), (1, b"\xff"), (6, b"\x80"))
    assert all(piece[6] & 0x80 and piece[1] == 0xff for piece in fragments(probe, packet, 2))


def test_only_options_with_the_copied_flag_are_copied_into_fragments(probe: Probe):
    once, always = bytes([0x1e, 4, 1, 2]), bytes([0x9e, 4, 3, 4])
    first, second = fragments(probe, raw(probe.udp4(size=1700, options=once + always)), 2)
    assert first[20:28] == once + always
    options = second[20:(second[0] & 15) * 4]
    assert options.replace(b"\1", b"").rstrip(b"\0") == always or options == b"\1" * 4 + always


def test_fragments_are_forwarded_as_they_are_and_not_reassembled(probe: Probe):
    packet = raw(probe.udp4(size=1000))
    parts = [(0x2000, 320), (0x2000 | 40, 320), (80, 340)]
    # The last one first: nothing may wait for the others.
    for word, length in reversed(parts):
        start = 20 + (word & 0x1fff) * 8
        piece = packet[:20] + packet[start:start + length]
        probe.crosses(patch4(piece, (2, struct.pack("!H", len(piece))), (6, struct.pack("!H", word))))


def test_df_is_answered_with_the_mtu_of_the_next_link(probe: Probe):
    mtu = struct.pack("!HH", 0, SERVER_MTU)
    for size in (SERVER_MTU + 1, 1800):
        probe.error4(probe.udp4(size=size, flags="DF"), UNREACHABLE, 4, rest=mtu)


def test_df_alone_changes_nothing(probe: Probe):
    probe.crosses(probe.udp4(flags="DF"))


# 5.2.4: the next hop.


def test_a_directly_connected_host_is_reached_directly(probe: Probe):
    for n in (3, 4, 5):
        probe.crosses(probe.udp4(dst=probe.far[n].ip4), to=probe.far[n])
    probe.crosses(probe.udp4(src=probe.b.ip4, dst=probe.a.ip4), frm=probe.b, to=probe.a)


def test_without_a_route_the_network_is_unreachable(probe: Probe):
    probe.error4(probe.udp4(dst="10.77.0.1"), UNREACHABLE, 0)


def test_the_longest_prefix_wins_whatever_the_order(probe: Probe):
    routes = [("10.9.1.2/32", 5), ("10.9.0.0/16", 3), ("10.9.1.0/24", 4), ("10.9.1.128/25", 2)]
    for prefix, n in routes:
        probe.route(prefix, probe.far[n])
    for address, n in (("10.9.200.1", 3), ("10.9.1.1", 4), ("10.9.1.2", 5), ("10.9.1.3", 4), ("10.9.1.200", 2)):
        probe.crosses(probe.udp4(dst=address), to=probe.far[n])
    probe.unroute("10.9.1.2/32")
    probe.crosses(probe.udp4(dst="10.9.1.2"), to=probe.far[4])
    for prefix, _ in routes[1:]:
        probe.unroute(prefix)
    probe.error4(probe.udp4(dst="10.9.1.2"), UNREACHABLE, 0)


def test_the_default_route_takes_packets_that_no_other_route_takes(probe: Probe):
    probe.route("0.0.0.0/0", probe.far[3])
    probe.crosses(probe.udp4(dst="198.51.100.7"), to=probe.far[3])
    probe.crosses(probe.udp4())
    probe.unroute("0.0.0.0/0")
    probe.error4(probe.udp4(dst="198.51.100.7"), UNREACHABLE, 0)


def test_several_next_hops_share_the_load_and_keep_each_flow_together(probe: Probe):
    probe.route("10.10.0.0/16", probe.far[3], probe.far[4])
    used = probe.next_hops(lambda port: IP(src=probe.a.ip4, dst="10.10.1.1") / UDP(sport=1000, dport=port) / b"flow")
    assert used == {probe.far[3].mac, probe.far[4].mac}


def test_the_type_of_service_makes_no_destination_unreachable(probe: Probe):
    probe.route("10.11.0.0/16", probe.far[3])
    for tos in (2, 4, 8, 16, 30, 0xb8):
        probe.crosses(probe.udp4(dst="10.11.0.1", tos=tos), to=probe.far[3])


# 5.3.4, 5.3.5: broadcasts.


def test_a_link_layer_broadcast_is_not_forwarded(probe: Probe):
    probe.swallows(probe.udp4(), mac=BROADCAST)
    probe.swallows(probe.udp4(ttl=1), mac=BROADCAST)


def test_a_link_layer_multicast_is_not_forwarded(probe: Probe):
    probe.swallows(probe.udp4(), mac="01:00:5e:00:00:05")
    probe.swallows(probe.udp4(dst="10.77.0.1"), mac="33:33:00:00:00:01")


def test_a_frame_to_another_station_is_not_forwarded(probe: Probe):
    probe.swallows(probe.udp4(), mac=probe.near[3].mac)


def test_the_limited_broadcast_is_not_forwarded(probe: Probe):
    for mac in (BROADCAST, ""):
        probe.swallows(probe.udp4(dst="255.255.255.255"), mac=mac)
        probe.swallows(probe.udp4(dst="255.255.255.255", ttl=1), mac=mac)


def test_a_directed_broadcast_is_not_forwarded_to_its_link(probe: Probe):
    """RFC 2644 reverses the default of RFC 1812."""
    for address in ("10.0.2.255", "10.0.1.255"):
        probe.swallows(probe.udp4(dst=address))
    probe.swallows(probe.udp4(dst="10.0.1.255"), mac=BROADCAST)


def test_a_directed_broadcast_of_a_remote_network_is_forwarded_like_any_packet(probe: Probe):
    probe.route("10.12.0.0/16", probe.far[3])
    probe.crosses(probe.udp4(dst="10.12.255.255"), to=probe.far[3])


@linux_differs("knows no more the old form and looks for such a host")
def test_the_old_form_of_a_directed_broadcast_is_dropped(probe: Probe):
    for address in ("10.0.2.0", "10.0.1.0"):
        probe.swallows(probe.udp4(dst=address))


def test_multicast_is_not_forwarded(probe: Probe):
    for group, mac in (("224.0.0.1", "01:00:5e:00:00:01"), ("224.0.0.5", "01:00:5e:00:00:05"),
                       ("239.1.2.3", "01:00:5e:01:02:03"), ("232.1.1.1", "")):
        probe.swallows(probe.udp4(dst=group), mac=mac)


# 5.3.7, 4.2.2.11: martians.


@pytest.mark.parametrize("source", [
    "0.0.0.0", pytest.param("0.1.2.3", marks=linux_differs("forwards it")), "127.0.0.1", "127.255.0.9", "224.0.0.1",
    "239.9.9.9", pytest.param("240.0.0.1", marks=linux_differs("takes class E for unicast")), "255.255.255.255"])
def test_a_packet_from_no_host_is_dropped(probe: Probe, source: str):
    probe.swallows(probe.udp4(src=source))


@linux_differs("looks only at the broadcasts of the link by which it came")
def test_a_packet_from_a_broadcast_address_is_dropped(probe: Probe):
    for source in ("10.0.1.255", "10.0.2.255", "10.0.1.0", "10.0.2.0"):
        probe.swallows(probe.udp4(src=source))


@pytest.mark.parametrize("destination", [
    "0.0.0.0", pytest.param("0.1.2.3", marks=linux_differs("forwards it")), "127.0.0.1", "127.9.9.9",
    pytest.param("240.0.0.1", marks=linux_differs("takes class E for unicast")),
    pytest.param("255.255.255.254", marks=linux_differs("takes class E for unicast"))])
def test_a_packet_to_an_illegal_address_is_dropped(probe: Probe, destination: str):
    probe.route("0.0.0.0/0", probe.far[3])
    probe.swallows(probe.udp4(dst=destination))


def test_the_routers_own_address_as_source_is_not_believed(probe: Probe):
    for source in ("10.0.1.1", "10.0.2.1"):
        probe.swallows(probe.udp4(src=source))


def test_sources_are_not_compared_with_routes_unless_asked(probe: Probe):
    """5.3.8: the check must be available; by default it is off, and any source is accepted."""
    probe.route("10.13.0.0/16", probe.far[3])
    probe.crosses(probe.udp4(src="10.13.0.9"))


# The Ethernet type decides what a frame holds.


def test_ipv4_in_a_frame_of_another_type_is_not_forwarded(probe: Probe):
    packet = raw(probe.udp4())
    for kind in (0x86dd, 0x0806, 0x88b5, 0x8847):
        probe.a.end.send(Ether(src=probe.a.mac, dst=probe.a.end.router_mac, type=kind) / Raw(packet))
    probe.nothing()


def test_reassembled_fragments_are_the_packet(probe: Probe):
    """A receiver reassembles the original packet, even after two routers have fragmented it."""
    packet = raw(probe.udp4(size=1799))
    whole = defragment([IP(piece) for piece in fragments(probe, packet, 2)])
    assert raw(whole[0].payload) == packet[20:]
