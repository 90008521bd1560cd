"""VLANs as ports: a sub-interface accepts the tags in its name, and adds them to the frames that it sends."""

import pytest
from net import Lab
from scapy.compat import raw
from scapy.layers.l2 import ARP, Ether
from topology import CONFIGURATION, SERVER, Network
from wire import BROADCAST, End, Wire

pytestmark = pytest.mark.ashlar

Q, AD = 0x8100, 0x88a8
NAMES = {
    "eth1.100": [(Q, 100)],
    "eth1.s100": [(AD, 100)],
    "eth1.100.7": [(Q, 100), (Q, 7)],
    "eth1.s100.7": [(AD, 100), (Q, 7)],
}


def question(end: End, tags: list[tuple[int, int]], asker: str) -> bytes:
    """ARP request for the router's address, in a frame with these tags, outermost first."""
    frame = raw(Ether(src=end.mac, dst=BROADCAST) / ARP(op=1, hwsrc=end.mac, psrc=asker, pdst=end.router4))
    stack = b"".join(kind.to_bytes(2, "big") + number.to_bytes(2, "big") for kind, number in tags)
    return frame[:12] + stack + frame[12:]


@pytest.mark.parametrize("name", NAMES)
def test_a_vlan_answers_with_the_tags_that_it_takes(lab: Lab, name: str):
    network = Network(lab, quiet=True)
    network.router.start(CONFIGURATION, f"DEV1={name}")
    end = Wire(network).server
    # Frames with other tags are sent first: if the router accepted one, its answer would come first.
    for number, others in enumerate(tags for tags in NAMES.values() if tags != NAMES[name]):
        end.send(question(end, others, f"10.0.2.{100 + number}"))
    end.send(question(end, [], "10.0.2.110"))
    end.send(question(end, NAMES[name], SERVER.host[4]))
    answer = end.expect(lambda frame: frame.dst == end.mac).original
    head = question(end, NAMES[name], SERVER.host[4])
    assert answer[12:12 + 4 * len(NAMES[name])] == head[12:12 + 4 * len(NAMES[name])], answer.hex()
    told = ARP(answer[14 + 4 * len(NAMES[name]):])
    assert (told.op, told.psrc, told.pdst) == (2, SERVER.router[4], SERVER.host[4])


def test_a_stacked_vlan_carries_packets_beside_its_outer_one(lab: Lab):
    """`eth1.s100` and `eth1.s100.7` are two ports on one cable."""
    network = Network(lab, quiet=True)
    file = lab.folder / "both.click"
    file.write_text("FromDevice(eth1.s100) -> outer :: Counter -> ToDevice(eth1.s100);"
                    "FromDevice(eth1.s100.7) -> inner :: Counter -> ToDevice(eth1.s100.7);")
    network.router.start(file)
    end = Wire(network).server
    for tags, counter in (([(AD, 100)], "outer"), ([(AD, 100), (Q, 7)], "inner"), ([(AD, 100), (Q, 8)], "outer")):
        sent = question(end, tags, SERVER.host[4])
        before = int(network.router.cli("show", f"{counter}.count"))
        end.send(sent)
        got = end.expect(lambda frame: frame.original == sent)
        assert got.original == sent and int(network.router.cli("show", f"{counter}.count")) == before + 1
