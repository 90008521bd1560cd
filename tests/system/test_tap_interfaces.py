"""TAP interfaces: the interfaces that routing daemons see, in a network namespace of their own.

Shows: a TAP interface looks like its device, also after that has changed; it survives a stop with all that was set on
it; its carrier is the device's; and under `ashlar keep` it never loses its carrier when the router is killed
or upgraded. `keep` speaks systemd's protocol, so this holds under systemd too.

    host eth0 ------- wan0 router      lan0: TAP interface of wan0 in the daemons' namespace, 10.0.1.1/24
    10.0.1.2                           ... and the same with peer, wan1, lan1, 10.0.2.1/24, 10.0.2.2

Packets go by the TAP interfaces here, the kernel of the daemons' namespace forwards them, where nothing else is said.
"""

import contextlib
import ctypes
import ipaddress
import json
import os
import re
import shlex
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from net import Lab, Process, until
from topology import ASHLAR, ROOT

pytestmark = pytest.mark.ashlar

CONFIGURATION = """
elementclass Port { $device, $tap |
    FromDevice($device) -> in :: LinuxInput($tap, $device) -> punt :: ToDevice(tap:$tap);
    in[1] -> punt;
    FromDevice(tap:$tap) -> ToDevice($device);
}
Port(wan0, lan0);
Port(wan1, lan1);
"""


class Bed:
    """Two hosts, the devices' namespace, the daemons' namespace, and a router between them."""

    def __init__(self, lab: Lab):
        self.lab = lab
        self.devices, self.daemons = lab.namespace("devices"), lab.namespace("daemons")
        self.hosts = [lab.namespace("host"), lab.namespace("peer")]
        for number, host in enumerate(self.hosts):
            lab.link(self.devices, f"wan{number}", host, "eth0")
            host.ip(f"address add 10.0.{number + 1}.2/24 dev eth0")
            host.ip(f"route add default via 10.0.{number + 1}.1")
            self.devices.sysctl(**{f"net__ipv6__conf__wan{number}__disable_ipv6": 1})
        self.file = lab.folder / "taps.click"
        self.file.write_text(CONFIGURATION)
        self.socket = lab.folder / "taps.sock"
        self.definitions: list[str] = []
        self.process: Process | None = None

    def route(self) -> None:
        """Lets the data plane forward instead of the daemons' kernel."""
        self.file = ROOT / "conf/linux-router.click"
        self.definitions = [f"{word}{n}={name}{n}" for n in range(2) for word, name in (("DEV", "wan"), ("IF", "lan"))]

    def command(self, *words: str) -> list[str]:
        return [ASHLAR, "run", str(self.file), *self.definitions, "--netns", self.daemons.name,
                "--socket", str(self.socket), *words]

    def start(self, *words: str, keep: bool = False) -> None:
        """Starts the router and waits until it runs."""
        before = [ASHLAR, "keep", "--watchdog", "3", "--"] if keep else []
        self.process = self.devices.spawn(*before, *self.command(*words))
        self.process.wait_for(" start ")

    def address(self) -> None:
        """Sets addresses, as the machine's own configuration would."""
        self.daemons.sysctl(net__ipv4__ip_forward=1)
        for number in range(2):
            self.daemons.ip(f"address add 10.0.{number + 1}.1/24 dev lan{number}")

    def link(self, name: str) -> dict:
        """An interface, as shown by iproute2."""
        space = self.daemons if name.startswith("lan") else self.devices
        found = space.lab.run("ip", "-n", space.name, "-json", "address", "show", "dev", name, ok=None)
        return json.loads(found.out)[0] if found.status == 0 else {}

    def carrier(self, name: str) -> bool:
        return "NO-CARRIER" not in self.link(name)["flags"]

    def crosses(self) -> bool:
        return self.hosts[0].run("ping", "-c1", "-W1", "10.0.2.2", ok=None).status == 0

    def child(self) -> int:
        """The router that `keep` has started."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0]) if children else 0


@pytest.fixture
def bed(lab):
    return Bed(lab)


def looks(link: dict) -> tuple:
    return link["address"], link["mtu"]


def test_a_tap_interface_looks_like_its_device(bed):
    bed.devices.ip("link set wan1 mtu 1400")
    bed.start()
    for number in range(2):
        assert looks(bed.link(f"lan{number}")) == looks(bed.link(f"wan{number}"))
    bed.devices.ip("link set wan0 mtu 1300")
    bed.devices.ip("link set wan0 address 02:00:00:00:cc:01")
    until(lambda: looks(bed.link("lan0")) == ("02:00:00:00:cc:01", 1300), "the TAP interface to follow its device")
    assert "lan0" not in bed.devices.ip("link").out
    # The link-local address of a new TAP interface is that of its address.
    mac = bed.link("lan1")["address"].split(":")
    interface_id = f"{int(mac[0], 16) ^ 2:02x}{mac[1]}:{mac[2]}ff:fe{mac[3]}:{mac[4]}{mac[5]}"
    wanted = ipaddress.ip_address(f"fe80::{interface_id}")
    until(lambda: wanted in [ipaddress.ip_address(a["local"]) for a in bed.link("lan1")["addr_info"]],
          "the link-local address")
    assert bed.process.stop() == 0


def test_the_tap_interface_of_a_vlan_looks_like_the_port_that_has_it(bed):
    bed.route()
    bed.definitions = ["DEV0=wan0", "IF0=lan0", "DEV1=wan0.100", "IF1=lan1"]
    bed.devices.ip("link set wan0 mtu 1400")
    bed.start()
    until(lambda: looks(bed.link("lan1")) == looks(bed.link("wan0")), "the VLAN's TAP interface")
    bed.devices.ip("link set wan0 down")
    until(lambda: not bed.carrier("lan1"), "the carrier of both to go")
    assert bed.process.stop() == 0


def test_packets_cross_by_the_tap_interfaces(bed):
    bed.start()
    bed.address()
    until(bed.crosses, "a packet by the TAP interfaces")
    # The kernel answers packets for the router itself.
    bed.hosts[0].run("ping", "-c1", "-W15", "10.0.1.1")


def test_a_tap_interface_survives_a_stop_with_all_that_was_set_on_it(bed):
    bed.start()
    bed.address()
    bed.daemons.ip("neigh add 10.0.2.9 lladdr 02:00:00:00:00:09 dev lan1 nud permanent")
    bed.daemons.ip("link set lan1 down")
    bed.daemons.ip("link set lan1 up")
    bed.daemons.ip("route add 10.9.0.0/16 via 10.0.2.9")
    before = bed.link("lan1")
    assert bed.process.stop() == 0
    until(lambda: not bed.carrier("lan0") and not bed.carrier("lan1"), "no carrier")
    bed.daemons.ip("link set lan0 down")
    bed.start()
    until(lambda: bed.carrier("lan1"), "the carrier")
    after = bed.link("lan1")
    assert [after[k] for k in ("ifindex", "address", "mtu")] == [before[k] for k in ("ifindex", "address", "mtu")]
    assert [a["local"] for a in after["addr_info"] if a["family"] == "inet"] == ["10.0.2.1"]
    assert "10.9.0.0/16 via 10.0.2.9 dev lan1" in bed.daemons.ip("route").out
    # An interface that an operator has taken down stays down until the operator sets it up.
    assert "UP" not in bed.link("lan0")["flags"]
    bed.daemons.ip("link set lan0 up")
    until(bed.crosses, "a packet after the restart")


def test_the_carrier_of_a_tap_interface_is_its_devices(bed):
    bed.hosts[0].ip("link set eth0 down")
    bed.start()
    # The kernel tells of a carrier that goes a second after the last change, of one that comes at once.
    until(lambda: not bed.carrier("lan0"), "no carrier")
    for _ in range(2):
        bed.hosts[0].ip("link set eth0 up")
        until(lambda: bed.carrier("lan0"), "the carrier")
        bed.hosts[0].ip("link set eth0 down")
        until(lambda: not bed.carrier("lan0"), "no carrier")
    assert bed.carrier("lan1")


def test_a_reload_without_a_tap_interface_takes_its_carrier_and_one_with_it_gives_it_back(bed):
    bed.start()
    bed.file.write_text(CONFIGURATION.replace("Port(wan1, lan1);", ""))
    bed.process.signal(signal.SIGHUP)
    until(lambda: not bed.carrier("lan1"), "no carrier")
    bed.file.write_text(CONFIGURATION)
    bed.process.signal(signal.SIGHUP)
    until(lambda: bed.carrier("lan1"), "the carrier")
    assert bed.carrier("lan0")


def test_a_tap_interface_that_is_deleted_is_made_again(bed):
    bed.start(keep=True)
    bed.address()
    until(bed.crosses, "a packet")
    old = bed.link("lan0")
    bed.daemons.ip("link delete lan0")
    new = until(lambda: bed.link("lan0"), "the TAP interface")
    assert new["ifindex"] != old["ifindex"]
    until(lambda: looks(bed.link("lan0")) == looks(old), "the TAP interface to look like its device")
    bed.daemons.ip("address add 10.0.1.1/24 dev lan0")
    until(bed.crosses, "a packet")
    # The new interface is kept.
    os.kill(bed.child(), signal.SIGKILL)
    until(bed.crosses, "a packet of the next router")
    assert bed.link("lan0")["ifindex"] == new["ifindex"]


def test_a_tap_interface_keeps_a_lesser_mtu_and_nothing_else_of_what_is_its_devices(bed):
    bed.devices.ip("link set wan0 mtu 1400")
    bed.start(keep=True)
    mac = bed.link("wan0")["address"]
    bed.daemons.ip("link set lan0 mtu 9000")
    until(lambda: looks(bed.link("lan0")) == (mac, 1400), "the device's MTU")
    bed.daemons.ip("link set lan0 address 02:00:00:00:cc:07")
    until(lambda: looks(bed.link("lan0")) == (mac, 1400), "the device's address")
    for what in ("MTU", "address"):
        bed.process.wait_for(f"its {what} was changed.*lan0")
    bed.daemons.ip("link set lan0 mtu 1300")
    killed = bed.child()
    os.kill(killed, signal.SIGKILL)
    bed.process.wait_for(" start ", since=bed.process.err.index(" start ") + 10)
    assert looks(bed.link("lan0")) == (mac, 1300)
    # A new one of the device is the last word.
    bed.devices.ip("link set wan0 mtu 1450")
    until(lambda: looks(bed.link("lan0")) == (mac, 1450), "the device's new MTU")
    assert bed.process.stop() == 0


def test_a_namespace_that_is_made_again_is_found_by_the_next_router(bed):
    bed.start(keep=True)
    bed.address()
    until(bed.crosses, "a packet")
    name = bed.daemons.name
    bed.lab.run("ip", "netns", "delete", name)
    bed.process.wait_for("it was deleted, and the router stays")
    until(bed.crosses, "a packet by the deleted one")
    first = bed.child()
    bed.lab.run("ip", "netns", "add", name)
    bed.process.wait_for("was made anew")
    until(lambda: bed.child() not in (0, first) and bed.link("lan0") and bed.link("lan1"), "TAP interfaces in the new one", timeout=10)
    bed.address()
    until(bed.crosses, "a packet by the new one")
    assert bed.process.stop() == 0


@pytest.mark.parametrize("path", ["kernel", "data plane"])
def test_a_renamed_tap_interface_is_the_same_twin(bed, path):
    if path == "data plane":
        bed.route()
    bed.start(keep=True)
    bed.address()
    until(bed.crosses, "a packet")
    bed.daemons.ip("link set lan0 down")
    bed.daemons.ip("link set lan0 name uplink")
    bed.daemons.ip("link set uplink up")
    until(bed.crosses, "a packet by the renamed TAP interface")
    bed.process.wait_for("it was renamed.*uplink")
    bed.devices.ip("link set wan0 mtu 1300")
    until(lambda: "mtu 1300" in bed.daemons.ip("link show uplink").out, "its device's MTU")
    if path == "kernel":
        # Now the configuration has the new name.
        bed.file.write_text(CONFIGURATION.replace("lan0", "uplink"))
        os.kill(bed.child(), signal.SIGHUP)
        bed.process.wait_for("reload")
        until(bed.crosses, "a packet after the reload")
    # The next router, after a crash, takes the renamed TAP interface, too.
    killed = bed.child()
    os.kill(killed, signal.SIGKILL)
    until(lambda: bed.child() not in (0, killed) and bed.crosses(), "a packet of the next router", timeout=10)
    assert not bed.link("lan0")
    assert bed.process.stop() == 0


def test_an_interface_of_another_kind_in_the_tap_interfaces_place_is_an_error_that_says_so(bed):
    bed.daemons.ip("link add lan0 type bridge")
    router = bed.devices.spawn(*bed.command())
    assert router.wait() != 0
    assert "there is an interface lan0 of another kind" in router.err, router.err


def test_a_namespace_that_is_not_there_is_an_error_that_says_so(bed):
    router = bed.devices.spawn(ASHLAR, "run", str(bed.file), "--netns", "ashlar-no-such", "--no-socket")
    assert router.wait() != 0
    assert "ip netns add ashlar-no-such" in router.err, router.err


def largest_gap(ping: Process) -> float:
    """Longest time between two answers, in milliseconds."""
    times = [float(t) for t in re.findall(r"^\[([0-9.]+)\] .*bytes from", ping.out, re.MULTILINE)]
    return max(b - a for a, b in zip(times, times[1:])) * 1000


def disturbed(bed: Bed, disturb) -> tuple[float, str]:
    """Disturbs the router under `keep`. Returns the longest gap between packets, and the link messages that the daemons'
    namespace got meanwhile.
    """
    monitor = bed.daemons.spawn("stdbuf", "-oL", "ip", "monitor", "link")
    # The monitor listens as soon as it reports a change.
    until(lambda: bed.daemons.ip("link set lo alias x") and bed.daemons.ip("link set lo alias y")
          and "lo" in monitor.out, "the monitor")
    ping = bed.hosts[0].spawn("ping", "-D", "-i", "0.002", "10.0.2.2")
    ping.wait_for("icmp_seq=100 ")
    old = bed.child()
    disturb(old)
    until(lambda: bed.child() not in (0, old), "another router", timeout=10)
    answered = ping.out.count("bytes from")
    until(lambda: ping.out.count("bytes from") > answered + 100, "answers by that router", timeout=30)
    ping.signal(signal.SIGINT)
    ping.wait()
    monitor.stop()
    return largest_gap(ping), monitor.out


@pytest.mark.parametrize("way", ["killed", "upgraded", "crashed", "hung"])
@pytest.mark.parametrize("path", ["kernel", "data plane"])
def test_a_tap_interface_keeps_its_carrier_when_the_router_is(bed, path, way, capsys):
    if path == "data plane":
        bed.route()
    bed.start(keep=True)
    bed.address()
    until(bed.crosses, "a packet")

    def disturb(router: int) -> None:
        if way == "upgraded":
            bed.process.signal(signal.SIGUSR2)
        else:
            # A panic ends it by SIGABRT.
            ends = {"killed": signal.SIGKILL, "crashed": signal.SIGABRT, "hung": signal.SIGSTOP}
            os.kill(router, ends[way])

    gap, said = disturbed(bed, disturb)
    with capsys.disabled():
        print(f"\n{way}, by the {path}: no packet for {gap:.0f} ms")
    assert "lan0" not in said and "lan1" not in said, said
    assert all(bed.carrier(name) for name in ("lan0", "lan1"))
    assert bed.process.stop() == 0
    until(lambda: not bed.carrier("lan0"), "no carrier once nobody keeps it")


def test_keep_ends_with_a_router_that_never_worked(bed):
    bed.file.write_text("FromDevice(wan0) -> Discards;")
    keep = bed.devices.spawn(ASHLAR, "keep", *bed.command())
    assert keep.wait() == 1
    assert "Discards" in keep.err, keep.err


def test_keep_ends_with_a_router_that_is_stopped(bed):
    bed.start(keep=True)
    bed.lab.run(ASHLAR, "stop", "--socket", str(bed.socket))
    assert bed.process.wait() == 0


READY = """
import os, socket, time
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.connect(os.environ["NOTIFY_SOCKET"])
manager.send(b"READY=1")
print("ready", flush=True)
time.sleep(1000)
"""


def test_keep_ends_in_order_whenever_it_is_told_to(bed):
    """Signals also arrive while the new program is being executed, and before it has installed a signal handler."""
    program = bed.lab.folder / "program"
    program.write_text(READY)
    for _ in range(20):
        keep = bed.devices.spawn(ASHLAR, "keep", "--", "/usr/bin/python3", str(program))
        keep.wait_for("ready")
        children = Path(f"/proc/{keep.pid}/task/{keep.pid}/children")
        child = children.read_text()
        keep.signal(signal.SIGUSR2)
        while children.read_text() in (child, ""):
            pass
        assert keep.stop() == 0


def test_keep_ends_in_order_when_the_program_has_failed_and_is_to_be_started_again(bed):
    ready, once = bed.lab.folder / "ready", bed.lab.folder / "once"
    ready.write_text(READY.replace("time.sleep(1000)", "raise SystemExit(1)"))
    # A program that was ready and has run for a second is started again at once, so this one is ready the first time only.
    program = f"test -e {once} || {{ touch {once}; exec /usr/bin/python3 {ready}; }}; sleep 0.3; exit 1"
    keep = bed.devices.spawn(ASHLAR, "keep", "--", "sh", "-c", program)
    children = Path(f"/proc/{keep.pid}/task/{keep.pid}/children")
    # The pauses have grown to more than a second by now. This message precedes its pause, and one more start follows it.
    keep.wait_for(r"(?s)(starting it again.*){6}", timeout=60)
    until(children.read_text, "the next start", timeout=60)
    until(lambda: not children.read_text(), "a pause", timeout=60)
    assert keep.stop() == 0
    assert keep.err.endswith("it has ended with status 1\n"), keep.err


def test_a_program_without_a_handler_is_restarted_on_request(bed):
    keep = bed.devices.spawn(ASHLAR, "keep", "--", "sleep", "1000")
    children = Path(f"/proc/{keep.pid}/task/{keep.pid}/children")
    until(children.read_text, "the program")
    first = children.read_text()
    keep.signal(signal.SIGUSR2)
    until(lambda: children.read_text() not in (first, ""), "another one")
    assert keep.stop() == 0


def test_keep_waits_longer_and_longer_before_restarts_of_a_failing_program(bed):
    ready, starts, ends = (bed.lab.folder / name for name in ("ready", "starts", "ends"))
    # A program that ends in order is not started again.
    ready.write_text(READY.replace("time.sleep(1000)", "raise SystemExit(1)"))
    program = f'date +%s.%N >> {starts}; test $(wc -l < {starts}) = 1 && exec /usr/bin/python3 {ready}; sleep 1.1; date +%s.%N >> {ends}; exit 1'
    bed.devices.spawn(ASHLAR, "keep", "--", "sh", "-c", program)

    def times(file: Path) -> list[float]:
        return [float(line) for line in file.read_text().split()] if file.exists() else []

    until(lambda: len(times(starts)) >= 6, "the sixth start", timeout=60)
    # From an end to the next start: a busy machine only makes it longer.
    pauses = [after - before for before, after in zip(times(ends), times(starts)[2:])]
    assert len(pauses) >= 4 and max(pauses) > 0.3, pauses


def test_tap_interfaces_of_a_router_that_does_not_start_lose_their_carrier(bed):
    """An interface may have another name after an upgrade: daemons are notified, and again when it is repaired."""
    bed.start(keep=True)
    until(lambda: bed.carrier("lan0") and bed.carrier("lan1"), "the carrier")
    bed.devices.ip("link set wan0 down")
    bed.devices.ip("link set wan0 name gone")
    os.kill(bed.child(), signal.SIGKILL)
    until(lambda: not bed.carrier("lan0") and not bed.carrier("lan1"), "no carrier", timeout=20)
    assert "starts have come to nothing" in bed.process.err
    bed.devices.ip("link set gone name wan0")
    bed.devices.ip("link set wan0 up")
    until(lambda: bed.carrier("lan0") and bed.carrier("lan1"), "the carrier", timeout=20)
    assert bed.process.stop() == 0


PTRACE_ATTACH, PTRACE_DETACH, WALL = 16, 17, 0x4000_0000


@contextlib.contextmanager
def stopped(thread: int) -> Iterator[None]:
    """Stops a single thread of a process during a `with` block."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.ptrace(PTRACE_ATTACH, thread, None, None) == 0, os.strerror(ctypes.get_errno())
    os.waitpid(thread, WALL)
    try:
        yield
    finally:
        assert libc.ptrace(PTRACE_DETACH, thread, None, None) == 0, os.strerror(ctypes.get_errno())


@pytest.mark.parametrize("name", ["worker1", "netlink"])
def test_the_service_manager_is_told_that_all_workers_turn_and_the_kernel_is_followed(bed, name):
    bed.route()
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    bed.lab.closing(manager.close)
    manager.bind(str(bed.lab.folder / "manager"))
    manager.settimeout(10)
    env = {"NOTIFY_SOCKET": str(bed.lab.folder / "manager"), "WATCHDOG_USEC": "600000"}
    router = bed.devices.spawn(*bed.command("--workers", "2"), env=env)

    def told(word: bytes) -> None:
        while word not in manager.recv(4096).splitlines():
            pass

    told(b"READY=1")
    for _ in range(3):
        told(b"WATCHDOG=1")
    tasks = Path(f"/proc/{router.pid}/task").iterdir()
    thread = next(int(t.name) for t in tasks if (t / "comm").read_text() == f"{name}\n")

    def is_silent() -> bool:
        """True if no sign of life comes for a second."""
        try:
            told(b"WATCHDOG=1")
        except TimeoutError:
            return True
        return False

    with stopped(thread):
        manager.settimeout(1)
        # Messages may have been on their way, and another may follow for the work before.
        until(is_silent, "silence")
    manager.settimeout(10)
    told(b"WATCHDOG=1")
    assert router.stop() == 0


def test_a_router_of_another_user_ends_with_its_keeper(bed):
    bed.start("--user", "nobody", keep=True)
    child = Path(f"/proc/{bed.child()}")
    bed.process.signal(signal.SIGKILL)
    until(lambda: not child.exists(), "the end of a router that nobody keeps")


def test_queues_of_another_namespace_are_not_taken_for_a_tap_interfaces(bed):
    """A router that moves to another namespace and back finds its first TAP interfaces, although the keeper passes it
    the second ones.
    """
    other, first = bed.lab.namespace("other"), bed.daemons.name
    where = bed.lab.folder / "where"
    words = [other.name if word == first else word for word in bed.command()]
    choose = f"if test -e {where}; then exec {shlex.join(words)}; else exec {shlex.join(bed.command())}; fi"
    bed.process = bed.devices.spawn(ASHLAR, "keep", "--", "sh", "-c", choose)
    bed.process.wait_for(" start ")
    bed.address()
    until(bed.crosses, "a packet")
    for there in (True, False):
        where.touch() if there else where.unlink()
        before = bed.child()
        os.kill(bed.process.pid, signal.SIGUSR2)
        until(lambda: bed.child() not in (0, before), "the next router")
        until(lambda: bed.lab.run(ASHLAR, "show", "--socket", str(bed.socket), ok=None).status == 0, "its socket")
        until(lambda: bed.crosses() != there, "packets by TAP interfaces of the namespace")
    assert bed.process.stop() == 0


def test_a_router_of_another_user_keeps_two_rights_and_can_reload(bed):
    bed.file.write_text(CONFIGURATION.replace("Port(wan1, lan1);", ""))
    os.chmod(bed.lab.folder, 0o755)
    bed.start("--user", "nobody", keep=True)
    for task in Path(f"/proc/{bed.child()}/task").iterdir():
        status = (task / "status").read_text()
        assert re.search(r"^Uid:(\s+65534){4}$", status, re.MULTILINE), status
        # CAP_NET_ADMIN and CAP_NET_RAW.
        assert re.search(r"^NoNewPrivs:\s+1$", status, re.MULTILINE), status
        assert re.search(r"^CapPrm:\s+0000000000003000$", status, re.MULTILINE), status
    bed.file.write_text(CONFIGURATION)
    os.kill(bed.child(), signal.SIGHUP)
    until(lambda: bed.link("lan1"), "the TAP interface of the second device")
    bed.address()
    until(bed.crosses, "a packet")
    assert bed.process.stop() == 0


def test_no_thread_of_another_users_router_gains_rights(bed):
    """DPDK starts threads before the user changes; they must not keep any rights."""
    bed.file.write_text("FromDevice(net_null0) -> Discard;")
    router = bed.devices.spawn(ASHLAR, "run", str(bed.file), "--no-socket", "--user", "nobody")
    router.wait_for(" start ")
    found = {}
    for task in Path(f"/proc/{router.pid}/task").iterdir():
        words = (line.split() for line in (task / "status").read_text().splitlines())
        status = {line[0]: line[1] for line in words if len(line) > 1}
        assert (status["Uid:"], status["NoNewPrivs:"]) == ("65534", "1"), status
        found[status["Name:"]] = int(status["CapPrm:"], 16)
    dpdk = {name for name in found if name.startswith("eal")}
    assert dpdk and found == {name: 0 if name in dpdk else 0x3000 for name in found}, found
    assert router.stop() == 0


def test_a_second_router_on_one_device_is_refused_unless_told(bed):
    """Each router would forward every frame. A process that ends in any way releases its devices."""
    bed.file.write_text("FromDevice(wan0) -> Discard;")

    def second(*words: str) -> Process:
        return bed.devices.spawn(ASHLAR, "run", str(bed.file), "--no-socket", *words)

    bed.start()
    refused = second()
    assert refused.wait() == 1
    assert f"process {bed.process.pid} (ashlar) has wan0" in refused.err, refused.err
    # Interfaces of that name in other namespaces are not the same.
    bed.lab.link(bed.hosts[0], "wan0", bed.hosts[1], "more")
    elsewhere = bed.hosts[0].spawn(ASHLAR, "run", str(bed.file), "--no-socket")
    elsewhere.wait_for(" start ")
    told = second("--share-devices")
    told.wait_for(" start ")
    assert told.stop() == 0
    bed.process.signal(signal.SIGKILL)
    bed.process.wait()
    again = second()
    again.wait_for(" start ")
    assert again.stop() == 0 and elsewhere.stop() == 0


def test_a_user_without_rights_to_a_device_cannot_keep_a_router_from_it(bed):
    program = "import socket, time; s = socket.socket(socket.AF_UNIX); s.bind('\\0ashlar/device/wan0'); s.listen(); " \
        "print('claimed', flush=True); time.sleep(1000)"
    claims = bed.devices.spawn("setpriv", "--reuid=65534", "--clear-groups", "/usr/bin/python3", "-c", program)
    claims.wait_for("claimed")
    bed.start()
    bed.process.wait_for("wan0: a program that has no right to open it has claimed it")
    assert bed.process.stop() == 0
