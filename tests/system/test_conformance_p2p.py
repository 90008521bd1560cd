"""A link with a prefix of 31 bits (RFC 3021): both addresses are hosts, and none is a broadcast address."""

from collections.abc import Iterator

import pytest
from conformance import Probe, probe, start  # noqa: F401
from net import Lab
from scapy.layers.inet import ICMP, IP
from scapy.layers.l2 import ARP, Ether
from topology import KIND
from wire import BROADCAST

# The other end is 10.0.2.2, which would be the network's own address.
OWN, LEN = "10.0.2.3", 31


@pytest.fixture(scope="module")
def running() -> Iterator[Probe]:
    with Lab() as lab:
        made = start(lab, f"IP1={OWN}", f"LEN1={LEN}")
        if KIND == "linux":
            made.network.router_space.ip("address delete 10.0.2.1/24 dev eth1")
            made.network.router_space.ip(f"address add {OWN}/{LEN} dev eth1")
        made.b.end.router4 = OWN
        made.crosses(made.udp4())
        made.crosses(made.udp6())
        made.crosses(made.udp4(src=made.b.ip4, dst=made.a.ip4), made.b, made.a)
        made.crosses(made.udp6(src=made.b.ip6, dst=made.a.ip6), made.b, made.a)
        yield made


def test_both_ends_of_a_link_of_two_are_hosts(probe: Probe):
    probe.crosses(probe.udp4())
    probe.crosses(probe.udp4(src=probe.b.ip4, dst=probe.a.ip4), frm=probe.b, to=probe.a)
    probe.error4(probe.udp4(src=probe.b.ip4, dst=probe.a.ip4, ttl=1), 11, 0, frm=probe.b)


def test_the_router_answers_on_a_link_of_two(probe: Probe):
    probe.b.end.send(Ether(src=probe.b.mac, dst=BROADCAST) / ARP(hwsrc=probe.b.mac, psrc=probe.b.ip4, pdst=OWN))
    assert probe.take(probe.b, "an ARP reply", lambda p: ARP in p and p[ARP].op == 2)[ARP].psrc == OWN
    probe.send(IP(src=probe.b.ip4, dst=OWN) / ICMP() / b"ping", probe.b)
    assert probe.take(probe.b, "an echo reply")[ICMP].type == 0


def test_addresses_beside_a_point_to_point_link_are_not_on_it(probe: Probe):
    for address in ("10.0.2.1", "10.0.2.4", "10.0.2.255"):
        probe.error4(probe.udp4(dst=address), 3, 0)
