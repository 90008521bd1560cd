"""The units of dist, unchanged, under systemd itself.

systemd runs as the first process of namespaces of its own. Its root is an overlay of this machine's that is gone with
it; its only devices are those named below, and its network has nothing but two veth ends, the router's ports.
"""

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from net import Failed, Lab, Namespace, Process, until
from topology import ASHLAR, ROOT

SYSTEMD = "/lib/systemd/systemd"
UNIT = "ashlar@edge"

# $1 the folder, $2 Ashlar, $3 the units' folder, $4 the routers' namespace, $5 a control group.
BOOT = f"""
set -e
echo $$ > "$5/cgroup.procs"
exec unshare --mount --pid --fork --cgroup --uts --ipc --kill-child=KILL sh -e -c '
mount --make-rprivate /
mount -t tmpfs none "$1"
cd "$1"; mkdir upper work root
mount -t overlay none -o lowerdir=/,upperdir=upper,workdir=work root
cd root
mount -t proc none proc
mount -t sysfs -o ro none sys
mount -t cgroup2 none sys/fs/cgroup
for folder in dev run tmp etc/systemd/system; do mount -t tmpfs none $folder; done
mkdir dev/net run/netns etc/ashlar
for file in null zero full random urandom tty net/tun; do touch dev/$file; mount --bind /dev/$file dev/$file; done
touch run/netns/router usr/local/bin/ashlar
mount --bind "/run/netns/$4" run/netns/router
mount --bind "$2" usr/local/bin/ashlar
cp "$3"/*.service etc/systemd/system/
exec env container=lab chroot . {SYSTEMD} --system --unit=basic.target --log-target=journal' sh "$@"
"""


def without() -> str | None:
    """Name of a feature that this machine lacks for the test; None if it can run."""
    if not Path(SYSTEMD).exists():
        return "systemd"
    if "overlay" not in Path("/proc/filesystems").read_text().split():
        return "the file system overlay"
    return None if control_groups() else "control groups of version 2"


def control_groups() -> Path | None:
    """Mount point of control groups of version 2."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    return next((Path(where) for _, where, kind, *_ in mounts if kind == "cgroup2"), None)


pytestmark = [
    pytest.mark.ashlar,
    pytest.mark.skipif(without() is not None, reason=f"the systemd unit needs {without()}"),
]


@contextlib.contextmanager
def control_group(name: str) -> Iterator[Path]:
    """A version 2 control group, removed with all groups below it once no process runs there."""
    group = control_groups() / name
    group.mkdir()

    def gone() -> bool:
        with contextlib.suppress(OSError):
            for folder in sorted([group, *group.rglob("*/")], reverse=True):
                folder.rmdir()
        return not group.exists()

    try:
        yield group
    finally:
        until(gone, f"the processes of {group} to end", 60)


class Machine:
    """systemd, a router `edge` between two hosts, and the namespace of its TAP interfaces."""

    def __init__(self, lab: Lab, group: Path):
        self.lab = lab
        self.space, self.router = lab.namespace("machine"), lab.namespace("router")
        self.hosts = [lab.namespace("h0"), lab.namespace("h1")]
        self.space.sysctl(net__ipv6__conf__default__disable_ipv6=1)
        for number, host in enumerate(self.hosts):
            lab.link(self.space, f"p{number}", host, "eth0")
            self.space.sysctl(**{f"net__ipv4__conf__p{number}__arp_ignore": 8})
            host.ip(f"address add 10.0.{number}.2/24 dev eth0")
            host.ip(f"route add default via 10.0.{number}.1")
        (lab.folder / "root").mkdir()
        # `ip netns exec` would mount another /sys, without control groups.
        self.process: Process = lab.spawn(
            "nsenter", f"--net=/run/netns/{self.space}", "sh", "-c", BOOT, "sh", str(lab.folder / "root"), str(Path(ASHLAR).resolve()),
            str(ROOT / "dist"), self.router.name, str(group))
        # unshare holds back SIGTERM as long as its child lives.
        lab.closing(self.process.signal, signal.SIGKILL)
        self.first = until(self._first, "the first process", 60)
        until(lambda: self.systemctl("is-active", "basic.target", ok=None) == "active\n", f"systemd\n{self.process.said()}", 60)
        self.run("useradd", "--system", "ashlar")

    def _first(self) -> str:
        if not self.process.running:
            raise Failed(f"systemd did not start\n{self.process.said()}")
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        comm = [Path(f"/proc/{child}/comm").read_text().strip() for child in children]
        return children[0] if comm == ["systemd"] else ""

    def run(self, *command: str, **more) -> str:
        """Output of a program in the machine."""
        return self.lab.run("nsenter", "-t", self.first, "-m", "-p", "-C", "-n", "-i", "-u", "-r", "-w", *command, **more).out

    def systemctl(self, *words: str, **more) -> str:
        return self.run("systemctl", *words, **more)

    def write(self, path: str, text: str) -> None:
        Path(f"/proc/{self.first}/root", path).write_text(text)

    def tells(self, name: str) -> str:
        """A property of the unit."""
        return self.systemctl("show", UNIT, "--value", "-p", name).strip()

    def log(self) -> str:
        return self.run("journalctl", "-u", UNIT, "--no-pager", ok=None)

    def carrier_changes(self) -> list[int]:
        """Number of changes of the carrier of each TAP interface."""
        return [int(self.router.run("cat", f"/sys/class/net/eth{n}/carrier_changes").out) for n in (0, 1)]

    def forwards(self) -> None:
        """Waits until a ping from host to host is answered."""
        ping = ("ping", "-c", "1", "-W", "1", "10.0.1.2")
        until(lambda: self.hosts[0].run(*ping, ok=None).status == 0, "a packet from host to host", 20)


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with contextlib.ExitStack() as stack:
        lab = Lab()
        group = stack.enter_context(control_group(lab.name))
        stack.enter_context(lab)
        made = Machine(lab, group)
        made.write("etc/ashlar/edge.click", (ROOT / "conf/linux-router.click").read_text())
        made.write("etc/ashlar/edge.env", "OPTIONS=--netns router DEV0=p0 DEV1=p1\n")
        try:
            made.systemctl("start", UNIT)
        except Failed as error:
            raise Failed(f"{error}\n{made.log()}") from None
        # An operator does this once, as TAP interfaces stay.
        made.router.sysctl(net__ipv4__ip_forward=1)
        for number in (0, 1):
            made.router.ip(f"address add 10.0.{number}.1/24 dev eth{number}")
            made.router.ip(f"link set eth{number} up")
        made.forwards()
        yield made


def test_the_router_is_started_ready_and_without_rights(machine):
    assert machine.tells("ActiveState") == "active"
    status = Path(f"/proc/{machine.first}/root/proc/{machine.tells('MainPID')}/status").read_text()
    words = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    user = machine.run("id", "-u", "ashlar").strip()
    assert words["Uid"].split() == [user] * 4
    assert words["NoNewPrivs"] == "1" and words["Seccomp"] == "2"
    admin = 1 << 21
    assert int(words["CapEff"], 16) & admin == 0, "CAP_SYS_ADMIN is given up"
    # systemd holds one queue of each TAP interface, and the running configuration.
    until(lambda: machine.tells("NFileDescriptorStore") == "3", "what systemd keeps")


def test_killed_it_is_started_again_and_its_tap_interfaces_keep_their_carrier(machine):
    before, pid, restarts = machine.carrier_changes(), machine.tells("MainPID"), int(machine.tells("NRestarts"))
    machine.systemctl("kill", "--kill-whom=main", "--signal=KILL", UNIT)
    until(lambda: machine.tells("MainPID") not in ("0", pid), "another process", 20)
    machine.forwards()
    assert int(machine.tells("NRestarts")) == restarts + 1
    assert machine.carrier_changes() == before


def test_restarted_its_tap_interfaces_keep_their_carrier(machine):
    before, pid = machine.carrier_changes(), machine.tells("MainPID")
    machine.systemctl("restart", UNIT)
    assert machine.tells("MainPID") not in ("0", pid)
    machine.forwards()
    assert machine.carrier_changes() == before


def test_reload_accepts_valid_files_and_refuses_the_others(machine):
    pid = machine.tells("MainPID")
    text = (ROOT / "conf/linux-router.click").read_text()
    show = ("ashlar", "show", "--socket", "/run/ashlar/edge.sock")
    machine.write("etc/ashlar/edge.click", f"{text}\nIdle -> added :: Counter -> Discard;\n")
    machine.systemctl("reload", UNIT)
    assert machine.run(*show, "added.count").strip() == "0"
    machine.write("etc/ashlar/edge.click", f"{text}\nNoSuchClass -> Discard;\n")
    with pytest.raises(Failed):
        machine.systemctl("reload", UNIT)
    until(lambda: "NoSuchClass" in machine.log(), "the reason in the log")
    assert machine.run(*show, "added.count").strip() == "0"
    machine.write("etc/ashlar/edge.click", text)
    machine.systemctl("reload", UNIT)
    machine.forwards()
    assert machine.tells("MainPID") == pid


def test_a_router_that_hangs_is_ended_and_started_again(machine):
    machine.run("mkdir", "-p", f"/etc/systemd/system/{UNIT}.service.d")
    machine.write(f"etc/systemd/system/{UNIT}.service.d/soon.conf", "[Service]\nWatchdogSec=4\nTimeoutAbortSec=1\n")
    machine.systemctl("daemon-reload")
    machine.systemctl("restart", UNIT)
    before, pid = machine.carrier_changes(), machine.tells("MainPID")
    machine.systemctl("kill", "--kill-whom=main", "--signal=STOP", UNIT)
    until(lambda: machine.tells("MainPID") not in ("0", pid), "another process", 60)
    machine.forwards()
    until(lambda: "Watchdog timeout" in machine.log(), "the reason in the log")
    assert machine.carrier_changes() == before


def test_a_namespace_for_tap_interfaces_is_made_and_taken_away(machine):
    def there() -> list[str]:
        return [line.split()[0] for line in machine.run("ip", "netns", "list").splitlines()]

    machine.systemctl("start", "netns@core")
    assert "core" in there() and "router" in there()
    assert "UP" in machine.run("ip", "-n", "core", "-o", "link", "show", "lo")
    machine.systemctl("stop", "netns@core")
    assert "core" not in there() and "router" in there()


def test_stopped_it_ends_cleanly(machine):
    machine.systemctl("stop", UNIT)
    assert (machine.tells("ActiveState"), machine.tells("Result")) == ("inactive", "success")
    assert not Path(f"/proc/{machine.first}/root/run/ashlar/edge.sock").exists()
