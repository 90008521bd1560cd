"""Shared memory (memif) between two routers carries real traffic, and DPDK ports report missing resources.

Shows: ping, UDP and TCP both ways byte by byte, IPv4 and IPv6, over memif; the ends of a memif meet again after one was killed; nobody but
the router's user and root connects to its socket; and a router whose hugepages, memory or buffers are short does without, or
says so.
"""

import contextlib
import mmap
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from net import until
from taps import mac_of
from topology import ASHLAR, CONFIGURATION, FORWARD, SERVER, AshlarRouter, Network
from traffic import answers, carries, plain_wires

pytestmark = pytest.mark.ashlar
SIZE = 3_000_000


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
    carries(network, SIZE)
    # Either router is killed and started again, and the two reconnect.
    for router, start in ((far, (f"DEV0={memif.format('server')}", "DEV1=eth1")), (near, ("DEV0=eth0", f"DEV1={memif.format('client')}"))):
        router.process.signal(signal.SIGKILL)
        router.process.wait()
        router.start(FORWARD, *start)
        answers(network, 4)
    assert near.stop() == 0
    assert far.stop() == 0


NOBODY = 65534


def connects(path: str, user: int) -> str:
    """Connects to a memif's socket as a user. Returns the name of the error; empty on success."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        said = ""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
                peer.settimeout(10)
                peer.connect(path)
                peer.recv(128)
        except OSError as error:
            said = type(error).__name__
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as pipe:
        return pipe.read()


def test_only_the_routers_user_and_root_connect_to_the_socket_of_a_memif(lab):
    lab.folder.chmod(0o755)
    path = lab.folder / "memif.sock"
    file = lab.folder / "server.click"

    def router(words: str):
        file.write_text(f'FromDevice("{words}") -> Discard;\n')
        return lab.spawn(ASHLAR, "run", str(file), "--socket", str(lab.folder / "control.sock"), "--workers", "1")

    server = router(f"memif:id=0,role=server,socket={path}")
    server.wait_for(" start ", 30)
    assert path.stat().st_mode & 0o077 == 0
    assert (connects(str(path), NOBODY), connects(str(path), 0)) == ("PermissionError", "")
    assert server.stop() == 0
    assert not path.exists()
    # DPDK's own driver for memif trusts its peer, so it is refused.
    refused = router(f"net_memif0,role=server,socket={path},socket-abstract=no")
    assert refused.wait() != 0
    assert "write memif:role=" in refused.err, refused.said()


HUGEPAGES = Path("/sys/kernel/mm/hugepages/hugepages-2048kB")
HUGEPAGE = 2 << 20
MAP_HUGETLB = 0x4_0000
# Hugepages that are promised. A router of 2,048 buffers needs 19.
PROMISED = 40


@contextlib.contextmanager
def promised_hugepages() -> Iterator[None]:
    """Makes hugepages look free although they are reserved by a process that has not touched them."""
    number = HUGEPAGES / "nr_hugepages"
    if not number.exists():
        pytest.skip("this kernel has no hugepages of 2 MiB")
    before = int(number.read_text())
    number.write_text(str(before + PROMISED))
    try:
        count = int((HUGEPAGES / "free_hugepages").read_text()) - int((HUGEPAGES / "resv_hugepages").read_text())
        if count < PROMISED // 2:
            pytest.skip("there is no memory for hugepages")
        with mmap.mmap(-1, count * HUGEPAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_HUGETLB):
            yield
    finally:
        number.write_text(str(before))


def test_a_router_short_of_hugepages_or_memory_does_without_or_reports_its_needs(lab):
    file = lab.folder / "null.click"
    file.write_text('FromDevice("net_null0,size=64") -> Discard;\n')

    def router(*before: str):
        control = str(lab.folder / "control.sock")
        return lab.spawn(*before, ASHLAR, "run", str(file), "--socket", control, "--workers", "1", "--buffers", "2048")

    with promised_hugepages():
        without = router()
        without.wait_for(" start ", 30)
        said = without.wait_for("hugepages: 0 MiB free, .* DPDK runs without them, slower: .*sysctl -w vm.nr_hugepages=([0-9]+)", 30)
        assert int(said[1]) > int((HUGEPAGES / "nr_hugepages").read_text())
        assert without.stop() == 0
        short = router("prlimit", "--as=600000000")
        assert short.wait() == 1
        assert "cannot start" in short.err and "--buffers" in short.err and "sysctl -w vm.nr_hugepages=" in short.err, short.said()


def test_a_router_whose_buffers_are_all_in_use_says_so_and_ends_in_order(lab):
    network = Network(lab, workers=1)
    file = lab.folder / "full.click"
    file.write_text('FromDevice("net_null0,size=64") -> Queue(100000) -> Idle;\nFromDevice(eth0) -> Discard;\n')
    router = network.router
    router.process = router.spawn(file, "--buffers", "2048")
    until(router._answers, "the router's answer", 30)

    def refused() -> int:
        ports = {port["name"]: port["counters"] for port in router.stats()["ports"]}
        return sum(count["value"] for count in ports["eth0"] if count["name"] == "rx_no_buffer")

    until(refused, "a look that finds no buffer", 30)
    network.client.run("ping", "-c10", "-i0.05", "-W0.1", SERVER.host[4], ok=None)
    # The counter shows how often buffers ran out, not how often the port was polled meanwhile.
    assert refused() < 10
    assert router.stop() == 0
