"""RB4 on one machine: the cluster of conf/cluster.toml in namespaces, and a host on each external port.

    host ha eth0 --- eth0 server a        Server number N (a is 1): 10.0.N.1/24  fd00:N::1/64, its host ::2 and .2.
                          to-b --- to-a server b ...      A full mesh of veth pairs between the servers.

A bed can have more servers than these four, which `describe` appends to the file. Its cables can be limited to a rate
(cables.py) instead of being plain veth pairs.
"""

import itertools
import json
import re

from cables import Cables
from net import Failed, Lab, Namespace, Process, until
from topology import ASHLAR, ROOT

FILE = ROOT / "conf/cluster.toml"
NAMES = ("a", "b", "c", "d")
MORE = ("a", "b", "c", "d", "e", "f")
# MTU of internal links: 30 bytes more than that of packets, for a tag.
INSIDE = 1530
OFFLOADS = ("tx", "tso", "gso", "gro")


def number(name: str) -> int:
    return MORE.index(name) + 1


def host(name: str, version: int) -> str:
    """The address of the host behind a server."""
    return f"10.0.{number(name)}.2" if version == 4 else f"fd00:{number(name)}::2"


def router(name: str, version: int) -> str:
    """The router's address on a server's external port."""
    return f"10.0.{number(name)}.1" if version == 4 else f"fd00:{number(name)}::1"


def internal(rate: float, servers: int = len(NAMES)) -> float:
    """Rate of a paced internal cable: 1.05 times 2R/N, as in `ashlar cluster simulate`."""
    return 1.05 * 2 * rate / servers


class Rb4:
    """Servers and hosts, not yet running. `rate` is R; links have 2R/N. `options` are lines for [cluster]. `names` are
    the servers, which are all cabled; the file names the first four until it is rewritten. `paced` is R in bit/s, the
    rate of external cables; internal ones have that of `internal`.
    """

    def __init__(self, lab: Lab, rate: str = "10Gbps", mtus: dict[str, int] | None = None, options: str = "",
                 names: tuple[str, ...] = NAMES, paced: float | None = None, delta: str = "100ms"):
        self.lab, self.names, self.processes = lab, names, dict[str, Process]()
        self.servers = {name: lab.namespace(name) for name in names}
        self.hosts = {name: lab.namespace(f"h{name}") for name in names}
        self.file = lab.folder / "cluster.toml"
        self.rate, self.mtus, self.options, self.delta = rate, mtus or {}, options, delta
        self.describe()
        self._cables = Cables(lab) if paced else None
        for name in names:
            self._cable(self.hosts[name], "eth0", self.servers[name], "eth0", self.mtus.get(name, 1500), paced)
        self.join(paced and internal(paced, len(names)))
        for name in names:
            self._quiet(name)
            self._address(name)

    def join(self, rate: float | None) -> None:
        """Makes the internal links, as cables of this rate."""
        for a, b in itertools.combinations(self.names, 2):
            self._cable(self.servers[a], f"to-{b}", self.servers[b], f"to-{a}", INSIDE, rate)

    def inside(self, name: str) -> list[str]:
        """A server's interfaces that lead to other servers."""
        return [f"to-{other}" for other in self.names if other != name]

    def _cable(self, a: Namespace, a_name: str, b: Namespace, b_name: str, mtu: int, rate: float | None) -> None:
        if self._cables and rate:
            self._cables.connect(a, a_name, b, b_name, rate, mtu)
            return
        self.lab.link(a, a_name, b, b_name)
        for space, name in ((a, a_name), (b, b_name)):
            space.ip(f"link set {name} mtu {mtu}")

    def describe(self, names: tuple[str, ...] = NAMES) -> None:
        """Writes the cluster's file: conf/cluster.toml with sockets in the lab's folder, other MTUs and R, and servers
        beyond the fourth appended. Links have the default rate, 2R/N.
        """
        text = FILE.read_text()
        text = re.sub(r'^rate = "5Gbps"\n', "", text, flags=re.MULTILINE)
        text = text.replace('rate = "10Gbps"', f'rate = "{self.rate}"')
        for name in names[len(NAMES):]:
            text += (f'\n[[server]]\nname = "{name}"\n[[server.port]]\nname = "lan"\ndevice = "eth0"\n'
                     f'addresses = ["{router(name, 4)}/24", "{router(name, 6)}/64"]\n')
            for other in names[:names.index(name)]:
                text += f'\n[[link]]\nbetween = ["{other}", "{name}"]\ndevices = ["to-{name}", "to-{other}"]\n'
        text = text.replace("[[link]]\n", f"[[link]]\nmtu = {INSIDE}\n")
        text = text.replace('delta = "100ms"', f'{self.options}\ndelta = "{self.delta}"')
        for name in names:
            text = text.replace(f'name = "{name}"\n', f'name = "{name}"\nsocket = "{self.socket(name)}"\n')
            if name in self.mtus:
                prefix = f'addresses = ["{router(name, 4)}'
                text = text.replace(prefix, f"mtu = {self.mtus[name]}\n{prefix}")
        self.file.write_text(text)

    def _quiet(self, name: str) -> None:
        """Stops the kernel of a server from using its interfaces."""
        space = self.servers[name]
        for interface in ("eth0", *self.inside(name)):
            space.sysctl(**{f"net__ipv4__conf__{interface}__arp_ignore": 8,
                            f"net__ipv6__conf__{interface}__disable_ipv6": 1})
            for space_, link in ((space, interface), (self.hosts[name], "eth0")):
                space_.run("ethtool", "-K", link, *itertools.chain.from_iterable((o, "off") for o in OFFLOADS))

    def _address(self, name: str) -> None:
        space = self.hosts[name]
        space.sysctl(net__ipv4__icmp_ratelimit=0, net__ipv6__icmp__ratelimit=0)
        for version, bits in ((4, 24), (6, 64)):
            nodad = " nodad" if version == 6 else ""
            space.ip(f"address add {host(name, version)}/{bits} dev eth0{nodad}")
            space.ip(f"-{version} route add default via {router(name, version)}")

    def socket(self, name: str) -> str:
        return str(self.lab.folder / f"{name}.sock")

    def start(self, *words: str, names: tuple[str, ...] = NAMES) -> None:
        """Starts the servers' routers, and waits until all run. `words` are further arguments."""
        for name in names:
            self.processes[name] = self.servers[name].spawn(
                ASHLAR, "cluster", "up", str(self.file), "--server", name, *words)
        for name in names:
            self.processes[name].wait_for(" start ", timeout=30)

    def meet(self, versions: tuple[int, ...] = (4, 6), names: tuple[str, ...] = NAMES) -> None:
        """Waits until every host reaches every other, so that all neighbours are known."""
        for version in versions:
            for a, b in itertools.permutations(names, 2):
                until(lambda a=a, b=b, v=version: self.ping(a, host(b, v), v), f"{a} to reach {b} by IPv{version}", 20)

    def ping(self, name: str, address: str, version: int, *words: str) -> bool:
        """True if one echo request is answered."""
        done = self.hosts[name].run("ping", f"-{version}", "-c1", "-W1", *words, address, ok=None)
        return done.status == 0

    def show(self, name: str, handler: str) -> str:
        return self.lab.run(ASHLAR, "show", "--socket", self.socket(name), handler).out

    def count(self, name: str, handler: str) -> int:
        return int(self.show(name, handler))

    def elements(self, name: str) -> list[dict]:
        """Counters of a server, by element and worker."""
        return json.loads(self.lab.run(ASHLAR, "top", "--json", "--once", "--socket", self.socket(name)).out)["elements"]

    def dropped(self, name: str, element: str) -> int:
        """Packets that an element has dropped."""
        found = next(e for e in self.elements(name) if e["name"] == element)
        return sum(sum(copy["drops"]) for copy in found["copies"])

    def passed_on(self, name: str) -> int:
        """Number of packets that a server forwarded between others, as an intermediate node."""
        found = next(e for e in self.elements(name) if e["name"] == "transit")
        return sum(sum(copy["sent"][:len(self.inside(name))]) for copy in found["copies"])

    def cables_dropped(self) -> int:
        """Number of frames that paced cables dropped."""
        return self._cables.dropped() if self._cables else 0

    def refused(self, names: tuple[str, ...] | list[str]) -> int:
        """Number of packets that input nodes dropped because their links were full."""
        found = [next(e for e in self.elements(name) if e["name"] == "enter") for name in names]
        return sum(copy["drops"][e["drop_names"].index("full")] for e in found for copy in e["copies"])

    def drops(self) -> str:
        """Drops of all running servers, for messages."""
        lines = []
        for server in self.processes:
            for element in self.elements(server):
                for copy in element["copies"]:
                    lines += [f"  {server} {element['name']}: {count} {drop}" for drop, count in
                              zip(element["drop_names"], copy["drops"], strict=True) if count]
        return "\n" + "\n".join(lines)

    def stop(self) -> None:
        for name, process in self.processes.items():
            status = process.stop()
            if status != 0:
                raise Failed(f"the router of server {name} ended with {status}\n{process.said()}")
