"""Requirements of the RFCs on a network address translator (4787, 5382, 5508), here conf/ip-nat.click
(docs/conformance.md).

`ASHLAR_ROUTER=linux` runs the same cases against nftables: masquerade, dnat and hairpin by hand.
"""

import functools
from collections.abc import Iterator

import pytest
from conformance import CLIENT_MTU, ICMP_LEN, SERVER_MTU, TTL, Probe, l3, probe  # noqa: F401
from net import Lab
from scapy.compat import raw
from scapy.layers.inet import ICMP, IP, TCP, UDP, fragment
from scapy.packet import Packet, Raw
from topology import CLIENT, KIND, ROOT, SERVER, Network
from wire import End, Wire

CONFIGURATION = ROOT / "conf/ip-nat.click"
INSIDE, OUTSIDE = CLIENT.router[4], SERVER.router[4]
# A host behind the gateway.
WORLD = "198.51.100.7"
# Services: port of the outside address, host and port inside. The first one is for marked packets (wire.py).
SERVICES = (("udp", 9, "10.0.1.2", 9), ("tcp", 8080, "10.0.1.3", 80), ("udp", 5353, "10.0.1.3", 53))
ECHO_REPLY, UNREACHABLE, ECHO, TIME_EXCEEDED = 0, 3, 8, 11
HOST, PORT, NEEDFRAG = 1, 3, 4

RULES = f"""
table ip nat {{
    chain pre {{
        type nat hook prerouting priority dstnat;
        {"".join(f"ip daddr {OUTSIDE} {protocol} dport {port} dnat to {host}:{inside};" for protocol, port, host, inside in SERVICES)}
    }}
    chain post {{
        type nat hook postrouting priority srcnat;
        oifname {SERVER.interface} masquerade
        oifname {CLIENT.interface} ip saddr {CLIENT.net[4]} ct status dnat snat to {OUTSIDE}
    }}
}}
table ip filter {{
    chain in {{
        type filter hook input priority filter;
        iifname {SERVER.interface} meta l4proto {{ tcp, udp }} drop
    }}
}}
"""


class Translated(Wire):
    """The wire fixture, with marked packets that pass a translator."""

    def _head(self, end: End, flow: int) -> bytes:
        if end is self.client or not flow % 2:
            return super()._head(end, flow)
        packet = IP(src=end.ip4, dst=OUTSIDE) / UDP(sport=40000 + flow, dport=9, chksum=0) / bytes(16)
        return bytes(end.frame(packet))[:-16]


@pytest.fixture(scope="module")
def running() -> Iterator[Probe]:
    with Lab() as lab:
        network = Network(lab, client_mtu=CLIENT_MTU, server_mtu=SERVER_MTU, quiet=True)
        if KIND == "linux":
            network.router.start()
            space = network.router_space
            space.ip(f"route add default via {SERVER.host[4]}")
            space.sysctl(net__ipv4__icmp_ratelimit=0)
            (lab.folder / "rules").write_text(RULES)
            space.run("nft", "-f", str(lab.folder / "rules"))
        else:
            services = ",".join(f"{protocol} {port} - - {host} {inside} 0 0" for protocol, port, host, inside in SERVICES)
            network.router.start(CONFIGURATION, f"SERVICES={services}", f"GW1={SERVER.host[4]}")
        yield Probe(network, Translated)


def like(packet: Packet | bytes, **changes) -> bytes:
    """The packet after one hop, with other addresses and ports or another identifier, and recomputed checksums."""
    packet = IP(raw(packet))
    names = {"src": (IP, "src"), "dst": (IP, "dst"), "sport": (None, "sport"), "dport": (None, "dport"), "ident": (ICMP, "id")}
    for name, value in changes.items():
        layer, field = names[name]
        where = packet[layer] if layer else packet[UDP if UDP in packet else TCP]
        setattr(where, field, value)
    packet.ttl -= 1
    for layer in (IP, UDP, TCP, ICMP):
        if layer in packet:
            del packet[layer].chksum
    return raw(packet)


def tcp(src: str, dst: str, sport: int, dport: int, **fields) -> IP:
    return IP(src=src, dst=dst, ttl=TTL) / TCP(sport=sport, dport=dport, **fields) / b"tcp"


def udp(src: str, dst: str, sport: int, dport: int, load: bytes = b"udp", **fields) -> IP:
    return IP(src=src, dst=dst, ttl=TTL, **fields) / UDP(sport=sport, dport=dport) / load


def echo(src: str, dst: str, ident: int, kind: int = ECHO, load: bytes = b"ping", **fields) -> IP:
    return IP(src=src, dst=dst, ttl=TTL, **fields) / ICMP(type=kind, id=ident, seq=1) / load


def error(src: str, about: bytes, kind: int = UNREACHABLE, code: int = HOST, mtu: int = 0) -> IP:
    """An ICMP error that a station makes about a packet as it arrived there."""
    return IP(src=src, dst=IP(about).src, ttl=TTL) / ICMP(type=kind, code=code, nexthopmtu=mtu) / Raw(about)


def leaves(probe: Probe, packet: IP) -> bytes:
    """Sends a packet from inside; returns it as it arrived at the gateway."""
    probe.send(packet, probe.near_of(packet.src))
    return l3(probe.take(probe.b, f"{packet.summary()}"))


def told(probe: Probe, at, *, kind: int, code: int, src: str, about: bytes) -> None:
    """Checks that a station gets an ICMP error about a packet, which quotes the packet with valid checksums."""
    got = IP(l3(probe.take(at, f"ICMP {kind}/{code}")))
    message = raw(got[ICMP])
    again = IP(raw(got))
    for layer in (again, again[ICMP]):
        del layer.chksum
    assert raw(again) == raw(got), f"checksum\n{got.show(dump=True)}"
    assert (message[0], message[1], got.src) == (kind, code, src), got.show(dump=True)
    quote = message[ICMP_LEN:]
    # The TTL and the header's checksum may be those of the way.
    about = about[:len(quote)]
    alike = quote[:8] + about[8:9] + quote[9:10] + about[10:12] + quote[12:]
    assert len(quote) >= 28 and alike == about, f"quotation\n{quote.hex()}\n{about.hex()}"
    inner = IP(quote)
    del inner.chksum
    assert IP(raw(inner)).chksum == IP(quote).chksum, "the quoted header's checksum"


FLOWS = {
    "tcp": (functools.partial(tcp, sport=4001, dport=80), functools.partial(tcp, sport=80, dport=4001)),
    "udp": (functools.partial(udp, sport=4002, dport=53), functools.partial(udp, sport=53, dport=4002)),
    "ping": (functools.partial(echo, ident=4003), functools.partial(echo, ident=4003, kind=ECHO_REPLY)),
}


@pytest.mark.parametrize("kind", FLOWS)
def test_hosts_inside_reach_the_world_and_are_answered(probe: Probe, kind: str):
    """Ports and identifiers are kept if they are free (4787, REQ-3)."""
    there, back = FLOWS[kind]
    probe.crosses(there(src=probe.a.ip4, dst=WORLD), then=like(there(src=probe.a.ip4, dst=WORLD), src=OUTSIDE))
    reply = back(src=WORLD, dst=OUTSIDE)
    probe.crosses(reply, probe.b, probe.a, then=like(reply, dst=probe.a.ip4))


@pytest.mark.parametrize("kind", FLOWS)
def test_two_hosts_with_the_same_port_are_told_apart(probe: Probe, kind: str):
    there, back = FLOWS[kind]
    other = probe.near[4]
    seen = [IP(leaves(probe, there(src=station.ip4, dst="203.0.113.9"))) for station in (probe.a, other)]
    own = [packet[ICMP].id if ICMP in packet else packet.sport for packet in seen]
    assert own[0] != own[1] and all(packet.src == OUTSIDE for packet in seen)
    for station, number in zip((other, probe.a), reversed(own)):
        reply = back(src="203.0.113.9", dst=OUTSIDE, **{"ident" if kind == "ping" else "dport": number})
        first = FLOWS[kind][0](src=station.ip4, dst=WORLD)
        was = first[ICMP].id if kind == "ping" else first.sport
        probe.crosses(reply, probe.b, station, then=like(reply, dst=station.ip4, **{"ident" if kind == "ping" else "dport": was}))


def test_no_host_outside_can_open_a_flow(probe: Probe):
    """The filter depends on address and port of the peer (4787, REQ-8); unsolicited packets are dropped silently (5382,
    REQ-4).
    """
    leaves(probe, udp(probe.a.ip4, WORLD, 4100, 53))
    for packet in (udp(WORLD, OUTSIDE, 54, 4100), udp("198.51.100.8", OUTSIDE, 53, 4100),
                   tcp(WORLD, OUTSIDE, 53, 4100, flags="S"), echo(WORLD, OUTSIDE, 4100, ECHO_REPLY)):
        probe.swallows(packet, probe.b)
    # Nor by the address of a host inside.
    if KIND != "linux":
        probe.swallows(udp(WORLD, probe.a.ip4, 53, 4100), probe.b)


def test_a_connection_that_both_ends_open_is_one(probe: Probe):
    """5382, REQ-2: after an outbound SYN, a SYN of the peer is let in."""
    leaves(probe, tcp(probe.a.ip4, WORLD, 4200, 80, flags="S"))
    syn = tcp(WORLD, OUTSIDE, 80, 4200, flags="S")
    probe.crosses(syn, probe.b, probe.a, then=like(syn, dst=probe.a.ip4))


@pytest.mark.parametrize("order", ["as they were made", "the last one first"])
@pytest.mark.parametrize("kind", ["udp", "ping"])
def test_fragments_are_translated(probe: Probe, kind: str, order: str):
    """4787, REQ-14, in both directions. Packets are reassembled, and fragmented again if the next link requires it."""
    there = {"udp": functools.partial(udp, sport=4300, dport=53), "ping": functools.partial(echo, ident=4300)}[kind]
    back = {"udp": functools.partial(udp, sport=53, dport=4300), "ping": functools.partial(echo, ident=4300, kind=ECHO_REPLY)}[kind]
    load = bytes(range(251)) * 9
    way = ((there(src=probe.a.ip4, dst=WORLD, load=load, id=77), probe.a, probe.b, {"src": OUTSIDE}),
           (back(src=WORLD, dst=OUTSIDE, load=load, id=78), probe.b, probe.a, {"dst": probe.a.ip4}))
    for packet, frm, to, changes in way:
        pieces = fragment(IP(raw(packet)), 1000)
        assert len(pieces) == 3
        for piece in pieces if order == "as they were made" else reversed(pieces):
            probe.send(piece, frm)
        whole, length = bytearray(), None
        while length is None or len(whole) < length:
            got = IP(l3(probe.take(to, "a fragment")))
            assert got.len <= (SERVER_MTU if to is probe.b else CLIENT_MTU)
            data, at = raw(got.payload), got.frag * 8
            whole[at:at + len(data)] = data
            if not got.flags.MF:
                length = at + len(data)
        wanted = IP(like(packet, **changes))
        assert (got.src, got.dst, got.ttl) == (wanted.src, wanted.dst, wanted.ttl)
        assert bytes(whole) == raw(wanted.payload)


@pytest.mark.parametrize("kind", FLOWS)
def test_a_host_inside_sees_the_router_as_first_hop(probe: Probe, kind: str):
    """An error by the translator itself quotes the packet as the host sent it, and comes from the router's address on
    that link.
    """
    there, _ = FLOWS[kind]
    packet = there(src=probe.a.ip4, dst=WORLD)
    packet.ttl = 1
    probe.send(packet)
    told(probe, probe.a, kind=TIME_EXCEEDED, code=0, src=INSIDE, about=raw(packet))


@pytest.mark.parametrize("kind", FLOWS)
def test_an_expired_packet_from_outside_is_quoted_as_it_was_sent(probe: Probe, kind: str):
    there, back = FLOWS[kind]
    leaves(probe, there(src=probe.a.ip4, dst=WORLD))
    packet = back(src=WORLD, dst=OUTSIDE)
    packet.ttl = 1
    probe.send(packet, probe.b)
    told(probe, probe.b, kind=TIME_EXCEEDED, code=0, src=OUTSIDE, about=raw(packet))


def test_a_packet_that_is_too_long_is_quoted_as_it_was_sent(probe: Probe):
    packet = udp(probe.a.ip4, WORLD, 4400, 53, load=bytes(SERVER_MTU), flags="DF")
    probe.send(packet)
    told(probe, probe.a, kind=UNREACHABLE, code=NEEDFRAG, src=INSIDE, about=raw(packet))


@pytest.mark.parametrize("kind", FLOWS)
def test_errors_from_outside_must_be_about_sent_packets(probe: Probe, kind: str):
    """5508, REQ-4; the mapping stays (REQ-6; 4787, REQ-12)."""
    there, back = FLOWS[kind]
    sent = there(src=probe.a.ip4, dst=WORLD)
    out = leaves(probe, sent)
    for source in (WORLD, "203.0.113.77"):
        for what in ((UNREACHABLE, PORT), (UNREACHABLE, HOST), (TIME_EXCEEDED, 0)):
            probe.send(error(source, out, *what), probe.b)
            told(probe, probe.a, kind=what[0], code=what[1], src=source, about=raw(sent))
    reply = back(src=WORLD, dst=OUTSIDE)
    probe.crosses(reply, probe.b, probe.a, then=like(reply, dst=probe.a.ip4))


def test_errors_about_no_flow_or_with_a_wrong_checksum_are_dropped(probe: Probe):
    """5508, REQ-3 and REQ-4."""
    sent = udp(probe.a.ip4, WORLD, 4500, 53)
    out = leaves(probe, sent)
    stranger = raw(udp(OUTSIDE, WORLD, 4501, 53))
    probe.swallows(error("203.0.113.77", stranger), probe.b)
    bad = error("203.0.113.77", out)
    bad[ICMP].chksum = 0x1234
    probe.swallows(bad, probe.b)


@pytest.mark.parametrize("kind", FLOWS)
def test_errors_from_inside_hide_their_sender(probe: Probe, kind: str):
    """5508, REQ-5: errors by the host itself, and by a router before it, for example about a narrower link."""
    there, back = FLOWS[kind]
    leaves(probe, there(src=probe.a.ip4, dst=WORLD))
    reply = back(src=WORLD, dst=OUTSIDE)
    came = like(reply, dst=probe.a.ip4)
    for source, what in ((probe.a.ip4, (UNREACHABLE, PORT)), (probe.near[4].ip4, (UNREACHABLE, NEEDFRAG))):
        probe.crosses(reply, probe.b, probe.a, then=came)
        probe.send(error(source, came, *what, mtu=1400), probe.near_of(source))
        told(probe, probe.b, kind=what[0], code=what[1], src=OUTSIDE, about=raw(reply))


def test_services_inside_are_reached_by_the_outside_address(probe: Probe):
    host = probe.near[3]
    syn = tcp(WORLD, OUTSIDE, 4600, 8080, flags="S")
    probe.crosses(syn, probe.b, host, then=like(syn, dst=host.ip4, dport=80))
    answer = tcp(host.ip4, WORLD, 80, 4600, flags="SA")
    probe.crosses(answer, host, probe.b, then=like(answer, src=OUTSIDE, sport=8080))
    probe.send(error(host.ip4, like(syn, dst=host.ip4, dport=80), UNREACHABLE, PORT), host)
    told(probe, probe.b, kind=UNREACHABLE, code=PORT, src=OUTSIDE, about=raw(syn))


@pytest.mark.parametrize("station", [4, 3], ids=["another host", "the host itself"])
def test_hosts_inside_reach_services_by_the_outside_address(probe: Probe, station: int):
    """Hairpinning, 4787, REQ-9: the service sees the outside address as source, so replies pass the translator."""
    client, host = probe.near[station], probe.near[3]
    ask = udp(client.ip4, OUTSIDE, 4700, 5353)
    probe.send(ask, client)
    got = IP(l3(probe.take(host, "the question")))
    assert (got.src, got.dst, got.dport) == (OUTSIDE, host.ip4, 53), got.show(dump=True)
    reply = udp(host.ip4, OUTSIDE, 53, got.sport)
    probe.crosses(reply, host, client, then=like(reply, src=OUTSIDE, dst=client.ip4, sport=5353, dport=4700))
    # Errors find their way, too (5508, REQ-7).
    probe.send(error(host.ip4, raw(got), UNREACHABLE, PORT), host)
    told(probe, client, kind=UNREACHABLE, code=PORT, src=OUTSIDE, about=raw(ask))


def test_the_router_answers_pings_at_all_its_addresses(probe: Probe):
    for station, address in ((probe.a, INSIDE), (probe.a, OUTSIDE), (probe.b, OUTSIDE)):
        probe.send(echo(station.ip4, address, 4800), station)
        got = IP(l3(probe.take(station, f"the answer of {address}")))
        assert (got.src, got.dst, got[ICMP].type, got[ICMP].id) == (address, station.ip4, ECHO_REPLY, 4800), got.show(dump=True)


def test_a_host_inside_is_told_that_a_port_of_the_router_is_closed(probe: Probe):
    for address in (INSIDE, OUTSIDE):
        packet = udp(probe.a.ip4, address, 4900, 4901)
        probe.send(packet)
        told(probe, probe.a, kind=UNREACHABLE, code=PORT, src=address if KIND == "linux" else INSIDE, about=raw(packet))


def test_ipv6_is_routed_beside(probe: Probe):
    probe.crosses(probe.udp6())
    probe.crosses(probe.udp6(src=probe.b.ip6, dst=probe.a.ip6), probe.b, probe.a)
