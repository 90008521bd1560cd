"""A router of conf/linux-router.click: its own tables, compared with those of its kernel.

    cables far0, far1 --- wan0, wan1 devices, the router; their TAP interfaces eth0, eth1 in `daemons`
    cables far2 ----------------------------------------------------------- other0 in `daemons`

The third interface of the daemons' namespace is not in the configuration: its routes are the kernel's to
forward.
"""

import ipaddress
import json

from net import Failed, Lab, Namespace, Process, until
from topology import ASHLAR, ROOT

TAPS = ("eth0", "eth1")
LINKS = (*TAPS, "other0")
LOCAL, KERNEL, BLACKHOLE = ("local",), ("kernel",), ("blackhole",)
KINDS = {"local": LOCAL, "broadcast": LOCAL, "anycast": LOCAL, "multicast": LOCAL, "blackhole": BLACKHOLE}
# Prefixes that are always the router's own, and not in its table.
ALWAYS = {4: ("224.0.0.0/4", "255.255.255.255/32"), 6: ("ff00::/8", "fe80::/10")}


class Bed:
    """The router and its surroundings. `far` has the namespaces of the other ends, if they are not all in `cables`."""

    def __init__(self, lab: Lab, far: list[Namespace] | None = None):
        self.lab = lab
        self.devices, self.daemons, self.cables = (lab.namespace(name) for name in ("devices", "daemons", "cables"))
        for number in range(2):
            lab.link(self.devices, f"wan{number}", far[number] if far else self.cables, f"far{number}")
            self.devices.sysctl(**{f"net__ipv6__conf__wan{number}__disable_ipv6": 1})
        lab.link(self.daemons, "other0", self.cables, "far2")
        self.socket = lab.folder / "router.sock"
        self.process: Process | None = None

    def start(self, *words: str) -> None:
        self.process = self.devices.spawn(
            ASHLAR, "run", str(ROOT / "conf/linux-router.click"), "DEV0=wan0", "DEV1=wan1", "--netns", self.daemons.name,
            "--socket", str(self.socket), *words)
        self.process.wait_for(" start ")

    def address(self) -> None:
        self.daemons.sysctl(net__ipv4__ip_forward=1, net__ipv6__conf__all__forwarding=1,
                            net__ipv6__conf__default__accept_dad=0)
        for number, name in enumerate(LINKS):
            self.daemons.sysctl(**{f"net__ipv6__conf__{name}__accept_dad": 0,
                                   f"net__ipv6__conf__{name}__keep_addr_on_down": 1})
            self.daemons.ip(f"link set {name} up")
            for address in addresses(number):
                self.daemons.ip(f"address add {address} dev {name}")

    def show(self, handler: str) -> str:
        return self.lab.run(ASHLAR, "show", "--socket", str(self.socket), handler).out

    def table(self, version: int) -> dict[str, frozenset | tuple]:
        """Routes of the router's table."""
        found = {}
        for line in self.show(f"rt{version}.table").splitlines():
            prefix, *words = line.split()
            hops = " ".join(words).split(" | ")
            if len(hops) == 1 and hops[0].split()[1] in ("local", "kernel", "blackhole"):
                found[prefix] = (hops[0].split()[1],)
                continue
            found[prefix] = frozenset(
                (None if gateway == "-" else gateway, name, int(weight[1]) if weight and len(hops) > 1 else 1)
                for gateway, name, *weight in (hop.split() for hop in hops))
        return found

    def json(self, words: str) -> list[dict]:
        return json.loads(self.daemons.run("ip", "-json", *words.split()).out or "[]")

    def wanted(self, version: int) -> dict[str, frozenset | tuple]:
        """Routes of the kernel, in the same format."""
        links = {link["ifname"]: link for link in self.json("link show")}
        best: dict[str, tuple] = {}
        routes = self.json(f"-details -{version} route show table all")
        for place, route in enumerate(routes):
            table = route.get("table", "main")
            if table not in ("main", "local") or int(route.get("tos", "0"), 0):
                continue
            prefix = full(route["dst"], version)
            rank = (table != "local", route.get("metric", 0), place)
            if prefix not in best or rank < best[prefix][0]:
                best[prefix] = (rank, route)
        return {prefix: self.way(route, links) for prefix, (_, route) in best.items()
                if not any(covers(fixed, prefix) for fixed in ALWAYS[version])}

    def way(self, route: dict, links: dict[str, dict]) -> frozenset | tuple:
        kind = route.get("type", "unicast")
        if kind != "unicast":
            return KINDS.get(kind, KERNEL)
        hops = route.get("nexthops", [route])
        alive = [hop for hop in hops if "dead" not in hop.get("flags", []) and "UP" in links[hop["dev"]]["flags"]]
        carried = [hop for hop in alive if "NO-CARRIER" not in links[hop["dev"]]["flags"]]
        used = carried or alive
        if not used or any(hop["dev"] not in TAPS for hop in used):
            return KERNEL
        weights: dict[tuple, int] = {}
        for hop in used:
            to = (hop.get("gateway") or hop.get("via", {}).get("host"), hop["dev"])
            weights[to] = weights.get(to, 0) + hop.get("weight", 1)
        # Alone, a hop's weight says nothing.
        return frozenset((*to, weight if len(weights) > 1 else 1) for to, weight in weights.items())

    def agree(self, after: str) -> None:
        """Waits until the router's routes equal the kernel's."""
        for version in (4, 6):
            def same(version: int = version) -> bool:
                # The kernel is queried twice: changes that it makes by itself (addresses of IPv6) are no difference.
                wanted = self.wanted(version)
                return self.table(version) == wanted
            try:
                until(same, "the same table", timeout=15)
            except Failed:
                ours, theirs = self.table(version), self.wanted(version)
                differ = [f"  {prefix}: {ours.get(prefix)}, the kernel {theirs.get(prefix)}"
                          for prefix in sorted(ours.keys() | theirs.keys()) if ours.get(prefix) != theirs.get(prefix)]
                routes = self.daemons.ip(f"-{version} route show table all").out
                raise Failed("\n".join([f"IPv{version} differs after {after}:", *differ, routes,
                                        self.show("netlink"), self.process.said()])) from None


def addresses(number: int) -> tuple[str, str]:
    return f"10.9.{number}.1/24", f"2001:db8:{number}::1/64"


def full(dst: str, version: int) -> str:
    """A prefix with its length, in the router's format."""
    if dst == "default":
        return "0.0.0.0/0" if version == 4 else "::/0"
    return str(ipaddress.ip_network(dst))


def covers(wide: str, narrow: str) -> bool:
    return ipaddress.ip_network(narrow).subnet_of(ipaddress.ip_network(wide))
