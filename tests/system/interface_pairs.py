"""Ashlar as the data plane of a Linux router: expected tables, computed from the kernel's, and actual ones."""

import ipaddress
import json
import math
import os
import re
from collections.abc import Iterable
from pathlib import Path

from net import Failed, Lab, Namespace, Process, until
from topology import ASHLAR, ROOT

CONFIGURATION = ROOT / "conf/linux-router.click"
FAMILIES = {4: ipaddress.IPv4Network, 6: ipaddress.IPv6Network}
# Networks that every table of Ashlar keeps for the router itself, even if routes cover them.
OWN = [ipaddress.ip_network(net) for net in ("224.0.0.0/4", "255.255.255.255/32", "ff00::/8", "fe80::/10")]


def configuration(ports: list[str]) -> str:
    """conf/linux-router.click for any number of ports, whose TAP interfaces have the names of their devices."""
    text = CONFIGURATION.read_text()
    made = [text[text.index("elementclass Port"):text.index("\nrt4[2], rt6[2]")]]
    made += [f"rt4[{number + 2}], rt6[{number + 2}], us[{number}], exception[{number}]"
             f" => port{number} :: Port({name}, {name}, {number}) => rt4, rt6, exceptions;"
             for number, name in enumerate(ports)]
    return "\n".join(made) + "\n"


class Paired:
    """`ashlar run --netns`: its devices are in one namespace, its TAP interfaces in the daemons' namespace.

    `ashlar keep` starts it, holds the TAP interfaces' queues, and restarts it after a kill.
    """

    def __init__(self, lab: Lab, name: str, space: Namespace, ports: list[str], workers: int = 1):
        self.lab, self.space, self.ports, self.workers = lab, space, ports, workers
        self.device_space = lab.namespace(f"{name}-ports")
        # The kernel there must not take part: it has no addresses, and is not to get any.
        self.device_space.sysctl(net__ipv6__conf__default__disable_ipv6=1)
        self.socket = lab.folder / f"{name}.sock"
        self.file = lab.folder / f"{name}.click"
        self.file.write_text(configuration(ports))
        self.process: Process | None = None

    def start(self, kept: bool = True) -> None:
        """Starts the router and waits until its tables equal the kernel's."""
        keep = [ASHLAR, "keep", "--"] if kept else []
        self.process = self.device_space.spawn(
            *keep, ASHLAR, "run", str(self.file), "--netns", self.space.name, "--socket", str(self.socket),
            "--workers", str(self.workers), env={"RUST_BACKTRACE": "1"})
        self.wait()

    def wait(self, timeout: float = 20.0) -> None:
        """Waits until the router responds and has processed all messages of the kernel."""
        until(lambda: not self.running or self.netlink().get("synced") == 1, f"Ashlar beside {self.space}", timeout)
        if not self.running:
            raise Failed(f"{self.process} ended with {self.process.wait()}\n{self.process.said()}")

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.running

    def pid(self) -> int:
        """Process number of the router itself, not of its keeper."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0]) if children else self.process.pid

    def kill(self) -> int:
        """Kills the router by SIGKILL; its keeper restarts it. Returns the old process."""
        pid = self.pid()
        os.kill(pid, 9)
        return pid

    def stop(self) -> int:
        return self.process.stop(20) if self.process else 0

    def show(self, what: str, ok: bool = True) -> str:
        """Output of `ashlar show`."""
        return self.lab.run(ASHLAR, "show", "--socket", str(self.socket), what, ok=(0,) if ok else None).out

    def netlink(self) -> dict[str, int]:
        """Counters of the netlink thread; empty if it does not respond."""
        lines = self.show("netlink", ok=False).splitlines()
        return {name: int(value) for name, value in (line.split() for line in lines if len(line.split()) == 2)}

    def memory(self) -> int:
        """Resident memory in bytes."""
        status = Path(f"/proc/{self.pid()}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024

    def said(self) -> str:
        return self.process.said() if self.process else "not started"

    def table(self, version: int) -> dict[str, str]:
        """Ashlar's table: the hops of each prefix, in the format of `_hops`."""
        found = {}
        for line in self.show("rt4.table" if version == 4 else "rt6.table").splitlines():
            prefix, hops = line.split(None, 1)
            if not own(network := FAMILIES[version](prefix)):
                found[str(network)] = _together(" ".join(hop.split()) for hop in hops.split("|"))
        return found

    def differences(self) -> list[str]:
        """Prefixes for which Ashlar's tables differ from the kernel's."""
        found = []
        for version in (4, 6):
            ours, kernel = self.table(version), kernel_table(self.space, version, self.ports)
            found += [f"{prefix}: the kernel says {kernel.get(prefix, 'nothing')!r}, Ashlar {ours.get(prefix, 'nothing')!r}"
                      for prefix in sorted({*ours, *kernel}) if ours.get(prefix) != kernel.get(prefix)]
        return found

    def agree(self, timeout: float = 10.0) -> None:
        """Waits until Ashlar's tables equal the kernel's."""
        try:
            until(lambda: not self.differences(), f"the tables of {self.space} to be equal", timeout)
        except Failed:
            raise Failed(f"tables of {self.space} differ after {timeout:g} s:\n  " + "\n  ".join(self.differences())
                         + f"\n{self.show('netlink', ok=False)}\n{self.said()[-3000:]}") from None


def own(network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bool:
    return any(network.version == net.version and network.subnet_of(net) for net in OWN)


def kernel_table(space: Namespace, version: int, ports: list[str]) -> dict[str, str]:
    """Hops of each prefix in the kernel's tables. For equal prefixes, table local precedes main, then the lowest metric
    wins.
    """
    best: dict[str, tuple[tuple[int, int], str]] = {}
    for route in json.loads(space.ip(f"-j -d -{version} route show table all").out or "[]"):
        table = route.get("table", "main")
        if table not in ("local", "main") or "cache" in route.get("flags", []):
            continue
        dst = route["dst"] if route["dst"] != "default" else ("0.0.0.0/0" if version == 4 else "::/0")
        network = FAMILIES[version](dst)
        rank = (0 if table == "local" else 1, route.get("metric", 0))
        hops = None if own(network) else _hops(route, ports)
        if hops is not None and (str(network) not in best or rank < best[str(network)][0]):
            best[str(network)] = (rank, hops)
    return {prefix: hops for prefix, (_, hops) in best.items()}


def _hops(route: dict, ports: list[str]) -> str | None:
    """A route's hops in Ashlar's format; None if the kernel does not use the route."""
    match route.get("type", "unicast"):
        case "local" | "broadcast" | "anycast" | "multicast":
            return "- local"
        case "blackhole":
            return "- blackhole"
        case "unreachable" | "prohibit" | "throw":
            return "- kernel"
    hops = [hop for hop in route.get("nexthops", [route]) if "dead" not in hop.get("flags", [])]
    # Hops without carrier are used only if there are no others.
    hops = [hop for hop in hops if "linkdown" not in hop.get("flags", [])] or hops
    shown = [_hop(hop, ports) for hop in hops]
    # If the kernel takes some of the flows, it must see all.
    return "- kernel" if "- kernel" in shown else _together(shown) or None


def _together(hops: Iterable[str]) -> str:
    """Hops in a normal order, equal ones merged, with weights reduced."""
    weights: dict[str, int] = {}
    for hop in hops:
        way, _, weight = hop.partition(" WEIGHT ")
        weights[way] = weights.get(way, 0) + int(weight or 1)
    least = math.gcd(*weights.values())
    return " | ".join(way + (f" WEIGHT {n // least}" if n != least else "") for way, n in sorted(weights.items()))


def _hop(hop: dict, ports: list[str]) -> str:
    if hop.get("dev") not in ports or "via" in hop or "encap" in hop:
        return "- kernel"
    weight = hop.get("weight", 1)
    return f"{hop.get('gateway', '-')} {hop['dev']}" + (f" WEIGHT {weight}" if weight != 1 else "")
