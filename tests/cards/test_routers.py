"""A whole router on cards: conf/ip-router.click, DPDK's driver on both, and the kernel's hosts at the ends of the cables.

    end eth0 --- n0 card0 |guest| card1 n1 --- far --- lo 10.77.0.1

Shows: pings and traceroutes cross it, and a route that is added while it runs.
"""

from collections.abc import Iterator

import pytest
from guest import MODELS, ROOT, Guest, Router
from net import Lab, Namespace, until

class Bed:
    """The guest's router, an end behind its first card, another router behind its second."""

    def __init__(self, lab: Lab):
        cables, self.end = lab.namespace("cables"), lab.namespace("end")
        self.far = cables
        self.router = Router(Guest(lab, MODELS["e1000e"], taps=cables, memory=1536))
        cables.ip(f"link set n0 netns {self.end.name}")
        address(self.end, "n0", "10.0.1.2/24")
        self.end.ip("route add default via 10.0.1.1")
        address(cables, "n1", "10.0.2.2/24")
        cables.ip("address add 10.77.0.1/24 dev lo")
        cables.sysctl(net__ipv4__ip_forward=1)
        self.router.prepare()

    def ping(self, to: str, count: int = 1) -> int:
        done = self.end.run("ping", "-q", "-c", str(count), "-i", "0.2", "-W", "5", to, ok=None, timeout=60)
        return int(done.out.split(" received")[0].split()[-1])


def address(space: Namespace, device: str, of: str) -> None:
    space.ip(f"link set {device} up")
    space.ip(f"address add {of} dev {device}")


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    with Lab() as lab:
        yield Bed(lab)


def test_the_static_router_forwards_over_cards(bed):
    a, b = bed.router.addresses
    with bed.router.running(ROOT / "conf/ip-router.click", f"DEV0={a} DEV1={b} --workers 1"):
        bed.far.ip("route replace 10.0.1.0/24 via 10.0.2.1")
        until(lambda: bed.ping("10.0.2.2") == 1, "a packet that crosses", timeout=120)
        assert bed.ping("10.0.2.2", 20) == 20
        bed.router.cli("set --socket /run/router.sock rt4.add '10.77.0.0/24 via 10.0.2.2 dev " + b + "'")
        until(lambda: bed.ping("10.77.0.1") == 1, "the far network", timeout=60)
        assert bed.ping("10.77.0.1", 20) == 20
        hops = bed.end.run("traceroute", "-n", "-q", "1", "-w", "5", "10.77.0.1", timeout=120).out
        assert hops.splitlines()[1].split()[1] == "10.0.1.1", hops
