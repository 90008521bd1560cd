"""Daemons beside the leader of a cluster and neighbours of all servers' ports: connections, floods, takeover, BGP."""

import json
import signal
import socket
import ssl
import struct

import pytest
from agreed import available, control
from daemons import Bird, Frr
from daemons import available as daemons_available
from net import Lab, Namespace, until
from rb4 import NAMES, host, router
from routed import Routed
from topology import ASHLAR

pytestmark = [pytest.mark.skipif(not available(), reason="needs etcd-server"), pytest.mark.ashlar, pytest.mark.long]

PORT = 7777
# Answers each connection with a server's name, and with as many bytes as it has been sent.
LISTENER = """
import socket, sys
served = socket.create_server(("::", int(sys.argv[1])), family=socket.AF_INET6, dualstack_ipv6=True, backlog=64)
print("listens", flush=True)
while True:
    line, _ = served.accept()
    try:
        line.settimeout(10)
        count = int(line.makefile("r").readline())
        line.sendall(sys.argv[2].encode() + b"\\n" + b"x" * count)
    except (OSError, ValueError):
        pass
    line.close()
"""
# Says who has answered, once all bytes are there.
CLIENT = """
import socket, sys
line = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5)
line.sendall(sys.argv[3].encode() + b"\\n")
answer = line.makefile("rb").read()
name, _, rest = answer.partition(b"\\n")
assert len(rest) == int(sys.argv[3]), len(rest)
print(name.decode())
"""
# Sends datagrams of a tunnel that nobody has.
FLOOD = """
import socket, sys
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(int(sys.argv[2])):
    line.sendto(b"x" * 100, (sys.argv[1], 4789))
"""


@pytest.fixture(scope="module")
def bed():
    with Lab() as lab:
        made = Routed(lab, interfaces=True)
        inviting = made.found()
        for name in NAMES[1:]:
            made.type(name, "join")
        assert inviting.wait() == 0, inviting.said()
        made.bring_up()
        made.meet()
        for name, kernel in made.kernels.items():
            kernel.spawn("python3", "-c", LISTENER, str(PORT), name).wait_for("listens")
        yield made
        made.stop()


def led(bed: Routed, at: str = "a") -> str:
    return until(lambda: bed.shown(at).get("leader"), "a leader", 40)


def answers(bed: Routed, source: str, address: str, length: int = 10) -> str | None:
    """The server whose listener answers a host at an address of the router; None if nobody does."""
    done = bed.hosts[source].run("python3", "-c", CLIENT, address, str(PORT), str(length), ok=None)
    return done.out.strip() if done.status == 0 else None


def reached(bed: Routed, leader: str, names: tuple[str, ...] = NAMES) -> None:
    """Waits until hosts of all these servers reach the leader's listener at their router's addresses."""
    for name in names:
        for version in (4, 6):
            address = router(name, version)
            answered(bed, name, address, leader)


def answered(bed: Routed, source: str, address: str, leader: str, length: int = 10) -> None:
    """Waits until the leader's listener answers a host: a connection may end for a moment on a machine under load."""
    until(lambda: answers(bed, source, address, length) == leader, f"{leader}'s listener to answer {source} at {address}", 40)


def links_of(bed: Routed, space: Namespace) -> dict[str, dict]:
    """Interfaces of a namespace by name."""
    links = json.loads(bed.lab.run("ip", "-n", space.name, "-j", "link").out)
    return {link["ifname"]: link for link in links}


def interfaces(bed: Routed, at: str) -> dict[str, dict]:
    """Interfaces in a server's namespace for routes that stand for ports."""
    return {name: link for name, link in links_of(bed, bed.kernels[at]).items() if name.endswith("-lan")}


def carriers(bed: Routed, at: str) -> set[str]:
    return {name for name, link in interfaces(bed, at).items() if "LOWER_UP" in link["flags"]}


def test_connections_to_the_routers_addresses_end_in_the_leaders_namespace(bed):
    leader = led(bed)
    reached(bed, leader)
    other = next(name for name in NAMES if name != leader)
    # Longer than any queue on the way.
    answered(bed, other, router(other, 4), leader, 3_000_000)
    # An address of another server's port, and the link-local address of a port.
    answered(bed, other, router(leader, 4), leader)
    answered(bed, other, "fe80::1%eth0", leader)
    # Interfaces are as the ports are, and have no carrier where nobody leads.
    links = interfaces(bed, leader)
    assert set(links) == {f"{name}-lan" for name in NAMES}
    until(lambda: carriers(bed, leader) == set(links), "all carriers", 40)
    for name in NAMES:
        assert links[f"{name}-lan"]["address"] == links_of(bed, bed.servers[name])["eth0"]["address"]
    assert set(interfaces(bed, other)) == set(links) and not carriers(bed, other)
    # The servers answer pings, and the kernel gets replies to its own.
    until(lambda: bed.ping(other, router(other, 4), 4) and bed.ping(other, router(other, 6), 6), "answers of the servers")
    for version in (4, 6):
        address = host(other, version)
        until(lambda address=address: bed.kernels[leader].run("ping", "-c1", "-W1", address, ok=None).status == 0,
              f"a reply of {address}", 20)


def test_a_flood_is_dropped_by_name_and_connections_go_on(bed):
    leader = led(bed)
    name = next(name for name in NAMES if name != leader)

    def ashlar(*words: str) -> str:
        return bed.lab.run(ASHLAR, *words, "--socket", bed.socket(name)).out
    ashlar("set", "punt_lan/punt.rate", "tunnel 10")
    try:
        before = bed.dropped(name, "punt_lan/punt")

        def drops() -> bool:
            bed.hosts[name].run("python3", "-c", FLOOD, router(name, 4), "200")
            return bed.dropped(name, "punt_lan/punt") >= before + 100
        until(drops, "the drops", 60)
        answered(bed, name, router(name, 4), leader)
    finally:
        ashlar("set", "punt_lan/punt.rate", "tunnel 1000 200")


def message(kind: int, body: bytes) -> bytes:
    return struct.pack(">IB", len(body) + 1, kind) + body


def attach(bed: Routed, leader: str, name: str, identity: str, seen: int, ports: int = 1, version: int = 1) -> ssl.SSLSocket:
    """A connection to the leader that claims to be of a server."""
    with bed.servers[name].entered():
        line = socket.create_connection((control(leader), 2382), timeout=10)
    secured = bed.tls(name).wrap_socket(line, server_hostname=control(leader))
    words = b"".join(struct.pack(">H", len(word)) + word.encode() for word in (name, identity))
    secured.sendall(message(9, struct.pack(">H", version) + words + struct.pack(">Q", seen) + bytes(6) * ports))
    return secured


def test_wrong_attachments_are_refused(bed):
    leader = led(bed)
    name = next(name for name in NAMES if name != leader)
    epoch = bed.shown()["epoch"]
    identity = json.loads((bed.home(name) / "server.json").read_text())["identity"]
    for claim, why in {
        ("0" * 32, 0, 1): b"no member of the cluster",
        (identity, epoch + 1, 1): b"has seen epoch",
        (identity, epoch, 2): b"has 2 external ports, and 1",
        (identity, epoch, 1, 2): b"version 2 of the cluster's protocol",
    }.items():
        with attach(bed, leader, name, *claim) as line:
            assert why in line.recv(1000), claim
    # None of them has ended the server's own connection.
    answered(bed, name, router(name, 4), leader)


def test_the_next_leaders_listener_answers_after_a_takeover(bed):
    old = led(bed)
    others = tuple(name for name in NAMES if name != old)
    bed.processes[old].signal(signal.SIGKILL)
    bed.processes.pop(old).wait()
    try:
        new = until(lambda: (now := bed.shown(others[0]).get("leader")) != old and now, "another leader", 40)
        reached(bed, new, others)
        assert not interfaces(bed, old)
        until(lambda: carriers(bed, new) == {f"{name}-lan" for name in others}, "the others' carriers", 40)
    finally:
        bed.processes[old] = bed.type(old, "up")
        bed.processes[old].wait_for(" start ", timeout=30)
    reached(bed, led(bed))


def test_a_description_with_the_same_ports_takes_no_carrier(bed):
    leader = led(bed)
    reached(bed, leader)

    def changes() -> dict[str, str]:
        """Number of changes of each interface's carrier, as the leader's kernel counts them."""
        return {name: bed.kernels[leader].run("cat", f"/sys/class/net/{name}/carrier_changes").out for name in interfaces(bed, leader)}
    before = changes()
    text = bed.file.read_text()
    for file in (text + f'\n[[route]]\nprefix = "198.18.7.0/24"\nvia = "{host("a", 4)}"\n', text):
        bed.file.write_text(file)
        bed.type("d", "apply")
        reached(bed, leader)
        assert changes() == before


def test_interfaces_follow_the_description(bed):
    leader = led(bed)
    text = bed.file.read_text()
    bed.file.write_text(text.replace("interfaces = true\n", ""))
    bed.type("d", "apply")
    until(lambda: not any(interfaces(bed, name) for name in NAMES), "the interfaces to go", 20)
    other = next(name for name in NAMES if name != leader)
    assert answers(bed, other, router(other, 4)) is None
    until(lambda: bed.ping(other, router(other, 4), 4), "an answer of the server")
    bed.file.write_text(text)
    bed.type("d", "apply")
    reached(bed, led(bed))


@pytest.mark.skipif(not daemons_available(), reason="needs FRR and BIRD")
def test_an_unmodified_daemon_has_sessions_with_neighbours_and_its_routes_reach_all_servers(bed):
    leader = led(bed)
    beside = next(name for name in NAMES if name != leader)
    frrs = {}
    for name, kernel in bed.kernels.items():
        frrs[name] = Frr(kernel, {"bgpd": f"""router bgp 65001
 bgp router-id 10.255.0.1
 no bgp ebgp-requires-policy
 timers bgp 3 30
 neighbor {host(beside, 4)} remote-as 65002
 neighbor {host(beside, 4)} timers connect 1
 address-family ipv4 unicast
  network {router(leader, 4).rsplit('.', 1)[0]}.0/24
 exit-address-family
"""})
    neighbour = Bird(bed.hosts[beside], f"""router id {host(beside, 4)};
protocol device {{ }}
protocol static {{ ipv4; route 198.51.77.0/24 blackhole; }}
protocol bgp session {{
    local {host(beside, 4)} as 65002;
    neighbor {router(beside, 4)} as 65001;
    connect retry time 1;
    ipv4 {{ import all; export all; }};
}}
""")
    neighbour.start()
    for frr in frrs.values():
        frr.start()
    try:
        until(lambda: host(beside, 4) in frrs[leader].established(), "the session", 60)
        for name in NAMES:
            until(lambda name=name: bed.looked_up(name, "198.51.77.1") == "198.51.77.0/24", f"the route on {name}", 40)
        # Announcements of the daemon reach the neighbour.
        until(lambda: router(leader, 4).rsplit(".", 1)[0] in neighbour.birdc("show route"), "the announcement", 20)
    finally:
        for daemons in (*frrs.values(), neighbour):
            daemons.stop()
