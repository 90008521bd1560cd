"""MPLS with scapy as the other routers: the effect of each label table entry on stacks, TTLs and traffic classes, and
ICMP errors that quote labels.

The packets come from a file and go to files, so nothing here depends on time.
"""

import subprocess

import pytest
from topology import ASHLAR

from scapy.config import conf
conf.ipv6_enabled = True
from scapy.contrib.icmp_extensions import ICMPExtensionHeader, ICMPExtensionMPLS  # noqa: E402,F401
from scapy.contrib.mpls import MPLS  # noqa: E402
from scapy.layers.inet import ICMP, IP, UDP  # noqa: E402
from scapy.layers.inet6 import ICMPv6TimeExceeded, IPv6  # noqa: E402
from scapy.layers.l2 import Ether  # noqa: E402
from scapy.packet import Packet, Raw  # noqa: E402
from scapy.utils import rdpcap, wrpcap  # noqa: E402

pytestmark = pytest.mark.ashlar

PEER = "02:00:00:00:00:01"
US = "02:00:00:00:00:02"
TO4, TO6 = "10.9.0.1", "fd00:9::1"
ME4, ME6 = "10.0.1.1", "2001:db8::1"
ENTRIES = """
    100 swap 200 10.0.0.2 0,
    101 swap 300/200 10.0.0.2 0,
    102 pop 10.0.0.2 0,
    103 pop 1,
    104 swap 0 10.0.0.2 0,
    0 pop 1, 2 pop 1
"""
GRAPH = f"""
FromDevice(pcap:in.pcap) -> c :: Classifier(12/8847) -> Strip(14) -> mpls :: MPLSLookup({ENTRIES}, MODE $MODE, EXPIRED 2);
mpls[0] -> MPLSEtherEncap({US}, {PEER}) -> ToDevice(pcap:on.pcap);
mpls[1] -> version :: Classifier(0/40%f0, 0/60%f0);
version[0] -> EtherEncap(0x0800, {US}, {PEER}) -> here :: ToDevice(pcap:here.pcap);
version[1] -> EtherEncap(0x86dd, {US}, {PEER}) -> here;
mpls[2] -> p :: MPLSPayload;
p[0] -> ICMPError({ME4}, timeexceeded, MPLS true) -> EtherEncap(0x0800, {US}, {PEER}) -> errors :: ToDevice(pcap:errors.pcap);
p[1] -> ICMP6Error({ME6}, timeexceeded, MPLS true) -> EtherEncap(0x86dd, {US}, {PEER}) -> errors;
"""


def below(version: int, ttl: int = 50, dscp: int = 10) -> Packet:
    """An IP packet as bytes, with all lengths and checksums."""
    payload = UDP(sport=1, dport=2) / Raw(bytes(range(40)))
    if version == 4:
        return IP(bytes(IP(src=TO4, dst="10.8.0.1", ttl=ttl, tos=dscp << 2) / payload))
    return IPv6(bytes(IPv6(src=TO6, dst="fd00:8::1", hlim=ttl, tc=dscp << 2) / payload))


def stacked(labels: list[tuple[int, int, int]], packet: Packet) -> Packet:
    """The packet below labels, each with class and TTL, the outermost first."""
    for n, (label, cos, ttl) in reversed(list(enumerate(labels))):
        packet = MPLS(label=label, cos=cos, s=n + 1 == len(labels), ttl=ttl) / packet
    return packet


def run(folder, mode: str, packets: list[Packet]) -> dict[str, list[bytes]]:
    """Frames that left, by output."""
    frames = [Ether(dst=US, src=PEER, type=0x8847) / packet for packet in packets]
    wrpcap(f"{folder}/in.pcap", [Ether(bytes(frame)) for frame in frames])
    path = f"{folder}/mpls.click"
    with open(path, "w", encoding="ascii") as file:
        file.write(GRAPH)
    done = subprocess.run([ASHLAR, "run", path, f"MODE={mode}"], cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return {name: [frame.original for frame in rdpcap(f"{folder}/{name}.pcap")] for name in ("on", "here", "errors")}


def on_the_wire(packet: Packet) -> bytes:
    kind = 0x8847 if MPLS in packet else {4: 0x0800, 6: 0x86dd}[packet.version]
    return bytes(Ether(dst=PEER, src=US, type=kind) / packet)


@pytest.mark.parametrize("mode", ["uniform", "pipe"])
def test_labels_are_swapped_pushed_and_popped(tmp_path, mode):
    uniform = mode == "uniform"
    sent, on, here = [], [], []
    for version in (4, 6):
        packet = below(version)
        # When a label is popped, its time to live and class go into the packet: class 5 as a class selector.
        ended = below(version, ttl=8, dscp=40) if uniform else packet
        whole = below(version, ttl=9, dscp=40) if uniform else packet
        for stack, after in [
            ([(100, 5, 9)], [(200, 5, 8)]),
            ([(100, 1, 255), (77, 2, 3)], [(200, 1, 254), (77, 2, 3)]),
            ([(100, 1, 2), (77, 2, 3), (78, 0, 1)], [(200, 1, 1), (77, 2, 3), (78, 0, 1)]),
            ([(101, 6, 64)], [(300, 6, 63), (200, 6, 63)]),
            ([(102, 1, 20), (77, 2, 30)], [(77, 1, 19) if uniform else (77, 2, 30)]),
            ([(104, 3, 7)], [(0, 3, 6)]),
            ([(103, 4, 12), (100, 5, 9)], [(200, 4, 8) if uniform else (200, 5, 8)]),
        ]:
            sent.append(stacked(stack, packet))
            on.append(on_the_wire(stacked(after, packet)))
        sent.append(stacked([(102, 5, 9)], packet))
        on.append(on_the_wire(ended))
        # The router's own, also by explicit null: the time to live is lowered where the packet is looked up.
        for label in (103, 0 if version == 4 else 2):
            sent.append(stacked([(label, 5, 9)], packet))
            here.append(on_the_wire(whole))
        sent.append(stacked([(99, 5, 9)], packet))  # no entry
    left = run(tmp_path, mode, sent)
    assert left["on"] == on
    assert left["here"] == here
    assert not left["errors"]


def test_errors_quote_the_labels(tmp_path):
    stack = [(100, 5, 1), (77, 2, 3)]
    left = run(tmp_path, "uniform", [stacked(stack, below(version)) for version in (4, 6)])
    assert not left["on"] and not left["here"]
    errors = {frame[12:14]: frame[14:] for frame in left["errors"]}
    four, six = IP(errors[b"\x08\0"]), IPv6(errors[b"\x86\xdd"])
    assert (four.src, four.dst, four[ICMP].type, four[ICMP].code) == (ME4, TO4, 11, 0)
    assert (six.src, six.dst, six[ICMPv6TimeExceeded].code) == (ME6, TO6, 0)
    # RFC 4884: the length of what is quoted, in words of 4 and of 8 bytes, and the extension behind it.
    icmp4, icmp6 = errors[b"\x08\0"][20:], errors[b"\x86\xdd"][40:]
    for icmp, length, packet in ((icmp4, icmp4[5] * 4, below(4)), (icmp6, icmp6[4] * 8, below(6))):
        quoted = icmp[8:]
        assert length >= 128
        assert quoted[:len(bytes(packet))] == bytes(packet)
        extension = ICMPExtensionHeader(quoted[length:])
        assert extension.version == 2
        said = ICMPExtensionMPLS(quoted[length + 4:])
        assert (said.classnum, said.classtype) == (1, 1)
        assert said.len == 4 + 4 * len(stack)
        entries = [MPLS(bytes(said)[4 + 4 * n:8 + 4 * n]) for n in range(len(stack))]
        assert [(entry.label, entry.cos, entry.ttl) for entry in entries] == stack
