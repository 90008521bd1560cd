"""Servers that agree by etcd, with the routes of the leader's kernel: each server has a namespace for routes.

    In each of these namespaces an interface, here a veth pair, stands for each external port of each server, with the
    port's addresses; or the servers make these interfaces. A host is the gateway of its port. The file names one
    namespace: each server's mounts show its own by this name.
"""

import re

from agreed import Agreed
from net import Lab, Namespace, Process
from rb4 import NAMES, host, router
from topology import ASHLAR


class Routed(Agreed):
    """`interfaces`: the servers make the interfaces of the namespaces."""

    def __init__(self, lab: Lab, interfaces: bool = False):
        self.shared, self.interfaces = lab.namespace("routes"), interfaces
        super().__init__(lab)
        self.kernels = {name: lab.namespace(f"routes-{name}") for name in NAMES}
        for kernel in self.kernels.values():
            for name in NAMES if not interfaces else ():
                stand_in(kernel, name)

    def describe(self, names: tuple[str, ...] = NAMES) -> None:
        super().describe(names)
        text = re.sub(r"^gateways = .*\n", "", self.file.read_text(), flags=re.MULTILINE)
        for name in names:
            addresses = f'addresses = ["{router(name, 4)}/24", "{router(name, 6)}/64"]\n'
            text = text.replace(addresses, f'{addresses}gateways = ["{host(name, 4)}", "{host(name, 6)}"]\n')
        text = text.replace('via = "10.0.1.254"', f'via = "{host("a", 4)}"')
        routes = f'[cluster.routes]\nnamespace = "{self.shared.name}"\nhold = "20s"\n'
        routes += "interfaces = true\n\n" if self.interfaces else "\n"
        self.file.write_text(text.replace("[[server]]", f"{routes}[[server]]", 1))

    def spawn(self, name: str, *words: str) -> Process:
        mount = f"mount --bind /run/netns/{self.kernels[name].name} /run/netns/{self.shared.name}"
        return super().spawn(name, "sh", "-c", f'{mount} && exec "$@"', "sh", *words)

    def route(self, at: str, words: str) -> None:
        """Runs `ip route` in a server's namespace for routes."""
        family = "-6 " if ":" in words else ""
        self.kernels[at].ip(f"{family}route {words}")

    def looked_up(self, name: str, address: str) -> str:
        """Prefix of the route to an address on a server, or `no`."""
        return self.way(name, address).split()[0]

    def way(self, name: str, address: str) -> str:
        """Route to an address on a server."""
        table = "rt6" if ":" in address else "rt4"
        return self.lab.run(ASHLAR, "show", "--socket", self.socket(name), f"{table}.lookup", address).out

    def routes(self, at: str = "a") -> dict:
        """The leader's account of its routes, as one of the servers sees it."""
        return self.shown(at).get("routes") or {}


def stand_in(kernel: Namespace, name: str) -> None:
    """The interface that stands for a server's external port, as docs/cluster.md says."""
    kernel.ip(f"link add {name}-lan type veth peer name {name}-far")
    kernel.ip(f"address add {router(name, 4)}/24 dev {name}-lan")
    kernel.ip(f"address add {router(name, 6)}/64 dev {name}-lan nodad")
    kernel.ip(f"link set {name}-far up")
    kernel.ip(f"link set {name}-lan up")
