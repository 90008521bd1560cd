"""FRR transfers its routes by FPM: zebra's module dplane_fpm_nl connects to the router.

Shows: routes of vtysh arrive and go, of IPv4 and IPv6, with several hops; when zebra is killed and started
again no packet is lost and no route is missing for a moment; what it does not name again goes; what is no FPM
ends the connection, which is said and counted.

    client 10.9.0.2 ---- router ---- 10.9.1.2 server, which is also 20.0.0.1
"""

import socket

import pytest
from daemons import Frr, available
from net import Lab, until
from steered import Bed
from traffic import Pings

pytestmark = [pytest.mark.ashlar, pytest.mark.skipif(not available(), reason="needs frr and bird2")]

STALE = 5
ZEBRA = "fpm address 127.0.0.1 port 2620\n"
STATIC = """ip route 20.0.0.0/8 10.9.1.2
ip route 21.0.0.0/8 10.9.0.2
ip route 21.0.0.0/8 10.9.1.2
ip route 22.0.0.0/8 blackhole
ipv6 route 2001:db8:20::/48 2001:db8:1::2
"""


class Network:
    """Client, router with FRR beside it, and server."""

    def __init__(self, lab: Lab):
        self.client, self.server = lab.namespace("client"), lab.namespace("server")
        self.bed = Bed(lab, [self.client, self.server])
        for number, host in enumerate((self.client, self.server)):
            host.ip(f"address add 10.9.{number}.2/24 dev far{number}")
            host.ip(f"route add default via 10.9.{number}.1")
        self.server.ip("address add 20.0.0.1/32 dev lo")
        self.bed.start("--fpm", "--fpm-stale", str(STALE))
        self.bed.address()
        self.frr = Frr(self.bed.daemons, {"zebra": ZEBRA, "staticd": STATIC}, ["-M", "dplane_fpm_nl"])

    def has(self, prefix: str, *hops: tuple[str, str]) -> bool:
        return self.bed.table(6 if ":" in prefix else 4).get(prefix) == frozenset((*hop, 1) for hop in hops)

    def count(self, name: str) -> int:
        return int(dict(line.split() for line in self.bed.show("netlink").splitlines())[name])


@pytest.fixture
def network(lab):
    made = Network(lab)
    made.frr.start()
    until(lambda: made.has("20.0.0.0/8", ("10.9.1.2", "eth1")), "a route of zebra's", timeout=20)
    return made


def test_routes_of_vtysh_arrive_and_go(network):
    assert network.count("fpm_connected") == 1
    until(lambda: network.has("21.0.0.0/8", ("10.9.0.2", "eth0"), ("10.9.1.2", "eth1")), "a route of two hops")
    until(lambda: network.has("2001:db8:20::/48", ("2001:db8:1::2", "eth1")), "a route of IPv6")
    until(lambda: network.bed.table(4).get("22.0.0.0/8") == ("blackhole",), "a blackhole")
    network.frr.configure("no ip route 21.0.0.0/8 10.9.0.2", "no ip route 22.0.0.0/8 blackhole",
                          "ipv6 route 2001:db8:21::/48 fe80::2 eth0")
    until(lambda: network.has("21.0.0.0/8", ("10.9.1.2", "eth1")), "the hop to go")
    until(lambda: "22.0.0.0/8" not in network.bed.table(4), "the blackhole to go")
    until(lambda: network.has("2001:db8:21::/48", ("fe80::2", "eth0")), "a new route")
    network.client.run("ping", "-c1", "-W15", "20.0.0.1")
    # Connected routes are the kernel's word, and the main table's other routes zebra's.
    network.bed.daemons.ip("link set eth1 down")
    until(lambda: "20.0.0.0/8" not in network.bed.table(4), "the routes of a link to go with it")
    assert network.bed.process.stop() == 0


def test_zebra_killed_and_restarted_loses_nothing(network):
    until(lambda: network.has("21.0.0.0/8", ("10.9.0.2", "eth0"), ("10.9.1.2", "eth1")), "all routes")
    network.client.run("ping", "-c3", "-W15", "20.0.0.1")
    pings = Pings(network.client, "20.0.0.1")
    network.frr.kill()
    until(lambda: network.count("fpm_connected") == 0, "the connection to end")
    assert network.has("20.0.0.0/8", ("10.9.1.2", "eth1"))
    # The daemon forgets a route meanwhile.
    (network.frr.folder / "etc/staticd.conf").write_text(STATIC.replace("ip route 22.0.0.0/8 blackhole\n", ""))
    # Only the daemon's silence is to show that the route was removed.
    network.bed.daemons.ip("route del blackhole 22.0.0.0/8")
    network.frr.start()

    def swept() -> bool:
        table = network.bed.table(4)
        assert {"20.0.0.0/8", "21.0.0.0/8"} <= table.keys()
        return "22.0.0.0/8" not in table
    until(swept, "what zebra does not name to go", timeout=6 * STALE)
    assert network.count("fpm_connections") == 2
    sent, lost = pings.lost()
    assert sent > 100 and lost == 0


def test_a_second_connection_is_refused_and_bytes_that_are_no_fpm_end_one(network):
    until(lambda: network.has("21.0.0.0/8", ("10.9.0.2", "eth0"), ("10.9.1.2", "eth1")), "all routes")
    before = network.bed.table(4)

    def ends() -> None:
        with network.bed.daemons.entered():
            peer = socket.create_connection(("127.0.0.1", 2620))
        with peer:
            peer.settimeout(10)
            try:
                peer.sendall(b"GET / HTTP/1.0\r\n\r\n")
                assert peer.recv(1) == b""
            except (ConnectionResetError, BrokenPipeError):
                pass

    # The connection of zebra itself stays.
    ends()
    network.bed.process.wait_for("fpm: a second connection is refused")
    assert (network.count("fpm_refused"), network.count("fpm_connected"), network.count("fpm_bad")) == (1, 1, 0)
    network.frr.kill("zebra")
    until(lambda: network.count("fpm_connected") == 0, "the connection to end")
    ends()
    network.bed.process.wait_for("fpm: the connection has ended.*FPM version 71, we speak 1")
    assert network.count("fpm_bad") == 1
    assert network.bed.table(4) == before
    network.frr.start()
    until(lambda: network.count("fpm_connections") == 3, "zebra to connect again", timeout=30)
    assert network.bed.process.stop() == 0


def test_only_root_and_zebras_user_may_speak(network):
    until(lambda: network.has("21.0.0.0/8", ("10.9.0.2", "eth0"), ("10.9.1.2", "eth1")), "all routes")
    before = network.bed.table(4)
    network.frr.kill("zebra")
    until(lambda: network.count("fpm_connected") == 0, "the connection to end")
    program = """
import socket
with socket.create_connection(("127.0.0.1", 2620), 10) as peer:
    try:
        print(peer.recv(1))
    except ConnectionResetError:
        print(b"")
"""
    nobody = ("setpriv", "--reuid=65534", "--clear-groups", "/usr/bin/python3", "-c", program)
    assert network.bed.daemons.run(*nobody).out == "b''\n"
    network.bed.process.wait_for("fpm: a connection is refused: it belongs to user 65534")
    assert (network.count("fpm_denied"), network.count("fpm_connections")) == (1, 1)
    assert network.bed.table(4) == before
    network.frr.start()
    until(lambda: network.count("fpm_connections") == 2, "zebra to connect again", timeout=30)
