"""The tools of a running router, under traffic: show, set, reload.

Shows that handlers can be read and written while packets flow, that counts agree with what was
sent, that the batch sizes kp and kn change at run time, and that reloads lose no packet.
"""

import json
import re

import pytest
from net import Failed, Process
from topology import CONFIGURATION, SERVER, Network
from traffic import udp_echo

pytestmark = pytest.mark.ashlar


def flood(network: Network, version: int, count: int = 2000) -> Process:
    """A steady stream of pings through the router, a thousand each second."""
    return network.client.spawn("ping", f"-{version}", "-q", f"-c{count}", "-i0.001", "-W3", SERVER.host[version])


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
    for words in (["show", "nobody.count"], ["show", "i0/in.nothing"], ["set", "i0/in.count", "1"],
                  ["set", "nobody.count", "1"]):
        with pytest.raises(Failed, match="ashlar: .* .* .*"):
            router.cli(*words)
    assert router.process.running


def test_counts_agree_with_what_was_sent(network):
    """Each datagram passes once on its way there and once on its way back."""
    network.meet()
    router = network.router
    before = {way: sum(router.device_packets(way).values()) for way in (True, False)}
    udp_echo(network, 4, [100] * 500)
    udp_echo(network, 6, [100] * 500)
    after = {way: sum(router.device_packets(way).values()) for way in (True, False)}
    for way in (True, False):
        # Neighbours may be asked for, and groups be joined, in between.
        assert 2000 <= after[way] - before[way] <= 2030


@pytest.mark.parametrize("kind", ["FromDevice", "ToDevice"], ids=["kp", "kn"])
def test_batch_sizes_change_at_run_time(network, kind):
    network.meet()
    stream = flood(network, 4, 1500)
    for value in (1, 256, 7, 32):
        for name in network.router.elements(kind):
            network.router.cli("set", f"{name}.set_burst", str(value))
            assert network.router.cli("show", f"{name}.burst").split()[0] == str(value)
    assert lost(stream) == 0
    with pytest.raises(Failed):
        network.router.cli("set", f"{network.router.elements(kind)[0]}.set_burst", "many")


def test_routes_change_while_packets_flow(network):
    """A more specific route that leads away, and is taken back."""
    network.meet()
    router = network.router
    route = f"{SERVER.host[4]}/32 10.0.1.77 1"
    assert network.client.run("ping", "-c1", "-W2", SERVER.host[4]).status == 0
    router.cli("set", "rt4.add", route)
    assert network.client.run("ping", "-c1", "-W0.3", SERVER.host[4], ok=None).status == 1
    router.cli("set", "rt4.remove", f"{SERVER.host[4]}/32")
    assert network.client.run("ping", "-c1", "-W2", SERVER.host[4]).status == 0


@pytest.mark.parametrize("version", [4, 6], ids=["IPv4", "IPv6"])
def test_reloads_lose_no_packet(network, lab, version):
    """Each reload changes something, and counts and neighbours stay."""
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
