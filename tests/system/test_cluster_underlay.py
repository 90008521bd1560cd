"""Clusters without cables of their own: internal links over UDP or VXLAN on an IP network, or in shared memory; and
VXLAN with Linux at the other end.
"""

import itertools
import json
import re
import signal
import socket
import struct

import pytest
from net import Lab, until
from rb4 import NAMES, Rb4, host, number
from streams import Streams
from taps import Tap, mac_of
from test_cluster import tcp
from topology import ASHLAR
from traffic import answered

pytestmark = [pytest.mark.ashlar, pytest.mark.alone]
KEY = "000102030405060708090a0b0c0d0e0f"
# UDP port, and the MTU that carries 1500 bytes with the headers of IP, UDP and VXLAN, the frame's and the tag.
PORTS = {"udp": 49789, "vxlan": 4789}
MTU = {"udp": 1500 + 20 + 8 + 14 + 30, "vxlan": 1500 + 20 + 8 + 8 + 14 + 30}
STRANGER = "192.0.2.66"


def under(name: str) -> str:
    """A server's address on the underlay."""
    return f"192.0.2.{number(name)}"


class Underlay(Rb4):
    """Rb4 whose servers are stations of one IP network, together with a stranger."""

    def __init__(self, lab: Lab, over: str, **more):
        self.over = over
        super().__init__(lab, options=f'key = "{KEY}"\nheartbeat = "20ms"\ndead = "160ms"', **more)

    def join(self, rate):
        """Connects all servers to a bridge."""
        self.network, self.stranger = self.lab.namespace("net"), self.lab.namespace("stranger")
        self.network.ip("link add name bridge type bridge mcast_snooping 0")
        for name, space in (*self.servers.items(), ("stranger", self.stranger)):
            self.lab.link(space, "under", self.network, f"to-{name}")
            space.ip(f"link set under mtu {MTU[self.over]}")
            self.network.ip(f"link set to-{name} mtu {MTU[self.over]} master bridge")
        self.network.ip("link set bridge up")
        self.stranger.ip(f"address add {STRANGER}/24 dev under")
        self.stranger.run("ethtool", "-K", "under", "tx", "off")

    def inside(self, name):
        return ["under"]

    def describe(self, names=NAMES):
        super().describe(names)
        text = re.sub(r"(\[\[link\]\]\n)mtu = .*\n(.*\n)devices = .*", rf'\1\2over = "{self.over}"', self.file.read_text())
        port = "[server.underlay]\ndevice = \"under\"\naddress = \"{}/24\"\nmtu = {}\n"
        for name in names:
            head = f'socket = "{self.socket(name)}"\n'
            text = text.replace(head, head + port.format(under(name), MTU[self.over]))
        self.file.write_text(text)

    def drops(self, name: str) -> dict[str, int]:
        """Packets dropped by elements of the node and of the underlay, by element and name."""
        found = {}
        for element in self.elements(name):
            for at, reason in enumerate(element["drop_names"]):
                found[f"{element['name']} {reason}"] = sum(copy["drops"][at] for copy in element["copies"])
        return found


@pytest.fixture(scope="module", params=["udp", "vxlan"])
def bed(request):
    with Lab() as lab:
        made = Underlay(lab, request.param)
        made.start("--workers", "2")
        made.meet()
        yield made
        made.stop()


@pytest.mark.parametrize("version", [4, 6])
def test_tcp_between_all_pairs_arrives_as_it_was(bed, version):
    for a, b in itertools.permutations(NAMES, 2):
        tcp(bed, a, b, version)


def test_packets_of_1500_bytes_cross_whole_in_datagrams_that_must_not_be_cut(bed):
    tap = Tap(bed.network, "to-a")
    tap.take()
    for version, size in ((4, 1472), (6, 1452)):
        answered(bed.hosts["a"], f"-{version}", "-Mdo", f"-s{size}", host("c", version))
    frames = [f.data for f in tap.take() if f.ethertype == 0x800]
    assert max(len(f) for f in frames) == 14 + MTU[bed.over]
    assert {f[20:22] for f in frames} == {b"\x40\0"}, "whole, and must not be cut"
    heads = [struct.unpack("!HHHH", f[34:42]) for f in frames]
    assert {to for _, to, _, _ in heads} == {PORTS[bed.over]}
    assert all(start >= 49152 and size == len(f) - 34 for (start, _, size, _), f in zip(heads, frames, strict=True))
    if bed.over == "vxlan":
        assert {f[42:50] for f in frames} == {bytes([8, 0, 0, 0, 0, 0, 1, 0])}


def test_flows_have_source_ports_of_their_own(bed):
    tap = Tap(bed.network, "to-a")
    tap.take()
    ends = [bed.hosts["b"].socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(32)]
    for end in ends:
        end.sendto(b"x", (host("a", 4), 9))
    source = bytes(map(int, host("b", 4).split(".")))

    def carried(frames):
        """Frames that arrived at a; the answers of its host go the other way."""
        return [f.data for f in frames if f.outgoing and source in f.data[42:]]

    data = carried(tap.collect(lambda all_: len(carried(all_)) >= 28, "packets of most flows"))
    starts = {frame[34:36] for frame in data}
    # By chance a few of 32 may meet among 16384 ports.
    assert len(starts) > 24, starts
    copies = next(e["copies"] for e in bed.elements("a") if e["name"].startswith("under/FromDevice"))
    received = [copy["device"]["packets"] for copy in copies]
    assert len(received) == 2 and all(received), f"each worker receives what its flows bring: {received}"


def test_the_underlay_address_answers_and_strangers_get_no_further(bed):
    answered(bed.stranger, "-4", under("b"), count=1)
    before = bed.drops("b")
    end = bed.stranger.socket(socket.AF_INET, socket.SOCK_DGRAM)
    # A datagram for a link, one for another port, and one in fragments.
    for port, size in ((PORTS[bed.over], 100), (7, 100), (PORTS[bed.over], 3000)):
        end.sendto(bytes(size), (under("b"), port))
    raw = Tap(bed.stranger, "under")
    known = bytes.fromhex(mac_of(bed.servers["b"], "under").replace(":", ""))
    own = bytes.fromhex(raw.mac.replace(":", ""))
    # A frame like the cluster's own on a cable, and the same frame to this station.
    frame = bytes([0x3e, 0, 1, 0, 0, 0, 2, 0, 0, 0xff, 0xff, 0, 0x88, 0xb5]) + bytes(60)
    raw.socket.send(frame)
    raw.socket.send(known + own + frame[12:])

    def grown() -> dict[str, int]:
        return {name: count - before[name] for name, count in bed.drops("b").items() if count > before[name]}

    for name, count in (("from no_match", 2), ("under/here no_match", 2), ("under/kind no_match", 1)):
        until(lambda name=name, count=count: grown().get(name, 0) >= count, f"{count} packets to be dropped: {name}")
    seen = grown()
    assert not any(name.startswith("transit ") for name in seen), seen


def test_forged_and_replayed_frames_are_dropped_by_name(bed):
    tap, raw = Tap(bed.network, "to-a", outgoing=False), Tap(bed.stranger, "under")
    inside = 42 + (8 if bed.over == "vxlan" else 0)
    tap.take()
    answered(bed.hosts["a"], "-4", "-s200", host("b", 4))
    victim = bytes(map(int, under("b").split(".")))
    taken = [f.data for f in tap.take() if f.data[30:34] == victim and f.data[inside + 12:inside + 14] == b"\x88\xb5"]
    assert len(taken) >= 3
    own = bytes.fromhex(raw.mac.replace(":", ""))
    host_ = Tap(bed.hosts["b"], outgoing=False)
    host_.take()
    before = bed.drops("b")
    for frame in taken:
        frame = frame[:6] + own + frame[12:]
        raw.socket.send(frame)
        # Another output port, a later number, another target, another last byte.
        for at in (3, 37, 44 + 16, len(frame) - inside - 1):
            forged = bytearray(frame)
            forged[inside + at] ^= 1
            raw.socket.send(forged)

    def more(name: str) -> int:
        return bed.drops("b")[name] - before[name]

    until(lambda: more("transit replayed") >= len(taken), "replayed frames to be dropped")
    until(lambda: more("transit forged") >= 4 * len(taken), "forged frames to be dropped")
    answered(bed.hosts["c"], "-4", host("b", 4), count=1)
    payload = {f.data[14:] for f in host_.take() if f.ethertype == 0x800 and f.data[26:30] == bytes([10, 0, 1, 2])}
    assert not payload, "the host took what a stranger sent"


def test_a_file_that_renumbers_links_is_refused(bed):
    text = bed.file.read_text()
    first, rest = text.split("[[link]]", 1)
    *middle, last = rest.split("[[link]]")
    last, routes = last.split("[[route]]", 1)
    try:
        bed.file.write_text("[[link]]".join([first, last, *middle]) + "[[route]]" + routes)
        refused = bed.lab.run(ASHLAR, "cluster", "reload", str(bed.file), ok=(1,))
        assert "link `a-b` would change its number" in refused.err, str(refused)
    finally:
        bed.file.write_text(text)
    done = bed.lab.run(ASHLAR, "cluster", "reload", str(bed.file))
    assert done.out.count("uses it") == 4, str(done)
    until(lambda: bed.ping("a", host("c", 4), 4), "a to reach the host of c")


def test_the_other_servers_go_round_one_that_is_killed(lab):
    bed = Underlay(lab, "udp", rate="2Mbps")
    bed.start("--workers", "2")
    bed.meet((4,))
    streams = Streams(rate=600, size=200)
    streams.add("a-b", bed.hosts["a"], bed.hosts["b"], 4, host("b", 4))
    stream = streams.streams[0]
    with streams:
        streams.warm()
        until(lambda: bed.count("a", "enter.phase1") > 50, "traffic by third nodes", 20)
        bed.processes["d"].signal(signal.SIGKILL)
        bed.processes.pop("d").wait()
        until(lambda: all(re.search(r" d down", bed.show(name, "beat.links")) for name in "abc"), "all to know", 5)
        mark, full = len(stream.sent), bed.drops("a")["enter full"]
        until(lambda: len(stream.sent) > mark + 700, "traffic", 20)
    # On a busy machine the host sends bursts, of which links take no more than their rate.
    full = bed.drops("a")["enter full"] - full
    lost = {n for n in range(mark + 50, len(stream.sent)) if n not in stream.seen}
    assert len(lost) <= full, f"{streams.report()}\n{lab.run(ASHLAR, 'cluster', 'show', str(bed.file), ok=None).out}"
    said = json.loads(lab.run(ASHLAR, "cluster", "show", "--json", "-i", "0.2", "--server", "a", str(bed.file)).out)
    assert all(link["load"] > 0 for link in said[0]["links"]), said[0]
    bed.start(names=("d",))
    until(lambda: bed.ping("a", host("d", 4), 4), "d to come back", 20)
    bed.stop()


class Memory(Rb4):
    """Rb4 whose servers run on one machine and share memory (memif)."""

    def join(self, rate):
        pass

    def inside(self, name):
        return []

    def describe(self, names=NAMES):
        super().describe(names)
        text = self.file.read_text()
        for a, b in itertools.combinations(names, 2):
            memif = f"memif:role={{}},id=0,socket={self.lab.folder}/{a}-{b}.sock"
            ends = [memif.format(role) for role in ("server", "client")]
            text = text.replace(f'devices = ["to-{b}", "to-{a}"]', f"devices = {json.dumps(ends)}")
        self.file.write_text(text)


@pytest.mark.parametrize(("workers", "options"), [("1", ""), ("2", f'key = "{KEY}"\nheartbeat = "20ms"\ndead = "160ms"')], ids=["plain", "keyed"])
def test_servers_on_one_machine_share_memory(lab, workers, options):
    bed = Memory(lab, options=options)
    bed.start("--workers", workers)
    bed.meet()
    for a, b in itertools.permutations(NAMES, 2):
        tcp(bed, a, b, 4)
    for version, size in ((4, 1472), (6, 1452)):
        answered(bed.hosts["a"], f"-{version}", "-Mdo", f"-s{size}", host("c", version))
    # With two workers a cable has two queues, and either worker may find a frame, whatever its number is.
    transits = [next(e for e in bed.elements(name) if e["name"] == "transit") for name in NAMES]
    assert all(len(transit["copies"]) == int(workers) for transit in transits)
    for transit in transits:
        for reason in ("forged", "replayed"):
            at = transit["drop_names"].index(reason)
            assert sum(copy["drops"][at] for copy in transit["copies"]) == 0, transit
    bed.stop()


def test_linux_exchanges_frames_with_the_vxlan_classes(lab):
    """host - router - VXLAN device of Linux: the router is one end of the tunnel, and the host's frames are inside."""
    near, middle, far = lab.namespace("near"), lab.namespace("middle"), lab.namespace("far")
    lab.link(near, "eth0", middle, "inner")
    lab.link(middle, "outer", far, "eth0")
    for space, interface in ((middle, "inner"), (middle, "outer"), (near, "eth0"), (far, "eth0")):
        space.sysctl(**{f"net__ipv6__conf__{interface}__disable_ipv6": 1})
        space.run("ethtool", "-K", interface, "tx", "off", "tso", "off", "gso", "off", "gro", "off")
    for interface in ("inner", "outer"):
        middle.sysctl(**{f"net__ipv4__conf__{interface}__arp_ignore": 8})
    near.ip("link set eth0 mtu 1450")
    near.ip("address add 10.9.9.1/24 dev eth0")
    far.ip("address add 192.0.2.2/24 dev eth0")
    far.ip("link add vx type vxlan id 7 local 192.0.2.2 remote 192.0.2.1 dstport 4789")
    far.ip("address add 10.9.9.2/24 dev vx")
    far.ip("link set vx up")
    file = lab.folder / "tunnel.click"
    file.write_text("""
        FromDevice(inner, PROMISC true) -> VXLANEncap(7)
            -> UDPIPEncap(192.0.2.1, FLOW, 192.0.2.2, 4789, false, DF true)
            -> arp :: ARPQuerier(192.0.2.1/24, outer:eth) -> send :: ToDevice(outer);
        FromDevice(outer) -> HostEtherFilter(outer:eth) -> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800);
        kind[0] -> ARPResponder(192.0.2.1 outer:eth) -> send;
        kind[1] -> [1] arp;
        kind[2] -> Strip(14) -> CheckIPHeader -> IPClassifier(ip hl 5 and unfrag and dst udp port 4789)
            -> CheckUDPHeader -> Strip(28) -> VXLANDecap(7) -> ToDevice(inner);
    """)
    router = middle.spawn(ASHLAR, "run", "--workers", "1", "--no-socket", str(file))
    router.wait_for(" start ", timeout=30)
    until(lambda: near.run("ping", "-c1", "-W1", "10.9.9.2", ok=None).status == 0, "the other end of the tunnel", 10)
    answered(near, "-Mdo", "-s1422", "10.9.9.2")
    answered(far, "-Mdo", "-s1422", "10.9.9.1")
    assert router.stop() == 0
