"""Linux controls, Ashlar forwards: commands of `ip` in the router's namespace take effect on packets.

    client eth0 --- p0 |ports| p1 --- eth0 server       The addresses are those of topology.py. Ashlar runs in
                        |   |                           `ports`; its TAP interfaces eth0 and eth1 are in `routing`,
                       eth0 eth1  routing               where every command of a test is given.

Shows: addresses, static routes, several next hops by weight, next-hop objects, routes that refuse with the right ICMP
error, neighbours that age, move and disappear, links and addresses that disappear and return, a flushed table; and
recovery from lost netlink messages while packets pass.
"""

import random
import socket
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from net import Lab, Namespace, Process, until
from taps import Tap
from topology import ASHLAR, BITS, CLIENT, ROOT, SERVER, AshlarRouter
from traffic import FAMILY, Pings, answered

pytestmark = pytest.mark.ashlar

CONFIGURATION = ROOT / "conf/linux-router.click"
# Beyond the server, by routes that tests set.
BEYOND = {4: "198.51.100.0/24", 6: "2001:db8:100::/48"}
FAR = {4: "198.51.100.7", 6: "2001:db8:100::7"}


class Steered(AshlarRouter):
    """Ashlar with TAP interfaces in a namespace in which the test is the operator."""

    def __init__(self, ports: Namespace, routing: Namespace, **env: object):
        super().__init__(ports, workers=1)
        self.routing, self.env = routing, [f"{name}={value}" for name, value in env.items()]

    def definitions(self) -> list[str]:
        return ["DEV0=p0", "DEV1=p1"]

    def spawn(self, configuration: Path | str, *words: str) -> Process:
        return self.space.spawn("env", *self.env, ASHLAR, "run", str(configuration), "--socket", str(self.socket),
                                "--netns", self.routing.name, "--workers", str(self.workers), *words)

    def counts(self) -> dict[str, int]:
        """Counters of messages from the kernel."""
        lines = self.cli("show", "netlink").splitlines()
        return {name: int(value) for name, value in (line.split() for line in lines)}

    def table(self, version: int = 4) -> dict[str, str]:
        """Prefixes and their next hops."""
        lines = self.cli("show", "rt4.table" if version == 4 else "rt6.table").splitlines()
        return {words[0]: " ".join(words[1:]) for words in (line.split() for line in lines) if words}


class Bed:
    """Client, server, and the running router between them, addressed."""

    def __init__(self, lab: Lab, **env: object):
        self.lab = lab
        spaces = (lab.namespace(name) for name in ("client", "server", "ports", "routing"))
        self.client, self.server, self.ports, self.routing = spaces
        for number, (host, side) in enumerate(((self.client, CLIENT), (self.server, SERVER))):
            lab.link(host, "eth0", self.ports, f"p{number}")
            self.ports.sysctl(**{f"net__ipv6__conf__p{number}__disable_ipv6": 1})
            host.sysctl(net__ipv4__icmp_ratelimit=0, net__ipv6__icmp__ratelimit=0)
            for version in (4, 6):
                host.ip(f"address add {side.host[version]}/{BITS[version]} dev eth0" + " nodad" * (version == 6))
                host.ip(f"-{version} route add default via {side.router[version]}")
        self.router = Steered(self.ports, self.routing, **env)
        self.router.start(CONFIGURATION)
        self.routing.sysctl(net__ipv4__ip_forward=1, net__ipv6__conf__all__forwarding=1,
                            net__ipv4__icmp_ratelimit=0, net__ipv6__icmp__ratelimit=0)
        for side in (CLIENT, SERVER):
            self.routing.ip(f"link set {side.interface} up")
            for version in (4, 6):
                self.address(side, version)
        for version in (4, 6):
            until(lambda: self.crosses(SERVER.host[version]), f"packets of IPv{version} that cross", timeout=10)

    def address(self, side, version: int) -> None:
        nodad = " nodad" if version == 6 else ""
        self.routing.ip(f"address add {side.router[version]}/{BITS[version]} dev {side.interface}{nodad}")

    def crosses(self, target: str, wait: float = 1) -> bool:
        return self.client.run("ping", "-c1", f"-W{wait}", target, ok=None).status == 0

    def route(self, version: int, words: str) -> None:
        self.routing.ip(f"-{version} route {words}")

    def answer(self, target: str, wait: float = 20) -> str:
        """Ping's output for one request from the client; it ends with the answer, or the error."""
        return self.client.run("ping", "-c1", f"-W{wait:g}", target, ok=None).out


@pytest.fixture
def bed(lab: Lab) -> Iterator[Bed]:
    yield Bed(lab)


@pytest.mark.parametrize("version", [4, 6])
def test_addresses_make_a_router(bed, version):
    answered(bed.client, f"-{version}", SERVER.host[version])
    answered(bed.client, f"-{version}", "-s8000", SERVER.host[version])
    for side in (CLIENT, SERVER):
        answered(bed.client, f"-{version}", side.router[version])
    hops = bed.client.run("traceroute", f"-{version}", "-n", "-q1", "-w10", SERVER.host[version]).out
    seen = [line.split()[1] for line in hops.splitlines()[1:]]
    assert seen == [CLIENT.router[version], SERVER.host[version]], hops
    assert bed.router.counts()["lost"] == 0
    assert bed.router.stop() == 0


@pytest.mark.parametrize("version", [4, 6])
def test_static_routes_come_change_and_go(bed, version):
    bed.server.ip(f"address add {FAR[version]}/{32 if version == 4 else 128} dev lo")
    assert not bed.crosses(FAR[version])
    bed.route(version, f"add {BEYOND[version]} via {SERVER.host[version]}")
    until(lambda: bed.crosses(FAR[version]), "packets by the route")
    # A better route leads nowhere; after its removal the first route is used again.
    bed.route(version, f"add blackhole {BEYOND[version]} metric 1" if version == 6 else
              "add blackhole 198.51.100.0/25")
    until(lambda: not bed.crosses(FAR[version], 0.2), "the better route's effect")
    bed.route(version, f"del blackhole {BEYOND[version]} metric 1" if version == 6 else
              "del blackhole 198.51.100.0/25")
    until(lambda: bed.crosses(FAR[version]), "packets by the first route again")
    bed.route(version, f"del {BEYOND[version]} via {SERVER.host[version]}")
    until(lambda: not bed.crosses(FAR[version], 0.2), "the end of the route")


def test_ip4_goes_by_an_ip6_next_hop(bed):
    """The case of BGP on links without IPv4 addresses (RFC 8950)."""
    bed.server.ip(f"address add {FAR[4]}/32 dev lo")
    link_local = bed.server.run("ip", "-6", "-o", "address", "show", "dev", "eth0", "scope", "link").out.split()[3]
    bed.route(4, f"add {BEYOND[4]} via inet6 {link_local.split('/')[0]} dev eth1")
    until(lambda: bed.crosses(FAR[4]), "packets by the route")
    # The kernel would do it, too: it has nothing to do with these.
    before = forwarded(bed)
    answered(bed.client, FAR[4])
    assert forwarded(bed) == before


def forwarded(bed: Bed) -> int:
    """Number of IPv4 packets that the kernel has forwarded, or would have but for an error."""
    names, values = (line.split() for line in bed.routing.run("cat", "/proc/net/snmp").out.splitlines()[:2])
    return int(values[names.index("ForwDatagrams")])


@pytest.mark.parametrize("version", [4, 6])
def test_the_mtu_of_a_tap_interface_holds_for_forwarded_packets(bed, version):
    host = SERVER.host[version]
    answered(bed.client, f"-{version}", "-Mdo", "-s1400", host)
    bed.routing.ip("link set eth1 mtu 1300")
    words = ("ping", f"-{version}", "-c1", "-W1", "-s1400", host)
    until(lambda: "mtu" in bed.client.run(*words[:2], "-Mdo", *words[2:], ok=None).out.lower(), "the longer one's refusal")
    # The sender has learnt it and sends pieces that fit.
    until(lambda: bed.client.run(*words, ok=None).status == 0, "packets of the size that was told")
    bed.routing.ip("link set eth1 mtu 1500")


def next_hops(bed: Bed, version: int) -> dict[str, str]:
    """Three neighbours without hosts on the server's link, by address, with their MAC addresses."""
    base = SERVER.host[version][:-1]
    hops = {f"{base}{n}": f"02:00:00:00:00:{n}" for n in (11, 12, 13)}
    for address, mac in hops.items():
        bed.routing.ip(f"neigh replace {address} lladdr {mac} dev eth1 nud permanent")
    return hops


def shares(bed: Bed, version: int, hops: dict[str, str], flows: int = 1500) -> dict[str, float]:
    """Share of each next hop among flows from the client to further addresses."""
    tap = Tap(bed.server, outgoing=False)
    sender = bed.client.socket(FAMILY[version], socket.SOCK_DGRAM)
    source = random.Random(version)
    ours = {bytes.fromhex(mac.replace(":", "")): address for address, mac in hops.items()}
    for _ in range(flows):
        number = source.randrange(1, 250)
        target = f"198.51.100.{number}" if version == 4 else f"2001:db8:100::{number:x}"
        sender.sendto(b"flow", (target, source.randrange(1024, 65536)))
    frames = tap.collect(lambda got: sum(f.data[:6] in ours for f in got) >= flows, f"{flows} packets", timeout=10)
    tap.close()
    went = Counter(ours[frame.data[:6]] for frame in frames if frame.data[:6] in ours)
    return {address: went[address] / flows for address in hops}


def spread(bed: Bed, version: int, hops: dict[str, str], weights: list[int]) -> None:
    """Fails unless flows are spread by the weights."""
    seen = shares(bed, version, hops)
    wanted = [weight / sum(weights) for weight in weights]
    for (address, share), want in zip(seen.items(), wanted, strict=True):
        assert abs(share - want) < 0.06, f"{address}: {share:.3f} instead of {want:.3f} of the flows; {seen}"


@pytest.mark.parametrize("version", [4, 6])
def test_several_next_hops_share_the_flows_by_their_weights(bed, version):
    hops = next_hops(bed, version)
    a, b, c = hops
    bed.route(version, f"add {BEYOND[version]} nexthop via {a} weight 1 nexthop via {b} weight 3")
    until(lambda: BEYOND[version] in bed.router.table(version), "the route")
    spread(bed, version, hops, [1, 3, 0])
    bed.route(version, f"replace {BEYOND[version]} nexthop via {a} weight 1 nexthop via {c} weight 1")
    until(lambda: shares(bed, version, hops, 50)[b] == 0, "the new hops")
    spread(bed, version, hops, [1, 0, 1])


@pytest.mark.parametrize("version", [4, 6])
def test_next_hop_objects_carry_routes_and_change_under_them(bed, version):
    hops = next_hops(bed, version)
    for number, address in enumerate(hops, 1):
        bed.routing.ip(f"nexthop add id {number} via {address} dev eth1")
    bed.routing.ip("nexthop add id 10 group 1,2/2,6")
    bed.route(version, f"add {BEYOND[version]} nhid 10")
    until(lambda: BEYOND[version] in bed.router.table(version), "the route")
    spread(bed, version, hops, [2, 6, 0])
    bed.routing.ip("nexthop replace id 10 group 2,1/3,1")
    until(lambda: shares(bed, version, hops, 50)[list(hops)[0]] == 0, "the group's change")
    spread(bed, version, hops, [0, 1, 1])
    bed.routing.ip("nexthop del id 3")
    until(lambda: shares(bed, version, hops, 50)[list(hops)[1]] == 1, "the end of a member")
    bed.routing.ip("nexthop del id 10")
    until(lambda: BEYOND[version] not in bed.router.table(version), "the end of the route with its group")


def test_routes_that_refuse_answer_as_linux_does(bed):
    for words, kind, said in (("unreachable", 4, "Destination Host Unreachable"),
                              ("prohibit", 4, "Packet filtered"),
                              ("unreachable", 6, "Destination unreachable: No route"),
                              ("prohibit", 6, "Destination unreachable: Administratively prohibited")):
        bed.route(kind, f"add {words} {BEYOND[kind]}")
        until(lambda: "kernel" in bed.router.table(kind).get(BEYOND[kind], ""), "the route")
        heard = bed.answer(FAR[kind])
        assert f"From {CLIENT.router[kind]}" in heard and said in heard, heard
        bed.route(kind, f"del {words} {BEYOND[kind]}")
        until(lambda: BEYOND[kind] not in bed.router.table(kind), "its end")
    heard = bed.answer(FAR[4])
    assert "Destination Net Unreachable" in heard, heard
    assert "No route" in (heard := bed.answer(FAR[6])), heard
    for kind in (4, 6):
        bed.route(kind, f"add blackhole {BEYOND[kind]}")
        until(lambda: "blackhole" in bed.router.table(kind).get(BEYOND[kind], ""), "the blackhole")
        heard = bed.answer(FAR[kind], 1)
        assert "From" not in heard and "100% packet loss" in heard, heard


@pytest.mark.parametrize("version", [4, 6])
def test_a_host_that_could_go_straight_is_redirected_by_the_kernel(bed, version):
    """The gateway to a network is another address on the client's link (the client's own, to which nothing is sent)."""
    bed.client.ip("address add 10.0.1.9/24 dev eth0")
    link_local = bed.client.ip("-6 address show dev eth0 scope link").out.split("inet6 ")[1].split("/")[0]
    gateway = {4: "10.0.1.9", 6: link_local}[version]
    bed.route(version, f"add {BEYOND[version]} via {gateway} dev {CLIENT.interface}")
    until(lambda: gateway in bed.router.table(version).get(BEYOND[version], ""), "the route")
    tap, family = Tap(bed.client, outgoing=False), FAMILY[version]

    def redirects(frames: list) -> list[tuple[str, str]]:
        """Gateway and destination in redirects."""
        if version == 4:
            told = [f.l3 for f in frames if f.data[12:14] == b"\x08\0" and f.l3[9] == 1 and f.l3[20:22] == b"\5\1"]
            named = [(m[24:28], m[44:48]) for m in told]
        else:
            told = [f.l3 for f in frames if f.data[12:14] == b"\x86\xdd" and f.l3[6] == 58 and f.l3[40] == 137]
            named = [(m[48:64], m[64:80]) for m in told]
        return [tuple(socket.inet_ntop(family, address) for address in pair) for pair in named]

    came = []

    def redirected() -> bool:
        bed.answer(FAR[version], 1)
        came.extend(tap.take())
        return redirects(came) != []

    until(redirected, "a redirect", timeout=20)
    assert set(redirects(came)) == {(gateway, FAR[version])}
    # The packet itself comes back to the client, which is the gateway.
    number = 1 if version == 4 else 58
    assert any(frame.l3[9 if version == 4 else 6] == number and socket.inet_pton(family, FAR[version]) in frame.l3[:40] for frame in came)
    tap.close()


def test_no_host_outside_has_an_address_of_the_router(bed):
    """A source that Linux drops as a martian is dropped by name."""
    own, host = {CLIENT.router[4], SERVER.router[4]}, CLIENT.host[4]
    tap = Tap(bed.server, outgoing=False)
    with bed.client.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
        for source in (*sorted(own), host):
            ends = socket.inet_aton(source) + socket.inet_aton(SERVER.host[4])
            # The kernel completes lengths and checksum.
            header = bytes([0x45, 0, 0, 0, 0, 0, 0, 0, 64, socket.IPPROTO_UDP, 0, 0]) + ends
            raw.sendto(header + struct.pack("!HHHH", 9, 9, 8, 0), (SERVER.host[4], 0))

    def sources(frames: list) -> set[str]:
        return {socket.inet_ntoa(f.l3[12:16]) for f in frames if f.ethertype == 0x800 and f.l3[9] == socket.IPPROTO_UDP}

    came = tap.collect(lambda frames: host in sources(frames), "the host's packet")
    tap.close()
    assert not own & sources(came)
    drops = [line for line in bed.router.get("/metrics").decode().splitlines() if "own_source" in line]
    assert sum(int(line.split()[-1]) for line in drops) == 2, drops


@pytest.mark.parametrize("version", [4, 6])
def test_fragments_that_live_no_longer_are_answered_as_linux_does(bed, version):
    """Each fragment goes to the kernel unchanged. For IPv4 only the first one is answered (RFC 1812, 4.3.2.7), for IPv6
    every one.
    """
    def errors(frames: list) -> list[int]:
        """Offsets in bytes of the fragments that time-exceeded errors quote."""
        if version == 4:
            quoted = [f.data[42:62] for f in frames if f.data[12:14] == b"\x08\0" and f.data[23] == 1 and f.data[34] == 11]
            return sorted(8 * (int.from_bytes(header[6:8]) & 0x1fff) for header in quoted)
        quoted = [f.data[62:110] for f in frames if f.data[12:14] == b"\x86\xdd" and f.data[20] == 58 and f.data[54] == 3]
        return sorted(int.from_bytes(header[42:44]) & 0xfff8 for header in quoted if header[6] == 44)

    tap = Tap(bed.client, outgoing=False)
    bed.client.run("ping", f"-{version}", "-c1", "-W1", "-t1", "-s4000", SERVER.host[version], ok=None)
    answered(bed.client, CLIENT.router[version])
    assert errors(tap.take()) == ([0] if version == 4 else [0, 1448, 2896])
    tap.close()


@pytest.mark.parametrize("version", [4, 6])
def test_neighbours_age_move_and_die(bed, version):
    table = f"net__ipv{version}__neigh__eth1__"
    bed.routing.sysctl(**{f"{table}base_reachable_time_ms": 500, f"{table}delay_first_probe_time": 1,
                          f"{table}retrans_time_ms": 1000})
    target = SERVER.host[version]
    # Neighbours are confirmed again and again, and no packet is lost.
    pings = Pings(bed.client, target)
    until(lambda: len(pings.answered()) > 400, "four seconds of answers", timeout=60)
    sent, lost = pings.lost()
    assert lost == 0, f"{lost} of {sent} were lost"
    bed.routing.sysctl(**{f"{table}retrans_time_ms": 100})
    # A host with another Ethernet address says so when it speaks.
    bed.server.ip("link set eth0 address 02:00:00:00:00:99")
    bed.server.run("ping", "-c1", "-W15", SERVER.router[version], ok=None)
    until(lambda: bed.crosses(target), "the host at its new address", timeout=10)
    # A neighbour that is gone is detected: the client gets an error.
    bed.server.ip(f"address del {target}/{BITS[version]} dev eth0")
    wanted = "Host Unreachable" if version == 4 else "Address unreachable"
    until(lambda: wanted in bed.client.run("ping", "-c1", "-W10", target, ok=None).out, "the router's word", timeout=40)
    bed.server.ip(f"address add {target}/{BITS[version]} dev eth0" + " nodad" * (version == 6))
    bed.server.ip(f"-{version} route replace default via {SERVER.router[version]}")
    until(lambda: bed.crosses(target, 3), "the host that is back", timeout=15)


@pytest.mark.parametrize("version", [4, 6])
def test_links_and_addresses_go_and_come_back(bed, version):
    target = SERVER.host[version]
    answered(bed.client, target)
    bed.routing.ip("link set eth1 down")
    until(lambda: "Unreachable" in (heard := bed.answer(target, 1)) or "No route" in heard, "the refusal")
    bed.routing.ip("link set eth1 up")
    if version == 6:
        # Linux forgets addresses of IPv6 when a link goes down.
        bed.address(SERVER, 6)
    until(lambda: bed.crosses(target), "packets after the link came up", timeout=10)
    # The TAP interface loses its carrier with its device.
    bed.server.ip("link set eth0 down")
    until(lambda: "NO-CARRIER" in bed.routing.ip("link show eth1").out, "the loss of the carrier")
    bed.server.ip("link set eth0 up")
    if version == 6:
        bed.server.ip(f"address replace {target}/64 dev eth0 nodad")
        bed.server.ip(f"-6 route replace default via {SERVER.router[6]}")
    else:
        bed.server.ip(f"route replace default via {SERVER.router[4]}")
    until(lambda: bed.crosses(target), "packets after the carrier came back", timeout=10)
    # IPv4 routes that go with an address go without a word.
    bed.route(version, f"add {BEYOND[version]} via {target}")
    until(lambda: BEYOND[version] in bed.router.table(version), "the route")
    bed.routing.ip(f"address del {SERVER.router[version]}/{BITS[version]} dev eth1")
    if version == 4:
        until(lambda: BEYOND[4] not in bed.router.table(4), "the end of its routes")
    until(lambda: not bed.crosses(target, 0.2), "the end of the address")
    bed.address(SERVER, version)
    until(lambda: bed.crosses(target), "packets after the address came back", timeout=10)


def batch(bed: Bed, lines: list[str]) -> None:
    path = bed.lab.folder / "batch"
    path.write_text("\n".join(lines) + "\n")
    bed.lab.run("ip", "-n", bed.routing.name, "-force", "-batch", str(path), timeout=120)


def many(version: int, count: int) -> list[str]:
    if version == 4:
        return [f"20.{n >> 8}.{n & 255}.0/24" for n in range(count)]
    return [f"2001:db8:{n:x}::/48" for n in range(0x1000, 0x1000 + count)]


@pytest.mark.parametrize("version", [4, 6])
def test_a_table_is_filled_and_flushed(bed, version):
    before = bed.router.counts()[f"routes{version}"]
    prefixes = many(version, 5000)
    batch(bed, [f"route add {p} via {SERVER.host[version]} proto 42" for p in prefixes])
    until(lambda: bed.router.counts()[f"routes{version}"] == before + 5000, "all routes", timeout=20)
    bed.routing.flush(f"-{version} route flush proto 42")
    until(lambda: bed.router.counts()[f"routes{version}"] == before, "no more of them", timeout=20)
    assert bed.router.counts()["lost"] == 0


def test_lost_messages_are_made_up_for_while_packets_go_on(lab):
    # Room for a handful of messages: the kernel has to drop most of a burst.
    bed = Bed(lab, ASHLAR_NETLINK_BUFFER=2304)
    before = bed.router.counts()
    pings = Pings(bed.client, SERVER.host[4])
    prefixes = many(4, 20_000)
    there: set[str] = set()
    for kept in (prefixes, prefixes[::2], prefixes[:100], prefixes):
        gone = there - set(kept)
        batch(bed, [f"route replace {p} via {SERVER.host[4]} proto 42" for p in kept])
        batch(bed, [f"route del {p}" for p in sorted(gone)])
        there = set(kept)
        until(lambda: bed.router.counts()["routes4"] == before["routes4"] + len(kept)
              and bed.router.counts()["synced"] == 1, f"{len(kept)} routes", timeout=60)
        ours = set(bed.router.table())
        assert set(kept) <= ours and not ours & set(gone)
    # A fast router may have read all messages; a stopped one reads none.
    with bed.router.process.still():
        batch(bed, [f"route del {p}" for p in prefixes[:100]])
    until(lambda: bed.router.counts()["routes4"] == before["routes4"] + len(prefixes) - 100, "100 routes less", timeout=60)
    after = bed.router.counts()
    assert after["lost"] > 0 and after["resyncs"] > before["resyncs"], after
    sent, lost = pings.lost()
    assert sent > 20 and lost == 0, f"{lost} of {sent} were lost"
