"""A router on cards between two hosts of this machine, and one that Linux and FRR steer.

    client eth0 --- card 0 |guest| card 1 --- eth0 server       The addresses are those of tests/system/topology.py.

The cables end in TAP interfaces that are moved into the hosts' namespaces. The cards have two queues, and the router two
workers: RSS spreads flows over them.
"""

import json
from collections.abc import Iterator

import pytest
from guest import ROOT, Guest, Router
from net import Lab, Namespace, until
from topology import BITS, CLIENT, NAMES, SERVER

CARD = "virtio-net-pci,iommu_platform=on,disable-legacy=on,mq=on,vectors=8,rss=on"
ADDRESSES = " ".join(f"IP{n}={side.router[4]} IP6_{n}={side.router[6]}" for n, side in enumerate((CLIENT, SERVER)))


class Bed:
    """The guest between two hosts."""

    def __init__(self, lab: Lab):
        wires = lab.namespace("wires")
        self.hosts = [lab.namespace(name, NAMES) for name in ("client", "server")]
        self.router = Router(Guest(lab, CARD, taps=wires, queues=2))
        self.router.prepare()
        for number, (host, side) in enumerate(zip(self.hosts, (CLIENT, SERVER))):
            # A wire leaves no checksum unfinished.
            wires.run("ethtool", "-K", f"n{number}", "tx", "off", "tso", "off", "gso", "off")
            wires.ip(f"link set n{number} netns {host.name} name eth0")
            host.ip("link set eth0 up")
            for version in (4, 6):
                host.ip(f"address add {side.host[version]}/{BITS[version]} dev eth0" + " nodad" * (version == 6))
                host.ip(f"-{version} route add default via {side.router[version]}")

    def meets(self, version: int) -> None:
        until(lambda: self.ping(version, "-c1", "-W2").status == 0, f"a ping over IPv{version}", timeout=240)

    def ping(self, version: int, *words: str):
        client: Namespace = self.hosts[0]
        return client.run("ping", f"-{version}", *words, SERVER.host[version], ok=None, timeout=240)


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    with Lab() as lab:
        yield Bed(lab)


def both_ways(bed: Bed) -> None:
    """Pings of several sizes, and TCP, in both families."""
    for version in (4, 6):
        bed.meets(version)
        for size in (0, 1000, 1452 if version == 6 else 1472):
            done = bed.ping(version, "-q", "-c20", "-i0.05", "-W5", f"-s{size}")
            assert done.status == 0 and " 20 received" in done.out, done
        server = bed.hosts[1].spawn("iperf3", "-s", "-1")
        server.wait_for("listening")
        done = bed.hosts[0].run("iperf3", f"-{version}", "-c", SERVER.host[version], "-n", "2M", "-P", "4", "-J", timeout=200)
        assert json.loads(done.out)["end"]["sum_received"]["bytes"] > 1_900_000
        server.wait(30)


def test_an_ip_router_on_cards_carries_hosts(bed):
    router = bed.router
    cards = f"DEV0={router.addresses[0]} DEV1={router.addresses[1]}"
    with router.running(ROOT / "conf/ip-router.click", f"{cards} {ADDRESSES} --workers 2"):
        both_ways(bed)
        stats = router.stats()
    queues = [copy["device"]["packets"] for element in stats["elements"] for copy in element["copies"]
              if copy.get("device") and copy["device"]["receives"]]
    # Four TCP connections and two families: RSS has given each queue of each card some.
    assert len(queues) == 4 and all(queues), queues


def test_linux_and_frr_steer_a_router_on_cards(bed):
    """FRR learns nothing here from others: a static route that it sets leads to the server's network."""
    router = bed.router
    run = router.guest.run
    run("ip netns add routing; ip netns exec routing sysctl -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 "
        "net.ipv6.conf.default.accept_dad=0")
    cards = f"DEV0={router.addresses[0]} DEV1={router.addresses[1]}"
    with router.running(ROOT / "conf/linux-router.click", f"{cards} --netns routing"):
        for side in (CLIENT, SERVER):
            run(f"ip -n routing link set {side.interface} up")
            for version in (4, 6):
                run(f"ip -n routing address add {side.router[version]}/{BITS[version]} dev {side.interface}")
        both_ways(bed)
        # A network behind the server, by FRR.
        bed.hosts[1].ip("address add 203.0.113.7/32 dev lo")
        run("mkdir -p /run/frr; chown frr:frr /run/frr; touch /run/zebra.conf; "
            f"echo 'ip route 203.0.113.0/24 {SERVER.host[4]}' > /run/staticd.conf; chmod 644 /run/*.conf; "
            "ip netns exec routing /usr/lib/frr/zebra -d -f /run/zebra.conf -i /run/frr/zebra.pid && "
            "ip netns exec routing /usr/lib/frr/staticd -d -f /run/staticd.conf -i /run/frr/staticd.pid", timeout=240)
        until(lambda: "203.0.113.0/24" in router.guest.get("/v1/handlers/rt4.table"), "FRR's route", timeout=240)
        done = bed.hosts[0].run("ping", "-c5", "-W5", "203.0.113.7", timeout=120)
        assert " 5 received" in done.out, done
