"""The multistage router: stock Linux boxes behind a balancer form one router.

Shows: hosts see one router with one Ethernet address on each port; TTL, path MTU and TCP are as with one box; a box that is
drained, fails or comes back costs no connection of another one; address translation and stateful filters on the boxes work.
"""

import json
import os
import re
import socket
import textwrap
import time

import pytest
from daemons import Frr, available
from multistage import LAN, LAN6, ROUTER, WAN, WAN6, Bed, Connection, PairBed, answers, exactly, ping, ready, text
from multistage_vlan import CALM
from net import Lab, until
from taps import mac_of
from topology import ASHLAR, ROOT

pytestmark = [pytest.mark.ashlar, pytest.mark.long]


@pytest.fixture
def bed(lab: Lab) -> Bed:
    made = Bed(lab, ["r1", "r2"], workers=2, more=CALM)
    made.start()
    ready(made)
    return made


def test_hosts_see_one_router(bed):
    """One Ethernet address on each port, one hop, and an address that answers ping on each side."""
    for host, port, side in ((bed.lan, "eth0", "lan"), (bed.wan, "eth1", "wan")):
        assert answers(host, ROUTER[side])
        neighbour = json.loads(host.run("ip", "-j", "neigh", "show", ROUTER[side]).out)[0]
        assert neighbour["lladdr"] == mac_of(bed.space, port)
    seen = bed.lan.run("ping", "-c1", "-W15", "-t1", WAN, ok=None).out
    assert f"From {ROUTER['lan']}" in seen and "Time to live exceeded" in seen, seen
    assert answers(bed.lan, WAN, "-t", "2"), "one hop"
    # Both boxes forward: flows are spread.
    before = {name: bed.forwarded(name) for name in bed.names}
    outcome = bed.load(2000, 3.0)
    assert (outcome.lost, outcome.reordered, outcome.twice) == (0, 0, 0)
    assert all(bed.forwarded(name) - before[name] > 300 for name in bed.names)
    assert bed.router.process.stop() == 0


def test_ipv6_is_routed_by_the_boxes(bed):
    """The balancer speaks neighbour discovery: for the router towards the outside, and for next hops towards the inside.
    """
    for box in bed.boxes.values():
        box.flush("-6 neigh flush dev eth0")
    until(lambda: ping(bed.lan, WAN6) and ping(bed.wan, LAN6), "packets to cross", timeout=20)
    for host, port, own in ((bed.lan, "eth0", "fd00:1::1"), (bed.wan, "eth1", "fd00:2::1")):
        assert answers(host, own)
        neighbour = json.loads(host.run("ip", "-6", "-j", "neigh", "show", own).out)[0]
        assert neighbour["lladdr"] == mac_of(bed.space, port)
    seen = bed.lan.run("ping", "-c1", "-W15", "-t1", WAN6, ok=None).out
    assert "From fd00:1::1" in seen and "Time exceeded" in seen, seen
    # The neighbour is solicited again, by unicast, and the host still knows the router by its own address.
    for box in bed.boxes.values():
        box.sysctl(net__ipv6__neigh__eth0__base_reachable_time_ms=1000, net__ipv6__neigh__eth0__delay_first_probe_time=1)
    until(lambda: "REACHABLE" in bed.boxes["r1"].ip(f"-6 neigh show {WAN6} dev eth0").out
          or not ping(bed.lan, WAN6), "the next hop to be confirmed", timeout=20)
    for _ in range(20):
        assert answers(bed.lan, WAN6)
    known = {entry["dst"]: entry.get("lladdr") for entry in json.loads(bed.wan.run("ip", "-6", "-j", "neigh", "show").out)}
    assert not {"02:00:00:00:00:01", "02:00:00:00:00:02"} & set(known.values()), known
    seen = bed.wan.run("ping", "-c1", "-W15", "fd00:1::77", ok=None).out
    assert "unreachable" in seen, seen


def test_tcp_and_path_mtu_are_as_with_one_box(bed):
    connection = Connection(bed, 5000)
    assert connection.transfer(8 << 20)
    connection.close()
    for box in bed.boxes.values():
        box.ip("route replace 10.0.2.0/24 dev eth0 src 10.0.2.1 mtu lock 1300")
    seen = bed.lan.run("ping", "-c2", "-W15", "-Mdo", "-s1372", WAN, ok=None)
    assert "mtu" in seen.out and "1300" in seen.out, seen
    assert answers(bed.lan, WAN, "-Mdo", "-s1200")
    connection = Connection(bed, 5001)
    assert connection.transfer(2 << 20)
    connection.close()


def test_fragments_go_where_their_datagram_goes(bed):
    """Otherwise one box would see only the first fragment, and a filter could not classify the others."""
    for box in bed.boxes.values():
        # Connection tracking reassembles: pieces that are not together are lost.
        box.run("nft", "add table ip f; add chain ip f forward { type filter hook forward priority 0; }; "
                       "add rule ip f forward ct state invalid drop")
    for size in (3000, 8000, 20000):
        for _ in range(5):
            assert answers(bed.lan, WAN, "-s", str(size))


def test_a_drained_box_ends_without_a_lost_packet(bed):
    load = bed.begin(3000, 5.0, flows=1500)
    time.sleep(max(load.begins - time.time(), 0) + 0.5)
    bed.balance("drain", "r1", "--within", "30s")
    until(lambda: bed.state("r1") == "drained", "r1 to be drained", timeout=30)
    assert bed.buckets("r2") == 65536
    bed.balance("add", "r1", "--within", "30s")
    until(lambda: bed.buckets("r1") > 30000, "r1 to have its share", timeout=30)
    outcome = load.end()
    assert (outcome.lost, outcome.reordered, outcome.twice) == (0, 0, 0)
    shown = bed.balance("show")
    assert re.search(r"^r1 .* up weight 1 buckets \d+ leaving 0", shown, re.MULTILINE), shown
    assert "r1 drained by hand" in shown


def test_load_is_levelled_without_a_lost_or_reordered_packet(lab):
    bed = Bed(lab, ["r1", "r2"], workers=2, more='algorithm = "least-loaded"\n' + CALM)
    bed.start()
    ready(bed)
    # r2 begins with a fifth of the flows, so that much has to move: then the weights are the same again.
    bed.balance("weight", "r1", "4", "--within", "0")
    until(lambda: bed.buckets("r2") < 20000, "r2 to have its share")
    bed.balance("weight", "r1", "1", "--within", "60s")
    outcome = bed.load(2000, 6.0, flows=1000)
    assert (outcome.lost, outcome.reordered, outcome.twice) == (0, 0, 0)
    until(lambda: abs(bed.buckets("r2") - 32768) < 6000, "both to have their share", timeout=30)


def test_two_balancers_share_boxes_and_drain_them_together(lab):
    bed = PairBed(lab, ["r1", "r2"])
    bed.start()
    ready(bed)
    assert bed.tables_are_equal()
    load = bed.begin(1500, 6.0, flows=1000)
    time.sleep(max(load.begins - time.time(), 0) + 0.5)
    bed.balance("drain", "r1", "--within", "30s")
    until(lambda: all(words[2] == "drained" for words in bed.states_at_all()), "r1 to be drained at both", timeout=30)
    assert bed.tables_are_equal()
    bed.balance("add", "r1", "--within", "30s")
    until(lambda: all(int(words[6]) > 30000 for words in bed.states_at_all()), "r1 to have its share at both", timeout=30)
    outcome = load.end()
    assert (outcome.lost, outcome.reordered, outcome.twice) == (0, 0, 0)
    until(bed.tables_are_equal, "equal tables")
    until(lambda: re.search(r"^balancer right 10\.255\.0\.2 agrees", bed.balance("show"), re.MULTILINE), "the right one to agree")
    bed.boxes["r1"].ip("link set eth0 down")
    until(lambda: all(words[2] == "down" for words in bed.states_at_all()), "r1 to be down at both")
    assert bed.tables_are_equal()
    until(lambda: ping(bed.lan, WAN), "packets to cross")


def counted(bed: Bed, name: str, connection: Connection) -> bool:
    """True if packets of a connection pass a box."""
    before = bed.forwarded(name)
    for _ in range(50):
        assert connection.works()
    # Probes are some 10 a second.
    return bed.forwarded(name) - before >= 100


def test_connections_of_other_boxes_survive_a_crash(lab):
    """Filters on the boxes accept only packets of connections whose beginning they have seen, so silent connections
    must not move.
    """
    bed = Bed(lab, ["r1", "r2"], more='idle = "1h"\ndeadline = "2h"\n' + CALM)
    bed.start()
    ready(bed)
    for box in bed.boxes.values():
        box.sysctl(net__netfilter__nf_conntrack_tcp_loose=0)
        box.run("nft", "add table ip f; add chain ip f forward { type filter hook forward priority 0; policy drop; }; "
                       "add rule ip f forward udp dport 3785 accept; add rule ip f forward ct state established accept; "
                       "add rule ip f forward ct state new ip daddr 10.0.2.0/24 accept")
    connections = [Connection(bed, 5100 + n) for n in range(16)]
    assert all(c.works() for c in connections)
    # The owner of each connection, as its box has counted its packets.
    on_r2 = [c for c in connections if counted(bed, "r2", c)]
    assert 1 <= len(on_r2) <= 15, "they are spread"
    bed.boxes["r1"].ip("link set eth0 down")
    until(lambda: bed.state("r1") == "down", "r1 to be down")
    assert all(c.works() for c in on_r2)
    fresh = Connection(bed, 5200)
    assert fresh.works()
    bed.boxes["r1"].ip("link set eth0 up")
    bed.boxes["r1"].run("sh", str(bed.lab.folder / "r1.sh"))
    until(lambda: bed.state("r1") == "up", "r1 to be up", timeout=20)
    assert fresh.works()


def translated(bed: Bed, n: int, port: int = 80) -> tuple[socket.socket, socket.socket, str]:
    """A connection to an outside host: its two ends, and the source address that the host sees."""
    listener = bed.wan.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind((f"10.0.2.{20 + n}", port))
    listener.listen()
    client = bed.lan.socket(socket.AF_INET, socket.SOCK_STREAM)
    client.settimeout(10)
    client.connect((f"10.0.2.{20 + n}", port))
    there, (peer, _) = listener.accept()
    there.settimeout(10)
    return client, there, peer


def carries(client: socket.socket, there: socket.socket) -> bool:
    """True if bytes go both ways."""
    for a, b in ((client, there), (there, client)):
        a.sendall(b"x" * 30_000)
        if exactly(b, 30_000) != b"x" * 30_000:
            return False
    return True


def test_boxes_translate_each_to_addresses_of_its_own(lab):
    """Packets to an address that a box owns go to this box, even if the flow's hash would choose another one."""
    bed = Bed(lab, ["r1", "r2"], more='key = "outside"\nidle = "1h"\ndeadline = "2h"\n', wan='proxy = ["203.0.113.0/24"]\n',
              each='owns = ["203.0.113.{number}/32"]')
    bed.wan.ip("route add 203.0.113.0/24 via 10.0.2.1")
    for number, box in enumerate(bed.boxes.values(), 1):
        box.run("nft", "add table ip n; add chain ip n post { type nat hook postrouting priority 100; }; "
                       f"add rule ip n post ip saddr 10.0.1.0/24 ip daddr 10.0.2.0/24 snat to 203.0.113.{number}")
    bed.start()
    until(lambda: ping(bed.lan, WAN), "packets to cross", timeout=20)
    for n in range(6):
        bed.wan.ip(f"address add 10.0.2.{20 + n}/24 dev eth0")
    open_ones = [translated(bed, n) for n in range(6)]
    assert {peer for _, _, peer in open_ones} <= {"203.0.113.1", "203.0.113.2"}
    assert all(carries(client, there) for client, there, _ in open_ones)
    # Hosts reach the pool's addresses without a gateway, so they ask who has them.
    bed.wan.ip("route replace 203.0.113.0/24 dev eth0")
    assert answers(bed.lan, WAN)
    assert mac_of(bed.space, "eth1") in bed.wan.run("ip", "neigh", "show", "to", "203.0.113.0/24").out
    # A box crashes: no connection of the other box is cut, and new ones go to the other box.
    other = f"r{open_ones[0][2][-1]}"
    [owner] = {"r1", "r2"} - {other}
    bed.crash(owner)
    until(lambda: bed.state(owner) == "down", f"{owner} to be down")
    kept = [one for one in open_ones if one[2].endswith(other[1:])]
    assert all(carries(client, there) for client, there, _ in kept)
    assert kept
    client, there, peer = translated(bed, 0, 81)
    assert peer == f"203.0.113.{other[1:]}" and carries(client, there)
    # The box comes back; the other box keeps its flows.
    bed.revive(owner)
    until(lambda: bed.state(owner) == "up", f"{owner} to be up", timeout=20)
    assert all(carries(client, there) for client, there, _ in [*kept, (client, there, peer)])


def test_a_box_is_added_by_a_reload_while_packets_cross(lab):
    bed = Bed(lab, ["r1", "r2", "r3"])
    whole = bed.file.read_text()
    bed.file.write_text(text(["r1", "r2"]))
    bed.start()
    ready(bed)
    load = bed.begin(3000, 4.0, flows=1500)
    time.sleep(max(load.begins - time.time(), 0) + 0.5)
    bed.file.write_text(whole)
    bed.router.cli("reload")
    until(lambda: bed.buckets("r3") > 21000, "r3 to have its share", timeout=20)
    outcome = load.end()
    assert (outcome.lost, outcome.reordered, outcome.twice) == (0, 0, 0)
    bed.file.write_text(whole.replace("02:00:00:00:00:03", "02:00:00:00:00:01"))
    refused = lab.run(ASHLAR, "reload", "--socket", str(bed.router.socket), ok=None)
    assert refused.status != 0 and "has the `ether` of `r3`" in refused.err, refused
    assert bed.state("r3") == "up"


def test_lost_probes_of_all_boxes_cost_no_packet(lab):
    bed = Bed(lab, ["r1", "r2", "r3"])
    bed.start()
    ready(bed)
    load = bed.begin(1000, 3.0)
    time.sleep(max(load.begins - time.time(), 0) + 0.5)
    bed.switch.run("nft", "add table netdev lossy; add chain netdev lossy in { type filter hook ingress device up0 priority 0; }; "
                          "add rule netdev lossy in udp dport 3785 drop")
    until(lambda: all(bed.state(name) == "down" for name in bed.boxes), "all to seem down")
    bed.switch.run("nft", "delete table netdev lossy")
    until(lambda: all(bed.state(name) == "up" for name in bed.boxes), "all to be up")
    outcome = load.end()
    assert (outcome.lost, outcome.twice) == (0, 0)


def test_each_port_is_a_vlan_inside_and_the_box_is_ashlar(lab):
    """The box has a sub-interface for each port. Its kernel answers the probes."""
    bed = Bed(lab, [])
    bed.file.write_text(text(["r1"], more='inside = "vlan"\nhealth = "arp"\n', lan="vlan = 101", wan="vlan = 102"))
    box = lab.namespace("r1")
    bed.cable(box, "eth0", "to-r1")
    box.ip("link set eth0 address 02:00:00:00:00:01")
    box.ip("address add 10.255.0.11/24 dev eth0")
    inside = box.spawn(ASHLAR, "run", str(ROOT / "conf/ip-router.click"), "--socket", str(lab.folder / "r1.sock"),
                       "DEV0=eth0.101", "DEV1=eth0.102", "IP0=10.0.1.1", "IP1=10.0.2.1", "IP6_0=fd00:1::1", "IP6_1=fd00:2::1", "MTU0=1500",
                       "MTU1=1500")
    inside.wait_for("start", timeout=20)
    bed.boxes["r1"] = box
    bed.start()
    until(lambda: ping(bed.lan, WAN) and ping(bed.wan, LAN), "packets to cross", timeout=20)
    until(lambda: ping(bed.lan, WAN6) and ping(bed.wan, LAN6), "IPv6 packets to cross", timeout=20)
    assert answers(bed.lan, ROUTER["lan"]) and ping(bed.wan, ROUTER["wan"])
    outcome = bed.load(1000, 1.0)
    assert (outcome.lost, outcome.reordered, outcome.twice) == (0, 0, 0)
    assert bed.state("r1") == "up"
    inside.stop()
    box.ip("link set eth0 down")
    until(lambda: bed.state("r1") == "down", "r1 to be down")


def test_differences_of_a_box_are_reported(bed):
    check = bed.lab.folder / "check.sh"
    check.write_text(bed.lab.run(ASHLAR, "balance", "backend", str(bed.file), "--name", "r1", "--check").out)
    box = bed.boxes["r1"]
    assert box.run("sh", str(check)).out == ""
    box.ip("address delete 10.0.2.1/24 dev eth0")
    box.sysctl(net__ipv4__conf__all__arp_ignore=0)
    told = box.run("sh", str(check), ok=None)
    assert told.status == 1
    assert told.out.splitlines() == ["r1: eth0 lacks 10.0.2.1/24 (wan)", "r1: net.ipv4.conf.all.arp_ignore is 0, not 1"]


def test_a_box_that_is_down_is_in_the_metrics_and_in_the_log(bed):
    bed.boxes["r1"].ip("link set eth0 down")

    def metrics() -> str:
        return bed.lab.run("curl", "-s", "--unix-socket", str(bed.router.socket), "http://localhost/metrics").out

    up = 'ashlar_balancer_backend_up{element="lb",backend="r%d",router="edge"} %d'
    until(lambda: up % (1, 0) in metrics(), "the box to be down in the metrics")
    until(lambda: up % (2, 1) in metrics(), "the other box to be up in the metrics")
    bed.router.process.wait_for("health: r1 down silent")


@pytest.mark.parametrize("kind", ["arp", "icmp"])
def test_other_kinds_of_health(lab, kind):
    bed = Bed(lab, ["r1", "r2"], more=f'health = "{kind}"\n')
    bed.start()
    until(lambda: ping(bed.lan, WAN), "packets to cross", timeout=20)
    assert bed.state("r1") == bed.state("r2") == "up"
    delay = re.search(r"^r1 up missing \d+ delay (\S+)", bed.router.cli("show", "health.backends"), re.MULTILINE)
    assert delay and delay[1] != "0ns"
    bed.boxes["r1"].ip("link set eth0 down")
    until(lambda: bed.state("r1") == "down", "r1 to be down")
    assert bed.state("r2") == "up"
    bed.boxes["r1"].run("sh", str(bed.lab.folder / "r1.sh"))
    until(lambda: bed.state("r1") == "up", "r1 to be up", timeout=20)


@pytest.mark.skipif(not available(), reason="needs frr")
def test_health_by_bfd_of_a_daemon_on_the_box(lab):
    """FRR's bfdd runs, hangs, and comes back."""
    # A daemon that has no core for a second must not look dead.
    bed = Bed(lab, ["r1", "r2"], more='health = "bfd"\ninterval = "100ms"\nmisses = 20\n')
    peer = "bfd\n peer 10.255.0.1\n  receive-interval 50\n  transmit-interval 50\n  detect-multiplier 5\n"
    daemons = {name: Frr(box, {"bfdd": peer}) for name, box in bed.boxes.items()}
    for frr in daemons.values():
        frr.start()
    bed.start()

    def sessions(name: str) -> str:
        return daemons[name].vtysh("show bfd peers")

    until(lambda: all("Status: up" in sessions(name) for name in bed.names), "the daemons' sessions", timeout=30)
    until(lambda: ping(bed.lan, WAN), "packets to cross", timeout=20)
    until(lambda: bed.state("r1") == bed.state("r2") == "up", "both to be up")
    before = len(bed.journal())
    time.sleep(6)
    assert bed.state("r1") == bed.state("r2") == "up"
    assert not any(" down" in what for _, what in bed.journal()[before:]), bed.journal()
    with daemons["r1"].processes["bfdd"].still():
        until(lambda: bed.state("r1") == "down", "r1 to be down")
        assert bed.state("r2") == "up"
    until(lambda: bed.state("r1") == "up", "r1 to be up", timeout=30)
    daemons["r2"].kill("bfdd")
    until(lambda: bed.state("r2") == "down", "r2 to be down")
    daemons["r2"].start()
    until(lambda: bed.state("r2") == "up", "r2 to be up", timeout=30)
    until(lambda: "Status: up" in sessions("r2"), "the daemon's session", timeout=30)


def test_a_silent_next_hop_and_one_that_is_not_there(bed):
    """The balancer sends requests outside in the router's name, and boxes learn the answers."""
    for box in bed.boxes.values():
        box.flush("neigh flush dev eth0")
    bed.wan.flush("neigh flush dev eth0")
    assert answers(bed.wan, LAN)
    seen = bed.wan.run("ping", "-c1", "-W15", "10.0.1.77", ok=None).out
    assert "Destination Host Unreachable" in seen, seen


def test_frames_that_pretend_to_be_a_back_end_or_the_router_change_nothing(bed):
    r1, front = "02:00:00:00:00:01", mac_of(bed.space, "eth0")
    raw = bed.lan.socket(socket.AF_PACKET, socket.SOCK_RAW)
    raw.bind(("eth0", 0))

    def octets(ether: str) -> bytes:
        return bytes.fromhex(ether.replace(":", ""))

    arp = (octets("ff:ff:ff:ff:ff:ff") + octets(r1) + bytes.fromhex("08060001080006040002") + octets(r1)
           + socket.inet_aton("10.0.1.1") + octets(front) + socket.inet_aton("10.0.1.1"))
    packet = octets(front) + octets(r1) + b"\x08\x00" + bytes(46)
    for _ in range(50):
        raw.send(arp)
        raw.send(packet)
    until(lambda: "spoofed\t100" in bed.router.cli("show", "in0.named_drops"), "the frames to be dropped by name")
    outcome = bed.load(2000, 1.0)
    assert (outcome.lost, outcome.reordered) == (0, 0)


def test_the_table_equals_that_of_another_program(bed):
    """Computed from the algorithm in docs/multistage.md: with equal weights the greatest hash has the least cost."""
    owners = bed.router.cli("show", "lb.owners").split()
    mask = 2**64 - 1

    def mix(x: int) -> int:
        x = ((x ^ x >> 30) * 0xbf58476d1ce4e5b9) & mask
        x = ((x ^ x >> 27) * 0x94d049bb133111eb) & mask
        return x ^ x >> 31

    def key(name: str) -> int:
        value = 0xcbf29ce484222325
        for octet in name.encode():
            value = ((value ^ octet) * 0x100000001b3) & mask
        return mix(value)

    keys = {name: key(name) for name in bed.names}
    for bucket in range(0, 65536, 97):
        best = max(bed.names, key=lambda name: mix(keys[name] ^ mix(bucket + 1)) | 1)
        assert owners[bucket] == best, bucket


def test_the_page_works_as_it_is_written(lab):
    """docs/multistage.md, from two Linux boxes to one router: the file and the commands exactly as written there."""
    page = (ROOT / "docs/multistage.md").read_text()
    page = page[page.index("## From two"):page.index("## Day two")]
    [file] = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    lines = [line.strip() for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL) for line in block.splitlines()]
    lines = [line for line in lines if line]
    bed = Bed(lab, [])
    for name in ("r1", "r2"):
        box = lab.namespace(name)
        bed.cable(box, "eth0", f"to-{name}")
        bed.boxes[name] = box
    spaces = {"balancer": bed.space, "lan": bed.lan, **bed.boxes}
    (lab.folder / "edge.toml").write_text(textwrap.dedent(file))
    tools = lab.folder / "bin"
    tools.mkdir()
    (tools / "ashlar").symlink_to(ASHLAR)
    env = {"PATH": f"{tools}:{os.environ['PATH']}", "XDG_RUNTIME_DIR": str(lab.folder)}
    typed = 0
    for line in lines:
        where, command = re.fullmatch(r"(\w+)[#$] (.*)", line).groups()
        space = spaces[where]
        typed += 1
        if command.endswith(" &"):
            router = space.spawn("sh", "-c", f"exec {command[:-2]}", env=env, cwd=str(lab.folder))
            router.wait_for("start|ready|run", timeout=20)
            until(lambda: space.run("ashlar", "balance", "show", "--socket", "edge", ok=None, env=env).status == 0,
                  "the balancer's answer", timeout=20)
        else:
            done = space.run("sh", "-c", command, env=env, cwd=str(lab.folder), ok=None)
            assert done.status == 0, f"{line}\n{done}"
    assert typed == len(lines) >= 9
    assert re.search(r"^r2 .* up ", done.out, re.MULTILINE), done
