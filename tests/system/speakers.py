"""Boxes with FRR behind a balancer, each front port a VLAN inside, and a neighbour outside that speaks OSPF and BGP.

    lan eth0 --- eth0 balancer eth2 --- bridge --- tags --- eth0, eth0.101, eth0.102 r1, r2
    wan eth0 --- eth1                          --- eth0 r3: Ashlar, whose namespace has FRR

The boxes are Linux as it is. A kernel without VLAN interfaces gives them none: `tags` is an Ashlar that takes the tags off,
and a box has a cable for each VLAN, with the name and the Ethernet address of a sub-interface.

r1 and r2 have the same configuration but for their own address behind the balancer: r1 speaks for the router, r2 is ready
to. They tell each other and r3 by iBGP what the neighbour told the router. `wan` is the neighbour: 172.16.1.0/24 is behind it by
OSPF, 172.16.2.0/24 by BGP, and it has no route of ours but by them.
"""

import json
import re

from daemons import Frr
from multistage import Bed, text
from net import Lab, Namespace
from topology import ASHLAR, ROOT

# A box's port to the switch and its sub-interfaces, one for each front port.
PORTS = ("eth0", "eth0.101", "eth0.102")
# Addresses of hosts behind the neighbour, by the protocol that tells of them.
BEYOND = {"ospf": "172.16.1.1", "bgp": "172.16.2.1"}

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
    """FRR's configuration on a box. A box that never speaks for the router hears the others by iBGP."""
    own = f"10.255.0.1{name[1:]}"
    others = [f"10.255.0.1{other[1:]}" for other in names if other != name]
    mesh = "\n".join(f" neighbor {other} remote-as 65001\n neighbor {other} timers connect 1" for other in others)
    if not speaks:
        return {"bgpd": f"router bgp 65001\n bgp router-id {own}\n timers bgp 3 30\n{mesh}\n"}
    return {"ospfd": ospf("eth0.102", "10.0.2.1", ["10.0.1.0/24", "10.0.2.0/24"], 0, "interface eth0.101\n ip ospf passive"),
            "bgpd": BGP.format(own=own, others=mesh)}


class SpeakerBed(Bed):
    """The namespaces, and FRR in them. `ashlar` names boxes that are Ashlar."""

    def __init__(self, lab: Lab, names: list[str], ashlar: tuple[str, ...] = (), **more: str):
        self.ashlar = ashlar
        self.controls: dict[str, Namespace] = {}
        self.tags = lab.namespace("tags")
        super().__init__(lab, names, **more)
        tags = lab.folder / "tags.click"
        tags.write_text("".join(self.tagged(name) for name in names if name not in ashlar))
        self.tags.spawn(ASHLAR, "run", str(tags), "--no-socket", "--workers", "1").wait_for("start", timeout=20)
        self.wan.ip("route delete default")
        for address in BEYOND.values():
            self.wan.ip(f"address add {address}/24 dev lo")
        self.neighbour = Frr(self.wan, {"ospfd": ospf("eth0", "10.0.2.9", ["10.0.2.0/24", "172.16.1.0/24"], 10),
                                        "bgpd": NEIGHBOUR_BGP})
        self.frr = {name: Frr(self.control(name), boxes_frr(names, name, name not in ashlar)) for name in names}

    def describe(self, **more: str) -> str:
        inside = 'inside = "vlan"\n' + more.pop("more", "")
        return text(self.names, more=inside, lan="vlan = 101", wan="vlan = 102", **more)

    def control(self, name: str) -> Namespace:
        """The namespace with a box's addresses and routes."""
        return self.controls.get(name, self.boxes.get(name))

    def backend(self, name: str) -> None:
        box = self.boxes[name] = self.lab.namespace(name)
        ether = f"02:00:00:00:00:0{name[1:]}"
        if name in self.ashlar:
            self.cable(box, "eth0", f"to-{name}")
            box.ip(f"link set eth0 address {ether}")
            box.sysctl(net__ipv4__conf__eth0__arp_ignore=8, net__ipv6__conf__eth0__disable_ipv6=1)
            box = self.controls[name] = self.lab.namespace(f"{name}-control")
            self.ashlar_box(name)
        else:
            self.cable(self.tags, name, f"to-{name}")
            self.tags.sysctl(**{f"net__ipv6__conf__{name}__disable_ipv6": 1})
            for port in PORTS:
                self.lab.link(box, port, self.tags, f"{name}-{port}")
                box.ip(f"link set {port} address {ether}")
                self.tags.sysctl(**{f"net/ipv6/conf/{name}-{port}/disable_ipv6": 1})
        self.set_up(name, box)

    def tagged(self, name: str) -> str:
        """Takes tags off and puts them on, for a box."""
        return "".join(f"FromDevice({a}, PROMISC true) -> ToDevice({b});\n" for port in PORTS
                       for trunk, access in [(port.replace("eth0", name), f"{name}-{port}")]
                       for a, b in ((trunk, access), (access, trunk)))

    def ashlar_box(self, name: str) -> None:
        """Ashlar as a box, which the Linux of its control namespace steers."""
        file = self.lab.folder / f"{name}.click"
        file.write_text((ROOT / "conf/linux-router.click").read_text()
                        + "rt4[4], rt6[4], us[2], exception[2] => port2 :: Port(eth0.102, eth0.102, 2) => rt4, rt6, exceptions;\n")
        self.boxes[name].spawn(ASHLAR, "run", str(file), "--netns", self.controls[name].name, "--socket",
                               str(self.lab.folder / f"{name}.sock"), "DEV1=eth0.101", "IF1=eth0.101").wait_for("start", timeout=20)

    def speak(self) -> None:
        """Starts all daemons."""
        for frr in (*self.frr.values(), self.neighbour):
            frr.start()

    def routes(self, space: Namespace) -> dict[str, str]:
        """Routes to what is behind the neighbour, by the protocol that told the box of them: the protocol, or nothing."""
        found = {}
        for kind, address in BEYOND.items():
            words = space.ip(f"route show to match {address}").out.split()
            found[kind] = words[words.index("proto") + 1] if "proto" in words else ""
        return found

    def adjacent(self) -> bool:
        """True if the neighbour's OSPF adjacency with the router is full."""
        return "Full" in json.dumps(self.neighbour.show("ip ospf neighbor"))

    def sessions(self) -> tuple:
        """How often the neighbour's sessions with the router have come up."""
        return self.neighbour.established(), self.changes()

    def changes(self) -> int:
        """How often the state of the neighbour's adjacency has changed."""
        detail = self.neighbour.vtysh("show ip ospf neighbor detail")
        found = re.search(r"(\d+) state changes", detail)
        return int(found[1]) if found else 0

    def crash(self, name: str) -> None:
        """The box is gone at once, with all it has to say."""
        self.switch.ip(f"link set to-{name} down")

    def revive(self, name: str) -> None:
        self.switch.ip(f"link set to-{name} up")

    def said(self) -> str:
        """What the daemons said, for messages."""
        return "\n".join(frr.said() for frr in (*self.frr.values(), self.neighbour))
