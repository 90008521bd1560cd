"""The machine of the measurement: facts that a reader must know, and its hugepages."""

import contextlib
import datetime
import fcntl
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / "target" / "bench"
# Papers' data and real traffic, which are not part of this repository.
SHARED = pathlib.Path(os.environ.get("ASHLAR_SHARED", ROOT.parent / "shared"))


class Failed(Exception):
    """The measured program did not run; the message is for people."""


class Absent(Failed):
    """This machine lacks what the measurement needs."""


class NotMeasured(Failed):
    """Raw results that a page needs are missing."""


def some(value, what):
    """A rate, which must not be 0: a rate of 0 means a mistake of the router or of the measurement."""
    if not value > 0:
        raise Failed(f"nothing was measured: {value:g} {what}")
    return value


def tsc_hz():
    """Cycles of the time-stamp counter per second."""
    text = subprocess.run(["dmesg"], capture_output=True, text=True).stdout
    for line in reversed(text.splitlines()):
        if "tsc:" in line and "MHz" in line:
            return float(line.split("MHz")[0].split()[-1]) * 1e6
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("cpu MHz"):
            return float(line.split(":")[1]) * 1e6
    raise Failed("this machine does not say how fast its clock is")


def noted_hz(notes):
    """Cycles of the time-stamp counter per second, of the machine that the notes describe."""
    return float(re.search(r"time-stamp counter (\d+) MHz", notes["cpu"])[1]) * 1e6


# Files that results depend on, without the results and pages themselves.
CODE = ["crates", "conf", "eval", "tests/examples", "Cargo.toml", "Cargo.lock",
        *(f":(exclude,glob)eval/**/{name}" for name in ("raw.json", "raw/**", "README.md", "page.md", "plot.svg"))]


def code_commit():
    """The last commit that changed the measured code, so that commits of results do not make results look old."""
    def git(*words):
        return subprocess.run(["git", *words, "--", *CODE], cwd=ROOT, capture_output=True, text=True).stdout.strip()

    commit = git("log", "-1", "--format=%h", "--abbrev=8")
    if not commit:
        return "not in a git checkout"
    return f"{commit} and changes" if git("status", "--porcelain", "--untracked-files=no") else commit


def notes():
    """Facts about the machine that a reader must know, by name."""
    model = [l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")]
    dpdk = subprocess.run(["pkg-config", "--modversion", "libdpdk"], capture_output=True, text=True)
    return {
        "date": datetime.date.today().isoformat(),
        "commit": code_commit(),
        "cpu": f"{model[0]}, {os.cpu_count()} processors, time-stamp counter {tsc_hz() / 1e6:.0f} MHz",
        "kernel": platform.release(),
        "dpdk": dpdk.stdout.strip(),
        "hugepages": pathlib.Path("/proc/sys/vm/nr_hugepages").read_text().strip() + " of 2 MiB",
        "load before": pathlib.Path("/proc/loadavg").read_text().split()[0],
    }


@contextlib.contextmanager
def locked(path):
    """Waits for the lock of a file, and holds it."""
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def end_in_order():
    """Makes termination signals raise SystemExit, so that cleanup code runs."""
    for name in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, lambda number, _: sys.exit(128 + number))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell has it ignored


class Hugepages:
    """Reserves hugepages during its lifetime: 1.75 GiB by default; none for 0."""

    PATH = pathlib.Path("/proc/sys/vm/nr_hugepages")
    WANTED = 896
    LOCK = pathlib.Path("/run/lock/ashlar-measures")

    def __init__(self, wanted=WANTED):
        self.wanted = wanted

    def __enter__(self):
        if os.geteuid() != 0:
            raise Failed("hugepages and pinned cores need root: run it as root")
        # Two measurements would disturb each other, and each would give back the other's hugepages.
        self.lock = open(self.LOCK, "w")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("waiting for another measurement on this machine", file=sys.stderr)
            fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.before = int(self.PATH.read_text())
        self.mounted = False
        try:
            self.reserve()
            if not os.path.ismount("/dev/hugepages"):
                os.makedirs("/dev/hugepages", exist_ok=True)
                subprocess.run(["mount", "-t", "hugetlbfs", "nodev", "/dev/hugepages"], check=True)
                self.mounted = True
        except BaseException:
            self.__exit__()
            raise
        return self

    def reserve(self):
        """Reserves the hugepages; called again, those that another program has given back meanwhile."""
        # Memory in small pieces: first compact it, then let files' pages go.
        for remedy in ("compact_memory", "drop_caches", "compact_memory", None):
            self.PATH.write_text(str(self.wanted and max(self.before, self.wanted)))
            if int(self.PATH.read_text()) >= self.wanted:
                return
            if remedy:
                pathlib.Path("/proc/sys/vm", remedy).write_text("1")
        raise Failed(f"the kernel finds no {self.wanted * 2} MiB for hugepages: free memory, or restart")

    @staticmethod
    def free():
        """Number of hugepages that no program uses or is promised."""
        text = pathlib.Path("/proc/meminfo").read_text()
        free, promised = (int(re.search(rf"HugePages_{word}: +(\d+)", text)[1]) for word in ("Free", "Rsvd"))
        return free - promised

    def __exit__(self, *_):
        if self.mounted:
            subprocess.run(["umount", "/dev/hugepages"], check=True)
        self.PATH.write_text(str(self.before))
        self.lock.close()
