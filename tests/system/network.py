r"""Four routers in a ring, with a host behind each, and real routing daemons: FRR on two Ashlar routers, BIRD and FRR on
two Linux routers.

            hb                       A router has interfaces to-NEIGHBOUR and lan. Router NUMBER:
            |                          loopback  10.255.0.NUMBER      fd00:255::NUMBER
            b  BIRD                    lan       10.1.NUMBER.1/24     fd00:1:NUMBER::1/64, its host ::2
          /   \                       beyond    10.2.NUMBER.0/24     fd00:2:NUMBER::/64, at the host, which is ::1
    ha1 - a1    a2 - ha2             Link LINK of the ring, the end at router NUMBER:
          \   /                       10.0.LINK.NUMBER/24            fd00:0:LINK::NUMBER/64
            l  FRR                   OSPFv2 and OSPFv3 carry the links and the loopbacks. BGP carries the rest: the routers
            |                        are AS 65001, a full mesh between loopbacks; each host is an AS of its own (BIRD) that
            hl                       announces what is beyond it. BFD watches links and the sessions with hosts.

Links are veth pairs; those of the ring lead through a bridge in a namespace of their own, so that one
can be cut without either end seeing its carrier go (`cut`), or unplugged (`unplug`).
"""

import re
import time
from dataclasses import dataclass

from daemons import Bird, Frr, wait_for
from net import Failed, Lab, Namespace
from streams import Streams
from topology import KIND
from interface_pairs import Paired

# Milliseconds between BFD packets, and how many may be missing: a busy machine must not look like a cut link.
BFD_MS, BFD_MISSING = 200, 15
DETECTION = BFD_MS * BFD_MISSING / 1000
# BIRD's OSPF computes routes once a second (its `tick`).
TICK = 1.0
# OSPF alone would need this long to see that a neighbour is gone.
DEAD = 40
NUMBERS = {"a1": 1, "b": 2, "a2": 3, "l": 4}
RING = {1: ("a1", "b"), 2: ("b", "a2"), 3: ("a2", "l"), 4: ("l", "a1")}
AS = 65001
# Seconds for which FRR's bgpd, started again, announces nothing until every neighbour has sent all its routes (or has
# not come for ESTABLISH_WAIT). With graceful restart alone it waits only for neighbours that are up at the moment
# (8.4), and announces the end of its routes without those of the others, which are then given up.
UPDATE_DELAY, ESTABLISH_WAIT = 20, 10


def loopback(name: str, version: int) -> str:
    return f"10.255.0.{NUMBERS[name]}" if version == 4 else f"fd00:255::{NUMBERS[name]}"


def host(name: str, version: int, number: int = 2) -> str:
    """A host behind a router, by number; number 1 is the router itself."""
    return f"10.1.{NUMBERS[name]}.{number}" if version == 4 else f"fd00:1:{NUMBERS[name]}::{number}"


def beyond(name: str, version: int, number: int | None = 1) -> str:
    """The address of a host that is reachable only by BGP; `None`: its network."""
    if version == 4:
        return f"10.2.{NUMBERS[name]}.{number}" if number else f"10.2.{NUMBERS[name]}.0/24"
    return f"fd00:2:{NUMBERS[name]}::{number}" if number else f"fd00:2:{NUMBERS[name]}::/64"


def lan(name: str, version: int) -> str:
    """The prefix of the network behind a router."""
    return f"10.1.{NUMBERS[name]}.0/24" if version == 4 else f"fd00:1:{NUMBERS[name]}::/64"


def on_link(link: int, name: str, version: int) -> str:
    """A router's address on a link of the ring."""
    return f"10.0.{link}.{NUMBERS[name]}" if version == 4 else f"fd00:0:{link}::{NUMBERS[name]}"


def links(name: str) -> dict[int, str]:
    """The ring's links at a router, each with the neighbour."""
    return {link: (set(ends) - {name}).pop() for link, ends in RING.items() if name in ends}


def sessions(name: str, version: int) -> list[tuple[str, str, int]]:
    """The BGP neighbours of a router: name, address, AS; the host last."""
    inside = [(other, loopback(other, version), AS) for other in NUMBERS if other != name]
    return [*inside, (f"h{name}", host(name, version), AS + NUMBERS[name])]


def connects(name: str, other: str) -> bool:
    """True if a BGP speaker opens the connection: routers do so to hosts and to routers with higher numbers. With two
    simultaneous connections FRR 8.4 may forget the negotiated graceful restart.
    """
    return name in NUMBERS and (other not in NUMBERS or NUMBERS[name] < NUMBERS[other])


@dataclass(frozen=True)
class Wanted:
    """Settings of the daemons."""

    bfd: bool = True
    dead: int = DEAD


def frr(name: str, wanted: Wanted) -> dict[str, str]:
    """FRR's configuration, one text per daemon."""
    top = f"hostname {name}\n"
    bfd = f"""bfd
 profile ring
  receive-interval {BFD_MS}
  transmit-interval {BFD_MS}
  detect-multiplier {BFD_MISSING}
"""
    ospf, ospf6 = ["interface lo\n ip ospf area 0"], ["interface lo\n ipv6 ospf6 area 0"]
    for other in links(name).values():
        for lines, words in ((ospf, "ip ospf"), (ospf6, "ipv6 ospf6")):
            lines.append(f"interface to-{other}\n {words} area 0\n {words} network point-to-point\n"
                         f" {words} hello-interval 1\n {words} dead-interval {wanted.dead}\n {words} cost 10"
                         + (f"\n {words} bfd\n {words} bfd profile ring" if wanted.bfd else ""))
    router = f""" graceful-restart grace-period 60
 graceful-restart helper enable
 timers throttle spf 10 100 1000
"""
    return {
        "zebra": top + "ip forwarding\nipv6 forwarding\n",
        "staticd": top,
        **({"bfdd": top + bfd} if wanted.bfd else {}),
        "ospfd": top + "\n".join(ospf) + f"\nrouter ospf\n ospf router-id {loopback(name, 4)}\n capability opaque\n{router}",
        "ospf6d": top + "\n".join(ospf6) + f"\nrouter ospf6\n ospf6 router-id {loopback(name, 4)}\n{router}",
        "bgpd": top + _frr_bgp(name, wanted),
    }


def _frr_bgp(name: str, wanted: Wanted) -> str:
    text = f"""router bgp {AS}
 bgp router-id {loopback(name, 4)}
 no bgp ebgp-requires-policy
 bgp graceful-restart
 bgp graceful-restart preserve-fw-state
 bgp graceful-restart restart-time 60
 bgp graceful-restart select-defer-time 25
 update-delay {UPDATE_DELAY} {ESTABLISH_WAIT}
 timers bgp 10 60
"""
    for version in (4, 6):
        family = ""
        for other, address, number in sessions(name, version):
            text += f" neighbor {address} remote-as {number}\n neighbor {address} timers connect 1\n"
            text += f" neighbor {address} advertisement-interval 0\n"
            text += f" no neighbor {address} activate\n" if version == 6 else ""
            if not connects(name, other):
                text += f" neighbor {address} passive\n"
            if number == AS:
                text += f" neighbor {address} update-source {loopback(name, version)}\n"
            elif wanted.bfd:
                text += f" neighbor {address} bfd profile ring\n"
            family += f"  neighbor {address} activate\n" + (f"  neighbor {address} next-hop-self\n" if number == AS else "")
        text += f""" address-family ipv{version} unicast
  network {lan(name, version)}
  maximum-paths 4
  maximum-paths ibgp 4
{family} exit-address-family
"""
    return text


def _bird_top(name: str, number: str) -> str:
    return f"""router id {number};
graceful restart wait 10;
protocol device {{ }}
protocol direct {{ ipv4; ipv6; interface "{name}"; }}
protocol bfd {{ interface "*" {{ interval {BFD_MS} ms; multiplier {BFD_MISSING}; }}; }}
"""


def _bird_bgp(name: str, version: int, local: str, neighbour: str, more: str) -> str:
    return f"""protocol bgp to_{name}_{version} {{
  local {local};
  neighbor {neighbour};
  connect delay time 1;
  connect retry time 1;
  error wait time 1, 1;
  graceful restart;
  {more}
  ipv{version} {{ import all; export where source ~ [ RTS_BGP ] || proto = "direct1"; next hop self; }};
}}
"""


def bird(name: str, wanted: Wanted) -> str:
    """BIRD's configuration of a router."""
    yes = "yes" if wanted.bfd else "no"
    text = _bird_top("lan", loopback(name, 4))
    for version in (4, 6):
        text += f"""protocol kernel kernel{version} {{
  persist;
  merge paths yes;
  ipv{version} {{ export where source !~ [ RTS_DEVICE ]; }};
}}
protocol ospf v{3 if version == 6 else 2} ospf{version} {{
  ecmp yes;
  ipv{version} {{ }};
  area 0 {{
    stubnet {loopback(name, version)}/{128 if version == 6 else 32};
    interface "to-*" {{ type ptp; hello 1; dead {wanted.dead}; bfd {yes}; }};
  }};
}}
"""
        for other, address, number in sessions(name, version):
            inside = number == AS
            local = loopback(name, version) if inside else host(name, version, 1)
            more = ("" if inside else f"direct; bfd {yes};") + ("" if connects(name, other) else " passive;")
            text += _bird_bgp(other, version, f"{local} as {AS}", f"{address} as {number}", more)
    return text


def host_bird(name: str, wanted: Wanted) -> str:
    """BIRD's configuration of a host: it announces the network beyond it; its own routes are static."""
    text = _bird_top("beyond", host(name, 4))
    for version in (4, 6):
        local = f"{host(name, version)} as {AS + NUMBERS[name]}"
        more = f"direct; passive; bfd {'yes' if wanted.bfd else 'no'};"
        text += _bird_bgp(name, version, local, f"{host(name, version, 1)} as {AS}", more)
    return text


class Router:
    """A router of the ring: its namespace, its daemons, and Ashlar if it forwards."""

    def __init__(self, ring: "Ring", name: str, dut: str):
        self.ring, self.name = ring, name
        self.space = ring.lab.namespace(name)
        self.ports = [f"to-{other}" for other in links(name).values()] + ["lan"]
        ashlar = dut == "ashlar" and name in ("a1", "a2")
        self.ashlar = Paired(ring.lab, name, self.space, self.ports) if ashlar else None
        # Namespace at the end of the cables.
        self.device_space: Namespace = self.ashlar.device_space if self.ashlar else self.space
        self.daemons = (Bird(self.space, bird(name, ring.wanted)) if name == "b"
                        else Frr(self.space, frr(name, ring.wanted)))

    def start(self) -> None:
        """Starts forwarding, addresses and daemons."""
        if self.ashlar:
            self.ashlar.start()
        self.address()
        self.daemons.start()

    def address(self) -> None:
        """Sets the interfaces' addresses."""
        self.space.sysctl(net__ipv4__ip_forward=1, net__ipv6__conf__all__forwarding=1,
                          net__ipv4__fib_multipath_hash_policy=1)
        number = NUMBERS[self.name]
        for version, bits in ((4, 32), (6, 128)):
            self.space.ip(f"address replace {loopback(self.name, version)}/{bits} dev lo")
        for port in self.ports:
            self.space.ip(f"link set {port} up")
        for version, bits in ((4, 24), (6, 64)):
            for link, other in links(self.name).items():
                self.space.ip(f"address replace {on_link(link, self.name, version)}/{bits} dev to-{other}")
            self.space.ip(f"address replace {host(self.name, version, 1)}/{bits} dev lan")

    def said(self) -> str:
        """State of the router, for failure messages."""
        routes = "".join(self.space.ip(f"-{version} route").out for version in (4, 6))
        ashlar = f"\nashlar of {self.name}:\n{self.ashlar.said()}" if self.ashlar else ""
        if isinstance(self.daemons, Bird):
            bgp = self.daemons.birdc("show protocols", ok=False)
        else:
            bgp = self.daemons.vtysh("show bgp ipv4 unicast", "show bgp ipv6 unicast", "show bgp nexthop", "show ip nht",
                                     "show ipv6 nht", "show ip ospf neighbor", "show ipv6 ospf6 neighbor", ok=False)
        return f"--- {self.name}\n{routes}{bgp}{self.daemons.said()}{ashlar}"


class Ring:
    """The whole network; `start` starts it, `converge` waits until all hosts reach each other."""

    def __init__(self, lab: Lab, dut: str = KIND, wanted: Wanted = Wanted()):
        self.lab, self.wanted = lab, wanted
        self.cables = lab.namespace("cables")
        self.cables.sysctl(net__ipv6__conf__default__disable_ipv6=1)
        self.routers = {name: Router(self, name, dut) for name in NUMBERS}
        self.hosts = {name: lab.namespace(f"h{name}") for name in NUMBERS}
        for link in RING:
            self._cable(link)
        for name, space in self.hosts.items():
            # A network that is always up, as there is no dummy device.
            space.ip("link add name beyond type bridge")
            space.ip("link set beyond up")
            lab.link(space, "eth0", self.routers[name].device_space, "lan")
            for version, bits in ((4, 24), (6, 64)):
                space.ip(f"address add {host(name, version)}/{bits} dev eth0")
                space.ip(f"-{version} route add default via {host(name, version, 1)}")
                space.ip(f"address add {beyond(name, version)}/{bits} dev beyond")
        self.edges = {name: Bird(space, host_bird(name, wanted)) for name, space in self.hosts.items()}

    def _cable(self, link: int) -> None:
        self.cables.ip(f"link add name link{link} type bridge mcast_snooping 0")
        self.cables.ip(f"link set link{link} up")
        near, far = RING[link]
        for name, other in ((near, far), (far, near)):
            self.lab.link(self.routers[name].device_space, f"to-{other}", self.cables, self._end(link, name))
            self.cables.ip(f"link set {self._end(link, name)} master link{link}")

    @staticmethod
    def _end(link: int, name: str) -> str:
        return f"{name}-{link}"

    def cut(self, link: int) -> None:
        """Cuts a link in its middle: both ends keep their carrier, but nothing passes."""
        self.cables.ip(f"link set {self._end(link, RING[link][0])} nomaster")

    def mend(self, link: int) -> None:
        self.cables.ip(f"link set {self._end(link, RING[link][0])} master link{link}")

    def unplug(self, link: int, name: str) -> None:
        """Removes the carrier at a router's end of a link."""
        self.cables.ip(f"link set {self._end(link, name)} down")

    def plug(self, link: int, name: str) -> None:
        self.cables.ip(f"link set {self._end(link, name)} up")

    def start(self) -> None:
        for router in self.routers.values():
            router.start()
        for edge in self.edges.values():
            edge.start()

    def unreached(self) -> list[str]:
        """Pairs of hosts that do not reach each other; all are tried at once with one packet each."""
        tries = {(a, b, v): self.hosts[a].spawn("ping", f"-{v}", "-c1", "-W1", "-I", beyond(a, v), beyond(b, v))
                 for a in NUMBERS for b in NUMBERS for v in (4, 6) if a != b}
        return [f"{a} to {b} by IPv{v}" for (a, b, v), ping in tries.items() if ping.wait() != 0]

    def streams(self, rate: float = 100.0, between: tuple[str, ...] = tuple(NUMBERS)) -> Streams:
        """Streams between all these hosts, in both directions, IPv4 and IPv6."""
        made = Streams(rate)
        for a in between:
            for b in between:
                for version in (4, 6) if a != b else ():
                    made.add(f"{a} to {b} by IPv{version}", self.hosts[a], self.hosts[b], version, beyond(b, version))
        return made

    def quiet(self, seconds: float = 6.0, timeout: float = 60.0) -> None:
        """Waits until OSPF has sent no update for longer than its MinLSInterval (5 s): an update while a neighbour
        restarts gracefully would end the restart (RFC 3623, 3.2).
        """
        bird, seen = self.routers["b"].daemons, {"": 0.0}

        def still() -> bool:
            lines = [line.split() for v in (4, 6) for line in bird.birdc(f"show ospf lsadb ospf{v}").splitlines()]
            now = str([(w[0], w[1], w[2], w[3]) for w in lines if len(w) == 6])
            if now not in seen:
                seen.clear()
                seen[now] = time.monotonic()
            return time.monotonic() - seen[now] > seconds

        wait_for(still, "OSPF to be quiet", self.said, timeout)

    def restart_announced(self, name: str) -> None:
        """Makes an FRR router announce its restart to its OSPF neighbours, and waits until they know it."""
        said = self.routers[name].daemons.vtysh("graceful-restart prepare ip ospf", "graceful-restart prepare ipv6 ospf")
        if "%" in said:
            raise Failed(f"{name} cannot restart gracefully: {said}")

        def known(other: str) -> bool:
            daemons = self.routers[other].daemons
            if isinstance(daemons, Bird):
                # Grace-LSAs: type 9 with an ID of type 3 (RFC 3623, A), function code 11 (RFC 5187, 2).
                return all(re.search(rf" {lsa} .* {loopback(name, 4)} ", daemons.birdc(f"show ospf lsadb link ospf{v}"))
                           for v, lsa in ((4, r"0009\s+3\.0\.0\.0"), (6, "000b")))
            # ospfd 8.4.4 crashes if its JSON is requested twice.
            return all(re.search(rf"Routerid : {loopback(name, 4)}", daemons.vtysh(f"show {words} graceful-restart helper detail"))
                       for words in ("ip ospf", "ipv6 ospf6"))

        wait_for(lambda: all(known(other) for other in links(name).values()), f"{name}'s neighbours to know", self.said)

    def established(self) -> dict[str, dict]:
        """Established BGP sessions, by router."""
        return {name: router.daemons.established() for name, router in self.routers.items()}

    def peered(self) -> bool:
        """True if every BGP session is established."""
        return all(len(up) == sum(len(sessions(name, v)) for v in (4, 6)) for name, up in self.established().items())

    def whole(self) -> bool:
        """True if OSPF uses every link: the opposite router has two paths, for IPv4 and IPv6."""
        opposite = {"a1": "a2", "a2": "a1", "b": "l", "l": "b"}
        return all(router.space.ip(f"-{v} route show {loopback(opposite[name], v)}").out.count("nexthop via") == 2
                   for name, router in self.routers.items() for v in (4, 6))

    def converge(self, timeout: float = 60.0) -> float:
        """Waits until OSPF uses every link, every BGP session is established, and every host reaches every other.
        Returns the seconds.
        """
        took = wait_for(self.whole, "OSPF over all links", self.said, timeout)
        took += wait_for(self.peered, "all BGP sessions", lambda: f"{self.established()}\n{self.said()}", timeout)
        return took + wait_for(lambda: not self.unreached(), "all hosts reach each other",
                               lambda: f"{self.unreached()}\n{self.said()}", timeout)

    def agree(self, timeout: float = 10.0) -> None:
        """Waits until the tables of every Ashlar equal those of its kernel."""
        for router in self.routers.values():
            if router.ashlar:
                router.ashlar.agree(timeout)

    def must_run(self) -> None:
        for edge in self.edges.values():
            edge.must_run()
        for router in self.routers.values():
            router.daemons.must_run()
            if router.ashlar and not router.ashlar.running:
                raise Failed(f"Ashlar of {router.name} ended\n{router.ashlar.said()}")

    def said(self) -> str:
        return "\n".join([router.said() for router in self.routers.values()] + [edge.said(3) for edge in self.edges.values()])
