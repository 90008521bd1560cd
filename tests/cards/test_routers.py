"""A whole router on two cards with DPDK's driver, and Linux hosts at the ends of the cables: conf/ip-router.click, and
conf/linux-router.click with FRR in the guest and at the far end.

    end eth0 --- n0 card0 |guest| card1 n1 --- far --- lo 10.77.0.1, 10.88.0.1

Shows: pings and traceroutes cross it; a route can be added while it runs; routes of OSPF and BGP reach the router
through its namespace's kernel, and disappear when they are withdrawn.
"""

from collections.abc import Iterator

import frr
import pytest
from daemons import Frr
from guest import MODELS, ROOT, Guest, Router
from net import Lab, Namespace, until

OSPF = """interface {name}
 ip ospf area 0
 ip ospf hello-interval 1
 ip ospf dead-interval 40
 ip ospf network point-to-point
interface {other}
 ip ospf area 0
 ip ospf passive
router ospf
 ospf router-id {address}
"""
BGP = """router bgp {number}
 bgp router-id {address}
 no bgp ebgp-requires-policy
 neighbor {neighbour} remote-as {other}
 neighbor {neighbour} timers connect 1
 address-family ipv4 unicast
  network {network}
 exit-address-family
"""
FAR = {
    "zebra": "ip forwarding\n",
    "ospfd": OSPF.format(name="n1", other="lo", address="10.0.2.2"),
    "bgpd": BGP.format(number=65002, address="10.0.2.2", neighbour="10.0.2.1", other=65001, network="10.88.0.0/24"),
}
HERE = {
    "ospfd": OSPF.format(name="wan", other="lan", address="10.0.2.1"),
    "bgpd": BGP.format(number=65001, address="10.0.2.1", neighbour="10.0.2.2", other=65002, network="10.0.1.0/24"),
}


class Bed:
    """The guest's router, a host behind its first card, and another router behind its second card."""

    def __init__(self, lab: Lab):
        cables, self.end = lab.namespace("cables"), lab.namespace("end")
        self.far = cables
        self.router = Router(Guest(lab, MODELS["e1000e"], taps=cables, memory=1536))
        cables.ip(f"link set n0 netns {self.end.name}")
        address(self.end, "n0", "10.0.1.2/24")
        self.end.ip("route add default via 10.0.1.1")
        address(cables, "n1", "10.0.2.2/24")
        for loopback in ("10.77.0.1/24", "10.88.0.1/24"):
            cables.ip(f"address add {loopback} dev lo")
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


def test_frr_routes_over_cards(bed):
    guest, router = bed.router.guest, bed.router
    bed.far.ip("route del 10.0.1.0/24")
    guest.run("modprobe tun; modprobe af_packet; ip netns add routing; ip -n routing link set lo up")
    a, b = router.addresses
    with router.running(ROOT / "conf/linux-router.click", f"DEV0={a} IF0=lan DEV1={b} IF1=wan --netns routing --workers 1"):
        guest.run("ip netns exec routing sysctl -qw net.ipv4.ip_forward=1; for i in lan wan; do ip -n routing link set $i up; done; "
                  "ip -n routing address add 10.0.1.1/24 dev lan; ip -n routing address add 10.0.2.1/24 dev wan")
        until(lambda: bed.ping("10.0.2.1") == 1, "the router's answer to a ping", timeout=120)
        far, here = Frr(bed.far, FAR), frr.Frr(guest, "routing", **HERE)
        far.start()

        def table() -> str:
            return guest.get("/v1/handlers/rt4.table") or ""
        # 10.77.0.0/24 comes by OSPF; 10.88.0.0/24 by OSPF and BGP, of which BGP counts.
        until(lambda: "10.77.0." in table() and "proto bgp" in guest.run("ip -n routing route show 10.88.0.0/24"),
              "the routes of OSPF and BGP", timeout=180)
        until(lambda: "10.88.0.0/24" in table(), "BGP's route in the router", timeout=60)
        for to in ("10.77.0.1", "10.88.0.1"):
            until(lambda to=to: bed.ping(to) == 1, f"an answer of {to}", timeout=60)
            assert bed.ping(to, 20) == 20
        hops = bed.end.run("traceroute", "-n", "-q", "1", "-w", "5", "10.77.0.1", timeout=120).out
        assert hops.splitlines()[1].split()[1] == "10.0.1.1", hops
        # The card's driver has sent the packets that crossed.
        assert router.counters(1)["tx_good_packets"] > 40 and router.port(1)["driver"] == "dpdk net_e1000_em"
        far.configure("interface lo", "no ip ospf area 0")
        until(lambda: "10.77.0." not in table(), "the withdrawn route to go", timeout=120)
        assert bed.ping("10.88.0.1", 5) == 5
        here.end()
        far.kill()
