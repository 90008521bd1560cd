"""Services of conf/services as routers: hosts at all three ports reach each other, and see one hop between them.

    h0 e0 --- d0 |        | d1 --- e0 h1
                 | router | d2 --- e0 h2
"""

import re
from ipaddress import IPv6Address

import pytest
from net import Lab, Process, until
from topology import ASHLAR, ROOT
from traffic import answered, tcp_between

pytestmark = pytest.mark.ashlar

SIZE = 300_000  # bytes of a transfer, each way
LENGTH = {0: 24, 1: 16, 2: 16}  # of the networks' IPv4 prefixes


def host(port: int, version: int) -> str:
    return f"10.{port}.0.1" if version == 4 else str(IPv6Address(f"fd00:{port}::1"))


def own(port: int, version: int) -> str:
    return f"10.{port}.0.254" if version == 4 else str(IPv6Address(f"fd00:{port}::fe"))


class Bed:
    """A service with a host at each port, which asks the router by ARP and Neighbour Discovery."""

    def __init__(self, lab: Lab, service: str):
        self.lab = lab
        self.router = lab.namespace("router")
        self.hosts = [lab.namespace(f"h{port}") for port in range(3)]
        for port, space in enumerate(self.hosts):
            lab.link(self.router, f"d{port}", space, "e0", queues=1)
            space.ip(f"address add {host(port, 4)}/{LENGTH[port]} dev e0")
            space.ip(f"address add {host(port, 6)}/64 dev e0")
            for version in (4, 6):
                space.ip(f"-{version} route add default via {own(port, version)}")
        self.socket = lab.folder / "router.sock"
        self.process: Process = self.router.spawn(
            ASHLAR, "run", str(ROOT / f"conf/services/{service}.click"), "DEV0=d0", "DEV1=d1", "DEV2=d2",
            "--socket", str(self.socket), "--workers", "1")
        until(lambda: self.socket.exists() or not self.process.running, "the router", timeout=30)
        assert self.process.running, self.process.said()

    def cli(self, *words: str) -> str:
        return self.lab.run(ASHLAR, *words[:2], "--socket", str(self.socket), *words[2:]).out

    def set_up(self, service: str, near: int, far: int, version: int) -> list[str]:
        """Sets the connection from h0 to h1 up as flows, both ways; gives the tables' names."""
        wants = "RATE 8Mbps BURST 2000000 PACKET 1514" if service.endswith("sort") else ""
        there, back = (host(0, version), near), (host(1, version), far)
        tables = []
        for port, (source, target) in enumerate([(back, there), (there, back)]):
            flow = " ".join(str(word) for word in (*source, *target, "tcp"))
            table, place = ("flows", f"PORT {port}") if "look" in service else (f"flows{port}", "")
            self.cli("set", f"{table}.add", f"{flow} {place} {wants}".strip())
            tables.append(table)
        return tables

    def passed(self, tables: list[str]) -> list[int]:
        """Packets of each flow."""
        shown = "".join(self.cli("show", f"{table}.flows") for table in dict.fromkeys(tables))
        return [int(number) for number in re.findall(r"packets (\d+)", shown)]


def hosts_reach_each_other_and_see_one_hop(bed: Bed) -> None:
    for version in (4, 6):
        for one, other in ((0, 1), (1, 0), (2, 0), (1, 2)):
            answered(bed.hosts[one], f"-{version}", host(other, version))
            answered(bed.hosts[one], f"-{version}", own(other, version), count=1)
        seen = bed.hosts[0].run("traceroute", f"-{version}", "-n", "-q1", "-w5", host(1, version)).out
        hops = [line.split()[1] for line in seen.splitlines()[1:]]
        assert hops == [own(0, version), host(1, version)], seen
    nowhere = bed.hosts[0].run("ping", "-c1", "-W5", "203.0.113.1", ok=None).out
    assert f"From {own(0, 4)} icmp_seq=1 Destination Net Unreachable" in nowhere


def tcp_passes_both_ways_and_is_classified(bed: Bed, service: str) -> None:
    tables: list[str] = []
    if service.startswith("tag"):
        tables = ["flows0", "flows1"]
        for table in tables:
            bed.cli("set", f"{table}.add", "0 RATE 40Mbps BURST 2000000 PACKET 1514")
    for version in (4, 6):
        def before(near: int, far: int, version: int = version) -> None:
            if service.startswith("match"):
                tables.extend(bed.set_up(service, near, far, version))

        tcp_between(bed.hosts[0], bed.hosts[1], host(1, version), version, SIZE, before)
    counts = bed.passed(tables)
    assert len(counts) == len(tables), (tables, counts)
    assert min(counts, default=99) > 20, counts
    tcp_between(bed.hosts[2], bed.hosts[1], host(1, 4), 4, SIZE)


@pytest.mark.parametrize("service", ["null_prefix_fifo", "tag_prefix_sort", "match_prefix_sort", "match_look_fifo"])
def test_a_service_is_a_router_both_ways(lab, service):
    bed = Bed(lab, service)
    hosts_reach_each_other_and_see_one_hop(bed)
    tcp_passes_both_ways_and_is_classified(bed, service)
    assert bed.process.stop() == 0
