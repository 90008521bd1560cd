"""The routers under measurement: Linux alone, or Ashlar controlled by Linux. Both have the same namespace for daemons
and routes.
"""

import json
import os
import re
import socket
import time

import bed
import core
import net
import netlink
from lib import lab, machine
from tables import BITS, FAMILY

CONF = machine.ROOT / "conf" / "linux-router.click"


class Linux:
    """The kernel as the router, on the worker's core."""

    name = "linux"

    def __init__(self):
        self.bed = bed.Bed()
        self.space = self.bed.router
        try:
            self.start()
            self.address()
        except BaseException:
            self.close()
            raise

    def start(self):
        self.bed.connect(self.space)
        self.steer(self.space)

    def steer(self, space):
        """Makes the kernel receive packets from r0 and r1 on the worker's core (receive packet steering)."""
        echoes = "; ".join(f"echo {1 << lab.MEASURED:x} > /sys/class/net/{name}/queues/rx-0/rps_cpus" for name in ("r0", "r1"))
        space.run("sh", "-c", f"mount -t sysfs none /sys; {echoes}")

    def address(self):
        """Sets the interfaces up and gives them addresses."""
        self.space.sysctl(net__ipv4__ip_forward=1, net__ipv6__conf__all__forwarding=1, net__ipv4__conf__all__rp_filter=0)
        for name in ("r0", "r1"):
            self.space.ip(f"link set {name} up")
            self.bed.address(self.space, name)

    def kernel(self):
        """Number of the kernel's routes by IP version, including those that it makes itself. Table `local` counts as
        part of `main` while no rule stands between them.
        """
        with self.space.entered():
            four = open("/proc/thread-self/net/fib_triestat").read()
            six = open("/proc/thread-self/net/rt6_stats").read().split()
        return {4: int(re.search(r"Prefixes:\s+(\d+)", four)[1]), 6: int(six[3], 16)}

    def count(self):
        """Number of routes by IP version in the forwarding router."""
        return self.kernel()

    def hop_of(self, address):
        """Next hop of packets to an address, in the router's own format."""
        return self.space.ip(f"route get {address}").out

    def differences(self, addresses):
        """Pairs of (version, address) for which the next hop differs from the kernel's, with both next hops."""
        return []

    def wait_count(self, wanted, timeout):
        """Waits until there are so many routes more than at the start, by IP version; returns the time."""
        end = time.monotonic() + timeout
        pause = 0.02 if self.name == "ashlar" else 0.1  # the kernel counts by walking its table
        while True:
            found = self.count()
            if all(found[v] == self.base[v] + wanted[v] for v in wanted):
                return time.monotonic()
            if time.monotonic() > end:
                raise machine.Failed(f"{self.name}: waited {timeout} s for {wanted} routes more than {self.base}; has {found}")
            time.sleep(pause)

    def settle(self):
        """Records the state before the measurement."""
        self.base = self.count()

    def pin(self):
        """Moves everything except forwarding to the other core."""

    def unpin(self):
        """Lets everything run on any core."""

    def control_seconds(self):
        """Processor time of all threads except the worker's; 0 if there are none."""
        return 0

    def counts(self):
        """Counters of control's netlink thread."""
        return {}

    def drops(self):
        """Dropped packets by place and name, as text."""
        return ""

    def worker_times(self):
        """Microseconds of the worker's longest turn since the last call, and of the longest parts of a turn: running
        (`run`), preempted (`wait`), and in control's service (`control`). None if there is no worker.
        """
        return None

    def resident_mb(self):
        return None

    def close(self):
        self.bed.lab.close()


class Ashlar(Linux):
    """Ashlar as the router, between devices in one namespace and their TAP interfaces in the daemons' namespace."""

    name = "ashlar"
    REALTIME = WHO = False
    ENVIRONMENT = {}

    def start(self):
        self.devices = self.bed.lab.namespace("devices")
        self.devices.sysctl(net__ipv6__conf__default__disable_ipv6=1)  # the devices are Ashlar's
        self.bed.connect(self.devices)
        self.steer(self.devices)
        self.socket = self.bed.lab.folder / "ashlar.socket"
        self.process = self.devices.spawn(
            str(lab.ASHLAR), "run", str(CONF), "DEV0=r0", "IF0=r0", "DEV1=r1", "IF1=r1", "--netns", str(self.space), "--cores", str(lab.MEASURED), "--workers", "1",
            "--socket", str(self.socket), "--buffers", "16383", "--log-level", "info", env=self.ENVIRONMENT)
        net.until(self.follows, "Ashlar following the kernel", 60)
        self.pin()

    def follows(self):
        """True if the router responds, and has processed all announcements of the kernel."""
        if not self.process.running:
            raise machine.Failed(f"Ashlar has ended\n{self.process.said()}")
        try:
            return "synced 1" in self.handler("netlink")
        except OSError:
            return False

    def pin(self):
        self._pin([lab.OTHER])

    def unpin(self):
        self._pin([lab.OTHER, lab.MEASURED])

    def _pin(self, others):
        for thread, worker in self.threads():
            os.sched_setaffinity(thread, [lab.MEASURED] if worker else others)
            if worker and self.REALTIME:
                os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(1))

    def threads(self):
        """Numbers of all threads; of each, true if it is the worker's."""
        for thread in os.listdir(f"/proc/{self.process.pid}/task"):
            with open(f"/proc/{self.process.pid}/task/{thread}/comm") as comm:
                yield int(thread), comm.read().startswith("worker")

    def control_seconds(self):
        total = 0
        for thread, worker in self.threads():
            with open(f"/proc/{self.process.pid}/task/{thread}/schedstat") as stat:
                total += 0 if worker else int(stat.read().split()[0])
        return total / 1e9

    def ask(self, method, path, body=None):
        link = lab.Unix(str(self.socket))
        try:
            link.request(method, path, body)
            reply = link.getresponse()
            text = reply.read().decode()
        finally:
            link.close()
        if reply.status >= 300:
            raise machine.Failed(f"{method} {path}: {reply.status} {text}")
        return text

    def handler(self, name, argument=""):
        return self.ask("GET", f"/v1/handlers/{name}" + (f"?argument={argument}" if argument else "")).strip()

    def count(self):
        return {4: int(self.handler("rt4.length")), 6: int(self.handler("rt6.length"))}

    def counts(self):
        return {name: int(n) for name, n in map(str.split, self.handler("netlink").splitlines())}

    def hop_of(self, address):
        return self.handler("rt4.lookup", address)

    def drops(self):
        stats = json.loads(self.ask("GET", "/v1/stats"))
        named = [f"{element['name']}.{name} {count}" for element in stats["elements"] for copy in element["copies"]
                 for name, count in zip(element["drop_names"], copy["drops"], strict=True) if count]
        ports = [f"{port['name']} {counter['name']} {counter['value']}" for port in stats["ports"] for counter in port["counters"]]
        return ", ".join(named + ports)

    def differences(self, addresses):
        kernel, found = netlink.Sender(self.space), []
        names = {self.bed.index(name): name for name in ("r0", "r1", "lo")}
        for version, address in addresses:
            written = socket.inet_ntop(FAMILY[version], address.to_bytes(BITS[version] // 8))
            ours, theirs = self.handler(f"rt{version}.lookup", written), "-1"
            if route := kernel.route(version, address):
                gateway, interface = route
                theirs = f"{socket.inet_ntop(FAMILY[version], gateway) if gateway else '-'} {names[interface]}"
            if ours != theirs:
                found.append((written, ours, theirs))
        return found

    def worker_times(self):
        if mixed := [thread for thread, worker in self.threads() if not worker and lab.MEASURED in os.sched_getaffinity(thread)]:
            raise machine.Failed(f"threads {mixed} of Ashlar may run on the worker's core")
        worker, = json.loads(self.ask("POST", "/v1/turns"))
        times = {name: worker[f"longest_{name}_ns"] / 1000 for name in ("turn", "run", "wait", "control")}
        if self.WHO:
            thread, = (thread for thread, worker in self.threads() if worker)
            times["away"] = core.absences(thread)[:5]
        return times

    def resident_mb(self):
        """All memory of the process in MB, including hugepages."""
        with open(f"/proc/{self.process.pid}/status") as status:
            text = status.read()
        kb = [int(re.search(rf"{name}:\s+(\d+)", text)[1]) for name in ("VmRSS", "HugetlbPages")]
        return sum(kb) / 1024


KINDS = {"linux": Linux, "ashlar": Ashlar}
