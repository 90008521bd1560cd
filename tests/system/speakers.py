"""Boxes with FRR behind a balancer, where each front port is a VLAN inside, and an outside neighbour with OSPF and BGP.

    lan eth0 --- eth0 balancer eth2 --- bridge --- tags --- eth0, eth0.101, eth0.102 r1, r2
    wan eth0 --- eth1                          --- eth0 r3: Ashlar, whose namespace has FRR

The boxes and `tags` are those of multistage_vlan.py.

r1 and r2 have the same configuration but for their own address behind the balancer: r1 speaks for the router, r2 is ready
to. They tell each other and r3 by iBGP what the neighbour told the router. `wan` is the neighbour: 172.16.1.0/24 is behind it by
OSPF, 172.16.2.0/24 by BGP, and it has no route of ours but by them.
"""

import json
import re
import time

from daemons import Frr, wait_for
from multistage import ping
from multistage_vlan import VlanBed
from net import Lab, Namespace
from topology import ASHLAR, ROOT

# Addresses of hosts behind the neighbour, by the protocol that announces them.
BEYOND = {"ospf": "172.16.1.1", "bgp": "172.16.2.1"}

# Packets a second of a box that is not held to a rate.
FREE = 1_000_000

OSPF = """\
interface {interface}
 ip ospf hello-interval 1
 ip ospf dead-interval 10
 ip ospf priority {priority}
{more}
router ospf
 ospf router-id {router}
 timers throttle spf 10 100 1000
{networks}
"""
BGP = """\
router bgp 65001
 bgp router-id {own}
 no bgp ebgp-requires-policy
 timers bgp 3 30
 neighbor 10.0.2.9 remote-as 65002
 neighbor 10.0.2.9 passive
{others}
 address-family ipv4 unicast
  network 10.0.1.0/24
  redistribute ospf
  neighbor 10.0.2.9 prefix-list own out
 exit-address-family
ip prefix-list own permit 10.0.1.0/24
"""
NEIGHBOUR_BGP = """\
router bgp 65002
 bgp router-id 10.0.2.9
 no bgp ebgp-requires-policy
 timers bgp 1 5
 neighbor 10.0.2.1 remote-as 65001
 neighbor 10.0.2.1 timers connect 1
 address-family ipv4 unicast
  network 172.16.2.0/24
 exit-address-family
"""


def ospf(interface: str, router: str, networks: list[str], priority: int, more: str = "") -> str:
    lines = "\n".join(f" network {network} area 0" for network in networks)
    return OSPF.format(interface=interface, router=router, networks=lines, priority=priority, more=more)


def boxes_frr(names: list[str], name: str, speaks: bool) -> dict[str, str]:
    """FRR's configuration on a box. A box that never speaks for the router learns routes from the others by iBGP."""
    own = f"10.255.0.1{name[1:]}"
    others = [f"10.255.0.1{other[1:]}" for other in names if other != name]
    mesh = "\n".join(f" neighbor {other} remote-as 65001\n neighbor {other} timers connect 1" for other in others)
    if not speaks:
        return {"bgpd": f"router bgp 65001\n bgp router-id {own}\n timers bgp 3 30\n{mesh}\n"}
    return {"ospfd": ospf("eth0.102", "10.0.2.1", ["10.0.1.0/24", "10.0.2.0/24"], 0, "interface eth0.101\n ip ospf passive"),
            "bgpd": BGP.format(own=own, others=mesh)}


class SpeakerBed(VlanBed):
    """The namespaces, and FRR in them. `ashlar` names boxes that are Ashlar."""

    def __init__(self, lab: Lab, names: list[str], ashlar: tuple[str, ...] = (), **more: str):
        self.ashlar = ashlar
        self.controls: dict[str, Namespace] = {}
        super().__init__(lab, names, **more)
        self.wan.ip("route delete default")
        for address in BEYOND.values():
            self.wan.ip(f"address add {address}/24 dev lo")
        self.neighbour = Frr(self.wan, {"ospfd": ospf("eth0", "10.0.2.9", ["10.0.2.0/24", "172.16.1.0/24"], 10),
                                        "bgpd": NEIGHBOUR_BGP})
        self.frr = {name: Frr(self.control(name), boxes_frr(names, name, name not in ashlar)) for name in names}

    def control(self, name: str) -> Namespace:
        """The namespace with a box's addresses and routes."""
        return self.controls.get(name, self.boxes.get(name))

    def backend(self, name: str) -> None:
        if name not in self.ashlar:
            return super().backend(name)
        box = self.boxes[name] = self.lab.namespace(name)
        self.cable(box, "eth0", f"to-{name}")
        box.ip(f"link set eth0 address 02:00:00:00:00:0{name[1:]}")
        box.sysctl(net__ipv4__conf__eth0__arp_ignore=8, net__ipv6__conf__eth0__disable_ipv6=1)
        self.controls[name] = self.lab.namespace(f"{name}-control")
        self.ashlar_box(name)
        self.set_up(name, self.controls[name])

    def ashlar_box(self, name: str) -> None:
        """Ashlar as a box, controlled by the Linux of its control namespace. Packets from the lan are limited to a rate.
        """
        file = self.lab.folder / f"{name}.click"
        text = (ROOT / "conf/linux-router.click").read_text()
        ports = "=> port1 :: Port($IF1, $DEV1, 1) => rt4,"
        assert ports in text
        text = text.replace(ports, f"=> port1 :: Port($IF1, $DEV1, 1) => hold :: RatedSplitter({FREE}),")
        file.write_text(text + "hold -> rt4;\nhold[1] -> Discard;\nrt4[4], rt6[4], us[2], exception[2] "
                        "=> port2 :: Port(eth0.102, eth0.102, 2) => rt4, rt6, exceptions;\n")
        self.boxes[name].spawn(ASHLAR, "run", str(file), "--netns", self.controls[name].name, "--socket",
                               str(self.lab.folder / f"{name}.sock"), "DEV1=eth0.101", "IF1=eth0.101").wait_for("start", timeout=20)

    def limit(self, name: str, packets: int) -> None:
        if name not in self.ashlar:
            return super().limit(name, packets)
        self.lab.run(ASHLAR, "set", "--socket", str(self.lab.folder / f"{name}.sock"), "hold.rate", str(packets))

    def unlimit(self, name: str) -> None:
        if name not in self.ashlar:
            return super().unlimit(name)
        self.limit(name, FREE)

    def speak(self) -> None:
        """Starts all daemons."""
        for frr in (*self.frr.values(), self.neighbour):
            frr.start()

    def routes(self, space: Namespace) -> dict[str, str]:
        """Routes to networks behind the neighbour, by the protocol from which the box learnt them; empty if there is
        none.
        """
        found = {}
        for kind, address in BEYOND.items():
            words = space.ip(f"route show to match {address}").out.split()
            found[kind] = words[words.index("proto") + 1] if "proto" in words else ""
        return found

    def adjacent(self) -> bool:
        """True if the neighbour's OSPF adjacency with the router is full."""
        return "Full" in json.dumps(self.neighbour.show("ip ospf neighbor"))

    def sessions(self) -> tuple:
        """Number of times that the neighbour's sessions with the router were established."""
        return self.neighbour.established(), self.changes()

    def changes(self) -> int:
        """Number of changes of the neighbour's adjacency."""
        detail = self.neighbour.vtysh("show ip ospf neighbor detail")
        found = re.search(r"(\d+) state changes", detail)
        return int(found[1]) if found else 0

    def said(self) -> str:
        """Output of the daemons, for messages."""
        return "\n".join(frr.said() for frr in (*self.frr.values(), self.neighbour))


def crosses(bed: SpeakerBed) -> bool:
    """True if packets reach all networks behind the neighbour, and answers come back."""
    return all(ping(bed.lan, address) for address in BEYOND.values())


def converge(bed: SpeakerBed, speaker: str) -> float:
    """Waits until the neighbour and a speaking box know each other; returns the seconds it took."""
    started = time.monotonic()
    seen = bed.said
    wait_for(lambda: bed.routes(bed.control(speaker)) == {"ospf": "ospf", "bgp": "bgp"}, "the speaker to have routes", seen, 60)
    for name in (name for name in bed.names if bed.state(name) == "up"):
        wait_for(lambda: all(bed.routes(bed.control(name)).values()), f"{name} to have routes", seen, 30)
    wait_for(lambda: "10.0.2.1" in bed.neighbour.established() and bed.adjacent(), "the neighbour's sessions", seen, 60)
    wait_for(lambda: crosses(bed), "packets to cross", seen, 20)
    return time.monotonic() - started
