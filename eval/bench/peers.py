"""Peers of the comparison: how to start each, and how to read its number of sent packets."""

import functools
import http.client
import itertools
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.parse

import workload
from lib.lab import RUNTIME, Process, Unix, until, vdevs
from lib.machine import ROOT, Failed, some

NUMBERS = itertools.count()
HERE = pathlib.Path(__file__).resolve().parent


def rate_of(sent, seconds, clock=time.monotonic):
    """Growth rate of a counter within some seconds."""
    first, start = sent(), clock()
    time.sleep(seconds)
    last, end = sent(), clock()
    return some((last - first) / (end - start), "packets a second")


def processor_time(pid):
    """Processor time in seconds that the threads of a process have used."""
    tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


# Packets of each peer: all are there at once. An endless capture keeps 65,536 of them.
BUFFERS = 131_071


def lcores(core):
    """Options by which testpmd forwards on this core only; its idle main thread is on another."""
    return ["-l", "0,1", "--main-lcore", str(1 - core)]


class Peer(Process):
    """A process that forwards on one core from an endless capture to a null port."""

    OWN_TIME = False  # whether rates are by the time for which it has run, as on a machine with other work they should

    def __init__(self, command, log):
        # An interactive testpmd would end, too, at the end of its input.
        super().__init__(command, log, stdin=subprocess.PIPE)

    def sent(self):
        """Number of packets sent so far; None while the peer cannot tell."""
        raise NotImplementedError

    def wait_running(self):
        until(lambda: (self.sent() or 0) > 0, self, "the first packet")

    def rate(self, seconds):
        """Packets per second over some seconds."""
        clock = functools.partial(processor_time, self.process.pid) if Peer.OWN_TIME else time.monotonic
        return rate_of(self.count, seconds, clock)

    def count(self):
        """Number of packets sent, of a peer that has answered before."""
        if (sent := self.sent()) is None:
            raise Failed(f"it no longer tells what it has sent\n{self.command}\n{self.output()[-2000:]}")
        return sent


class Dpdk(Peer):
    """A DPDK program, read by telemetry; `port` is its output port."""

    def __init__(self, program, core, eal, app, log, port=1):
        self.port = port
        self.prefix = f"bench{os.getpid()}-{next(NUMBERS)}"
        command = [program, *core, "--no-pci", "--in-memory", "--file-prefix", self.prefix, *eal, "--", *app]
        self.link = None
        super().__init__(command, log)

    def close(self):
        if self.link:
            self.link.close()
        try:
            super().close()
        finally:
            shutil.rmtree(RUNTIME / self.prefix, ignore_errors=True)  # which DPDK leaves

    def sent(self):
        try:
            if self.link is None:
                link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                link.connect(str(RUNTIME / self.prefix / "dpdk_telemetry.v2"))
                link.recv(4096)
                self.link = link
            self.link.send(f"/ethdev/stats,{self.port}".encode())
            return json.loads(self.link.recv(65536))["/ethdev/stats"]["opackets"]
        except (OSError, ValueError, KeyError, TypeError):
            return None


class Ashlar(Peer):
    """Ashlar with one worker, read through its socket."""

    def __init__(self, program, core, conf, values, log, out, setup, buffers=BUFFERS, before=()):
        self.socket = f"{tempfile.gettempdir()}/ashlar-bench-{os.getpid()}-{next(NUMBERS)}.socket"
        self.setup = setup
        self.counter = f"{out}.count"
        command = [*before, program, "run", conf, *values, "--cores", core, "--socket", self.socket, "--buffers", buffers]
        super().__init__(command, log)

    def handler(self, name, value=None):
        """Reads a handler, or writes a value to it. Returns its text; None if the router does not answer."""
        link = Unix(self.socket)
        try:
            link.request("GET" if value is None else "PUT", f"/v1/handlers/{urllib.parse.quote(name)}", value)
            reply = link.getresponse()
            text = reply.read().decode().strip()
            return text if reply.status < 300 else None
        except (OSError, http.client.HTTPException):
            return None
        finally:
            link.close()

    def wait_running(self):
        for handler, value in self.setup:
            until(lambda: self.handler(handler, value) is not None, self, handler)
        super().wait_running()

    def sent(self):
        text = self.handler(self.counter)
        return int(text) if text else None


def as_eal(devices):
    return [word for device in devices for word in ("--vdev", device)]


def testpmd(folder, core, log):
    eal = as_eal(vdevs(folder / "in4.pcap"))
    app = ["--forward-mode=io", "--auto-start", f"--total-num-mbufs={BUFFERS}", "--burst=32", "--no-flush-rx"]
    return Dpdk("dpdk-testpmd", lcores(core), eal, app + ["-i"], log)


def l3fwd(lookup):
    def start(folder, core, log):
        eal = as_eal(vdevs(folder / "in4.pcap"))
        app = [
            "-p", "0x3", "-P", "--lookup", lookup, "--config", f"(0,0,{core}),(1,0,{core})", "--parse-ptype",
            f"--rule_ipv4={folder}/l3fwd4", f"--rule_ipv6={folder}/l3fwd6",
        ]
        return Dpdk(folder / "l3fwd", ["-l", core], eal, app, log)

    return start


def ashlar(conf, frames="in4.pcap", values=(), setup=(), names=("IN", "OUT"), out="out"):
    def start(folder, core, log):
        devices = vdevs(folder / frames)
        named = [f"{n}={d.split(',')[0]}" for n, d in zip(names, devices)]
        filled = [v.format(folder=folder) for v in values]
        filled_setup = [(h, (folder / v).read_text() if isinstance(v, pathlib.Path) else v) for h, v in setup]
        program = ROOT / "target" / "release" / "ashlar"
        return Ashlar(program, core, conf, [*as_eal(devices), *named, *filled], log, out, filled_setup)

    return start


CONF = HERE / "conf"
LABEL_ENTRIES = "ENTRIES=" + ", ".join(f"{label} swap {label + 5000} 10.0.2.254 0" for label in workload.LABELS)
# Order in which peers take turns; peers that are compared are adjacent.
PEERS = {
    "testpmd-io": testpmd,
    "forward": ashlar(CONF / "forward.click"),
    "forward-counter": ashlar(CONF / "forward-counter.click"),
    "l3fwd-lpm": l3fwd("lpm"),
    "route": ashlar(CONF / "route.click", values=["ROUTES={folder}/routes4"]),
    "l3fwd-fib": l3fwd("fib"),
    "route-poptrie": ashlar(CONF / "route-poptrie.click", values=["ROUTES={folder}/routes4"]),
    "route-counter": ashlar(CONF / "route-counter.click", values=["ROUTES={folder}/routes4"]),
    "router": ashlar(
        ROOT / "conf" / "ip-router.click",
        values=["IP0=10.0.1.1", "IP1=10.0.2.1"],
        names=("DEV0", "DEV1"),
        setup=[("i1/arp.insert", "10.0.2.254 02:00:00:00:00:02"), ("rt4.ctrl", pathlib.Path("gateway4"))],
        out="i1/out",
    ),
    "swap": ashlar(CONF / "swap.click", "in-mpls.pcap", [LABEL_ENTRIES]),
    "route6": ashlar(CONF / "route6.click", "in6.pcap", ["ROUTES={folder}/routes6"]),
}
