"""A router with BGP sessions under floods: traffic through it continues as without them.

    client ---- eth0 router eth1 ---- server        BIRD in client and server, FRR beside the router, eBGP
      AS 65101         eth2            AS 65102      client 10.1.1.2, server 10.1.2.2, attacker 10.64.0.2/15;
                     attacker                        behind the peers 10.2.1.1 and 10.2.2.1; IPv6 alike

Each test compares a stream with one sent before the flood, which may lose no less, looks at the router's
resident memory and at the BGP sessions, which must be the same ones as before. `ASHLAR_ROUTER=linux` puts
the kernel in Ashlar's place.
"""

import contextlib
import ipaddress
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from daemons import Bird, Frr, available, wait_for
from net import Lab, Process
from streams import Streams
from taps import mac_of
from topology import KIND
from interface_pairs import Paired

SECONDS = 20.0 if os.environ.get("ASHLAR_SOAK") else 3.0
RATE = 20_000
MEMORY = 64 << 20
FLOOD = Path(__file__).parent / "flood.py"
pytestmark = [pytest.mark.skipif(not available(), reason="needs frr and bird2"), pytest.mark.long]

PEERS = {"client": 1, "server": 2}
ATTACKER = {4: ("10.64.0.2", "10.64.0.1", 15), 6: ("fd00:64::2", "fd00:64::1", 64)}


def near(number: int, version: int, end: int) -> str:
    return f"10.1.{number}.{end}" if version == 4 else f"fd00:1:{number}::{end}"


def behind(number: int, version: int) -> str:
    return f"10.2.{number}.1" if version == 4 else f"fd00:2:{number}::1"


def peer_bird(number: int) -> str:
    text = f"router id 10.1.{number}.2; protocol device {{ }}\nprotocol direct {{ ipv4; ipv6; interface \"behind\"; }}\n"
    for version in (4, 6):
        text += f"""protocol bgp router{version} {{
  local {near(number, version, 2)} as {65100 + number};
  neighbor {near(number, version, 1)} as 65001;
  hold time 9; connect delay time 1; connect retry time 1; error wait time 1, 1;
  ipv{version} {{ import all; export where proto = "direct1"; }};
}}
"""
    return text


def router_frr() -> dict[str, str]:
    text = "router bgp 65001\n bgp router-id 10.255.0.1\n no bgp ebgp-requires-policy\n timers bgp 3 9\n"
    for version in (4, 6):
        family = ""
        for number in PEERS.values():
            peer = near(number, version, 2)
            text += f" neighbor {peer} remote-as {65100 + number}\n neighbor {peer} timers connect 1\n"
            text += f" no neighbor {peer} activate\n" if version == 6 else ""
            family += f"  neighbor {peer} activate\n"
        text += f" address-family ipv{version} unicast\n{family} exit-address-family\n"
    return {"zebra": "", "bgpd": text}


class Edge:
    """The network of these tests, running and with established sessions."""

    def __init__(self, lab: Lab):
        self.lab, self.space = lab, lab.namespace("router")
        ports = ["eth0", "eth1", "eth2"]
        self.ashlar = Paired(lab, "router", self.space, ports) if KIND == "ashlar" else None
        devices = self.ashlar.device_space if self.ashlar else self.space
        self.hosts = {name: lab.namespace(name) for name in ("client", "server", "attacker")}
        for port, space in zip(ports, self.hosts.values()):
            lab.link(space, "eth0", devices, port)
        if self.ashlar:
            self.ashlar.start()
        self.space.sysctl(net__ipv4__ip_forward=1, net__ipv6__conf__all__forwarding=1)
        for port in ports:
            self.space.ip(f"link set {port} up")
        for name, number in PEERS.items():
            self._peer(self.hosts[name], number)
        for version, (attacker, router, bits) in ATTACKER.items():
            self.space.ip(f"address add {router}/{bits} dev eth2")
            self.hosts["attacker"].ip(f"address add {attacker}/{bits} dev eth0")
            self.hosts["attacker"].ip(f"-{version} route add default via {router}")
        self.frr = Frr(self.space, router_frr())
        self.frr.start()
        self.birds = [Bird(self.hosts[name], peer_bird(number)) for name, number in PEERS.items()]
        for bird in self.birds:
            bird.start()
        wait_for(lambda: len(self.frr.established()) == 4, "the BGP sessions", self.said)
        self.router_mac = mac_of(self.space, "eth2")
        with self.stream() as streams:
            streams.warm(20)

    def _peer(self, space, number: int) -> None:
        space.ip("link add name behind type bridge")
        space.ip("link set behind up")
        for version, bits in ((4, 24), (6, 64)):
            self.space.ip(f"address add {near(number, version, 1)}/{bits} dev eth{number - 1}")
            space.ip(f"address add {near(number, version, 2)}/{bits} dev eth0")
            space.ip(f"address add {behind(number, version)}/{bits} dev behind")
            space.ip(f"-{version} route add default via {near(number, version, 1)}")

    def said(self) -> str:
        return f"{self.frr.said()}\n{self.ashlar.said() if self.ashlar else ''}"

    def stream(self) -> Streams:
        streams = Streams(rate=1000)
        for a, b in (("client", "server"), ("server", "client")):
            for version in (4, 6):
                streams.add(f"{a} to {b} by IPv{version}", self.hosts[a], self.hosts[b], version,
                            behind(PEERS[b], version))
        return streams

    def flood(self, kind: str, *words: str, seconds: float = SECONDS, rate: int = RATE) -> Process:
        flood = self.hosts["attacker"].spawn(sys.executable, str(FLOOD), kind, "eth0", str(rate), str(seconds),
                                             self.router_mac, *words)
        flood.wait_for("sending", timeout=30)
        return flood

    def memory(self) -> int:
        return self.ashlar.memory() if self.ashlar else 0

    @contextlib.contextmanager
    def unharmed(self, what: str) -> Iterator[None]:
        """Checks that the actions inside affect neither a stream, nor the sessions, nor the memory."""
        with self.stream() as before:
            before.warm()
            wait_for(lambda: before.sent > SECONDS * 4000, "the stream before", before.report)
        sessions, memory = self.frr.established(), self.memory()
        with self.stream() as streams:
            streams.warm()
            yield
        grown = self.memory() - memory
        print(f"\n{what}: {streams.sent} sent, {streams.lost} lost; without {before.sent} sent, {before.lost} lost;"
              f" memory {memory >> 20} MiB, {grown / 2**20:+.1f} MiB")
        assert streams.lost <= before.lost, f"{streams.report()}\n{self.said()}"
        assert grown < MEMORY, f"resident memory has grown from {memory} by {grown} bytes"
        assert self.frr.established() == sessions, f"{self.frr.established()}, before {sessions}\n{self.said()}"


@pytest.fixture(scope="module")
def edge() -> Iterator[Edge]:
    with Lab() as lab:
        yield Edge(lab)


FLOODS = {
    "arp": ("arp", "10.64.0.1"),
    "nd": ("nd", "fd00:64::1"),
    "hop-limit-4": ("ttl", "10.64.0.2", "10.2.2.1"),
    "hop-limit-6": ("ttl", "fd00:64::2", "fd00:2:2::1"),
    "no-route-4": ("udp", "10.64.0.2", "192.0.2.1"),
    "no-route-6": ("udp", "fd00:64::2", "2001:db8::1"),
    "closed-port-4": ("udp", "10.64.0.2", "10.64.0.1"),
    "closed-port-6": ("udp", "fd00:64::2", "fd00:64::1"),
    "syn-4": ("syn", "10.64.0.2", "10.64.0.1"),
    "syn-6": ("syn", "fd00:64::2", "fd00:64::1"),
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_is_not_noticed(edge, name):
    with edge.unharmed(name):
        flood = edge.flood(*FLOODS[name])
        flood.wait(SECONDS + 30)
    sent = re.search(r"sent (\d+) in", flood.out)
    assert sent and int(sent[1]) > SECONDS * RATE / 4, f"the flood was none: {flood.said()}"


def test_a_scan_of_a_hundred_thousand_neighbours_is_not_noticed(edge):
    """Packets to all addresses of a /15 in turn, where no host exists; then to 100,000 existing neighbours."""
    seconds = max(SECONDS, 100_000 / RATE)
    with edge.unharmed("scan of 10.64.0.0/15"):
        flood = edge.flood("scan", "10.1.1.2", "10.64.0.0/15", seconds=seconds)
        flood.wait(seconds + 30)
    with edge.unharmed("100,000 neighbours"):
        batch = edge.lab.folder / "neighbours"
        first = ipaddress.ip_address("10.64.1.0")
        batch.write_text("".join(f"neigh replace {first + n} lladdr 02:02:00:{n >> 16:02x}:{n >> 8 & 255:02x}:{n & 255:02x} "
                                 "dev eth2 nud reachable\n" for n in range(100_000)))
        edge.lab.run("ip", "-n", edge.space.name, "-batch", str(batch), timeout=60)
        if edge.ashlar:
            wait_for(lambda: edge.ashlar.netlink().get("neighbours", 0) >= 100_000, "all neighbours", edge.said)
    edge.space.flush("neigh flush dev eth2")


def test_route_flaps_are_not_noticed(edge):
    """Ten thousand routes of both families are added and removed repeatedly."""
    def lines(verb: str) -> str:
        return "".join(f"route {verb} 100.{64 + n // 256}.{n % 256}.0/24 via 10.64.0.2\n"
                       f"route {verb} fd00:100:{n:x}::/48 via fd00:64::2\n" for n in range(5000))

    batch = edge.lab.folder / "flaps"
    batch.write_text(lines("add") + lines("del"))
    with edge.unharmed("route flaps"):
        for _ in range(10 if os.environ.get("ASHLAR_SOAK") else 3):
            edge.lab.run("ip", "-n", edge.space.name, "-batch", str(batch), timeout=120)
    if edge.ashlar:
        edge.ashlar.agree()
