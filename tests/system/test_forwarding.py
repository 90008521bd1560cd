"""The router's main task with real packets: a Linux host on each side, IPv4 and IPv6, with all offloads of the hosts on.

Shows that packets of every size cross, fragments and TCP and UDP contents unchanged, both ways and
on both workers; that the router answers for itself, shows up in traceroutes, makes path MTU
discovery work, and accounts for every packet.
"""

import random
import re
import socket
import struct
from collections import defaultdict

import pytest
from net import Lab
from taps import SOL_PACKET, Frame, Tap, mac_of
from topology import CLIENT, CONFIGURATION, SERVER, Network
from traffic import ping, port, tcp_send, tcp_transfer, udp, udp_echo

both_versions = pytest.mark.parametrize("version", [4, 6], ids=["IPv4", "IPv6"])
both_ways = pytest.mark.parametrize("from_client", [True, False], ids=["from_client", "from_server"])
SIZES = [0, 1, 56, 1452, 1453, 1472, 1473, 4000, 8000, 65507]
ETHERTYPE = {4: 0x0800, 6: 0x86DD}
# Linux numbers that Python's socket module does not name.
UDP_SEGMENT, IP_MTU_DISCOVER, IP_PMTUDISC_DONT = 103, 10, 0
PACKET_VNET_HDR, VIRTIO_NEEDS_CSUM, VIRTIO_GSO_TCPV4 = 15, 1, 1


@both_versions
def test_pings_of_every_size_are_answered(network, version):
    for size in SIZES:
        ping(network, version, "server", size)


@both_versions
def test_the_router_answers_pings_to_all_its_addresses(network, version):
    for side in (CLIENT, SERVER):
        for size in (0, 1, 56, 1400, 1452):
            ping(network, version, side.router[version], size)


@both_versions
def test_the_router_answers_a_ping_in_fragments(network, version):
    """One byte more than an unfragmented packet holds; the answer is as long."""
    ping(network, version, CLIENT.router[version], 1473 if version == 4 else 1453)


def l3_without_hops(frame: Frame, version: int) -> bytes:
    """The packet without the fields that a router changes: TTL and checksum, or hop limit."""
    packet = bytearray(frame.l3)
    if version == 4:
        del packet[int.from_bytes(packet[2:4]):]
        packet[8], packet[10:12] = 0, b"\0\0"
    else:
        del packet[40 + int.from_bytes(packet[4:6]):]
        packet[7] = 0
    return bytes(packet)


def is_fragment(frame: Frame, version: int) -> bool:
    if frame.ethertype != ETHERTYPE[version]:
        return False
    return frame.l3[6] & 0x3F != 0 or frame.l3[7] != 0 if version == 4 else frame.l3[6] == 44


def hops_of(frame: Frame, version: int) -> int:
    return frame.l3[8 if version == 4 else 7]


def header_sum_is_right(packet: bytes) -> bool:
    total = sum(int.from_bytes(packet[at:at + 2]) for at in range(0, (packet[0] & 15) * 4, 2))
    return (total & 0xFFFF) + (total >> 16) in (0xFFFF, 0x1FFFE)


@both_versions
def test_fragments_cross_unchanged(network, version):
    """Captured on both sides and compared, in order; only TTL and checksum (hop limit) may differ."""
    taps = {"client": Tap(network.client), "server": Tap(network.server)}
    sizes = [1473, 4000, 8000, 65507]
    for size in sizes:
        ping(network, version, "server", size, count=1)
    # Fragments of a request have 1500 bytes but for the last; the host sends with these MTUs.
    payload = (1500 - (20 if version == 4 else 48)) // 8 * 8
    wanted = 2 * sum(-(-(size + 8) // payload) for size in sizes)
    seen = {name: tap.collect(lambda fs: sum(is_fragment(f, version) for f in fs) >= wanted, "fragments")
            for name, tap in taps.items()}
    for tap in taps.values():
        assert tap.lost() == 0
    for sender, receiver in (("client", "server"), ("server", "client")):
        sent = [f for f in seen[sender] if f.outgoing and is_fragment(f, version)]
        came = [f for f in seen[receiver] if not f.outgoing and is_fragment(f, version)]
        assert len(sent) == wanted // 2
        assert [l3_without_hops(f, version) for f in came] == [l3_without_hops(f, version) for f in sent]
        for before, after in zip(sent, came, strict=True):
            assert hops_of(after, version) == hops_of(before, version) - 1
            assert version == 6 or header_sum_is_right(after.l3)


@both_versions
@pytest.mark.parametrize("probe", ["", "-I", "-T"], ids=["UDP", "ICMP", "TCP"])
def test_traceroute_names_the_router(network, version, probe):
    done = network.client.run("traceroute", f"-{version}", "-n", "-q2", "-w10", *probe.split(), SERVER.host[version])
    hops = re.findall(r"^ *\d+ +(\S+) .*ms .*ms", done.out, re.MULTILINE)
    assert hops == [CLIENT.router[version], SERVER.host[version]], str(done)


@both_versions
@both_ways
def test_tcp_carries_megabytes_both_ways_at_once(network, version, from_client):
    """Frames are larger than the MTU and have unfinished checksums, as the hosts' offloads make them."""
    tap = Tap(network.client)
    tcp_transfer(network, version, 8_000_000, from_client=from_client)
    largest = max(len(frame.data) for frame in tap.take() if frame.outgoing)
    assert largest > 1514, "the client's segmentation offload was not exercised"


@pytest.mark.ashlar
@both_versions
@both_ways
def test_segments_leave_as_super_frames(network, version, from_client):
    """The sending host leaves segmentation to its device: the other host gets frames larger than the MTU."""
    tap = Tap(network.server if from_client else network.client)
    tcp_transfer(network, version, 8_000_000, from_client=from_client)
    assert max(len(frame.data) for frame in tap.take() if not frame.outgoing) > 1514


@pytest.mark.ashlar
@both_versions
@both_ways
def test_super_frames_cross_the_router_whole(network, version, from_client):
    """The router receives far fewer packets than there are segments."""
    port_name = "eth0" if from_client else "eth1"

    def received() -> int:
        copies = [copy for e in network.router.stats()["elements"] for copy in e["copies"]]
        devices = [copy["device"] for copy in copies if copy.get("device")]
        return sum(d["packets"] for d in devices if d["receives"] and d["port"] == port_name)

    network.meet()
    before = received()
    tcp_send(network, version, 16_000_000, from_client=from_client)
    segments = 16_000_000 // 1460
    assert 0 < received() - before < segments // 2


def super_frame(to: str, sequence: int, payload: bytes) -> bytes:
    """A virtio-net header and TCP to the server in one frame, whose checksum and segments are left to the device."""
    src, dst = (socket.inet_aton(side.host[4]) for side in (CLIENT, SERVER))
    ip = bytearray(struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40 + len(payload), 1, 0x4000, 64, 6, 0, src, dst))
    total = sum(int.from_bytes(ip[at:at + 2]) for at in range(0, 20, 2))
    ip[10:12] = (~((total & 0xFFFF) + (total >> 16)) & 0xFFFF).to_bytes(2)
    pseudo = sum(struct.unpack("!4H", src + dst)) + 6 + 20 + len(payload)
    pseudo = (pseudo & 0xFFFF) + (pseudo >> 16)
    tcp = struct.pack("!HHIIBBHHH", 20001, 20002, sequence, 0, 0x50, 0x10, 1000, pseudo, 0)
    header = struct.pack("=BBHHHH", VIRTIO_NEEDS_CSUM, VIRTIO_GSO_TCPV4, 54, 1400, 34, 16)
    return header + bytes.fromhex(to.replace(":", "")) + bytes(6) + b"\x08\x00" + ip + tcp + payload


@pytest.mark.ashlar
def test_super_frames_of_all_lengths_keep_their_bytes(network):
    """Up to the longest datagram of IPv4. They come faster than one by one, so the router receives several at a time."""
    network.meet()
    rng, payloads = random.Random(1), {}
    lengths = [2000, 65_495, 65_000, 1401, 65_495, *(rng.randrange(1401, 65_496) for _ in range(60)), 65_495, 3000]
    for length in lengths:
        payloads[sum(map(len, payloads.values()))] = rng.randbytes(length)
    tap, router = Tap(network.server, outgoing=False), mac_of(network.router_space, CLIENT.interface)
    with network.client.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as out:
        out.bind(("eth0", 0))
        out.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
        for sequence, payload in payloads.items():
            out.send(super_frame(router, sequence, payload))

    def parts(frames: list[Frame]) -> dict[int, bytes]:
        segments = [f.l3[:int.from_bytes(f.l3[2:4])] for f in frames if f.l3[20:24] == struct.pack("!HH", 20001, 20002)]
        return {int.from_bytes(segment[24:28]): segment[40:] for segment in segments}

    frames = tap.collect(lambda frames: sum(map(len, parts(frames).values())) >= sum(lengths), "payload")
    assert tap.lost() == 0
    assert b"".join(data for _, data in sorted(parts(frames).items())) == b"".join(payloads.values())


@both_versions
def test_udp_datagrams_arrive_as_they_were(network, version):
    largest = 1472 if version == 4 else 1452
    network.meet()
    udp_echo(network, version, [1 + 7 * n % largest for n in range(1000)])
    udp_echo(network, version, [0, 1, largest, largest + 1, 4000, 9000, 65507], window=1)


@both_versions
def test_datagrams_that_leave_segmentation_to_the_device_arrive(network, version):
    network.meet()
    near, far = udp(network.client, version), udp(network.server, version)
    near.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 1200)
    data = bytes(n % 251 for n in range(10 * 1200 + 7))
    near.sendto(data, (SERVER.host[version], port(far)))
    parts = [far.recv(1 << 16) for _ in range(11)]
    assert [len(p) for p in parts] == [1200] * 10 + [7]
    assert b"".join(parts) == data


def narrow(lab: Lab, narrow_side, mtu: int = 1400) -> Network:
    """A network with a narrow link that only the router knows: hosts that send too long packets must be told."""
    network = Network(lab)
    network.router_space.ip(f"link set {narrow_side.interface} mtu {mtu}")
    network.router.start()
    return network


@both_versions
@both_ways
def test_tcp_discovers_a_narrow_path(lab, version, from_client):
    network = narrow(lab, SERVER if from_client else CLIENT)
    sender, address = ((network.client, SERVER) if from_client else (network.server, CLIENT))
    tcp_send(network, version, 2_000_000, from_client=from_client)
    route = sender.run("ip", f"-{version}", "route", "get", address.host[version]).out
    assert "mtu 1400" in route, f"the sender did not learn the path's MTU: {route}"


@both_versions
def test_a_packet_too_large_for_a_link_is_answered_with_its_mtu(lab, version):
    network = narrow(lab, SERVER)
    done = network.client.run("ping", f"-{version}", "-c1", "-W3", "-Mdo", "-s1440", "server", ok=None)
    assert re.search(r"From router .*(Frag needed and DF set|Packet too big).*mtu ?= ?1400", done.out), done


def test_the_router_fragments_packets_that_may_be_fragmented(lab):
    network = narrow(lab, SERVER)
    tap = Tap(network.server)
    near, far = udp(network.client, 4), udp(network.server, 4)
    near.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT)
    data = bytes(n % 251 for n in range(1440))
    near.sendto(data, (SERVER.host[4], port(far)))
    assert far.recv(1 << 16) == data
    frames = tap.collect(lambda fs: sum(is_fragment(f, 4) for f in fs) >= 2, "fragments")
    fragments = [f for f in frames if not f.outgoing and is_fragment(f, 4)]
    assert [int.from_bytes(f.l3[2:4]) <= 1400 for f in fragments] == [True, True]
    assert all(header_sum_is_right(f.l3) for f in fragments)
    assert int.from_bytes(fragments[0].l3[2:4]) % 8 == 4, "all but the last hold a multiple of 8 bytes"


@both_versions
def test_flows_keep_their_order_on_all_workers(network, version):
    """Many flows at once; each arrives completely and in order."""
    network.meet()
    flows, rounds, window = 32, 300, 10
    senders = [udp(network.client, version) for _ in range(flows)]
    receiver = udp(network.server, version)
    target = (SERVER.host[version], port(receiver))
    arrived: dict[int, list[int]] = defaultdict(list)
    for first in range(0, rounds, window):
        for number in range(first, first + window):
            for sender in senders:
                sender.sendto(number.to_bytes(4), target)
        for _ in range(window * flows):
            data, source = receiver.recvfrom(64)
            arrived[source[1]].append(int.from_bytes(data))
    assert arrived == {port(sender): list(range(rounds)) for sender in senders}


@pytest.mark.ashlar
def test_both_workers_forward(network):
    for version in (4, 6):
        test_flows_keep_their_order_on_all_workers(network, version)
    forwarded = network.router.device_packets(receives=False)
    assert set(forwarded) == {0, 1}
    assert all(count > 1000 for count in forwarded.values()), forwarded


@pytest.mark.ashlar
def test_the_books_balance_at_the_end(lab):
    """Every packet was sent, dropped under a name, or is held."""
    network = Network(lab)
    network.router.start(CONFIGURATION, "--report")
    for version in (4, 6):
        ping(network, version, "server", 56, count=20)
        tcp_transfer(network, version, 1_000_000)
        network.client.run("ping", f"-{version}", "-c1", "-W1", "-t1", "server", ok=(0, 1))
        ping(network, version, "server", 8000)
    assert network.router.stop() == 0, network.router.process.said()
    network.router.process.wait_for("books:")
    books = re.search(r"books: in (\d+) = out (\d+) \+ drops (\d+) \+ held (\d+)", network.router.process.out)
    entered, left, dropped, held = map(int, books.groups())
    assert entered == left + dropped + held
    assert entered > 80
    assert "buffers are in use" not in network.router.process.out, network.router.process.out
