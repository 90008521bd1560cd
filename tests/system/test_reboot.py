"""A router that is restored after a reboot, with FRR in its namespace, under systemd: the procedure of docs/linux.md.

systemd runs as in test_systemd.py, as the first process of namespaces of its own, but what it writes to its disk outlasts it,
and it starts what is enabled. A reboot ends all processes there, mounts, namespaces and TAP interfaces; the network cards stay.
The network beside the router has one host at each port. FRR gives the interfaces their addresses, has the kernel forward, and
has a route to a network behind the second host, so a ping to there shows that FRR's routes have come into Ashlar.
"""

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from net import Failed, Lab, Process, until
from test_systemd import SYSTEMD, control_group, without
from topology import ASHLAR, ROOT

UNITS = ["netns@router", "ashlar@edge", "frr@router"]
# Services of this machine that are masked.
OTHERS = ["bird", "frr", "postgresql", "strongswan", "strongswan-starter", "e2scrub_reap", "getty@tty1", "console-getty", "ssh",
          "systemd-networkd", "systemd-resolved", "networking", "systemd-udevd", "systemd-logind", "ifupdown-pre", "cron"]

# $1 the folder that outlasts a reboot, $2 Ashlar, $3 a control group.
BOOT = f"""
set -e
echo $$ > "$3/cgroup.procs"
exec unshare --mount --pid --fork --cgroup --uts --ipc --kill-child=KILL sh -e -c '
mount --make-rprivate /
cd "$1"
mount -t overlay none -o lowerdir=/,upperdir=upper,workdir=work root
cd root
mount -t proc none proc
mount -t sysfs none sys
mount -t cgroup2 none sys/fs/cgroup
for folder in dev run tmp; do mount -t tmpfs none $folder; done
mkdir -p dev/net usr/local/bin
for file in null zero full random urandom tty net/tun; do touch dev/$file; mount --bind /dev/$file dev/$file; done
touch usr/local/bin/ashlar
mount --bind "$2" usr/local/bin/ashlar
exec env container=lab chroot . {SYSTEMD} --system --log-target=journal' sh "$@"
"""

FRR = """frr defaults traditional
ip forwarding
interface eth0
 ip address 10.0.0.1/24
interface eth1
 ip address 10.0.1.1/24
ip route 203.0.113.0/24 10.0.1.2
"""

pytestmark = [
    pytest.mark.ashlar,
    pytest.mark.skipif(without() is not None, reason=f"a reboot needs {without()}"),
    pytest.mark.skipif(not Path("/lib/systemd/system/frr@.service").exists(), reason="a reboot with FRR needs Debian's frr"),
]


class Machine:
    """A machine with two network cards and a disk; it is off at first."""

    def __init__(self, lab: Lab, group: Path):
        self.lab, self.group = lab, group
        self.cards = lab.namespace("machine")
        self.hosts = [lab.namespace("h0"), lab.namespace("h1")]
        for number, host in enumerate(self.hosts):
            lab.link(self.cards, f"p{number}", host, "eth0")
            host.ip(f"address add 10.0.{number}.2/24 dev eth0")
            host.ip(f"route add default via 10.0.{number}.1")
        self.hosts[1].ip("address add 203.0.113.7/24 dev lo")
        self.disk = lab.folder / "disk"
        self.disk.mkdir()
        lab.run("mount", "-t", "tmpfs", "none", str(self.disk))
        lab.closing(lab.run, "umount", str(self.disk))
        for folder in ("upper", "work", "root"):
            (self.disk / folder).mkdir()
        units = self.etc("systemd/system")
        for unit in OTHERS:
            (units / f"{unit}.service").symlink_to("/dev/null")
        for unit in (ROOT / "dist").glob("*.service"):
            (units / unit.name).write_text(unit.read_text())

    def etc(self, folder: str) -> Path:
        """A folder of /etc, to be written while the machine is off."""
        path = self.disk / "upper/etc" / folder
        path.mkdir(parents=True, exist_ok=True)
        return path

    def boot(self) -> None:
        self.process: Process = self.lab.spawn(
            "nsenter", f"--net=/run/netns/{self.cards}", "sh", "-c", BOOT, "sh", str(self.disk), str(Path(ASHLAR).resolve()),
            str(self.group))
        # unshare holds back SIGTERM as long as its child lives.
        self.lab.closing(self.process.signal, signal.SIGKILL)
        self.first = until(self._first, "the first process")
        self.systemd_is("running", "degraded")

    def systemd_is(self, *states: str) -> None:
        def there() -> bool:
            return self.run("systemctl", "is-system-running", ok=None).strip() in states

        until(there, f"systemd to be {' or '.join(states)}\n{self.process.said()}", 120)

    def _first(self) -> str:
        if not self.process.running:
            raise Failed(f"systemd did not start\n{self.process.said()}")
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        comm = [Path(f"/proc/{child}/comm").read_text().strip() for child in children]
        return children[0] if comm == ["systemd"] else ""

    def reboot(self) -> None:
        self.run("systemctl", "reboot", ok=None)
        until(lambda: not self.process.running, "the machine to go down", 120)
        self.boot()

    def run(self, *command: str, **more) -> str:
        """Output of a program in the machine."""
        return self.lab.run("nsenter", "-t", self.first, "-m", "-p", "-C", "-n", "-i", "-u", "-r", "-w", *command, **more).out

    def log(self) -> str:
        return "".join(self.run("journalctl", "-u", unit, "--no-pager", "-n", "40", ok=None) for unit in UNITS)

    def forwards(self, to: str) -> None:
        """Waits until a ping by the first host is answered."""
        ping = ("ping", "-c", "1", "-W", "1", to)
        try:
            until(lambda: self.hosts[0].run(*ping, ok=None).status == 0, f"an answer of {to}", 60)
        except Failed as error:
            raise Failed(f"{error}\n{self.log()}") from None


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with contextlib.ExitStack() as stack:
        lab = Lab()
        group = stack.enter_context(control_group(lab.name))
        stack.enter_context(lab)
        yield Machine(lab, group)


def test_router_and_frr_are_there_after_each_reboot(machine):
    # The one file of the router, its options, and FRR's configuration, as docs/linux.md tells.
    ours = machine.etc("ashlar")
    (ours / "edge.click").write_text((ROOT / "conf/linux-router.click").read_text())
    (ours / "edge.env").write_text("OPTIONS=--netns router DEV0=p0 DEV1=p1\n")
    machine.boot()
    machine.run("useradd", "--system", "ashlar")
    machine.run("bash", "-ec", "mkdir -p /etc/frr/router; cp -p /etc/frr/{daemons,vtysh.conf} /etc/frr/router/;"
                " sed -i 's/^#watchfrr_options=.*/watchfrr_options=\"--netns\"/' /etc/frr/router/daemons")
    Path(f"/proc/{machine.first}/root/etc/frr/router/frr.conf").write_text(FRR)
    machine.run("chown", "-R", "frr:frr", "/etc/frr/router")
    # A card has an address that the router must not share with the kernel.
    machine.cards.ip("address add 10.0.0.1/24 dev p0")
    machine.run("systemctl", "enable", *UNITS)
    for _ in range(2):
        machine.reboot()
        machine.forwards("10.0.1.2")
        machine.forwards("203.0.113.7")
        for unit in UNITS:
            assert machine.run("systemctl", "is-active", unit).strip() == "active", machine.log()
        assert "203.0.113.0/24" in machine.run("vtysh", "-N", "router", "-c", "show ip route static")
        shown = machine.run("ashlar", "show", "--socket", "/run/ashlar/edge.sock", "rt4.lookup", "203.0.113.7")
        assert "10.0.1.2" in shown, shown
        assert "inet " not in machine.cards.run("ip", "-4", "-o", "address", "show", "dev", "p0").out
