"""docs/tasks.md, as somebody follows it: the commands of each section are run as they stand there, and packets are sent.

The router is that of topology.py, with the addresses that the page names. OSPF is test_linux_router.py's and
test_routing.py's, the start after a reboot test_reboot.py's.
"""

import contextlib
import itertools
import os
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from net import Lab, Namespace, until
from topology import ASHLAR, CLIENT, ROOT, SERVER, Network
from traffic import FAMILY, answered

pytestmark = pytest.mark.ashlar

STATION = "10.0.1.9"  # the server as a station of the clients' network


def blocks(section: str) -> list[str]:
    """The commands of a section, a text for each indented block."""
    page = (ROOT / "docs/tasks.md").read_text()
    body = re.search(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", page, re.M | re.S)[1]
    found = re.findall(r"(?:^(?: {4}.*)?\n)+", body, re.M)
    return [re.sub(r"^ {4}", "", block, flags=re.M).strip() + "\n" for block in found if block.strip()]


class Operator:
    """Somebody at the router, who types what the page says."""

    def __init__(self, lab: Lab, space: Namespace, section: str):
        self.space, self.blocks = space, blocks(section)
        self.folder, self.socket = lab.folder / "work", lab.folder / "router.sock"
        self.folder.mkdir()
        (self.folder / "conf").symlink_to(ROOT / "conf")
        # Nothing but the place of the socket is another one: a router of this machine may have the usual place.
        self.program = lab.folder / "bin/ashlar"
        self.program.parent.mkdir()
        self.pid = lab.folder / "router.pid"
        self.program.write_text(f"""#!/bin/sh
if [ "$1" = run ]; then echo $$ > {self.pid}; shift; exec {ASHLAR} run --socket {self.socket} "$@"; fi
ASHLAR_SOCKET={self.socket} exec {ASHLAR} "$@"
""")
        self.program.chmod(0o755)
        lab.closing(self.end)

    def types(self, number: int, space: Namespace | None = None) -> str:
        """Types a block; fails if a command does. What was said."""
        said = self.folder / f"said{number}"
        script = f"exec > {said} 2>&1\ncd {self.folder}\nPATH={self.program.parent}:$PATH\n{self.blocks[number]}"
        done = (space or self.space).run("bash", "-ec", script, ok=None)
        assert done.status == 0, f"{self.blocks[number]}\n{said.read_text()}"
        return said.read_text()

    def begins(self) -> None:
        """Types the first block, by which a router runs."""
        said = self.types(0)
        until(lambda: self.space.run(str(self.program), "show", "list", ok=None).status == 0, f"the router\n{said}", timeout=30)

    def show(self, handler: str) -> str:
        return self.space.run(str(self.program), "show", handler).out

    def end(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            pid = int(self.pid.read_text())
            os.kill(pid, signal.SIGTERM)
            until(lambda: not Path(f"/proc/{pid}").exists(), "the router's end", timeout=30)


@pytest.fixture
def network(lab: Lab) -> Network:
    return Network(lab)


def crosses(network: Network) -> None:
    for version in (4, 6):
        answered(network.client, f"-{version}", SERVER.host[version])


def test_a_router_with_two_ports(lab, network):
    operator = Operator(lab, network.router_space, "A router with two ports")
    operator.begins()
    crosses(network)
    assert "203.0.113.0/24 via 10.0.2.2 dev eth1" in operator.types(1)


def test_nat(lab, network):
    operator = Operator(lab, network.router_space, "NAT")
    operator.begins()
    with listening(network.server, 4, 80):
        assert connects(network.client, 4, 80)
    answered(network.client, SERVER.host[4])
    assert f"({CLIENT.host[4]}, " in operator.types(1)


@contextlib.contextmanager
def listening(space: Namespace, version: int, port: int) -> Iterator[None]:
    with space.socket(FAMILY[version], socket.SOCK_STREAM) as server:
        server.bind((SERVER.host[version], port))
        server.listen()
        yield


def connects(space: Namespace, version: int, port: int, patience: float = 20.0) -> bool:
    """Whether the server lets somebody in."""
    with space.socket(FAMILY[version], socket.SOCK_STREAM) as client:
        client.settimeout(patience)
        try:
            client.connect((SERVER.host[version], port))
        except TimeoutError:
            return False
        return True


def test_a_firewall(lab, network):
    operator = Operator(lab, network.router_space, "A firewall")
    operator.begins()
    crosses(network)
    for version in (4, 6):
        with listening(network.server, version, 80), listening(network.server, version, 81):
            assert connects(network.client, version, 80)
            assert not connects(network.client, version, 81, patience=1.0)
    said = operator.types(1)
    assert re.search(r"^ +1 +0 +guest: deny src 10\.0\.1\.66$", said, re.M), said
    assert re.search(r"^ +2 +[1-9]\d* +web: allow", said, re.M), said
    assert (operator.folder / "edge.saved").exists()
    assert re.search(r"^ +3 +0 +dns: allow udp", operator.show("fw6.rules"), re.M), operator.show("fw6.rules")


def test_a_rate_for_each_host(lab, network):
    operator = Operator(lab, network.router_space, "A rate for each host")
    operator.begins()
    crosses(network)
    for version in (4, 6):
        with network.client.socket(FAMILY[version], socket.SOCK_DGRAM) as sender:
            for _ in range(300):
                sender.sendto(bytes(1200), (SERVER.host[version], 9))
        drops = f"limit{version}.named_drops"
        until(lambda: re.search(r"over_rate\s+[1-9]", operator.show(drops)), f"packets over the rate: {operator.show(drops)!r}", timeout=20)
    operator.types(1)
    assert "10.0.1.0/28 50Mbps" in operator.show("limit4.rates")


def test_a_vlan_trunk(lab):
    client, switch, router, server = (lab.namespace(name) for name in ("client", "switch", "router", "server"))
    lab.link(client, "eth0", switch, "to-client")
    lab.link(server, "eth0", switch, "to-server")
    lab.link(router, "eth0", switch, "trunk")
    switch.sysctl(net__ipv6__conf__all__disable_ipv6=1)
    ends = (("to-client", "trunk.10"), ("trunk.10", "to-client"), ("to-server", "trunk.20"), ("trunk.20", "to-server"))
    file = lab.folder / "switch.click"
    file.write_text("".join(f"FromDevice({a}, PROMISC true) -> ToDevice({b});\n" for a, b in ends))
    switch.spawn(ASHLAR, "run", str(file), "--socket", str(lab.folder / "switch.sock"))
    for host, side in ((client, CLIENT), (server, SERVER)):
        for version, bits in ((4, 24), (6, 64)):
            host.ip(f"address add {side.host[version]}/{bits} dev eth0" + (" nodad" if version == 6 else ""))
            host.ip(f"-{version} route add default via {side.router[version]}")
    operator = Operator(lab, router, "A VLAN trunk")
    operator.begins()
    until(lambda: client.run("ping", "-c1", "-W1", SERVER.host[4], ok=None).status == 0, "the switch", timeout=30)
    for version in (4, 6):
        answered(client, f"-{version}", SERVER.host[version])
    # A VLAN is no interface, and nobody looks for one.
    told = router.run(str(operator.program), "doctor", "conf/ip-router.click", "DEV0=eth0.10", "DEV1=eth0.20", cwd=str(operator.folder), ok=None)
    assert "eth0.10" not in told.out + told.err, str(told)
    # Each VLAN has rows of its own.
    rows = [line.split() for line in router.run(str(operator.program), "top", "--once").out.splitlines()]
    assert {(row[0], row[2]) for row in rows if row and row[0].startswith("eth0.")} == {
        (f"eth0.{vlan}", way) for vlan in (10, 20) for way in ("in", "out")}, rows


def test_a_copy_of_all_packets(lab, network):
    watch = lab.namespace("watch")
    lab.link(network.router_space, "eth2", watch, "eth0")
    operator = Operator(lab, network.router_space, "A copy of all packets")
    operator.begins()
    network.server.ip(f"address add {STATION}/24 dev eth0")
    with watch.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800)) as tap:
        tap.bind(("eth0", 0x0800))
        tap.settimeout(20)
        answered(network.client, STATION, count=3)
        # Type of an ICMP message behind the headers of Ethernet and IPv4.
        frames = (tap.recv(2000) for _ in itertools.count())
        types = [frame[34] for frame in itertools.islice((f for f in frames if f[23] == 1), 6)]
    assert sorted(types) == [0, 0, 0, 8, 8, 8]


def test_vxlan_to_a_linux_machine(lab, network):
    operator = Operator(lab, network.router_space, "VXLAN to a Linux machine")
    operator.begins()
    operator.types(1, network.server)
    network.server.ip(f"address add {STATION}/24 dev vxlan7")
    answered(network.client, STATION)
    answered(network.client, "-Mdo", "-s1472", STATION)


def test_a_change_that_goes_wrong(lab, network):
    operator = Operator(lab, network.router_space, "A change that goes wrong")
    operator.begins()
    crosses(network)
    said = operator.types(1)
    assert "did you mean `DecIPTTL`?" in said and "the running configuration is kept" in said, said
    assert "empty.click: " in said and said.splitlines()[-1].startswith("conf/ip-router.click: "), said
    crosses(network)
