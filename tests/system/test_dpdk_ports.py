"""DPDK's drivers that need no hardware carry real traffic: AF_XDP on the router's interfaces, and
shared memory (memif) between two routers.

Shows: ping, UDP and TCP both ways byte by byte, IPv4 and IPv6.

AF_XDP sees frames as a peer hands them over. A veth peer with its offloads on hands over super-frames
and unfinished checksums, which only the kernel's own metadata tell apart: TCP does not cross then (tried:
pings do). The hosts switch their offloads off here, as a wire would. One queue each, since DPDK's driver
counts combined queues only, and veth has none.
"""

import pytest
from net import until
from taps import mac_of
from topology import CONFIGURATION, FORWARD, SERVER, AshlarRouter, Network
from traffic import tcp_transfer, udp_echo

pytestmark = pytest.mark.ashlar
SIZE = 3_000_000


def plain_wires(network: Network) -> None:
    """Makes links that carry what a wire would, by one queue."""
    router = network.router_space
    for space, interface in ((network.client, "eth0"), (network.server, "eth0"), (router, "eth0"), (router, "eth1")):
        space.run("ethtool", "-L", interface, "rx", "1", "tx", "1")
        space.run("ethtool", "-K", interface, "tx", "off", "tso", "off", "gso", "off", "sg", "off", "gro", "off")


def carries(network: Network) -> None:
    for version in (4, 6):
        until(lambda v=version: network.client.run("ping", f"-{v}", "-c1", "-W1", SERVER.host[v], ok=None).status == 0,
              f"an IPv{version} ping", timeout=10)
        udp_echo(network, version, [1, 100, 1400])
        for from_client in (True, False):
            tcp_transfer(network, version, SIZE, from_client=from_client)


def test_af_xdp_ports_carry_what_a_router_forwards(lab):
    network = Network(lab, workers=1)
    plain_wires(network)
    router = network.router
    router.start(CONFIGURATION, "DEV0=af_xdp:eth0", "DEV1=af_xdp:eth1")
    # The worker receives as it polls.
    settings = [f"/sys/class/net/{name}/{file}" for name in ("eth0", "eth1")
                for file in ("napi_defer_hard_irqs", "gro_flush_timeout")]
    assert network.router_space.run("cat", *settings).out.split() == ["2", "200000"] * 2
    carries(network)
    ports = {p["name"]: p for p in router.stats()["ports"]}
    assert set(ports) == {"af_xdp:eth0", "af_xdp:eth1"}
    for port in ports.values():
        assert port["driver"] == "dpdk net_af_xdp"
        counts = {c["name"]: c["value"] for c in port["counters"]}
        # The driver's own counters are among them.
        assert counts["rx_q0_packets"] > SIZE / 1500 and counts["tx_q0_packets"] > SIZE / 1500, counts
    assert router.stop() == 0
    assert network.router_space.run("cat", *settings).out.split() == ["0"] * 4


def test_two_routers_are_joined_by_shared_memory(lab):
    """client - near router - memif - far router - server; both routers are wires."""
    network = Network(lab, workers=1)
    plain_wires(network)
    for here, there in ((network.client, network.server), (network.server, network.client)):
        for version in (4, 6):
            here.ip(f"-{version} neigh replace {network.side(here).router[version]} lladdr {mac_of(there, 'eth0')} "
                    "dev eth0 nud permanent")
    near, far = network.router, AshlarRouter(network.router_space, workers=1)
    far.socket = lab.folder / "far.sock"
    # In quotes, since commas separate arguments.
    memif = f'"memif:role={{}},id=0,socket={lab.folder}/memif.sock,socket-abstract=no"'
    far.start(FORWARD, f"DEV0={memif.format('server')}", "DEV1=eth1")
    near.start(FORWARD, "DEV0=eth0", f"DEV1={memif.format('client')}")
    carries(network)
    assert near.stop() == 0
    assert far.stop() == 0
