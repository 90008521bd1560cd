"""Four servers as one router (conf/cluster.toml), as seen by hosts on its external ports."""

import itertools
import json
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from net import Lab, leftovers, until
from rb4 import MORE, NAMES, Rb4, host, router
from streams import Streams
from taps import Tap, mac_of
from test_idle import TURNS_MOST, cpu_seconds, turns_per_sleep
from topology import ASHLAR
from traffic import FAMILY, _exchange, answered, listen, port

pytestmark = [pytest.mark.ashlar, pytest.mark.long]
# Other load of this machine must not count as a failure of a server.
CALM = 'heartbeat = "50ms"\ndead = "1s"'
REFUSALS = ("malformed", "foreign", "forged", "misplaced", "replayed")
PAIRS = list(itertools.permutations(NAMES, 2))


@pytest.fixture(scope="module")
def bed():
    """A cluster whose port d accepts packets of at most 1300 bytes."""
    with Lab() as lab:
        made = Rb4(lab, mtus={"d": 1300}, options=CALM)
        made.start("--workers", "2")
        made.meet()
        yield made
        made.stop()


@pytest.mark.parametrize("version", [4, 6])
def test_tcp_between_all_pairs_arrives_as_it_was(bed, version):
    for a, b in PAIRS:
        tcp(bed, a, b, version)


def tcp(bed, a, b, version):
    listener = listen(bed.hosts[b], version)
    near = bed.hosts[a].socket(FAMILY[version], socket.SOCK_STREAM)
    near.settimeout(30)
    near.connect((host(b, version), port(listener)))
    far, _ = listener.accept()
    far.settimeout(30)
    _exchange({near: 200_000, far: 200_000})
    listener.close()


@pytest.mark.parametrize("version", [4, 6])
def test_the_time_to_live_falls_by_one_across_the_cluster(bed, version):
    for a, b in PAIRS:
        said = answered(bed.hosts[a], f"-{version}", host(b, version), count=1)
        # The answer has left with 64, and crossed the cluster once.
        assert re.search(r"(ttl|hlim)=63 ", said), said


@pytest.mark.parametrize("version", [4, 6])
def test_time_exceeded_comes_from_the_port_by_which_the_packet_came_in(bed, version):
    for a, b in PAIRS:
        done = bed.hosts[a].run("ping", f"-{version}", "-n", "-c1", "-t1", "-W15", host(b, version), ok=None)
        assert re.search(rf"From {router(a, version)} icmp_seq=1 Time (to live )?exceeded", done.out), str(done)


def test_traceroute_sees_one_router(bed):
    done = bed.hosts["a"].run("traceroute", "-n", "-q1", "-w10", host("c", 4))
    assert re.findall(r"^ *\d+ +(\S+) ", done.out, re.MULTILINE) == [router("a", 4), host("c", 4)], str(done)


@pytest.mark.parametrize("version", [4, 6])
def test_too_large_for_the_output_port_is_told_from_the_input_port(bed, version):
    bed.hosts["a"].ip(f"-{version} route flush cache")
    size = "1372" if version == 4 else "1352"  # 1400 bytes
    done = bed.hosts["a"].run("ping", f"-{version}", "-n", "-c1", "-W15", "-Mdo", "-s", size, host("d", version), ok=None)
    told = rf"From {router('a', version)} icmp_seq=1 (Frag needed and DF set \(mtu = 1300\)|Packet too big: mtu=1300)"
    assert re.search(told, done.out), str(done)
    bed.hosts["a"].ip(f"-{version} route flush cache")


def test_without_df_the_input_node_cuts(bed):
    tap = Tap(bed.hosts["d"], outgoing=False)
    tap.take()
    answered(bed.hosts["b"], "-4", "-Mdont", "-s1400", host("d", 4), count=1)
    lengths = [int.from_bytes(f.data[16:18]) for f in tap.take() if f.ethertype == 0x800 and f.data[26:30] == bytes([10, 0, 2, 2])]
    assert len(lengths) == 2 and max(lengths) <= 1300, lengths


def test_packets_of_1500_bytes_are_never_cut_inside(bed):
    tap = Tap(bed.hosts["c"], outgoing=False)
    tap.take()
    answered(bed.hosts["a"], "-4", "-Mdo", "-s1472", host("c", 4))
    frames = [f.data for f in tap.take() if f.ethertype == 0x800 and f.data[26:30] == bytes([10, 0, 1, 2])]
    assert [len(f) for f in frames] == [1514] * 3
    assert all(f[20] & 0x3f == 0 and f[21] == 0 for f in frames), "a fragment"


@pytest.mark.parametrize("version", [4, 6])
def test_every_address_of_the_router_answers_everywhere(bed, version):
    for a, b in itertools.product(NAMES, repeat=2):
        said = answered(bed.hosts[a], f"-{version}", "-s1400", router(b, version), count=1)
        # The cluster is one router: no hop lies between its addresses. (An IPv4 answer of its own counts as forwarded.)
        assert f"ttl={63 if version == 4 else 64} " in said, said


def test_no_host_outside_can_send_as_a_node(bed):
    """Frames from outside that look like internal ones, to the port's address and to a node's address, are refused."""
    tap = Tap(bed.hosts["a"])
    victim = Tap(bed.hosts["b"], outgoing=False)
    victim.take()
    packet = bytes.fromhex("4500001c00010000401163cd0a0001020a000202" "04d2162e00080000")
    before = bed.dropped("a", "transit")
    for cookie in range(256):
        inner = bytes([0x3e, 0, 1, 0, 0, 0, 2, 0, 0, 0xff, 0xff, cookie, 8, 0]) + packet
        tap.socket.send(inner)
        tap.socket.send(bytes.fromhex(mac_of(bed.servers["a"], "eth0").replace(":", "")) + inner[6:])
    until(lambda: bed.ping("a", host("b", 4), 4), "a to reach the host of b")
    took = [f for f in victim.take() if f.data[26:34] == packet[12:20] and f.data[23] == 17]
    # A routed packet has one hop less; one that came through as a frame of the cluster would still have 64.
    assert {f.data[22] for f in took} == {63}, "a frame came through unrouted, or none was routed"
    assert len(took) <= 256, "a frame in the internal form was routed"
    assert bed.dropped("a", "transit") == before


def test_a_server_refuses_internal_frames_from_outside(bed):
    """A host replays frames of an internal link, data and heartbeats, unchanged and with the port's own address."""
    inside, outside, victim = Tap(bed.servers["a"], "to-b"), Tap(bed.hosts["a"]), Tap(bed.hosts["b"], outgoing=False)
    inside.take()
    answered(bed.hosts["a"], "-4", "-c3", "-s100", host("b", 4))
    frames = [f.data for f in inside.collect(lambda all_: sum(kind(f) == "beat" for f in all_) > 20, "heartbeats")]
    packets = [f for f in frames if f[12:14] == b"\x08\0" and f[26:30] == bytes([10, 0, 1, 2])]
    beats = [f for f in frames if f[12:14] == b"\x88\xb6"]
    assert packets and len(beats) > 20
    own = bytes.fromhex(mac_of(bed.servers["a"], "eth0").replace(":", ""))
    victim.take()
    before = {name: refusals(bed, name) for name in NAMES}
    links = bed.show("a", "beat.links").count(" up")
    for frame in packets + beats:
        for sent in (frame, own + frame[6:]):
            outside.socket.send(sent)
    # With the digest's ethertype, too: what is in it is no packet to a port outside.
    for frame in packets:
        outside.socket.send(own + frame[6:12] + b"\x88\xb5" + frame[14:])
    until(lambda: bed.ping("a", host("b", 4), 4, "-s", "7"), "a to reach the host of b")
    came = [f.data for f in victim.take() if f.ethertype == 0x800 and f.data[26:30] == bytes([10, 0, 1, 2]) and len(f.data) > 100]
    # A frame to the port's own address is an ordinary packet: it is forwarded once, with one hop less.
    assert [f[22] for f in came] == [packets[0][22] - 1] * len(packets), "a frame came through unrouted, or none was routed"
    assert {name: refusals(bed, name) for name in NAMES} == before
    assert bed.show("a", "beat.links").count(" up") == links == 3


def refusals(bed, name: str) -> dict[str, int]:
    """Number of frames that a server's transit and heartbeat elements refused as foreign."""
    found = {}
    for element in bed.elements(name):
        if element["name"] in ("transit", "beat"):
            for at, drop in enumerate(element["drop_names"]):
                found[f"{element['name']} {drop}"] = sum(copy["drops"][at] for copy in element["copies"])
    # Heartbeats end where they are heard.
    return {drop: count for drop, count in found.items() if not drop.startswith("beat ") or drop.split()[1] in REFUSALS}


def kind(frame) -> str:
    return "beat" if frame.data[12:14] == b"\x88\xb6" else "packet"


def test_show_tells_of_links_their_loads_and_drops(bed):
    def shown():
        return json.loads(bed.lab.run(ASHLAR, "cluster", "show", "--json", "-i", "0.2", str(bed.file)).out)

    servers = until(lambda: (them := shown()) and all(link["up"] for server in them for link in server["links"]) and them,
                    "all links to be up", 20)
    assert [server["server"] for server in servers] == list(NAMES)
    for server in servers:
        assert [link["to"] for link in server["links"]] == [name for name in NAMES if name != server["server"]]
        assert server["spread"]["direct"] > 0 and all(0 <= link["load"] for link in server["links"])
        assert all(0 <= link["seconds"] <= server["uptime"] + 1 for link in server["links"]), server
    line = re.compile(r"^server b: running for 0:\d\d:\d\d, 3 of 3 links up$", re.MULTILINE)
    until(lambda: line.search(bed.lab.run(ASHLAR, "cluster", "show", "-i", "0.2", str(bed.file)).out), "b to show its links", 20)


def test_a_changed_file_is_taken_up_by_all_servers_or_by_none(bed):
    text = bed.file.read_text()
    a, d = bed.hosts["a"], bed.hosts["d"]
    try:
        bed.file.write_text(text.replace('addresses = ["10.0.4.1/24"', 'addresses = ["10.0.4.0/24"'))
        refused = bed.lab.run(ASHLAR, "cluster", "reload", str(bed.file), ok=(1,))
        assert "is no address of a host" in refused.err, str(refused)
        # A network behind the host of d.
        gateway = text.replace("mtu = 1300", 'mtu = 1300\ngateways = ["10.0.4.2"]')
        bed.file.write_text(f'{gateway}\n[[route]]\nprefix = "198.51.100.0/24"\nvia = "10.0.4.2"\n')
        d.ip("address add 198.51.100.1/32 dev lo")
        assert not bed.ping("a", "198.51.100.1", 4)
        done = bed.lab.run(ASHLAR, "cluster", "reload", str(bed.file))
        assert done.out.count("uses it") == 4, str(done)
        assert "ttl=63 " in answered(a, "-4", "198.51.100.1", count=1)
    finally:
        bed.file.write_text(text)
        bed.lab.run(ASHLAR, "cluster", "reload", str(bed.file))
        d.ip("address del 198.51.100.1/32 dev lo")


def test_servers_without_traffic_sleep_between_heartbeats(bed):
    for name in NAMES:
        until(lambda name=name: " down" not in bed.show(name, "vlb.links"), "all links to be up", 20)
    pids, beats = {name: process.pid for name, process in bed.processes.items()}, {}
    for name, pid in pids.items():
        heard, before, start = bed.count(name, "beat.count"), cpu_seconds(pid), time.monotonic()
        turns = turns_per_sleep(bed.socket(name), 200)
        passed = time.monotonic() - start
        share, beats[name] = (cpu_seconds(pid) - before) / passed, bed.count(name, "beat.count") - heard
        print(f"\nidle: {name} {turns:.1f} turns for each sleep, {share:.1%} of a core, {beats[name] / passed:.0f} heartbeats a second")
        assert turns < TURNS_MOST, name
    assert all(beats.values()), f"heartbeats while they slept: {beats}"


def test_the_other_servers_go_round_one_that_is_killed(lab):
    """Each server sends to one other server far more than R/N, so that much traffic passes third nodes, including the
    killed one.
    """
    bed = Rb4(lab, "2Mbps", options=CALM)
    bed.start()
    bed.meet((4,))
    rest = [name for name in NAMES if name != "d"]
    streams = Streams(rate=700, size=200)
    for a, b in zip(rest, rest[1:] + rest[:1], strict=True):
        streams.add(f"{a}-{b}", bed.hosts[a], bed.hosts[b], 4, host(b, 4))
    with streams:
        streams.warm()
        until(lambda: all(bed.count(name, "enter.phase1") > 50 for name in rest), "traffic by third nodes", 60)
        bed.processes["d"].signal(signal.SIGKILL)
        bed.processes.pop("d").wait()
        until(lambda: all(re.search(r" d down", bed.show(name, "beat.links")) for name in rest), "all to know", 20)
        # Hosts that were held up send many packets at once. Packets that links cannot carry are dropped under a name of their own.
        full = bed.refused(rest)
        marks = [len(stream.sent) for stream in streams.streams]
        until(lambda: all(len(s.sent) > mark + 700 for s, mark in zip(streams.streams, marks, strict=True)), "traffic", 20)
    after = [len([n for n in range(mark + 50, len(s.sent)) if n not in s.seen]) for s, mark in zip(streams.streams, marks, strict=True)]
    assert sum(after) <= bed.refused(rest) - full, f"lost once all knew: {after}\n{streams.report()}{bed.drops()}"
    bed.stop()


def test_a_fifth_and_a_sixth_server_join_under_traffic_without_a_lost_packet(lab):
    """Each of the first four servers sends three quarters of R to one other server, more than its link carries, so that
    third nodes carry packets, too; then the new two do the same.
    """
    rate = 0.9
    bed = Rb4(lab, f"{rate:g}Mbps", names=MORE, options=CALM)
    bed.start()
    bed.meet((4,))
    with streams(bed, ring(NAMES)) as old:
        old.warm()
        until(lambda: all(bed.count(name, "enter.phase1") > 50 for name in NAMES), "traffic by third nodes", 60)
        for new in MORE[len(NAMES):]:
            names = MORE[:MORE.index(new) + 1]
            bed.describe(names)
            bed.start(names=(new,))
            done = bed.lab.run(ASHLAR, "cluster", "reload", str(bed.file))
            assert done.out.count("uses it") == len(names), str(done)
            links = [f"{a}-{b} up {2 * rate / len(names):g}Mbps" for a, b in itertools.combinations(names, 2)]
            for name in names:
                until(lambda n=name, all_=sorted(links): sorted(bed.show(n, "vlb.links").split("\n"))[-len(all_):] == all_,
                      f"{name} to use all links, with 2R/N each", 20)
            for a, b in itertools.chain.from_iterable(((new, other), (other, new)) for other in names[:-1]):
                until(lambda a=a, b=b: bed.ping(a, host(b, 4), 4), f"{a} to reach {b}", 20)
        with streams(bed, (("e", "f"), ("f", "e"))) as more:
            more.warm()
            carried = {name: bed.passed_on(name) for name in MORE}
            until(lambda: all(len(stream.seen) > 200 for stream in more.streams), "the new servers' traffic", 20)
            # Old links carry less than before, and the new servers are intermediate nodes like all others.
            until(lambda: all(bed.passed_on(name) > carried[name] + 20 for name in ("e", "f")), "packets by the new servers", 20)
    # Hosts that were held up send many packets at once. Packets that links cannot carry are dropped under a name of their own.
    refused = {name: bed.refused([name]) for name in MORE}
    for stream in more.streams + old.streams:
        assert stream.lost <= refused[stream.name[0]], old.report() + more.report() + bed.drops()
    bed.stop()


def ring(names):
    return zip(names, names[1:] + names[:1], strict=True)


def streams(bed, pairs):
    """Eight flows for each pair, together 0.69 Mbit/s."""
    made = Streams(rate=250 / 8, size=333)
    for a, b in pairs:
        for flow in range(8):
            made.add(f"{a}-{b} {flow}", bed.hosts[a], bed.hosts[b], 4, host(b, 4))
    return made


def test_tags_of_a_resequencer_take_no_room_of_packets(lab):
    bed = Rb4(lab, options=f'{CALM}\nresequence = "2ms"\nkey = "000102030405060708090a0b0c0d0e0f"')
    bed.start()
    bed.meet()
    for version, size in ((4, 1472), (6, 1452)):
        answered(bed.hosts["a"], f"-{version}", "-Mdo", f"-s{size}", host("c", version))
    tcp(bed, "b", "d", 4)
    bed.stop()


@pytest.mark.alone
def test_make_cluster_keeps_its_bounds_ends_with_its_results_and_leaves_nothing_behind():
    program = Path(__file__).with_name("cluster.py")
    run = subprocess.Popen([sys.executable, str(program), "--seconds", "3", "--rate", "6"], stdout=subprocess.PIPE, text=True)
    try:
        said = run.communicate(timeout=400)[0]
    finally:
        # Whatever went wrong: it takes its namespaces away.
        run.terminate()
        run.wait(30)
    assert run.returncode == 0, said
    results = {name: float(value) for name, value in re.findall(r"^cluster (\S+) (\S+)$", said, re.MULTILINE)}
    last = ["throughput", "fairness", "reordered", "lost", "latency-p50", "latency-p99"]
    assert list(results)[-6:] == last and said.splitlines()[-1].startswith("cluster latency-p99 "), said
    assert 0 < results["throughput"] <= 24, said
    for matrix in ("uniform", "permutation", "adverse"):
        assert results[f"{matrix}-least-share"] >= 0.95 and results[f"{matrix}-most-loaded-link"] <= 1.05, said
        assert results[f"{matrix}-lost-without-name"] == 0, said
    assert results["incast-fairness"] >= 0.95 and results["incast-lost"] > 0, said
    assert leftovers(f"ashlar-{run.pid}-") == []
