"""Two balancers that replace each other in front of the same boxes.

VrrpBed: both have the same front ports, and FRR's vrrpd decides which balancer owns each.

    lan eth0 --- bridge --- eth0 left, right eth2 --- bridge --- tags --- r1, r2
    wan eth0 --- bridge --- eth1

EcmpBed: each has its own front ports, and hosts reach both by two next hops.

    lan eth1, wan eth1 --- eth0, eth1 left  eth2 --- bridge --- eth0 r1, r2
    lan eth2, wan eth2 --- eth0, eth1 right eth2 ---
"""

import json
import signal

from daemons import Frr
from multistage import BACKEND, LAN, WAN, Bed
from multistage_vlan import CALM, VlanBed
from net import Lab, Namespace, until
from topology import AshlarRouter

NAMES = ("left", "right")
HEAD = """\
[balancer]
name = "{name}"
back = "eth2"
address = "10.255.0.{number}/24"
speaker = {speakers}
settle = "0s"
{more}
[[balancer.peer]]
name = "{other}"
ether = "02:00:00:00:00:f{other_number}"
address = "10.255.0.{other_number}"
"""
PORT = """
[[{kind}]]
name = "{name}"
addresses = ["{address}/24"]
{more}
"""
VIRTUAL = {"lan": 1, "wan": 2}
VRRP = """\
interface {name}
 vrrp {id}
 vrrp {id} advertisement-interval 300
 vrrp {id} priority {priority}
 vrrp {id} ip 10.0.{id}.1
"""


class TwoBed(Bed):
    """Two balancers whose back ports are at one switch."""

    def begin_with(self, lab: Lab, names: list[str]) -> None:
        self.lab, self.names, self.runs = lab, names, 0
        self.switch = lab.namespace("switch")
        self.switch.ip("link add br0 type bridge")
        self.switch.ip("link set br0 up")
        self.lan, self.wan = lab.namespace("lan"), lab.namespace("wan")
        self.boxes: dict[str, Namespace] = {}
        self.spaces: dict[str, Namespace] = {}
        self.routers: dict[str, AshlarRouter] = {}

    def balancers(self) -> list[AshlarRouter]:
        return list(self.routers.values())

    def balancer(self, number: int, ports: str, more: str = "") -> None:
        """A balancer's namespace, without cables to the outside, and its file."""
        name, other = NAMES[number - 1], NAMES[2 - number]
        backends = "".join(BACKEND.format(name=of, number=of[1:], more="") for of in self.names)
        head = HEAD.format(name=name, number=number, other=other, other_number=3 - number, speakers=json.dumps(self.names), more=more)
        (self.lab.folder / f"{name}.toml").write_text(head + ports + backends)
        space = self.spaces[name] = self.lab.namespace(name)
        self.cable(space, "eth2", f"up{number}")
        space.ip(f"link set eth2 address 02:00:00:00:00:f{number}")
        router = self.routers[name] = AshlarRouter(space, 1)
        router.socket = self.lab.folder / f"{name}.sock"

    def keep_kernel_out(self, space: Namespace) -> None:
        for device in ("eth0", "eth1", "eth2"):
            space.sysctl(**{f"net__ipv4__conf__{device}__arp_ignore": 8, f"net__ipv6__conf__{device}__disable_ipv6": 1})

    def came_in(self, name: str) -> list[int]:
        """Number of packets received at the two front ports of a balancer, by the kernel's counters."""
        links = [json.loads(self.spaces[name].ip(f"-s -j link show {port}").out)[0] for port in ("eth0", "eth1")]
        return [link["stats64"]["rx"]["packets"] for link in links]

    def lose(self, name: str) -> None:
        """Takes a balancer away at once, with all cables."""
        self.spaces[name].ip("link set eth2 down")
        for port in ("eth0", "eth1"):
            self.spaces[name].ip(f"link set {port} down")
        self.routers[name].process.signal(signal.SIGKILL)
        self.routers[name].process.wait()

    def tables_are_equal(self) -> bool:
        left, right = (router.cli("show", "lb.owners") for router in self.routers.values())
        return left == right


class VrrpBed(TwoBed, VlanBed):
    """Two balancers with the same front ports: the left one owns them, as long as it runs."""

    def __init__(self, lab: Lab, names: list[str]):
        self.begin_with(lab, names)
        self.tags, self.linux = lab.namespace("tags"), []
        self.controls = {name: lab.namespace(f"{name}-control") for name in NAMES}
        ports = "".join(PORT.format(kind="balancer.port", name=name, address=f"10.0.{id}.1", more=(
            f'device = "eth{id - 1}"\nvlan = 10{id}\nvrrp = {id}')) for name, id in VIRTUAL.items())
        self.sides: dict[str, Namespace] = {}
        for (name, id), host in zip(VIRTUAL.items(), (self.lan, self.wan)):
            side = self.sides[name] = lab.namespace(f"{name}-switch")
            side.ip("link add br0 type bridge")
            side.ip("link set br0 up")
            lab.link(host, "eth0", side, "host")
            side.ip("link set host master br0")
            host.ip(f"address add 10.0.{id}.9/24 dev eth0")
            host.ip(f"route add default via 10.0.{id}.1")
        for number, name in enumerate(NAMES, 1):
            self.balancer(number, ports, 'inside = "vlan"\n' + CALM)
            for port, side in zip(("eth0", "eth1"), self.sides.values()):
                lab.link(self.spaces[name], port, side, name)
                side.ip(f"link set {name} master br0")
            self.keep_kernel_out(self.spaces[name])
        self.file = lab.folder / "left.toml"
        for name in names:
            self.backend(name)
        self.start_tags()
        self.frr: dict[str, Frr] = {}

    def start(self) -> None:
        for name in NAMES:
            self.start_one(name)
        for number, name in enumerate(NAMES):
            control = self.controls[name]
            for port, id in VIRTUAL.items():
                until(lambda: f"{port}:" in control.ip("-o link").out, f"the control-plane interface {port}")
                control.ip(f"address add 10.0.{id}.{number + 2}/24 dev {port}")
                control.ip(f"link set {port} up")
                control.ip(f"link add vrrp-{port} link {port} type macvlan mode bridge")
                control.ip(f"link set vrrp-{port} address 00:00:5e:00:01:0{id}")
                control.ip(f"address add 10.0.{id}.1/32 dev vrrp-{port}")
                control.ip(f"link set vrrp-{port} up")
            text = "".join(VRRP.format(name=port, id=id, priority=200 - 100 * number) for port, id in VIRTUAL.items())
            self.frr[name] = Frr(control, {"vrrpd": text})
            self.frr[name].start()

    def start_one(self, name: str) -> None:
        self.routers[name].start(self.lab.folder / f"{name}.toml", "--netns", self.controls[name].name)

    def masters(self) -> dict[str, list[str]]:
        """The balancers that own each front port."""
        def has(router: AshlarRouter, number: int) -> bool:
            gate = router.elements("LinuxMaster")[2 * number]
            return router.cli("show", f"{gate}.master").strip() == "true"
        return {port: [name for name in NAMES if self.routers[name].process.running and has(self.routers[name], id - 1)]
                for port, id in VIRTUAL.items()}


class EcmpBed(TwoBed):
    """Two balancers with separate front ports: hosts and boxes have two next hops, and spread flows over them."""

    def __init__(self, lab: Lab, names: list[str]):
        self.begin_with(lab, names)
        for number, name in enumerate(NAMES, 1):
            def ports(kind: str, of: int) -> str:
                return "".join(PORT.format(kind=kind, name=f"{side}{of}", address=f"10.{at}.{of}.1", more=(
                    f'device = "eth{at - 1}"' if kind == "balancer.port" else "")) for at, side in enumerate(("lan", "wan"), 1))
            self.balancer(number, ports("balancer.peer.port", 3 - number) + ports("balancer.port", number))
            for at, host in enumerate((self.lan, self.wan), 1):
                lab.link(self.spaces[name], f"eth{at - 1}", host, f"eth{number}")
                host.ip(f"address add 10.{at}.{number}.9/24 dev eth{number}")
            self.keep_kernel_out(self.spaces[name])
        for at, (host, own, far) in enumerate(((self.lan, LAN, WAN), (self.wan, WAN, LAN)), 1):
            host.ip(f"address add {own}/32 dev lo")
            self.two_ways(host, f"{far} src {own}", [f"via 10.{at}.{number}.1" for number in (1, 2)])
            host.sysctl(net__ipv4__conf__all__ignore_routes_with_linkdown=1)
        self.file = lab.folder / "left.toml"
        for name in names:
            self.backend(name)
            for at, host in enumerate((LAN, WAN), 1):
                self.two_ways(self.boxes[name], host, [f"via 10.{at}.{number}.9" for number in (1, 2)])
            # A next hop that does not answer is found within some 3 s instead of 30 s.
            self.boxes[name].sysctl(
                net__ipv4__fib_multipath_use_neigh=1, net__ipv4__neigh__eth0__base_reachable_time_ms=1000,
                net__ipv4__neigh__eth0__delay_first_probe_time=1, net__ipv4__neigh__eth0__ucast_solicit=1,
                net__ipv4__neigh__eth0__mcast_solicit=1)

    def two_ways(self, space: Namespace, target: str, hops: list[str]) -> None:
        space.ip(f"route add {target} " + " ".join(f"nexthop {hop}" for hop in hops))
        space.sysctl(net__ipv4__fib_multipath_hash_policy=1)

    def start(self) -> None:
        for name in NAMES:
            self.routers[name].start(self.lab.folder / f"{name}.toml")
