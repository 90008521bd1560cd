"""Test bed of namespaces: a source, a router, and a peer that is both the destination of its routes and a BGP speaker.

    source s0 --- r0 router r1 --- d0 peer
    10.2.0.2      10.2.0.1   10.1.0.1/16   10.1.0.2, 10.1.0.3 (speaker), 10.1.1.1 to .255 (next hops)
    fd00:2::2     fd00:2::1  fd00:1::1/64  fd00:1::2,            fd00:1::1:1 to ::1:ff
"""

import ipaddress
import socket
import sys

from lib import machine

sys.path.insert(0, str(machine.ROOT / "tests" / "system"))
import net  # noqa: E402
from tables import HOPS  # noqa: E402

MACS = {"s0": "02:00:00:00:02:02", "r0": "02:00:00:00:02:01", "r1": "02:00:00:00:01:01", "d0": "02:00:00:00:01:02"}
ROUTER = {4: "10.1.0.1", 6: "fd00:1::1"}
FEEDER = {4: "10.1.0.2", 6: "fd00:1::2"}
SPEAKER = "10.1.0.3"
SOURCE = {4: "10.2.0.2", 6: "fd00:2::2"}
ADDRESSES = {
    "s0": ["10.2.0.2/24", "fd00:2::2/64"],
    "r0": ["10.2.0.1/24", "fd00:2::1/64"],
    "r1": ["10.1.0.1/16", "fd00:1::1/64"],
    "d0": ["10.1.0.2/16", "10.1.0.3/16", "fd00:1::2/64"],
}
BASE = {4: int(ipaddress.ip_address("10.1.1.0")), 6: int(ipaddress.ip_address("fd00:1::1:0"))}


def gateway(version):
    """The address of a next hop as a number."""
    return lambda hop: BASE[version] + hop


def gateway_text(version, hop):
    return str(ipaddress.ip_address(BASE[version] + hop))


class Bed:
    """The connected namespaces; the kind of router is chosen by the caller."""

    def __init__(self):
        self.lab = net.Lab()
        try:
            self.source, self.router, self.peer = map(self.lab.namespace, ("source", "router", "peer"))
        except BaseException:
            self.lab.close()
            raise

    def connect(self, space):
        """Connects cables to the namespace with the router's devices, and addresses the far ends."""
        self.lab.link(self.source, "s0", space, "r0", queues=1)
        self.lab.link(space, "r1", self.peer, "d0", queues=1)
        for far, near, name in ((self.source, "s0", "r0"), (self.peer, "d0", "r1")):
            far.ip(f"link set {near} address {MACS[near]}")
            space.ip(f"link set {name} address {MACS[name]}")
            self.address(far, near)
        lines = [f"address add {gateway_text(v, h)}/{n} dev d0 {more}\n"
                 for v, n, more in ((4, 32, ""), (6, 128, "nodad")) for h in range(1, HOPS + 1)]
        self.batch(self.peer, lines)
        for far in (self.source, self.peer):
            far.sysctl(net__ipv4__conf__all__rp_filter=0)

    def address(self, space, name):
        for address in ADDRESSES[name]:
            space.ip(f"address add {address} dev {name}{' nodad' if ':' in address else ''}")

    def batch(self, space, lines):
        """Runs iproute2 commands as a batch."""
        path = self.lab.folder / "batch"
        path.write_text("".join(lines))
        space.ip(f"-batch {path}")

    def index(self, name):
        """Index of an interface of the router."""
        with self.router.entered():
            return socket.if_nametoindex(name)
