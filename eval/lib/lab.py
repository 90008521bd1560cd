"""Programs under measurement: started, queried, and always ended.

A `Lab` owns hugepages, a folder, and every process that is started in it. Its processes end with this one, even if it
is killed.
"""

import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from . import machine
from .machine import ROOT, WORK, Failed

ASHLAR = pathlib.Path(os.environ.get("ASHLAR_BIN", ROOT / "target" / "release" / "ashlar"))
RUNTIME = pathlib.Path("/var/run/dpdk")  # where DPDK's programs keep what others find them by
STARTUP = 120  # seconds until a program must have done what it is started for
MEASURED, OTHER = os.cpu_count() - 1, 0  # processors: of what is measured, and of what feeds it

sys.path.insert(0, str(ROOT / "eval" / "bench"))


def need_program():
    """Fails unless Ashlar is built."""
    if not ASHLAR.exists():
        raise Failed(f"{ASHLAR} is missing: run `make build`")


def printed(*words):
    """Runs Ashlar and parses the JSON that it prints."""
    done = subprocess.run([ASHLAR, *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(done.stderr)
    return json.loads(done.stdout)


def simulate(*words):
    """Runs the simulator of a cluster."""
    return printed("cluster", "simulate", "--json", *words)


def until(ask, process, what):
    """Calls a function until its result is true; returns the result."""
    end = time.monotonic() + STARTUP
    while time.monotonic() < end and process.poll() is None:
        if answer := ask():
            return answer
        time.sleep(0.05)
    raise Failed(f"waited in vain for {what}\n{process.command}\n{process.output()[-2000:]}")


class Process:
    """A program in a session of its own, with its output in a file."""

    def __init__(self, command, log, stdout=None, stdin=subprocess.DEVNULL):
        self.command = " ".join(map(str, command))
        self.log = open(log, "w+")
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *map(str, command)], start_new_session=True,
            stdin=stdin, stdout=stdout or self.log, stderr=self.log)

    def poll(self):
        return self.process.poll()

    def output(self):
        self.log.seek(0)
        return self.log.read()

    def go_on(self, does):
        """Stops the program, or lets it continue."""
        os.killpg(self.process.pid, signal.SIGCONT if does else signal.SIGSTOP)

    def close(self):
        if self.poll() is None:
            self.go_on(True)  # who is stopped does not hear that it is to end
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        self.log.close()


class Unix(http.client.HTTPConnection):
    """An HTTP connection over a UNIX socket."""

    def __init__(self, path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(self.path)


def vdevs(frames, n=0, queues=1):
    """Two ports: one whose receive queues all replay the same endless capture, and a null port."""
    capture = ",".join([f"net_pcap{n}", *[f"rx_pcap={frames}"] * queues, "infinite_rx=1"])
    return [capture, f"net_null{n + 1},no-rx=1"]


class Router(Process):
    """`ashlar run`, queried through its socket."""

    def __init__(self, lab, conf, values=(), vdevs=(), cores=(MEASURED,), buffers=65_535, options=(), before=()):
        self.socket = str(lab.folder / f"{lab.number()}.socket")
        devices = [word for device in vdevs for word in ("--vdev", device)]
        text = pathlib.Path(conf).read_text()
        # A value for a variable that the configuration does not have is refused.
        variables = set(re.findall(r"\$\{?(\w+)", text))
        values = [v for v in values if v.startswith("-") or "=" not in v or v.partition("=")[0] in variables]
        command = [
            *before, ASHLAR, "run", conf, *values, *devices, "--cores", ",".join(map(str, cores)), "--workers", len(cores),
            "--socket", self.socket, "--buffers", buffers, "--log-level", "warn", *options]
        super().__init__(command, lab.folder / f"{lab.number()}.log")

    def ask(self, method, path, body=None):
        """The response; None if there is none, or an error."""
        link = Unix(self.socket)
        try:
            link.request(method, path, body)
            reply = link.getresponse()
            text = reply.read().decode()
            return text if reply.status < 300 else None
        except OSError:
            return None
        finally:
            link.close()

    def stats(self):
        text = self.ask("GET", "/v1/stats")
        return json.loads(text) if text else None

    def write(self, handler, value):
        until(lambda: self.ask("PUT", f"/v1/handlers/{handler}", value) is not None, self, handler)

    def wait_running(self):
        """Waits until the router responds."""
        until(self.stats, self, "the router's answer")

    def wait_sending(self):
        """Waits until packets leave the router."""
        until(lambda: (s := self.stats()) and totals(s)["sent"] > 0, self, "the first packet")

    def measure(self, seconds):
        """Counters of a router over some seconds."""
        before = self.stats()
        time.sleep(seconds)
        after = self.stats()
        return self.difference(before, after)

    def measure_stages(self, seconds):
        """Like `measure`, with the counters of each task under "stages"."""
        before = self.stats()
        time.sleep(seconds)
        after = self.stats()
        return self.difference(before, after) | {"stages": stages(before, after)}

    def difference(self, before, after):
        if not before or not after:
            raise Failed(f"the router has gone\n{self.command}\n{self.output()[-2000:]}")
        return difference(before, after)


def totals(stats):
    """Counters of a router for figures, summed over all workers."""
    sums = dict.fromkeys(
        ["received", "sent", "sent bytes", "polls", "empty polls", "cycles", "empty cycles", "turns", "asleep ns"], 0)
    for element in stats["elements"]:
        for copy in element["copies"]:
            if device := copy.get("device"):
                sums["received" if device["receives"] else "sent"] += device["packets"]
                sums["sent bytes"] += 0 if device["receives"] else device["bytes"]
            if task := copy.get("task"):
                sums["polls"] += task["runs"]
                sums["empty polls"] += task["empty"]
                sums["cycles"] += task["cycles"]
                sums["empty cycles"] += task["empty_cycles"]
    for worker in stats["workers"]:
        sums["turns"] += worker["turns"]
        sums["asleep ns"] += worker["asleep_ns"]
    return sums


def stages(before, after):
    """Counters of each task between two readings, by ELEMENT@WORKER: packets a second, and cycles per packet including
    all elements that the packet passes in the task. Empty runs are left out.
    """
    found, seconds = {}, (after["time_ns"] - before["time_ns"]) / 1e9
    for was, now in zip(before["elements"], after["elements"]):
        for first, last in zip(was["copies"], now["copies"]):
            if not (task := last.get("task")):
                continue
            device = last.get("device")
            sent = sum(last["sent"]) - sum(first["sent"])
            packets = device["packets"] - first["device"]["packets"] if device else sent
            cycles = task["cycles"] - first["task"]["cycles"]
            found[f"{now['name']}@{last['worker']}"] = {"rate": packets / seconds, "cycles per packet": cycles / max(packets, 1)}
    return found


def difference(before, after):
    """Differences of counters between two readings, and values per packet computed from them."""
    first, last = totals(before), totals(after)
    passed = {name: last[name] - first[name] for name in last}
    seconds = (after["time_ns"] - before["time_ns"]) / 1e9
    full = passed["polls"] - passed["empty polls"]
    return passed | {
        "seconds": seconds,
        "rate": passed["sent"] / seconds,
        "bits": 8 * passed["sent bytes"] / seconds,
        "cycles per packet": passed["cycles"] / max(passed["received"], 1),
        "packets per poll": passed["received"] / max(full, 1),
        "cycles per empty poll": passed["empty cycles"] / max(passed["empty polls"], 1),
        "asleep": passed["asleep ns"] / 1e9 / seconds / len(after["workers"]),
    }


def built(text, compiler, flags=()):
    """The program compiled from a file, built if it is older than its source or a header beside it."""
    program = WORK / text.stem
    newest = max(path.stat().st_mtime for path in (text, *text.parent.glob("*.h")))
    if not program.exists() or program.stat().st_mtime < newest:
        done = subprocess.run([*compiler, "-o", program, text, *flags], capture_output=True, text=True)
        if done.returncode != 0:
            raise Failed(f"{text.name} does not build\n{done.stderr[-2000:]}")
    return program


def source_program():
    """The program compiled from source.c."""
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "libdpdk"], capture_output=True, text=True)
    return built(ROOT / "eval" / "lib" / "source.c", ["cc", "-O3", "-march=native"], flags.stdout.split())


class Source(Process):
    """A source of frames at a steady rate into a memif, optionally with a return path; see source.c. `lab` provides a
    folder and numbers.
    """

    def __init__(self, lab, frames, rate, burst=32, seconds=2.0, back=False, core=OTHER):
        self.memif = lab.folder / f"{lab.number()}.memif"
        self.prefix = f"{self.memif.parent.name}-{self.memif.stem}"
        ring = f"net_memif0,role=server,id=0,socket={self.memif},socket-abstract=no"
        command = [
            source_program(), "-l", core, "--no-pci", "--in-memory", "--no-telemetry", "--file-prefix", self.prefix,
            "--log-level", "*:error", "--vdev", ring, "--", frames, int(rate), burst, seconds, "back" if back else "gone"]
        super().__init__(command, lab.folder / f"{lab.number()}.log")
        until(lambda: "waiting" in self.output(), self, "the source of packets")

    def close(self):
        try:
            super().close()
        finally:
            shutil.rmtree(RUNTIME / self.prefix, ignore_errors=True)  # which DPDK leaves

    def port(self):
        """Name of the other end in a configuration."""
        return f'"memif:role=client,id=0,socket={self.memif}"'

    def vdev(self):
        """The other end, for a program with DPDK's driver."""
        return f"net_memif0,role=client,id=0,socket={self.memif},socket-abstract=no"

    def wait_measuring(self):
        until(lambda: "measuring" in self.output(), self, "packets through the memif")

    def result(self):
        """Waits for the end of the source, and returns its counters."""
        self.process.wait(STARTUP)
        lines = [line for line in self.output().splitlines() if line.startswith("{")]
        if not lines:
            raise Failed(f"the source of packets broke\n{self.command}\n{self.output()[-2000:]}")
        result = json.loads(lines[-1])
        machine.some(result["sent"], "packets that the source has sent")
        return result


class Lab:
    """Owner of everything that a measurement needs; it cleans up at the end."""

    def __enter__(self):
        machine.end_in_order()
        if os.cpu_count() < 2:
            raise Failed("two processors are needed: one for what is measured, one for what feeds it")
        self.huge = machine.Hugepages()
        self.huge.__enter__()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ashlar-eval-"))
        self.running, self.numbers = [], 0
        WORK.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_):
        self.end_all()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.huge.__exit__()

    def number(self):
        self.numbers += 1
        return self.numbers

    def end_all(self):
        """Ends all programs that still run."""
        for process in reversed(self.running):
            process.close()
        self.running.clear()

    def router(self, *args, **keys):
        return self.keep(Router(self, *args, **keys))

    def feed(self, *args, **keys):
        return self.keep(Source(self, *args, **keys))

    def keep(self, process):
        self.running.append(process)
        return process
