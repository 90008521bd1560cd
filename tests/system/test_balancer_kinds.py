"""Balancers of the paper's three kinds: DTX-n with several back ports, and ODB after a graph; test_multistage.py tests
DTX.
"""

import json
import re
import socket
import time

import pytest
from multistage import LAN, WAN, Bed, Connection, ping, ready
from net import Lab, until
from topology import ASHLAR

pytestmark = [pytest.mark.ashlar, pytest.mark.long]

BACKS = ("eth2", "eth3", "eth4")


class ManyBacksBed(Bed):
    """Three back ports that the switch treats as one: it forwards no frames between them, and floods only to the first.
    """

    def describe(self, **more: str) -> str:
        return super().describe(**more).replace('back = "eth2"', f"back = {json.dumps(BACKS)}")

    def __init__(self, lab: Lab, names: list[str]):
        super().__init__(lab, names)
        for number, name in enumerate(BACKS):
            port = f"up{number}"
            if number:
                self.cable(self.space, name, port)
                self.space.sysctl(**{f"net__ipv4__conf__{name}__arp_ignore": 8, f"net__ipv6__conf__{name}__disable_ipv6": 1})
            flood = "" if number == 0 else "flood off mcast_flood off bcast_flood off"
            self.switch.run("bridge", "link", "set", "dev", port, "isolated", "on", *flood.split())

    def sent(self) -> list[int]:
        """Number of packets that each back port has sent, by the kernel's counter."""
        links = [json.loads(self.space.ip(f"-s -j link show {name}").out)[0] for name in BACKS]
        return [link["stats64"]["tx"]["packets"] for link in links]


def test_three_back_ports_share_the_flows_in_order(lab):
    bed = ManyBacksBed(lab, ["r1", "r2"])
    bed.start()
    ready(bed)
    before = bed.sent()
    load = bed.begin(3000, 4.0, flows=1500)
    time.sleep(max(load.begins - time.time(), 0) + 0.5)
    bed.balance("drain", "r1", "--within", "30s")
    until(lambda: bed.state("r1") == "drained", "r1 to be drained", timeout=30)
    outcome = load.end()
    assert (outcome.lost, outcome.reordered, outcome.twice) == (0, 0, 0)
    sent = [now - then for now, then in zip(bed.sent(), before)]
    assert all(count > outcome.sent / 5 for count in sent), sent
    connection = Connection(bed, 5000)
    assert connection.transfer(4 << 20)


def test_a_graph_decapsulates_and_filters_before_the_balancer(lab):
    """The lan arrives in two VLAN tags, and a filter precedes the wan: a user has modified the output of `ashlar balance
    text`.
    """
    bed = Bed(lab, ["r1", "r2"])
    # An access switch puts the host's frames into VLAN 20 of the provider's VLAN 10.
    access = lab.namespace("access")
    bed.lan.ip("link delete eth0")
    lab.link(bed.space, "eth0", access, "trunk")
    lab.link(bed.lan, "eth0", access, "host")
    for space, ports in ((access, ("trunk", "host")), (bed.space, ("eth0",))):
        for port in ports:
            space.sysctl(**{f"net__ipv4__conf__{port}__arp_ignore": 8, f"net__ipv6__conf__{port}__disable_ipv6": 1})
    bed.lan.ip("address add 10.0.1.9/24 dev eth0")
    bed.lan.ip("route add default via 10.0.1.1")
    # Two tags more have to fit.
    for space, port in ((access, "trunk"), (bed.space, "eth0")):
        space.ip(f"link set {port} mtu 1508")
    tags = lab.folder / "access.click"
    tags.write_text("FromDevice(host, PROMISC true) -> VLANEncap(VLAN_ID 20) -> VLANEncap(VLAN_ID 10) -> ToDevice(trunk);\n"
                    "FromDevice(trunk, PROMISC true) -> VLANDecap -> VLANDecap -> ToDevice(host);\n")
    access.spawn(ASHLAR, "run", str(tags), "--no-socket", "--workers", "1").wait_for("start", timeout=20)

    text = lab.run(ASHLAR, "balance", "text", str(bed.file)).out
    for old, new in (
            ("front0 :: ToDevice(eth0);", "front0 :: VLANEncap(VLAN_ID 20) -> VLANEncap(VLAN_ID 10) -> ToDevice(eth0);"),
            ("FromDevice(eth0) -> in0", "FromDevice(eth0, PROMISC true) -> tags :: Classifier(12/8100 14/000a%0fff 16/8100 18/0014%0fff, -);\n"
                                        "tags[1] -> Discard;\ntags[0] -> VLANDecap -> VLANDecap -> in0"),
            ("FromDevice(eth1) -> in1", "FromDevice(eth1) -> ip1 :: Classifier(12/0800, -);\n"
                                        "ip1[0] -> MarkIPHeader(14) -> filter :: IPFilter(deny dst udp port 7, allow all) -> in1")):
        assert old in text, text
        text = text.replace(old, new)
    bed.file = lab.folder / "edge.click"
    bed.file.write_text(text + "ip1[1] -> in1;\n")
    bed.start()
    ready(bed)
    outcome = bed.load(2000, 1.0)
    assert (outcome.lost, outcome.reordered, outcome.twice) == (0, 0, 0)
    connection = Connection(bed, 5000)
    assert connection.transfer(4 << 20)
    # The filter drops by its rule, and nothing else.
    sender = bed.wan.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for port in (7, 8):
        for _ in range(20):
            sender.sendto(b"x", (LAN, port))
    until(lambda: re.search(r"^ +0 +20 +deny", bed.router.cli("show", "filter.rules"), re.MULTILINE), "the packets to be dropped")
    until(lambda: ping(bed.wan, LAN) and ping(bed.lan, WAN), "packets to cross")
    until(lambda: all(state[1] == "up" for state in bed.states().values()), "all to be up")
