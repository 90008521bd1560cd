"""AF_XDP ports carry real traffic, and leave the kernel the packets to its own addresses.

Shows: ping, UDP and TCP both ways byte by byte, IPv4 and IPv6, and frames of 9,000 bytes; a machine that is reached by the
interface that a router has, by addresses that come and go; an interface that goes down, disappears and comes back, and gets
more queues; PROMISC by reload, also by AF_PACKET; a program that is killed, and a second one that wants the same interface; a worker that sleeps.

AF_XDP sees frames as a peer hands them over. A veth peer with its offloads on hands over unfinished checksums, which only the
kernel's own metadata tell from finished ones, so the hosts switch their offloads off here, as a wire would.
"""

import json
import platform
import re
import signal
import socket

import pytest
from net import until
from taps import mac_of
from topology import ASHLAR, CLIENT, CONFIGURATION, FORWARD, SERVER, AshlarRouter, Network
from traffic import answered, answers, carries, listen, plain_wires, port, tcp_send, udp, udp_echo

pytestmark = pytest.mark.ashlar
SIZE = 3_000_000
KERNEL = tuple(int(number) for number in re.findall(r"\d+", platform.release())[:2])
PORTS = ("DEV0=af_xdp:eth0", "DEV1=af_xdp:eth1")
# Addresses that the kernel of the router's machine has beside those of the router.
OWN = {4: "10.0.1.9", 6: "fd00:1::9"}


@pytest.fixture
def network(lab) -> Network:
    made = Network(lab, workers=1)
    plain_wires(made)
    return made


def counters(router: AshlarRouter) -> dict[str, int]:
    """Counters of all ports of the router, by name."""
    found: dict[str, int] = {}
    for each in router.stats()["ports"]:
        for counter in each["counters"]:
            found[counter["name"]] = found.get(counter["name"], 0) + counter["value"]
    return found


def has_program(network: Network) -> list[bool]:
    """For each of the router's interfaces, true if an XDP program is attached."""
    shown = [network.router_space.run("ip", "link", "show", name).out for name in ("eth0", "eth1")]
    return ["xdp" in text for text in shown]


def test_a_router_carries_traffic(network):
    router = network.router
    router.start(CONFIGURATION, *PORTS)
    # The kernel puts interrupts off while packets come: a timer or the worker's polls receive them.
    settings = [f"/sys/class/net/{name}/{file}" for name in ("eth0", "eth1")
                for file in ("napi_defer_hard_irqs", "gro_flush_timeout")]
    until(lambda: network.router_space.run("cat", *settings).out.split() in (["2", "50000"] * 2, ["2", "200000"] * 2), "the settings")
    carries(network, SIZE)
    ports = {p["name"]: p for p in router.stats()["ports"]}
    assert {name: p["driver"] for name, p in ports.items()} == {"af_xdp:eth0": "af_xdp", "af_xdp:eth1": "af_xdp"}
    assert not any(value for name, value in counters(router).items() if name not in ("link_changes", "kernel_drops")), counters(router)
    assert router.stop() == 0
    assert network.router_space.run("cat", *settings).out.split() == ["0"] * 4
    assert has_program(network) == [False, False]


def test_the_kernel_keeps_packets_to_its_addresses(network):
    router, space = network.router, network.router_space
    space.sysctl(net__ipv4__conf__eth0__arp_ignore=0, net__ipv6__conf__eth0__disable_ipv6=0)
    space.ip(f"address add {OWN[4]}/24 dev eth0")
    router.start(CONFIGURATION, *PORTS)
    # The address of IPv4 is there before the router starts; the address of IPv6 is added while it runs.
    space.ip(f"address add {OWN[6]}/64 dev eth0 nodad")
    for version in (4, 6):
        # Both find each other as neighbours: the client the kernel, and the kernel the client.
        until(lambda v=version: network.client.run("ping", f"-{v}", "-c1", "-W1", OWN[v], ok=None).status == 0,
              f"an answer of the kernel by IPv{version}", timeout=20)
        space.flush("neigh flush dev eth0")
        answered(space, f"-{version}", CLIENT.host[version])
        with listen(space, version) as listener, network.client.socket(
                {4: socket.AF_INET, 6: socket.AF_INET6}[version], socket.SOCK_STREAM) as login:
            login.settimeout(20)
            login.connect((OWN[version], port(listener)))
            shell, _ = listener.accept()
            with shell:
                carries(network, SIZE)
                login.sendall(b"still here?")
                assert shell.recv(100) == b"still here?"
                shell.sendall(b"yes")
                assert login.recv(100) == b"yes"
    # The router answers for its own addresses, as ever.
    for version in (4, 6):
        answered(network.client, f"-{version}", CLIENT.router[version])
    space.ip(f"address del {OWN[4]}/24 dev eth0")
    network.client.flush("neigh flush dev eth0")
    until(lambda: network.client.run("ping", "-c1", "-W1", OWN[4], ok=None).status != 0, "the kernel to be silent", timeout=20)
    answers(network, 4)
    assert "cannot" not in router.process.said(), router.process.said()


def test_to_prepare_an_interface_takes_nothing_from_the_kernel_that_it_keeps(network):
    space = network.router_space
    file = network.lab.folder / "both.click"
    file.write_text("FromDevice(af_xdp:eth0) -> Discard; FromDevice(eth1) -> Discard;\n")
    for interface, address in (("eth0", "10.0.1.9/24"), ("eth1", "10.0.2.9/24")):
        space.ip(f"address add {address} dev {interface}")
    space.run(ASHLAR, "ports", "prepare", str(file))
    addresses = {each["ifname"]: each["addr_info"] for each in json.loads(space.run("ip", "-j", "address").out)}
    assert [a["local"] for a in addresses["eth0"]] == ["10.0.1.9"] and not addresses["eth1"]


def test_an_interface_goes_down_disappears_and_comes_back(network):
    router, space = network.router, network.router_space
    router.start(CONFIGURATION, *PORTS)
    carries(network, SIZE)
    macs = {"router_mac": mac_of(space, "eth0"), "host_mac": mac_of(network.client, "eth0")}
    for _ in range(3):
        before = counters(router)["link_changes"]
        space.ip("link set eth0 down")
        until(lambda b=before: counters(router)["link_changes"] > b, "the router to see that the link is down")
        space.ip("link set eth0 up")
        network.address(network.client)
        answers(network, 4)
        space.ip("link del eth0")
        until(lambda: not next(p["up"] for p in router.stats()["ports"] if p["name"] == "af_xdp:eth0"), "it to be gone")
        network.connect(network.client, **macs)
        plain_wires(network)
        answers(network, 4)
        # With another name the interface is no port of the router; with its own name it is a port again.
        space.ip("link set eth0 down")
        space.ip("link set eth0 name other0")
        space.ip("link set other0 name eth0")
        space.ip("link set eth0 up")
        answers(network, 4)
    carries(network, SIZE)
    assert router.process.running


@pytest.mark.parametrize("sending", ["1", "2"])
def test_queues_that_an_interface_gets_are_served(network, sending):
    """An interface gets a second receive queue while the router runs; its second transmit queue may already exist."""
    router, space = network.router, network.router_space
    router.workers = int(sending)
    network.client.run("ethtool", "-L", "eth0", "rx", "2", "tx", "1")
    for interface in ("eth0", "eth1"):
        space.run("ethtool", "-L", interface, "rx", "1", "tx", sending)
    router.start(CONFIGURATION, *PORTS)
    answers(network, 4)
    udp_echo(network, 4, [100] * 64)
    space.run("ethtool", "-L", "eth0", "rx", "2", "tx", sending)
    network.client.run("ethtool", "-L", "eth0", "rx", "2", "tx", "2")
    far = udp(network.server, 4)

    def all_arrive() -> bool:
        """True if datagrams of many flows, which spread over the queues, all arrive."""
        near = [udp(network.client, 4) for _ in range(32)]
        for number, sender in enumerate(near):
            sender.sendto(bytes([number]), (SERVER.host[4], port(far)))
        far.settimeout(1)
        seen = set()
        try:
            while len(seen) < len(near):
                seen |= set(far.recv(100))
        except TimeoutError:
            pass
        for sender in near:
            sender.close()
        return len(seen) == len(near)

    until(all_arrive, "datagrams of all flows", timeout=20)


@pytest.mark.skipif(KERNEL < (6, 6), reason="AF_XDP has frames of several parts since Linux 6.6")
def test_frames_of_9000_bytes_cross(network):
    for host in (network.client, network.server):
        network.set_mtu(host, 9000)
    network.router.start(CONFIGURATION, *PORTS, "--frame-bytes", "9018")
    for version in (4, 6):
        answers(network, version)
        udp_echo(network, version, [1, 1400, 2000, 4000, 6000, 8900] * 4)
        tcp_send(network, version, SIZE)
    found = counters(network.router)
    assert found["too_long"] == 0 and found["tx_too_long"] == 0, found


def test_a_second_program_is_refused_and_a_killed_one_leaves_nothing(network):
    router = network.router
    router.start(CONFIGURATION, *PORTS)
    other = AshlarRouter(network.router_space, workers=1)
    other.socket = network.lab.folder / "other.sock"
    refused = other.spawn(FORWARD, "DEV0=af_xdp:eth0", "DEV1=null:", "--share-devices")
    assert refused.wait() != 0
    assert "another program has eth0 by AF_XDP, or has attached an XDP program to it" in refused.said()
    answers(network, 4)
    router.process.signal(signal.SIGKILL)
    router.process.wait()
    until(lambda: has_program(network) == [False, False], "the program to be taken off")
    router.start(CONFIGURATION, *PORTS)
    carries(network, SIZE)


def test_a_worker_sleeps_and_is_woken(network):
    router = network.router
    router.start(CONFIGURATION, *PORTS)
    answers(network, 4)

    def sleeps() -> int:
        return router.stats()["workers"][0]["sleeps"]

    before = sleeps()
    until(lambda: sleeps() > before + 5, "the worker to sleep", timeout=20)
    udp_echo(network, 4, [100] * 100, window=1)


@pytest.mark.parametrize("kind", ["af_xdp", "af_packet"])
def test_a_reload_changes_the_frames_that_an_interface_accepts(network, kind):
    router, space = network.router, network.router_space
    file = network.lab.folder / "hears.click"

    def is_promiscuous() -> bool:
        return json.loads(space.run("ip", "-d", "-j", "link", "show", "eth0").out)[0]["promiscuity"] > 0

    for number, wanted in enumerate((False, True, False)):
        file.write_text(f"FromDevice({kind}:eth0, PROMISC {str(wanted).lower()}) -> Discard;\n")
        if number:
            router.cli("reload", str(file))
        else:
            router.start(file)
        until(lambda w=wanted: is_promiscuous() == w, f"the interface to hear {'all stations' if wanted else 'its own'}")
