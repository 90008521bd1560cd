"""The tools for a running router, under traffic: show, set, top, metrics, capture, trace, reload.

Shows that handlers are read and written while packets flow, that counts agree with what was sent
under their labels, that batch sizes (kp, kn) and routes change at run time, that captures are what
other programs read and are bounded, and that none of it, nor a reload, loses a packet.
"""

import json
import re
import signal
from pathlib import Path

import pytest
from net import Failed, Process, until
from scapy.layers.inet import ICMP, IP
from scapy.utils import rdpcap
from taps import Tap, mac_of
from topology import ASHLAR, CLIENT, CONFIGURATION, SERVER, Network
from traffic import Pings, tcp_transfer, udp_echo

pytestmark = pytest.mark.ashlar


def flood(network: Network, version: int, count: int = 400) -> Process:
    """A steady stream of pings through the router, 200 each second."""
    return network.client.spawn("ping", f"-{version}", "-q", f"-c{count}", "-i0.005", "-W10", SERVER.host[version])


def lost(stream: Process) -> int:
    stream.wait(30)
    sent, received = re.search(r"(\d+) packets transmitted, (\d+) received", stream.out).groups()
    return int(sent) - int(received)


def test_elements_and_handlers_are_listed(network):
    router = network.router
    listed = router.cli("show")
    for name in router.elements("FromDevice") + router.elements("ToDevice"):
        assert re.search(rf"^{re.escape(name)} +:: ", listed, re.MULTILINE), listed
        assert router.cli("show", f"{name}.class").strip() in ("FromDevice", "ToDevice")
    assert len(json.loads(router.cli("show", "--json"))) == int(router.cli("show", "list").split()[0])


def test_mistakes_of_the_user_are_answered_with_sentences(network):
    router = network.router
    for words in (["show", "nobody.count"], ["show", "rt4.nothing"], ["set", "rt4.class", "1"],
                  ["set", "nobody.count", "1"]):
        with pytest.raises(Failed, match="ashlar: .* .* .*"):
            router.cli(*words)
    assert router.process.running


def test_counts_agree_with_the_sent_packets(network):
    """Each datagram passes once in each direction."""
    network.meet()
    router = network.router
    before = {way: sum(router.device_packets(way).values()) for way in (True, False)}
    udp_echo(network, 4, [100] * 500)
    udp_echo(network, 6, [100] * 500)
    after = {way: sum(router.device_packets(way).values()) for way in (True, False)}
    for way in (True, False):
        # Requests for neighbours and joins of groups may come in between.
        assert 2000 <= after[way] - before[way] <= 2030


@pytest.mark.parametrize("kind", ["FromDevice", "ToDevice"], ids=["kp", "kn"])
def test_batch_sizes_change_at_run_time(network, kind):
    network.meet()
    stream = flood(network, 4, 300)
    for value in (1, 256, 7, 32):
        for name in network.router.elements(kind):
            network.router.cli("set", f"{name}.set_burst", str(value))
            assert network.router.cli("show", f"{name}.burst").split()[0] == str(value)
    assert lost(stream) == 0
    with pytest.raises(Failed):
        network.router.cli("set", f"{network.router.elements(kind)[0]}.set_burst", "many")


def test_routes_change_while_packets_flow(network):
    """A more specific route that leads elsewhere is added and removed."""
    network.meet()
    router = network.router
    route = f"{SERVER.host[4]}/32 10.0.1.77 1"
    assert network.client.run("ping", "-c1", "-W10", SERVER.host[4]).status == 0
    router.cli("set", "rt4.add", route)
    assert network.client.run("ping", "-c1", "-W0.3", SERVER.host[4], ok=None).status == 1
    router.cli("set", "rt4.remove", f"{SERVER.host[4]}/32")
    assert network.client.run("ping", "-c1", "-W10", SERVER.host[4]).status == 0


@pytest.mark.parametrize("version", [4, 6], ids=["IPv4", "IPv6"])
def test_reloads_lose_no_packet(network, lab, version):
    """Each reload changes something; counters and neighbours stay."""
    network.meet()
    router = network.router
    text = CONFIGURATION.read_text()
    changed = lab.folder / "changed.click"
    stream = flood(network, version)
    counts = []
    for number in range(10):
        changed.write_text(f"{text}\nIdle -> extra{number} :: Counter -> Discard;\n")
        reply = json.loads(router.cli("reload", "--json", str(changed)))
        assert reply["good"], reply["text"]
        assert f"extra{number}" in reply["changes"]["added"]
        counts.append(sum(router.device_packets(True).values()))
    assert lost(stream) == 0
    assert counts == sorted(counts) and counts[0] > 0
    assert router.process.running


def test_a_wrong_configuration_is_refused_and_the_old_one_runs_on(network, lab):
    network.meet()
    wrong = lab.folder / "wrong.click"
    wrong.write_text("FromDevice(eth0) -> NoSuchClass -> Discard;")
    with pytest.raises(Failed, match="wrong.click:1:21: error: .*NoSuchClass"):
        network.router.cli("reload", str(wrong))
    network.meet()


def metrics(network: Network) -> dict[tuple[str, frozenset], float]:
    """The samples of `/metrics`: name and labels, value."""
    samples = {}
    for line in network.router.get("/metrics").decode().splitlines():
        if line and not line.startswith("#"):
            name, labels, value = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line).groups()
            pairs = frozenset(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or ""))
            assert (name, pairs) not in samples, f"twice: {line}"
            samples[name, pairs] = float(value)
    return samples


def total(samples: dict, name: str, **labels: str) -> float:
    """Sum of the samples of a name that have these labels."""
    return sum(v for (n, pairs), v in samples.items() if n == name and frozenset(labels.items()) <= pairs)


def test_metrics_count_sent_packets_by_port_queue_and_worker(network):
    network.meet()
    before = metrics(network)
    udp_echo(network, 4, [1000] * 400)
    after = metrics(network)
    for port in ("eth0", "eth1"):
        for way in ("receive", "transmit"):
            labels = {"port": port, "direction": way}
            packets, octets = (total(after, name, **labels) - total(before, name, **labels)
                               for name in ("ashlar_port_packets_total", "ashlar_port_bytes_total"))
            assert 400 <= packets <= 420, (labels, packets)
            assert 400 * 1042 <= octets <= 400 * 1042 + 20 * 120, (labels, octets)
    used = {(d["port"], d["direction"], d["queue"], d["worker"])
            for (name, pairs) in after if name == "ashlar_port_packets_total" for d in [dict(pairs)]}
    assert used == {(port, way, worker, worker) for port in ("eth0", "eth1") for way in ("receive", "transmit")
                    for worker in ("0", "1")}
    assert total(after, "ashlar_port_up", port="eth0") == 1
    stats = network.router.stats()
    assert {e["name"] for e in stats["elements"]} == {
        dict(pairs)["element"] for (name, pairs) in after if name == "ashlar_element_packets_total"}


def test_drops_have_a_name_in_metrics(network):
    network.meet()
    before = metrics(network)
    # An EtherType that the router does not know.
    tap = Tap(network.client)
    frame = bytes.fromhex(f"{mac_of(network.router_space, 'eth0')}{tap.mac}88b5".replace(":", ""))
    for _ in range(25):
        tap.send(frame + bytes(46))
    until(lambda: total(metrics(network), "ashlar_element_drops_total", element="i0/kind", reason="no_match")
          - total(before, "ashlar_element_drops_total", element="i0/kind", reason="no_match") == 25, "25 drops")


def test_top_prints_the_counts(network):
    network.meet()
    stream = flood(network, 4, 300)
    table = network.router.cli("top", "--once", "--interval", "1")
    for way in ("in", "out"):
        for worker in "01":
            assert re.search(rf"^eth0 +up +{way} +\d+ +{worker} ", table, re.MULTILINE), table
    assert lost(stream) == 0
    counts = json.loads(network.router.cli("top", "--once", "--json"))
    assert sum(c["device"]["packets"] for e in counts["elements"] for c in e["copies"] if c.get("device")) >= 1200


def from_client(network: Network) -> str:
    """The element that receives what the client sends."""
    return next(name for name in network.router.elements("FromDevice") if name.startswith("i0/"))


def captured(network: Network, *words: str) -> tuple[Process, Path]:
    """Starts a capture into a file, and waits until it runs."""
    file = network.lab.folder / f"capture-{len(list(network.lab.folder.iterdir()))}.pcapng"
    capture = network.lab.spawn(ASHLAR, "capture", "--socket", str(network.router.socket), "-w", str(file), *words)
    until(lambda: not capture.running or (file.exists() and file.stat().st_size > 0), "the start of the capture")
    return capture, file


def test_a_capture_is_read_by_other_programs_and_holds_the_filtered_packets(network):
    network.meet()
    capture, file = captured(network, from_client(network), "-f", "icmp and icmp[icmptype] == icmp-echo", "-c", "20")
    stream = flood(network, 4, 100)
    udp_echo(network, 4, [100] * 50)
    assert capture.wait(10) == 0, capture.said()
    assert lost(stream) == 0
    assert "20 packets captured, 0 lost" in capture.err
    packets = rdpcap(str(file))
    assert [(p[IP].src, p[IP].dst, p[ICMP].type) for p in packets] == [(CLIENT.host[4], SERVER.host[4], 8)] * 20
    shown = network.lab.run("tcpdump", "-n", "-r", str(file)).out
    assert shown.count("ICMP echo request") == 20, shown


def test_a_capture_that_finds_nothing_hints_at_tags(network):
    for words, hint in (("host 192.0.2.77", True), ("vlan and host 192.0.2.77", False)):
        capture, _ = captured(network, from_client(network), "-f", words)
        capture.signal(signal.SIGINT)
        capture.wait(10)
        assert ("-f 'vlan and (host 192.0.2.77)'" in capture.err) == hint, capture.said()


def test_a_capture_shows_packets_as_they_are_at_its_point(network):
    """After DecIPTTL a packet has one hop less than before it."""
    network.meet()
    for point, ttl in (("[0]i1/ttl", 64), ("i1/ttl[0]", 63)):
        capture, file = captured(network, point, "-c", "5", "-f", "icmp")
        stream = flood(network, 4, 20)
        assert capture.wait(10) == 0, capture.said()
        assert {p[IP].ttl for p in rdpcap(str(file))} == {ttl}
        assert lost(stream) == 0


def test_drops_are_captured_with_their_reason(network):
    network.meet()
    capture, file = captured(network, "--drops", "-c", "3", "-f", "ether proto 0x88b5")
    tap = Tap(network.client)
    frame = bytes.fromhex(f"{mac_of(network.router_space, 'eth0')}{tap.mac}88b5".replace(":", ""))
    for number in range(3):
        tap.send(frame + number.to_bytes(46))
    assert capture.wait(10) == 0, capture.said()
    packets = [bytes(p) for p in rdpcap(str(file))]
    assert packets == [frame + number.to_bytes(46) for number in range(3)]
    assert b"no_match" in file.read_bytes()


def test_a_wrong_point_or_filter_is_answered_with_a_sentence(network):
    for words, why in ((["nowhere"], "there is no element `nowhere`"), ([from_client(network), "-f", "no such filter"], "filter")):
        with pytest.raises(Failed, match=why):
            network.router.cli("capture", *words, "-c", "1")


def test_a_capture_of_everything_under_load_disturbs_no_packet(network):
    network.meet()
    capture, file = captured(network, *network.router.elements("DecIPTTL"))
    stream = flood(network, 4)
    tcp_transfer(network, 4, 2_000_000)
    assert lost(stream) == 0
    capture.signal(signal.SIGINT)
    assert capture.wait(10) in (0, 130, -signal.SIGINT)
    assert len(rdpcap(str(file))) >= 800


@pytest.mark.parametrize("version", [4, 6], ids=["IPv4", "IPv6"])
def test_a_trace_shows_the_way_of_a_packet(network, version):
    network.meet()
    pings = Pings(network.client, SERVER.host[version])
    until(pings.answered, "an answer")

    def followed() -> str:
        """The way of a packet to the server; nothing if it was another packet of the client."""
        way = network.router.cli("trace", "--at", from_client(network), "1")
        return way if f"> {SERVER.host[version]}" in way.split("\n")[0] else ""

    way = until(followed, "a packet to the server")
    steps = ["FromDevice", "Classifier", *(["CheckIPHeader", "DirectIPLookup", "DecIPTTL", "ARPQuerier"] if version == 4
             else ["CheckIP6Header", "DecIP6HLIM", "LookupIP6Route", "IP6NDSolicitor"]), "ToDevice"]
    places = [way.find(f":: {step}") for step in steps]
    assert -1 not in places and places == sorted(places), way
    assert len(json.loads(network.router.cli("trace", "--json", "3"))) == 3
    assert pings.lost()[1] == 0
