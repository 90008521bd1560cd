"""A port `vhost:`, whose other end is a guest's virtio card (vhost-user). The guest is a virtual machine of a routers
file (`isolation = "machine"`) with a share of a port; its gate runs on this machine.

Shows: the link is up while a guest drives its card; packets, super-frames and a TCP stream pass both ways; a guest is
killed under traffic and another one takes its place; a router is killed and comes back while the guest goes on.
"""

import hashlib
import http.client
import json
import re
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from guest import ASHLAR, Guest
from net import Failed, Lab, until

MEMORY = 768
SETUP = """modprobe virtio_net; for i in $(seq 100); do ip link show eth0 >/dev/null 2>&1 && break; sleep 0.1; done
ip link set eth0 up; ip address add 10.8.0.2/24 dev eth0"""


@dataclass
class Vhost:
    """A cable that ends in a port of a router on this machine."""

    name: str
    path: Path

    @property
    def netdev(self) -> str:
        return f"vhost-user,id={self.name},chardev=c-{self.name}"

    @property
    def options(self) -> list[str]:
        # The router maps the guest's memory, so that must be shared.
        return ["-chardev", f"socket,id=c-{self.name},path={self.path},reconnect=1", "-object",
                f"memory-backend-memfd,id=ram,size={MEMORY}M,share=on", "-machine", "memory-backend=ram"]

    def close(self) -> None:
        """Does nothing: the router owns the socket."""


class Api(http.client.HTTPConnection):
    """API of a router."""

    def __init__(self, path: Path):
        super().__init__("ashlar", timeout=30)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(str(self.path))


class Bed:
    """A router between a guest and a namespace. `more` has further tables of its file."""

    more = ""

    def __init__(self, lab: Lab):
        self.lab, self.control, self.vm = lab, lab.folder / "router.sock", lab.folder / "wan.sock"
        self.space, self.host = lab.namespace("router"), lab.namespace("host")
        lab.link(self.host, "eth0", self.space, "v0")
        self.host.ip("address add 10.8.0.1/24 dev eth0")
        self.guests = 0
        self.connect()
        self.start()
        self.boot()

    def connect(self) -> None:
        """Makes the connections that `more` needs."""

    def start(self) -> None:
        text = self.more + f"""
            [[router]]
            name = "vm"
            isolation = "machine"
            sockets = "{self.lab.folder}"
            [[port]]
            name = "wan"
            device = "v0"
            share = [{{ router = "vm" }}]
        """
        file = self.lab.folder / "routers.toml"
        file.write_text(text)
        # The control socket of a killed router is still there, so the file does not show that the router runs.
        self.router = self.space.spawn(ASHLAR, "run", str(file), "--socket", str(self.control), "--workers", "1", "--buffers", "4096")
        until(lambda: self.answers() or not self.router.running, "the router's answer", timeout=60)
        if not self.router.running:
            raise Failed(self.router.said())

    def answers(self) -> bool:
        try:
            return bool(self.stats())
        except OSError:
            return False

    def stats(self) -> dict:
        api = Api(self.control)
        api.request("GET", "/v1/routers/vm/stats")
        return json.loads(api.getresponse().read())

    def port(self) -> dict:
        return next(p for p in self.stats()["ports"] if p["name"].startswith("vhost:"))

    def dropped(self) -> int:
        """Number of packets for the guest that were dropped for lack of room."""
        senders = [e for e in self.stats()["elements"] if e["class"] == "ToDevice"]
        return sum(copy["drops"][e["drop_names"].index("full")] for e in senders for copy in e["copies"])

    def boot(self) -> None:
        self.guests += 1
        cable = Vhost("n0", self.vm)
        # QEMU 7.2 without KVM crashes when a card of vhost-user has MSI-X.
        self.guest = Guest(self.lab, "virtio-net-pci,disable-legacy=on,vectors=0", cables=[cable], memory=MEMORY, name=f"guest{self.guests}")
        try:
            self.guest.run(SETUP)
        except Failed as gone:
            raise Failed(f"{gone}\n{self.router.said()}") from None

    def ping(self, count: int = 5, size: int = 56) -> int:
        said = self.host.run("ping", "-q", "-c", str(count), "-i", "0.2", "-W", "5", "-s", str(size), "10.8.0.2", ok=None, timeout=120).out
        return int(re.search(r"(\d+) received", said)[1])

    def reaches(self) -> None:
        until(lambda: self.ping(1) == 1, "the guest", timeout=120)


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    with Lab() as lab:
        yield Bed(lab)


def test_packets_and_streams_pass_both_ways(bed):
    bed.reaches()
    assert bed.port()["up"]
    assert bed.ping(20) == 20 and bed.ping(20, 1472) == 20
    said = bed.guest.run("ping -q -c 10 -i 0.2 -W 5 10.8.0.1")
    assert "10 received" in said, said
    # Both kernels leave checksums, and would leave segments, to the card, as far as it offers that.
    data = bytes(range(256)) * 4000
    (bed.lab.folder / "data").write_bytes(data)
    bed.guest.run("nc -l 10.8.0.2 5001 > /tmp/got 2> /dev/null & echo $! > /run/nc")
    send = f"for i in $(seq 100); do nc -N 10.8.0.2 5001 < {bed.lab.folder}/data && exit 0; sleep 0.1; done; exit 1"
    bed.host.run("bash", "-c", send, timeout=180)
    got = bed.guest.run("tail --pid=$(cat /run/nc) -f /dev/null; sha256sum < /tmp/got", timeout=120)
    assert got.startswith(hashlib.sha256(data).hexdigest()), got
    # The same in the other direction.
    bed.guest.run("nc -N -l 10.8.0.2 5002 < /tmp/got > /dev/null 2>&1 & true")
    take = f"for i in $(seq 100); do nc -d 10.8.0.2 5002 > {bed.lab.folder}/back && exit 0; sleep 0.1; done; exit 1"
    bed.host.run("bash", "-c", take, timeout=180)
    assert (bed.lab.folder / "back").read_bytes() == data


def test_a_guest_that_is_killed_under_traffic_leaves_the_port_to_the_next(bed):
    bed.reaches()
    pings = bed.host.spawn("ping", "-q", "-i", "0.002", "10.8.0.2")
    # The neighbour stays known, so that packets go on.
    mac = bed.guest.run("cat /sys/class/net/eth0/address").strip()
    bed.host.ip(f"neigh replace 10.8.0.2 lladdr {mac} dev eth0 nud permanent")
    bed.guest.process.signal(signal.SIGKILL)
    bed.guest.process.wait()
    until(lambda: not bed.port()["up"], "the link to be down", timeout=60)
    before = bed.dropped()
    until(lambda: bed.dropped() > before, "packets to be dropped by name", timeout=120)
    bed.boot()
    until(lambda: bed.port()["up"], "the link to be up", timeout=60)
    bed.reaches()
    assert bed.ping(20) == 20
    pings.signal(signal.SIGINT)
    pings.wait()


def test_a_router_that_is_killed_finds_the_guest_again(bed):
    bed.reaches()
    bed.router.signal(signal.SIGKILL)
    bed.router.wait()
    assert bed.vm.exists()
    # The stale socket file is removed.
    bed.start()
    bed.reaches()
    assert bed.ping(20) == 20
