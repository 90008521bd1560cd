"""Peers that another process on the other core feeds: over shared memory (memif), or over veth pairs of Linux, where the
kernel itself is a peer.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import peers
from lib import frames, lab, machine

sys.path.insert(0, str(machine.ROOT / "tests" / "system"))
import net  # noqa: E402

FEW = 1024  # frames of the memif runs: they stay in the source's cache, so that the source is not the limit
HOUR = 3600


class Fed:
    """A peer between a source's memif and the path back; `start` starts it with the source, a core and a log."""

    def __init__(self, start, core, log):
        self.folder, self.numbers = pathlib.Path(tempfile.mkdtemp(prefix="ashlar-bench-")), 0
        self.source = self.peer = None
        try:
            self.source = lab.Source(self, frames.fixed(64, FEW), 0, 32, HOUR, back=True, core=1 - core)
            self.peer = start(self.source, core, log)
        except BaseException:
            self.close()
            raise

    def number(self):
        self.numbers += 1
        return self.numbers

    def wait_running(self):
        self.peer.wait_running()

    def rate(self, seconds):
        return self.peer.rate(seconds)

    def go_on(self, does):
        for process in (self.source, self.peer):
            process.go_on(does)

    def close(self):
        with contextlib.ExitStack() as stack:
            stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
            for process in (self.source, self.peer):
                if process:
                    stack.callback(process.close)


def testpmd_memif(folder, core, log):
    def start(source, core, log):
        app = ["--forward-mode=io", "--port-topology=loop", "--auto-start", "--burst=32", "--no-flush-rx", "-i"]
        return peers.Dpdk("dpdk-testpmd", peers.lcores(core), ["--vdev", source.vdev()], app, log, port=0)

    return Fed(start, core, log)


def forward_memif(folder, core, log):
    def start(source, core, log):
        values = [f"IN={source.port()}", f"OUT={source.port()}"]
        return peers.Ashlar(lab.ASHLAR, core, peers.CONF / "forward.click", values, log, "out", (), buffers=65_535)

    return Fed(start, core, log)


class Veth:
    """A router in a namespace between a source and a sink, connected by veth pairs. The kernel's work for the router
    runs on the router's core, the source on the other.
    """

    CORES = 1  # of the router; the second one is the source's, too
    MACS = {"r0": "02:70:63:61:70:00", "r1": "02:00:00:00:00:01", "d0": "02:00:00:00:00:02"}

    def __init__(self, folder, core, log):
        self.lab = net.Lab()
        self.core = core
        self.prefix = f"veth{self.lab.name}"
        self.router = self.source = None
        self.all_offered = self.all_sent = 0
        try:
            self.spaces = {name: self.lab.namespace(name) for name in ("source", "router", "sink")}
            self.connect(core)
        except (net.Failed, OSError, subprocess.CalledProcessError) as failed:
            self.close()
            raise machine.Absent(f"no veth pairs between namespaces: {failed}") from failed
        except BaseException:
            self.close()
            raise
        try:
            self.start_router(folder, core, log)
            self.start_source(folder, core)
        except net.Failed as failed:
            self.close()
            raise machine.Failed(str(failed)) from failed
        except BaseException:
            self.close()
            raise

    def connect(self, core):
        source, router, sink = self.spaces.values()
        self.cores = [core, 1 - core][:self.CORES]
        self.lab.link(source, "s0", router, "r0", queues=self.CORES)
        self.lab.link(router, "r1", sink, "d0", queues=self.CORES)
        for name, mac in self.MACS.items():
            (sink if name == "d0" else router).ip(f"link set {name} address {mac}")
        router.ip("addr add 10.0.0.1/24 dev r0")
        router.ip("addr add 10.0.2.1/24 dev r1")
        router.ip(f"neigh add 10.0.2.254 lladdr {self.MACS['d0']} dev r1")

    def start_router(self, folder, core, log):
        raise NotImplementedError

    def start_source(self, folder, core):
        eal = peers.as_eal([lab.vdevs(folder / "in4.pcap")[0], "net_af_packet1,iface=s0,qdisc_bypass=1"])
        app = ["--forward-mode=io", "--auto-start", "--total-num-mbufs=131071", "--no-flush-rx", "--stats-period=3600"]
        self.source = self.spaces["source"].spawn(
            "dpdk-testpmd", *peers.lcores(1 - core), "--no-pci", "--in-memory", "--no-telemetry", "--file-prefix", self.prefix, *eal,
            "--", *app)

    def sent(self):
        done = self.spaces["sink"].run("ip", "-j", "-s", "link", "show", "d0")
        return json.loads(done.out)[0]["stats64"]["rx"]["packets"]

    def wait_running(self):
        try:
            net.until(lambda: self.sent() > 1000, "packets at the far end of the veth pairs", lab.STARTUP)
        except net.Failed as failed:
            raise machine.Failed(str(failed)) from failed

    def offered(self):
        done = self.spaces["source"].run("ip", "-j", "-s", "link", "show", "s0")
        return json.loads(done.out)[0]["stats64"]["tx"]["packets"]

    def rate(self, seconds):
        # Both counters are read in the same order before and after, so that both cover equal times.
        (offered, sent), start = (self.offered(), self.sent()), time.monotonic()
        time.sleep(seconds)
        (offered_since, sent_since), end = (self.offered(), self.sent()), time.monotonic()
        self.all_offered += offered_since - offered
        self.all_sent += sent_since - sent
        # If nothing is lost, the source may have been the limit, not the router.
        lost = 1 - self.all_sent / max(self.all_offered, 1)
        self.remark = f"{100 * max(lost, 0):.0f} % of what the source sent since the last start was lost"
        return machine.some((sent_since - sent) / (end - start), "packets a second")

    def go_on(self, does):
        self.source.signal(signal.SIGCONT if does else signal.SIGSTOP)
        if self.router:
            self.router.go_on(does)

    def close(self):
        try:
            if self.source:
                self.go_on(True)
            if self.router:
                self.router.close()
        finally:
            self.lab.close()
            shutil.rmtree(lab.RUNTIME / self.prefix, ignore_errors=True)


class LinuxVeth(Veth):
    """The kernel as the router. Receive packet steering selects its core."""

    def start_router(self, folder, core, log):
        router = self.spaces["router"]
        mask = sum(1 << core for core in self.cores)
        router.run("sh", "-c", f"mount -t sysfs none /sys; for q in /sys/class/net/r0/queues/rx-*; do echo {mask:x} > $q/rps_cpus; done")
        router.sysctl(net__ipv4__ip_forward=1, net__ipv4__conf__all__rp_filter=0, net__ipv4__conf__r0__rp_filter=0)
        routes = self.lab.folder / "routes"
        with open(routes, "w") as out:
            for line in (folder / "routes4").read_text().splitlines():
                out.write(f"route add {line.split()[0]} via 10.0.2.254 dev r1\n")
        router.run("ip", "-batch", str(routes), timeout=120, ok=None)


def polling_threads():
    """Kernel threads that poll an interface r0 or r1 in any namespace."""
    names = pathlib.Path("/proc").glob("[0-9]*/comm")
    with contextlib.suppress(OSError):  # of processes that end meanwhile
        return {int(name.parent.name) for name in names if name.read_text().startswith(("napi/r0-", "napi/r1-"))}
    return polling_threads()


class RouteVeth(Veth):
    """Ashlar as the router, by AF_PACKET. A kernel thread on the router's core receives for it."""

    PORTS = "r0", "r1"

    def start_router(self, folder, core, log):
        others = polling_threads()
        values = [f"{side}={port}" for side, port in zip(("IN", "OUT"), self.PORTS)] + [f"ROUTES={folder}/routes4"]
        self.router = peers.Ashlar(
            lab.ASHLAR, ",".join(map(str, self.cores)), peers.CONF / "route.click", values, log, "out", (), buffers=65_535,
            before=["ip", "netns", "exec", self.spaces["router"].name])
        net.until(lambda: self.router.sent() is not None, "the router's first answer", lab.STARTUP)
        for thread in polling_threads() - others:
            os.sched_setaffinity(thread, set(self.cores))


class XdpVeth(RouteVeth):
    """Ashlar as the router, by AF_XDP."""

    PORTS = "af_xdp:r0", "af_xdp:r1"


PEERS = {
    "testpmd-memif": testpmd_memif, "forward-memif": forward_memif, "linux-veth": LinuxVeth, "route-veth": RouteVeth,
    "xdp-veth": XdpVeth}
RATIOS = [("forward-memif", "testpmd-memif"), ("route-veth", "linux-veth"), ("xdp-veth", "linux-veth")]
