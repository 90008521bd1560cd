"""Changes around a router's ports: the router detects, reports and survives them.

Shows: a link that goes down and up; an interface that disappears and returns under the same name; a
kernel that would route the same packets too; a device that is not there; a user without the right
to open it. The messages say what is wrong and what to do.
"""

import json
import os
import shutil

import pytest
from net import Namespace, until
from taps import mac_of
from topology import ASHLAR, SERVER, FORWARD, Network

pytestmark = pytest.mark.ashlar


def crosses(network: Network) -> bool:
    """True if IPv4 and IPv6 get through, tried once each."""
    return all(network.client.run("ping", f"-{v}", "-c1", "-W1", SERVER.host[v], ok=None).status == 0 for v in (4, 6))


def blocked(network: Network) -> bool:
    return network.client.run("ping", "-4", "-c1", "-W0.2", SERVER.host[4], ok=None).status != 0


def receives_by_thread(network: Network, name: str) -> bool:
    """True if a kernel thread does the receive work of an interface of the router, which means GRO for a veth."""
    space = network.router_space
    threaded = space.run("cat", f"/sys/class/net/{name}/threaded", ok=None).out.strip() == "1"
    gro = "generic-receive-offload: on" in space.run("ethtool", "-k", name, ok=None).out
    return threaded and gro


def test_the_kernel_receives_by_a_thread_as_long_as_the_router_runs(network):
    """Otherwise overload would leave a worker no time. It holds for a replaced interface, too."""
    assert receives_by_thread(network, "eth0") and receives_by_thread(network, "eth1")
    mac, at = mac_of(network.router_space, "eth1"), len(network.router.process.err)
    network.router_space.ip("link delete eth1")
    network.router.process.wait_for("eth1.*gone", since=at)
    network.connect(network.server, router_mac=mac)
    until(lambda: receives_by_thread(network, "eth1"), "a thread for the interface that came back", timeout=10)
    assert network.router.stop() == 0
    assert not receives_by_thread(network, "eth0") and not receives_by_thread(network, "eth1")


def test_a_setting_of_another_program_stays(lab):
    network = Network(lab)
    space = network.router_space
    space.run("ethtool", "-K", "eth0", "gro", "on")
    space.run("sh", "-c", "echo 1 > /sys/class/net/eth0/threaded")
    network.router.start()
    assert network.router.stop() == 0
    assert receives_by_thread(network, "eth0") and not receives_by_thread(network, "eth1")


def test_a_link_that_becomes_narrower_is_told_to_senders(network):
    """A new MTU of the port takes effect at once: the router reports it and fragments long packets, like Linux."""
    client = network.client

    def told() -> str:
        return client.run("ping", "-c1", "-W1", "-Mdo", "-s1400", SERVER.host[4], ok=None).out

    until(lambda: crosses(network), "the way to be known", timeout=20)
    until(lambda: "1 received" in told(), "a packet of 1400 bytes")
    network.set_mtu(network.server, 1300)

    def learnt() -> bool:
        told()
        return "mtu 1300" in client.run("ip", "route", "get", SERVER.host[4]).out

    until(learnt, "an error with the MTU", timeout=20)
    # A longer packet without DF is fragmented.
    client.ip("route flush cache")
    assert "1 received" in client.run("ping", "-c1", "-W15", "-Mdont", "-s1400", SERVER.host[4]).out


@pytest.mark.parametrize("kind", ["af_packet", "af_xdp"])
def test_packets_that_a_port_refuses_are_not_counted_as_sent(lab, kind):
    """The packets are longer than the port's MTU, or its link is down."""
    network = Network(lab)
    router, space, file = network.router, network.router_space, lab.folder / "refused.click"
    space.ip("link set eth1 mtu 1300")
    file.write_text(
        "e :: EtherEncap(0x88b5, 02:00:00:00:00:01, 02:00:00:00:00:02) -> out :: ToDevice(%s:eth1);"
        "long :: InfiniteSource(LENGTH 1400, LIMIT 100) -> e; short :: InfiniteSource(LENGTH 1200, LIMIT 50) -> e;"
        "FromDevice(%s:eth0) -> Discard;" % (kind, kind)
    )
    router.start(file)

    def counts() -> tuple[int, int]:
        drops = dict(line.split("\t") for line in router.cli("show", "out.named_drops").splitlines())
        return int(router.cli("show", "out.count")), int(drops["refused"])

    until(lambda: sum(counts()) == 150, "all packets to be sent or dropped", timeout=20)
    assert counts() == (50, 100)
    assert int(router.cli("show", "out.byte_count")) == 50 * 1214
    at = len(router.process.err)
    space.ip("link set eth1 down")
    router.process.wait_for("eth1.*down", since=at)
    router.cli("set", "short.reset", "")
    until(lambda: sum(counts()) == 200, "all packets to be dropped", timeout=20)
    assert counts() == (50, 150)


def test_a_link_that_goes_down_and_up(network):
    router, space = network.router, network.router_space
    until(lambda: crosses(network), "packets to cross")
    for _ in range(3):
        at = len(router.process.err)
        space.ip("link set eth1 down")
        router.process.wait_for("eth1.*down", since=at)
        assert blocked(network)
        at = len(router.process.err)
        space.ip("link set eth1 up")
        router.process.wait_for("eth1.*up", since=at)
        until(lambda: crosses(network), "packets after the link came up", timeout=10)
    assert router.stop() == 0


def test_a_cable_that_is_pulled_and_put_back(network):
    """The host's end goes down: the router sees a lost carrier."""
    router = network.router
    until(lambda: crosses(network), "packets to cross")
    at = len(router.process.err)
    network.server.ip("link set eth0 down")
    router.process.wait_for("eth1.*down", since=at)
    network.server.ip("link set eth0 up")
    network.address(network.server)
    until(lambda: crosses(network), "packets after the cable was put back", timeout=10)


def test_an_interface_that_disappears_and_returns(network):
    """The interface returns under its name, with the former MAC addresses at both ends."""
    until(lambda: crosses(network), "packets to cross")
    ours, theirs = mac_of(network.router_space, "eth1"), mac_of(network.server, "eth0")
    for _ in range(2):
        at = len(network.router.process.err)
        network.router_space.ip("link delete eth1")
        network.router.process.wait_for("eth1.*gone", since=at)
        assert blocked(network)
        network.connect(network.server, router_mac=ours, host_mac=theirs)
        network.router.process.wait_for("eth1.*(is there|replaced)", since=at)
        until(lambda: crosses(network), "packets after the interface returned", timeout=10)
    assert network.router.stop() == 0


def neighbours(host: Namespace) -> list[str]:
    """Neighbours of a host with their Ethernet addresses, a line each."""
    return [line for line in host.ip("neigh show dev eth0").out.splitlines() if "lladdr" in line]


def test_an_interface_that_gets_another_mac_address(network):
    """The address is set while the interface is down, while it is up, and after it disappeared. The router uses the new
    address by itself, and announces it to hosts that have its old one.
    """
    router, space = network.router, network.router_space
    until(lambda: crosses(network), "packets to cross")

    def while_down(mac: str) -> None:
        space.ip("link set eth1 down")
        space.ip(f"link set eth1 address {mac}")
        space.ip("link set eth1 up")

    def returns(mac: str) -> None:
        space.ip("link delete eth1")
        router.process.wait_for("eth1.*gone", since=at)
        network.connect(network.server, router_mac=mac)

    ways = (while_down, lambda mac: space.ip(f"link set eth1 address {mac}"), returns)
    for number, change in enumerate(ways):
        at, mac = len(router.process.err), f"02:00:00:00:aa:{number:02x}"
        reloads = json.loads(router.get("/v1/info"))["reloads"]
        change(mac)
        router.process.wait_for(f"another address.*eth1.*{mac}", since=at)
        until(lambda: json.loads(router.get("/v1/info"))["reloads"] > reloads, "the reload")
        if change is not returns:
            until(lambda m=mac: all(m in each for each in neighbours(network.server)), "the announcements", timeout=10)
        until(lambda: crosses(network), "packets to and from the new address", timeout=10)
        known = neighbours(network.server)
        assert known and all(mac in each for each in known), known
    assert router.stop() == 0


def test_a_reload_takes_a_new_mac_address_too(network):
    router, space = network.router, network.router_space
    until(lambda: crosses(network), "packets to cross")
    space.ip("link set eth1 address 02:00:00:00:bb:01")
    until(lambda: any(p["mac"] == "02:00:00:00:bb:01" for p in router.stats()["ports"]), "the address to be seen")
    router.cli("reload")
    until(lambda: crosses(network), "packets to and from the new address", timeout=10)


def test_a_kernel_that_would_route_too_is_warned_of(lab):
    network = Network(lab)
    network.router_space.sysctl(net__ipv4__conf__eth0__forwarding=1)
    network.router.start()
    network.router.process.wait_for(r"WARN.*kernel forwards ipv4 packets from eth0.*sysctl -w")


def test_addresses_of_the_kernel_are_warned_of(lab):
    network = Network(lab)
    network.router_space.ip("address add 10.0.1.1/24 dev eth0")
    network.router.start()
    network.router.process.wait_for(r"WARN.*eth0 has IP addresses.*ip address flush dev eth0")


def test_a_missing_device_is_an_error_that_names_those_that_exist(lab):
    network = Network(lab)
    network.router_space.ip("link set eth1 down")
    network.router_space.ip("link set eth1 name eth7")
    router = network.router.spawn(FORWARD)
    assert router.wait() == 1
    assert "forward.click:8:" in router.err and "there is no interface eth1" in router.err, router.err
    assert "eth7" in router.err, router.err


def test_a_user_without_the_right_to_open_a_device_is_told_so(lab):
    network = Network(lab)
    # The user has to reach program and configuration, wherever the checkout lies.
    os.chmod(lab.folder, 0o755)
    program, configuration = lab.folder / "ashlar", lab.folder / "forward.click"
    shutil.copy(ASHLAR, program)
    shutil.copy(FORWARD, configuration)
    router = network.router_space.spawn(
        "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all",
        str(program), "run", str(configuration), "--no-socket")
    assert router.wait() == 1
    assert "no permission to open eth" in router.err and "CAP_NET_RAW" in router.err, router.err
