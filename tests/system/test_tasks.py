"""docs/tasks.md as a user follows it: the commands of each section are run exactly as written, and packets are sent.

The router is that of topology.py, with the addresses that the page names. OSPF is test_linux_router.py's and
test_routing.py's, the start after a reboot test_reboot.py's.
"""

import contextlib
import itertools
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from net import Lab, Namespace, until
from topology import ASHLAR, CLIENT, ROOT, SERVER, Network
from traffic import FAMILY, answered

pytestmark = pytest.mark.ashlar

OUTSIDE = SERVER.router[4]
STATION = "10.0.1.9"  # the server as a station of the clients' network


def blocks(section: str) -> list[str]:
    """The commands of a section: one text for each indented block."""
    page = (ROOT / "docs/tasks.md").read_text()
    body = re.search(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", page, re.M | re.S)[1]
    found = re.findall(r"(?:^(?: {4}.*)?\n)+", body, re.M)
    return [re.sub(r"^ {4}", "", block, flags=re.M).strip() + "\n" for block in found if block.strip()]


class Operator:
    """A user at the router, who types the page's commands."""

    def __init__(self, lab: Lab, space: Namespace, section: str, routing: Namespace | None = None):
        """`routing` is the namespace that the page calls `router`, and that the lab has made."""
        self.space, self.blocks = space, blocks(section)
        if routing is not None:
            texts = (text.replace("ip netns add router\n", "") for text in self.blocks)
            self.blocks = [re.sub(r"(?<=\s)router(?=\s)", str(routing), text) for text in texts]
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
        """Types a block; fails if a command does. Returns the output."""
        said = self.folder / f"said{number}"
        script = f"exec > {said} 2>&1\ncd {self.folder}\nPATH={self.program.parent}:$PATH\n{self.blocks[number]}"
        done = (space or self.space).run("bash", "-ec", script, ok=None)
        assert done.status == 0, f"{self.blocks[number]}\n{said.read_text()}"
        return said.read_text()

    def begins(self) -> None:
        """Types the first block, which starts a router."""
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


    answered(network.client, OUTSIDE)
    assert "=> (10.0.2.1, 10.0.2.2, " in operator.show("pings.table")
    answered(network.client, "-6", SERVER.host[6])
    # The first hop is the router, as the client knows it.
    way = network.client.run("traceroute", "-n", "-q1", "-w5", "-m2", SERVER.host[4]).out
    assert re.search(rf"^ 1  {CLIENT.router[4]} ", way, re.M) and re.search(rf"^ 2  {SERVER.host[4]} ", way, re.M), way


def test_port_forwarding(lab, network):
    operator = Operator(lab, network.router_space, "Port forwarding")
    operator.begins()
    # The client has a neighbour, who asks by the outside address, as the server does.
    network.client.ip("address add 10.0.1.3/24 dev eth0")
    kept = None
    for port, inside in ((8080, 80), (5000, 5000), (5010, 5010)):
        with listening_at(network.client, CLIENT.host[4], inside) as service:
            kept = kept or (network.server.socket(socket.AF_INET, socket.SOCK_STREAM), service.dup())
            if port == 8080:
                kept[0].connect((OUTSIDE, port))
            assert reaches(network.server, OUTSIDE, port)
            assert reaches(network.client, OUTSIDE, port, source="10.0.1.3")
    assert not reaches(network.server, OUTSIDE, 2222, patience=1.0)
    assert "=> (10.0.2.2, " in operator.types(1)
    with listening_at(network.client, CLIENT.host[4], 22):
        assert reaches(network.server, OUTSIDE, 2222)
    # The connection from before the change.
    client, service = kept
    with service.accept()[0] as served:
        served.settimeout(20)
        client.sendall(b"still here")
        assert served.recv(100) == b"still here"
    service.close()


def test_several_networks_behind_nat(lab, network):
    other = lab.namespace("other")
    lab.link(network.router_space, "eth2", other, "eth0")
    for version, address in ((4, "10.0.3.2/24"), (6, "fd00:3::2/64")):
        other.ip(f"address add {address} dev eth0" + (" nodad" if version == 6 else ""))
        other.ip(f"-{version} route add default via {('10.0.3.1', 'fd00:3::1')[version == 6]}")
    other.ip("address add 10.8.0.1/16 dev lo")
    operator = Operator(lab, network.router_space, "Several networks behind NAT")
    operator.begins()
    assert "10.8.0.0/16 via 10.0.3.2 dev eth2" in operator.types(1)
    for host in (network.client, other):
        answered(host, SERVER.host[4])
        answered(host, "-6", SERVER.host[6])
    answered(other, CLIENT.host[4])
    answered(other, "-I", "10.8.0.1", SERVER.host[4])
    answered(network.client, "10.8.0.1")


def listening_at(space: Namespace, address: str, port: int) -> socket.socket:
    made = space.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind((address, port))
    made.listen()
    return made


def reaches(space: Namespace, address: str, port: int, source: str = "", patience: float = 20.0) -> bool:
    with space.socket(socket.AF_INET, socket.SOCK_STREAM) as client:
        client.settimeout(patience)
        client.bind((source, 0))
        try:
            client.connect((address, port))
        except TimeoutError:
            return False
        return True


def test_jumbo_frames(lab, network):
    for host in (network.client, network.server):
        host.ip("link set eth0 mtu 9000")
    operator = Operator(lab, network.router_space, "Jumbo frames")
    operator.begins()
    for version, size in ((4, 8972), (6, 8952)):
        answered(network.client, f"-{version}", "-Mdo", f"-s{size}", SERVER.host[version])


def test_a_bond(lab):
    client, router, server = (lab.namespace(name) for name in ("client", "router", "server"))
    needs_links(router, "bond")
    lab.link(client, "eth0", router, "eth0")
    server.ip("link add eth0 type bridge")
    for port in ("eth1", "eth2"):
        lab.link(server, port, router, port)
        server.ip(f"link set {port} master eth0")
    server.ip("link set eth0 up")
    for host, side in ((client, CLIENT), (server, SERVER)):
        host.ip(f"address add {side.host[4]}/24 dev eth0")
        host.ip(f"route add default via {side.router[4]}")
    operator = Operator(lab, router, "A bond")
    operator.begins()
    answered(client, SERVER.host[4])
    # The link in use fails.
    active = re.search(r"active_slave (eth\d)", router.ip("-d link show bond0").out)[1]
    server.ip(f"link set {active} down")
    until(lambda: client.run("ping", "-c1", "-W1", SERVER.host[4], ok=None).status == 0, "the other link", timeout=30)


def needs_links(space: Namespace, *kinds: str) -> None:
    """Skips the test, with the reason, if the kernel lacks these kinds of interfaces."""
    for kind in kinds:
        upon = "link lo " if kind == "macvlan" else ""
        made = space.run("ip", *f"link add {upon}name probe0 type {kind}".split(), ok=None)
        if "Unknown device type" in made.err:
            pytest.skip(f"this kernel has no {kind} interfaces")
        space.run("ip", "link", "delete", "probe0", ok=None)


def controlled(lab: Lab, network: Network, section: str) -> tuple[Operator, Namespace]:
    """Types the first block of a section whose router Linux controls."""
    routing = lab.namespace("routing")
    lab.closing(end_all, routing)
    operator = Operator(lab, network.router_space, section, routing)
    operator.begins()
    return operator, routing


def end_all(space: Namespace) -> None:
    """Ends all programs that were started in a namespace by typing."""
    for pid in space.lab.run("ip", "netns", "pids", space.name).out.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGTERM)


def test_a_virtual_router(lab, network):
    needs_links(network.router_space, "macvlan")
    operator, routing = controlled(lab, network, "A virtual router (VRRP)")
    operator.types(1)
    until(lambda: "00:00:5e:00:01:01" in operator.show("port0/in.other_ethers").lower(), "the virtual router's address")
    network.client.ip("route replace default via 10.0.1.254")
    answered(network.client, SERVER.host[4])
    assert "lladdr 00:00:5e:00:01:01" in network.client.ip("neigh show 10.0.1.254").out
    # Another router has become the master.
    routing.ip("link set vrrp4-1 down")
    until(lambda: operator.show("port0/in.other_ethers") == "", "the address to be gone")
    assert network.client.run("ping", "-c1", "-W1", SERVER.host[4], ok=None).status != 0


def test_a_dhcp_relay(lab, network):
    leases = lab.folder / "leases"
    network.server.spawn("dnsmasq", "--keep-in-foreground", "--port=0", "--conf-file=/dev/null", "--pid-file=", f"--dhcp-leasefile={leases}",
                         "--dhcp-range=10.0.1.100,10.0.1.150,255.255.255.0", "--dhcp-option=3,10.0.1.1", "--log-dhcp", "--log-facility=-")
    operator, _ = controlled(lab, network, "A DHCP relay")
    network.client.ip("address flush dev eth0 scope global")
    script = lab.folder / "lease.sh"
    script.write_text("#!/bin/sh\n[ $1 = bound ] && echo got $ip from $serverid by $router\nexit 0\n")
    script.chmod(0o755)
    asks = network.client.spawn("busybox", "udhcpc", "-i", "eth0", "-f", "-q", "-t", "10", "-T", "2", "-s", str(script))
    asks.wait_for(r"got 10\.0\.1\.1\d\d from 10\.0\.\d\.\d by 10\.0\.1\.1", timeout=30)


@contextlib.contextmanager
def listening(space: Namespace, version: int, port: int) -> Iterator[None]:
    with space.socket(FAMILY[version], socket.SOCK_STREAM) as server:
        server.bind((SERVER.host[version], port))
        server.listen()
        yield


def connects(space: Namespace, version: int, port: int, patience: float = 20.0) -> bool:
    """True if the server accepts a connection."""
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
    # The longest packets, those that come in fragments, and messages about others.
    for words in (("-Mdo", "-s1472"), ("-Mdont", "-s1473"), ("-s4000",)):
        answered(client, *words, SERVER.host[4])
    way = client.run("traceroute", "-n", "-q1", "-w5", "-m2", SERVER.host[4]).out
    assert re.search(rf"^ 1  {CLIENT.router[4]} ", way, re.M) and re.search(rf"^ 2  {SERVER.host[4]} ", way, re.M), way
    # `ashlar doctor` looks for no interface with the name of a VLAN, as there is none.
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
    # The machine leaves it to the router to cut TCP in the tunnel, both without and with checksums of the tunnel.
    for checksum in ("noudpcsum", "udpcsum"):
        network.server.ip("link delete vxlan7")
        network.server.ip(f"link add vxlan7 mtu 1500 type vxlan id 7 remote 10.0.2.1 dstport 4789 {checksum}")
        network.server.ip("link set vxlan7 up")
        network.server.ip(f"address add {STATION}/24 dev vxlan7")
        carries(network.server, network.client, CLIENT.host[4], STATION)


def carries(sender: Namespace, receiver: Namespace, address: str, source: str) -> None:
    """Checks that a megabyte arrives unchanged by TCP, in less time than with a loss of every other packet."""
    sent = bytes(range(256)) * 4096
    with receiver.socket(socket.AF_INET, socket.SOCK_STREAM) as server, sender.socket(socket.AF_INET, socket.SOCK_STREAM) as client:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((address, 7777))
        server.listen()
        client.bind((source, 0))
        client.settimeout(20)
        client.connect((address, 7777))
        connection, _ = server.accept()
        with connection:
            connection.settimeout(20)
            pump = threading.Thread(target=client.sendall, args=(sent,), daemon=True)
            pump.start()
            got = bytearray()
            while len(got) < len(sent):
                got += connection.recv(1 << 16) or pytest.fail(f"it ended after {len(got)} bytes")
            pump.join()
    assert got == sent


def test_a_change_that_goes_wrong(lab, network):
    operator = Operator(lab, network.router_space, "A change that goes wrong")
    operator.begins()
    crosses(network)
    said = operator.types(1)
    assert "did you mean `DecIPTTL`?" in said and "the running configuration is kept" in said, said
    assert "empty.click: " in said and said.splitlines()[-1].startswith("conf/ip-router.click: "), said
    crosses(network)
