"""The network of the system tests: client - router - server, IPv4 and IPv6, and the router in it.

    client eth0 ------- eth0 router eth1 ------- eth0 server
    10.0.1.2  fd00:1::2   10.0.1.1  fd00:1::1
                          10.0.2.1  fd00:2::1    10.0.2.2  fd00:2::2

The links are veth pairs with two queues, and the hosts keep their offloads: frames may be larger
than the MTU and their checksums unfinished. The router is `ashlar`; `ASHLAR_ROUTER=linux` puts the
kernel's own forwarding in its place, as a baseline and to tell faults of the tests from faults of
the router.
"""

import http.client
import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path

from net import Failed, Lab, Namespace, Process, until
from taps import mac_of

ROOT = Path(__file__).resolve().parents[2]
ASHLAR = os.environ.get("ASHLAR_BIN", str(ROOT / "target/release/ashlar"))
CONFIGURATION = ROOT / "conf/ip-router.click"
FORWARD = ROOT / "conf/forward.click"
KIND = os.environ.get("ASHLAR_ROUTER", "ashlar")


@dataclass(frozen=True)
class Side:
    """One side of the router: the addresses of its interface and of the host there."""

    interface: str
    router: dict[int, str]
    host: dict[int, str]
    net: dict[int, str]


CLIENT = Side("eth0", {4: "10.0.1.1", 6: "fd00:1::1"}, {4: "10.0.1.2", 6: "fd00:1::2"},
              {4: "10.0.1.0/24", 6: "fd00:1::/64"})
SERVER = Side("eth1", {4: "10.0.2.1", 6: "fd00:2::1"}, {4: "10.0.2.2", 6: "fd00:2::2"},
              {4: "10.0.2.0/24", 6: "fd00:2::/64"})
BITS = {4: 24, 6: 64}
NAMES = [(side.host[v], name) for side, name in ((CLIENT, "client"), (SERVER, "server")) for v in (4, 6)]
NAMES += [(side.router[v], "router") for side in (CLIENT, SERVER) for v in (4, 6)]


class _Connection(http.client.HTTPConnection):
    """An HTTP connection over a UNIX socket."""

    def __init__(self, path: Path):
        super().__init__("ashlar", timeout=30)
        self._path = str(path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class LinuxRouter:
    """The kernel as the router, as a baseline."""

    def __init__(self, space: Namespace):
        self.space = space

    def start(self) -> None:
        for side in (CLIENT, SERVER):
            for version in (4, 6):
                self.space.ip(f"address add {side.router[version]}/{BITS[version]} dev {side.interface}"
                              + (" nodad" if version == 6 else ""))
        self.space.sysctl(net__ipv4__ip_forward=1, net__ipv6__conf__all__forwarding=1)

    def stop(self) -> None:
        self.space.sysctl(net__ipv4__ip_forward=0, net__ipv6__conf__all__forwarding=0)


class AshlarRouter:
    """Ashlar as the router; the kernel of its namespace does not forward."""

    def __init__(self, space: Namespace, workers: int = 2):
        self.space, self.workers = space, workers
        self.socket = space.lab.folder / "router.sock"
        self.process: Process | None = None

    def start(self, configuration: Path | str = CONFIGURATION, *words: str) -> None:
        """Runs a configuration and waits until it runs. `words` are further arguments."""
        text = Path(configuration).read_text()
        # Definitions of variables that the configuration does not have would be refused.
        known = [word for word in self.definitions() if f"${word.partition('=')[0]}" in text]
        self.process = self.spawn(configuration, *known, *words)
        until(lambda: self._answers() or not self.process.running, "the router's answer", timeout=60)
        if not self.process.running:
            raise Failed(f"{self.process} ended with {self.process.wait()}\n{self.process.said()}")

    def _answers(self) -> bool:
        try:
            return bool(self.get("/v1/info"))
        except OSError:
            return False

    def definitions(self) -> list[str]:
        """Values of the configuration's variables for this network."""
        words = []
        for number, side in enumerate((CLIENT, SERVER)):
            words += [f"DEV{number}={side.interface}", f"IP{number}={side.router[4]}", f"LEN{number}={BITS[4]}",
                      f"IP6_{number}={side.router[6]}", f"LEN6_{number}={BITS[6]}"]
        return words

    def spawn(self, configuration: Path | str, *words: str) -> Process:
        """Starts `ashlar run` without waiting."""
        return self.space.spawn(ASHLAR, "run", str(configuration), "--socket", str(self.socket),
                                "--workers", str(self.workers), *words)

    def cli(self, *words: str, **more) -> str:
        """Output of a subcommand for the running router, such as `cli("show", "list")`."""
        return self.space.lab.run(ASHLAR, words[0], "--socket", str(self.socket), *words[1:], **more).out

    def get(self, target: str) -> bytes:
        """The answer of the router's API, such as `get("/v1/info")`."""
        return self._ask("GET", target)

    def post(self, target: str) -> bytes:
        """Like `get`, for a request that changes something, such as `post("/v1/turns")`."""
        return self._ask("POST", target)

    def losses(self) -> str:
        """Non-zero counters of drops and of ports' events."""
        lines = self.get("/metrics").decode().splitlines()
        names = ("ashlar_element_drops_total", "ashlar_port_events_total")
        return "\n".join(line for line in lines if line.startswith(names) and not line.endswith(" 0"))

    def _ask(self, method: str, target: str) -> bytes:
        connection = _Connection(self.socket)
        try:
            connection.request(method, target)
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        if answer.status != 200:
            raise Failed(f"{method} {target}: {answer.status} {body.decode(errors='replace')}")
        return body

    def stats(self) -> dict:
        """All counters at one time (`view::Stats` of crates/control)."""
        return json.loads(self.get("/v1/stats"))

    def elements(self, kind: str) -> list[str]:
        """Names of the elements of a class."""
        return [e["name"] for e in json.loads(self.get("/v1/elements")) if e["class"] == kind]

    def device_packets(self, receives: bool) -> dict[int, int]:
        """Packets that each worker has received from, or sent to, the ports."""
        packets: dict[int, int] = {}
        for element in self.stats()["elements"]:
            for copy in element["copies"]:
                device = copy.get("device")
                if device and device["receives"] == receives:
                    packets[copy["worker"]] = packets.get(copy["worker"], 0) + device["packets"]
        return packets

    def stop(self) -> int:
        """Stops the router by SIGTERM, as an operator does; returns its exit status."""
        return self.process.stop() if self.process else 0


class Network:
    """Client, router and server, connected and addressed; the router is not yet started."""

    def __init__(self, lab: Lab, *, client_mtu: int = 1500, server_mtu: int = 1500,
                 quiet: bool = False, workers: int = 2):
        """Makes the network. With `quiet` the hosts have no addresses: then raw sockets are the only senders there."""
        self.lab = lab
        self.client, self.router_space, self.server = (
            lab.namespace(name, NAMES) for name in ("client", "router", "server"))
        self._quiet = quiet
        for host in (self.client, self.server):
            # The hosts are to answer every probe of a traceroute.
            host.sysctl(net__ipv4__icmp_ratelimit=0, net__ipv6__icmp__ratelimit=0)
        for host, mtu in ((self.client, client_mtu), (self.server, server_mtu)):
            self.connect(host)
            self.set_mtu(host, mtu)
        space = self.router_space
        self.router = LinuxRouter(space) if KIND == "linux" else AshlarRouter(space, workers)

    def side(self, host: Namespace) -> Side:
        return CLIENT if host is self.client else SERVER

    def connect(self, host: Namespace, *, router_mac: str = "", host_mac: str = "") -> None:
        """Makes the link between a host and the router; MAC addresses of its ends are optional."""
        name = self.side(host).interface
        self.lab.link(host, "eth0", self.router_space, name, a_mac=host_mac, b_mac=router_mac)
        # The kernel leaves the router's interfaces to the router.
        if KIND != "linux":
            self.router_space.sysctl(**{f"net__ipv4__conf__{name}__arp_ignore": 8,
                                        f"net__ipv6__conf__{name}__disable_ipv6": 1})
        if self._quiet:
            host.sysctl(net__ipv6__conf__eth0__disable_ipv6=1, net__ipv4__conf__eth0__arp_ignore=8)
        else:
            self.address(host)

    def address(self, host: Namespace) -> None:
        """Gives a host its addresses and its default routes, unless it has them."""
        side = self.side(host)
        for version in (4, 6):
            nodad = " nodad" if version == 6 else ""
            host.ip(f"address replace {side.host[version]}/{BITS[version]} dev eth0{nodad}")
            host.ip(f"-{version} route replace default via {side.router[version]}")

    def meet(self) -> None:
        """Makes the router resolve both hosts, so that later traffic does not wait for that."""
        for version in (4, 6):
            self.client.run("ping", f"-{version}", "-c1", "-W5", SERVER.host[version])

    def set_mtu(self, host: Namespace, mtu: int) -> None:
        """Sets the MTU at both ends of a host's link."""
        host.ip(f"link set eth0 mtu {mtu}")
        self.router_space.ip(f"link set {self.side(host).interface} mtu {mtu}")

    def start_forward(self, *words: str) -> None:
        """Runs `conf/forward.click` instead of the router, as a wire. Each host takes the other one for the router."""
        for near, far in ((self.client, self.server), (self.server, self.client)):
            for version in (4, 6):
                near.ip(f"-{version} neigh replace {self.side(near).router[version]} lladdr {mac_of(far, 'eth0')} "
                        "dev eth0 nud permanent")
        self.router.start(FORWARD, *words)
