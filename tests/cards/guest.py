"""A guest with emulated network cards: Debian's kernel over this machine's root, by QEMU.

The root is read by 9p, and writes stay in the guest's memory. So everything that is installed here is available
there, including the program under test, and nothing is left behind. The test controls each card's cable: a frame is a
datagram of a UNIX socket. Commands are run by an agent behind a serial line. QEMU's monitor (QMP) plugs and unplugs
cards and cables. The test machines have no KVM, so all time limits are generous.
"""

import contextlib
import gzip
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/system"))

from net import Failed, Lab, Namespace, until  # noqa: E402

ASHLAR = os.environ.get("ASHLAR_BIN", str(ROOT / "target/release/ashlar"))
# A copy in the guest's memory: its own disk is slow.
PROGRAM = "/run/ashlar"
QEMU = "qemu-system-x86_64"
# QEMU's models. All of them work behind QEMU's IOMMU, which Debian's kernel cannot do without.
MODELS = {
    "e1000e": "e1000e",
    "virtio": "virtio-net-pci,iommu_platform=on,disable-legacy=on",
    "vmxnet3": "vmxnet3",
    "e1000": "e1000",
}
# Seconds until a guest answers; it takes 10 on an idle machine.
BOOT = 240
# Modules that are needed to reach the root.
MODULES = ["virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci", "netfs", "fscache",
           "9pnet", "9p", "9pnet_virtio", "overlay"]

INIT = """#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev
for m in {modules}; do [ -e /m/$m.ko ] && insmod /m/$m.ko; done
mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=262144,cache=loose host /lower
mount -t tmpfs t /rw; mkdir -p /rw/u /rw/w
mount -t overlay -o lowerdir=/lower,upperdir=/rw/u,workdir=/rw/w o /new
mount -t proc p /new/proc; mount -t sysfs s /new/sys; mount --move /dev /new/dev
mkdir -p /new/dev/pts /new/dev/shm /new/lib/modules
mount -t devpts x /new/dev/pts; mount -t tmpfs x /new/dev/shm; mount -t tmpfs x /new/run; mount -t tmpfs x /new/tmp
mount --bind /lower{kernel}/lib/modules /new/lib/modules
for f in {folders}; do mkdir -p /new$f; mount --bind /lower$f /new$f; done
exec switch_root /new /bin/bash -c 'export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
    ip link set lo up; mkdir -p /run/netns /run/user; /usr/bin/python3 {agent}; echo o > /proc/sysrq-trigger'
"""


@cache
def kernel() -> Path | None:
    """Folder of the unpacked kernel."""
    found = sorted((ROOT / "target/cards").glob("linux-image-*"))
    return found[-1] if found else None


def hidden() -> list[Path]:
    """Folders of the project and the program below /tmp or /run, which are separate file systems in a guest."""
    return [folder for folder in (ROOT, Path(ASHLAR).resolve().parent) if folder.parts[1] in ("tmp", "run")]


@cache
def missing() -> str:
    """Reason why guests cannot be started; empty if they can."""
    lacks = [name for name in (QEMU, "busybox", "cpio", "modprobe") if shutil.which(name) is None]
    if kernel() is None:
        lacks.append("Debian's kernel")
    return f"there is no {', no '.join(lacks)}: `scripts/deps cards` gets them" if lacks else ""


@dataclass
class Cable:
    """The test's end of a card's cable."""

    folder: Path
    name: str
    received: list[bytes] = field(default_factory=list)

    def __post_init__(self):
        self.ours, self.theirs = self.folder / f"{self.name}.test", self.folder / f"{self.name}.card"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        self._socket.bind(str(self.ours))
        self._socket.settimeout(20)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                with contextlib.suppress(TimeoutError):
                    frame = self._socket.recv(65536)
                    # Looked up after the read: `take` may have replaced the list meanwhile.
                    self.received.append(frame)

    def send(self, *frames: bytes) -> None:
        """Sends a frame; waits while the card accepts none, as a switch with flow control does."""
        for frame in frames:
            self._socket.sendto(frame, str(self.theirs))

    def offer(self, frame: bytes) -> bool:
        """Sends a frame unless the card accepts none now."""
        try:
            self._socket.sendto(frame, socket.MSG_DONTWAIT, str(self.theirs))
        except OSError:
            return False
        return True

    def take(self) -> list[bytes]:
        """Frames that have arrived since the last call."""
        taken, self.received = self.received, []
        return taken

    def close(self) -> None:
        # Wakes the reader; a close alone does not.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    @property
    def netdev(self) -> str:
        return (f"dgram,id={self.name},local.type=unix,local.path={self.theirs},"
                f"remote.type=unix,remote.path={self.ours}")


@dataclass
class Tap:
    """A cable that ends in a TAP interface of this machine, in a namespace: the peer is the kernel."""

    name: str
    queues: int = 1

    @property
    def netdev(self) -> str:
        return f"tap,id={self.name},ifname={self.name},script=no,downscript=no,queues={self.queues}"

    def close(self) -> None:
        """Does nothing: the interface disappears with QEMU."""


def mac(number: int) -> str:
    return f"52:54:00:00:00:{number:02x}"


class Guest:
    """A guest with two cards of a model; the model's options follow it: `virtio-net-pci,mq=on`."""

    def __init__(self, lab: Lab, model: str, *, taps: Namespace | None = None, queues: int = 1,
                 memory: int = 1280, cables: list | None = None, name: str = ""):
        """Starts a guest. With `taps`, cables end in the interfaces n0 and n1 of that namespace, with as many queues;
        `cables` are other ends, one per card. Guests of one lab need names.
        """
        self.lab, self.model = lab, model
        self.folder = lab.folder / name
        self.folder.mkdir(exist_ok=True)
        if cables is not None:
            self.cables = cables
        elif taps is None:
            self.cables = [Cable(self.folder, f"n{i}") for i in range(2)]
        else:
            self.cables = [Tap(f"n{i}", queues) for i in range(2)]
        self._ids = itertools.count(1)
        self._answers: dict[int, dict] = {}
        self._news = threading.Condition()
        words = [QEMU, "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", str(memory),
                 "-kernel", str(next(kernel().glob("boot/vmlinuz-*"))), "-initrd", str(self._initrd()),
                 "-display", "none", "-vga", "none", "-nic", "none", "-no-reboot",
                 "-chardev", f"file,id=c0,path={self.folder}/console", "-serial", "chardev:c0",
                 "-chardev", f"socket,id=c1,path={self.folder}/agent,server=on,wait=off", "-serial", "chardev:c1",
                 "-qmp", f"unix:{self.folder}/qmp,server=on,wait=off",
                 "-append", "console=ttyS0 quiet panic=-1 mitigations=off intel_iommu=on iommu=pt",
                 "-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap"]
        words += ["-device", "intel-iommu,intremap=off,caching-mode=on", "-device", "virtio-9p-pci,fsdev=root,mount_tag=host"]
        for number, cable in enumerate(self.cables):
            words += [*getattr(cable, "options", []), "-netdev", cable.netdev]
            words += ["-device", f"pcie-root-port,id=r{number},chassis={number + 1},slot={number + 1},addr={number + 16:#x}"]
            options = ",".join(f"{key}={value}" for key, value in self._card(number).items() if key != "driver")
            words += ["-device", f"{model},{options}"]
        self.process = (taps or lab).spawn(*words)
        lab.closing(lambda: [cable.close() for cable in self.cables])
        self._agent = self._connect("agent")
        threading.Thread(target=self._listen, daemon=True).start()
        self._qmp = self._connect("qmp").makefile("rw")
        self._qmp.readline()
        self.qmp("qmp_capabilities")
        try:
            self._wait(0, BOOT)
        except Failed as late:
            raise Failed(f"{late}\n{self.console()}\n{self.process.said()}") from None

    def _card(self, number: int) -> dict[str, str]:
        return {"id": f"card{number}", "netdev": f"n{number}", "mac": mac(number + 1), "bus": f"r{number}"}

    def _initrd(self) -> Path:
        into = self.folder / "initrd"
        for name in ("bin", "dev", "proc", "sys", "m", "lower", "rw", "new"):
            (into / name).mkdir(parents=True)
        shutil.copy(shutil.which("busybox"), into / "bin/busybox")
        for name in MODULES:
            for module in kernel().glob(f"lib/modules/*/kernel/**/{name}.ko"):
                shutil.copy(module, into / "m")
        agent = Path(__file__).with_name("agent.py")
        init = into / "init"
        init.write_text(INIT.format(modules=" ".join(MODULES), kernel=kernel(), agent=agent,
                                    folders=" ".join(map(str, hidden()))))
        init.chmod(0o755)
        names = "\n".join(str(path.relative_to(into)) for path in sorted(into.rglob("*")))
        packed = subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], input=names.encode(), cwd=into,
                                capture_output=True, check=True, timeout=60).stdout
        file = self.folder / "initrd.gz"
        file.write_bytes(gzip.compress(packed, 1))
        return file

    def _connect(self, name: str) -> socket.socket:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.lab.closing(made.close)

        def connected() -> bool:
            try:
                made.connect(str(self.folder / name))
            except OSError:
                if not self.process.running:
                    raise Failed(f"QEMU has ended\n{self.process.said()}") from None
                return False
            return True

        until(connected, "QEMU's socket", timeout=60)
        return made

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            for line in self._agent.makefile("rb"):
                with contextlib.suppress(ValueError):
                    answer = json.loads(line)
                    with self._news:
                        self._answers[answer["id"]] = answer
                        self._news.notify_all()

    def _wait(self, number: int, timeout: float) -> dict:
        end = time.monotonic() + timeout
        with self._news:
            while number not in self._answers:
                if not self.process.running or not self._news.wait(min(1, max(0, end - time.monotonic()))) \
                        and time.monotonic() > end:
                    what = f"has not answered within {timeout:g} s" if self.process.running else f"is gone ({self.process.wait()}): {self.process.said()}"
                    raise Failed(f"the guest {what}\n{self.console()[-3000:]}")
            return self._answers.pop(number)

    def console(self) -> str:
        """Messages of the guest's kernel."""
        with contextlib.suppress(OSError):
            return (self.folder / "console").read_text(errors="replace")
        return ""

    def qmp(self, command: str, **arguments: object) -> dict:
        """Sends a command to QEMU's monitor."""
        self._qmp.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self._qmp.flush()
        while True:
            answer = json.loads(self._qmp.readline())
            if "error" in answer:
                raise Failed(f"QMP {command}: {answer['error']}")
            if "return" in answer:
                return answer

    def _ask(self, limit: float, **request: object) -> dict:
        number = next(self._ids)
        self._agent.sendall(json.dumps({"id": number, **request}).encode() + b"\n")
        return self._wait(number, limit)

    def get(self, path: str) -> str | None:
        """Response of the router's API; `None` if it fails."""
        answer = self._ask(180, get=path)
        return answer["out"] if answer["status"] == 200 else None

    def run(self, command: str, timeout: float = 180, ok: bool = True) -> str:
        """Runs a bash command in the guest; raises an error if the command fails, unless `ok` is false."""
        answer = self._ask(timeout + 60, command=command, timeout=timeout)
        if ok and answer["status"] != 0:
            raise Failed(f"`{command}` ended with {answer['status']} in the guest\n{answer['out']}\n{self.console()[-2000:]}")
        return answer["out"]

    def keep(self, words: str) -> None:
        """Runs a router in the namespace `ports` under `ashlar keep`, and waits until it responds. /run/keep.pid has
        keep's process number.
        """
        self.run(f"ip netns exec ports setsid {PROGRAM} keep -- {PROGRAM} run {words} --socket /run/router.sock > /run/log 2>&1 & "
                 "echo $! > /run/keep.pid")
        try:
            until(lambda: self.get("/v1/info"), "the router's answer", timeout=120)
        except Failed as late:
            raise Failed(f"{late}\n{self.run('tail -n 20 /run/log')}") from None

    def cards(self) -> list[dict]:
        """The two cards as listed by `ashlar ports`, in their order."""
        found = json.loads(self.run(f"{PROGRAM} ports --json"))["cards"]
        return sorted(found, key=lambda card: card["address"])

    def link(self, number: int, up: bool) -> None:
        """Plugs a card's cable in or out."""
        self.qmp("set_link", name=f"card{number}", up=up)

    def unplug(self, number: int) -> None:
        self.qmp("device_del", id=f"card{number}")

    def plug(self, number: int) -> None:
        model, *options = self.model.split(",")
        more = dict(option.split("=") for option in options)
        switches = {key: {"on": True, "off": False}.get(value, value) for key, value in more.items()}
        switches = {key: int(value) if isinstance(value, str) and value.isdigit() else value for key, value in switches.items()}
        self.qmp("device_add", driver=model, **switches, **self._card(number))

    def has_card(self, number: int) -> bool:
        """True if QEMU still has the card: QEMU removes it when the guest has released it."""
        answer = self.qmp("qom-list", path="/machine/peripheral")["return"]
        return any(entry["name"] == f"card{number}" for entry in answer)


class Router:
    """Ashlar in a guest, on its two cards."""

    def __init__(self, guest: Guest):
        self.guest = guest
        guest.run(f"cp {ASHLAR} {PROGRAM}")
        self.addresses = [card["address"] for card in guest.cards()]

    def prepare(self, buffers: int = 8192) -> None:
        """Binds the cards to a driver for programs, by the commands that users are told."""
        run = self.guest.run
        # `ashlar doctor` leaves this setting to a person. The emulated IOMMU remaps no interrupts.
        run("modprobe vfio_iommu_type1; modprobe vfio-pci; "
            "echo Y > /sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts")
        run("mkdir -p /dev/hugepages; mountpoint -q /dev/hugepages || mount -t hugetlbfs none /dev/hugepages")
        self.write("two", f"FromDevice({self.addresses[0]}, PROMISC true) -> ToDevice({self.addresses[1]});")
        # Enough hugepages for jumbo frames.
        run(f"{PROGRAM} doctor --fix --buffers {buffers} --frame-bytes 9018 two.click", timeout=120)

    def write(self, name: str, text: str) -> None:
        """Writes a configuration; $A and $B stand for the cards."""
        self.guest.run(f"cat > /run/{name}.click <<'END'\n{text}\nEND")

    def start(self, name: str | Path, options: str = "", timeout: float = 240) -> None:
        """Runs a configuration, given by its name or file, and waits until the router responds."""
        a, b = self.addresses
        file = f"/run/{name}.click A={a} B={b}" if isinstance(name, str) else name
        self.guest.run(f"setsid {PROGRAM} run {file} --buffers 8192 --socket /run/router.sock {options} "
                       "> /run/log 2>&1 & echo $! > /run/pid")

        def answers() -> bool:
            if self.guest.get("/v1/info"):
                return True
            if self.guest.run("kill -0 $(cat /run/pid)", ok=False):
                raise Failed(f"the router has ended\n{self.log()}")
            return False

        until(answers, "the router's answer", timeout)

    @contextlib.contextmanager
    def running(self, name: str | Path, options: str = "") -> Iterator[None]:
        """Runs a configuration, and stops it at the end."""
        try:
            self.start(name, options)
            yield
        finally:
            self.stop()

    def log(self) -> str:
        return self.guest.run("cat /run/log", ok=False)

    def cli(self, words: str, ok: bool = True) -> str:
        return self.guest.run(f"{PROGRAM} {words}", ok=ok)

    def number(self, handler: str) -> int:
        return int(self.guest.get(f"/v1/handlers/{handler}"))

    def stats(self) -> dict:
        return json.loads(self.guest.get("/v1/stats"))

    def port(self, number: int) -> dict:
        """The router's statistics entry for a card."""
        return next(p for p in self.stats()["ports"] if p["name"] == self.addresses[number])

    def counters(self, number: int) -> dict[str, int]:
        """Counters of a card by name."""
        return {c["name"]: c["value"] for c in self.port(number)["counters"]}

    def stop(self, signal: str = "TERM") -> None:
        """Stops the router and waits for its end."""
        self.guest.run(f"pid=$(cat /run/pid); kill -{signal} $pid; "
                       "for i in $(seq 2400); do [ -e /proc/$pid ] || exit 0; sleep 0.05; done; exit 1")
