"""Stock Linux boxes behind a balancer: the network of the tests and of `make balance`.

    lan eth0 --- eth0 balancer eth2 --- bridge --- eth0 r1, r2, r3
    wan eth0 --- eth1

Every machine is a network namespace here. The back ends are stock Linux, set up by the commands that `ashlar balance
backend` prints.
"""

import hashlib
import json
import socket
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from net import Failed, Lab, Namespace, Process, until
from topology import ASHLAR, AshlarRouter

HOST = Path(__file__).with_name("paced_host.py")
LAN, WAN = "10.0.1.9", "10.0.2.9"
LAN6, WAN6 = "fd00:1::9", "fd00:2::9"
ROUTER = {"lan": "10.0.1.1", "wan": "10.0.2.1"}
POOL_NET = "203.0.113"

FILE = """\
[balancer]
name = "edge"
back = "eth2"
address = "10.255.0.1/24"
speaker = {speakers}
settle = "0s"
{more}
[[balancer.port]]
name = "lan"
device = "eth0"
addresses = ["10.0.1.1/24", "fd00:1::1/64"]
{lan}

[[balancer.port]]
name = "wan"
device = "eth1"
addresses = ["10.0.2.1/24", "fd00:2::1/64"]
outside = true
{wan}
"""
BACKEND = """
[[backend]]
name = "{name}"
ether = "02:00:00:00:00:0{number}"
address = "10.255.0.1{number}"
{more}
"""


def text(names: list[str], more: str = "", lan: str = "", wan: str = "", each: str = "") -> str:
    """A balancer's file. `each` is written into each back end; `{number}` is replaced by its number."""
    backends = "".join(
        BACKEND.format(name=name, number=name[1:], more=each.replace("{number}", name[1:])) for name in names)
    return FILE.format(speakers=json.dumps(names), more=more, lan=lan, wan=wan) + backends


@dataclass
class Outcome:
    """Results of the packets that one host sent to another."""

    sent: int
    came: int
    reordered: int
    twice: int
    longest_gap_ms: float
    # Packets of all programs for which the kernel's queue of a core had no room meanwhile: tells the kernel's losses
    # from others.
    kernel_drops: int

    @property
    def lost(self) -> int:
        return self.sent - self.came + self.twice


class Bed:
    """The namespaces and the balancer in them."""

    def __init__(self, lab: Lab, names: list[str], workers: int = 1, **more: str):
        self.lab, self.names = lab, names
        self.file = lab.folder / "edge.toml"
        self.file.write_text(self.describe(**more))
        self.switch = lab.namespace("switch")
        self.switch.ip("link add br0 type bridge")
        self.switch.ip("link set br0 up")
        self.space = lab.namespace("balancer")
        self.lan, self.wan = lab.namespace("lan"), lab.namespace("wan")
        for host, port, number in ((self.lan, "eth0", 1), (self.wan, "eth1", 2)):
            lab.link(self.space, port, host, "eth0")
            host.ip(f"address add 10.0.{number}.9/24 dev eth0")
            host.ip(f"address add fd00:{number}::9/64 dev eth0 nodad")
            host.ip(f"route add default via 10.0.{number}.1")
            host.ip(f"-6 route add default via fd00:{number}::1")
        self.cable(self.space, "eth2", "up0")
        for port in ("eth0", "eth1", "eth2"):
            # The kernel of the balancer's namespace answers neither ARP nor Neighbour Discovery.
            self.space.sysctl(**{f"net__ipv4__conf__{port}__arp_ignore": 8, f"net__ipv6__conf__{port}__disable_ipv6": 1})
        self.boxes: dict[str, Namespace] = {}
        for name in names:
            self.backend(name)
        self.router = AshlarRouter(self.space, workers)
        self.runs = 0

    def describe(self, **more: str) -> str:
        """Writes the balancer's file."""
        return text(self.names, **more)

    def cable(self, space: Namespace, name: str, port: str) -> None:
        """Connects a namespace to the switch."""
        self.lab.link(space, name, self.switch, port)
        self.switch.ip(f"link set {port} master br0")

    def backend(self, name: str) -> None:
        """A stock Linux box, set up by the printed commands."""
        box = self.boxes[name] = self.lab.namespace(name)
        self.cable(box, "eth0", f"to-{name}")
        self.set_up(name, box)

    def set_up(self, name: str, box: Namespace) -> None:
        """Configures a box's kernel as a back end."""
        script = self.lab.run(ASHLAR, "balance", "backend", str(self.file), "--name", name).out
        path = self.lab.folder / f"{name}.sh"
        path.write_text(script)
        box.run("sh", str(path))

    def balancers(self) -> list[AshlarRouter]:
        return [self.router]

    def start(self, *words: str) -> None:
        self.router.start(self.file, *words)

    def balance(self, *words: str) -> str:
        """Runs `ashlar balance` for the running balancer."""
        return self.lab.run(ASHLAR, "balance", words[0], "--socket", str(self.router.socket), *words[1:]).out

    def states(self) -> dict[str, list[str]]:
        """State of each back end, as shown."""
        lines = self.router.cli("show", "lb.backends").splitlines()
        return {line.split()[0]: line.split()[1:] for line in lines}

    def state(self, name: str) -> str:
        return self.states()[name][1]

    def buckets(self, name: str) -> int:
        words = self.states()[name]
        return int(words[words.index("buckets") + 1])

    def journal(self) -> list[tuple[float, str]]:
        lines = self.router.cli("show", "lb.journal").splitlines()
        return [(float(line.split(" ", 1)[0]), line.split(" ", 1)[1]) for line in lines]

    def limit(self, name: str, packets: int) -> None:
        """Limits the rate at which a back end forwards. Probes are exempt, as routers send control traffic first."""
        rules = ("add table ip hold", "add chain ip hold forward { type filter hook forward priority 0; }",
                 "flush chain ip hold forward", "add rule ip hold forward udp dport 3785 accept",
                 f"add rule ip hold forward limit rate over {packets}/second burst {max(packets // 50, 20)} packets drop")
        self.boxes[name].run("nft", "; ".join(rules))

    def unlimit(self, name: str) -> None:
        self.boxes[name].run("nft", "delete table ip hold")

    def crash(self, name: str) -> None:
        """Takes a box away at once, without any notice."""
        self.switch.ip(f"link set to-{name} down")

    def revive(self, name: str) -> None:
        self.switch.ip(f"link set to-{name} up")

    def forwarded(self, name: str) -> int:
        """Number of packets that a back end has forwarded, including probes."""
        snmp = self.boxes[name].run("cat", "/proc/net/snmp").out.splitlines()
        ip = [line.split() for line in snmp if line.startswith("Ip:")]
        return int(dict(zip(ip[0], ip[1]))["ForwDatagrams"])

    def begin(self, rate: float, seconds: float, flows: int = 200, size: int = 100) -> "Load":
        """Starts packets from lan to wan at a rate."""
        self.runs += 1
        return Load(self, self.runs, rate, seconds, flows, size)

    def load(self, rate: float, seconds: float, **more: int) -> Outcome:
        return self.begin(rate, seconds, **more).end()


PAIR_FILE = """\
[balancer]
name = "{name}"
back = "eth2"
address = "10.255.0.{number}/24"
speaker = {speakers}
settle = "0s"

[[balancer.port]]
name = "{port}"
device = "eth0"
addresses = ["10.0.{number}.1/24"]

[[balancer.peer]]
name = "{other}"
ether = "02:00:00:00:00:f{other_number}"
address = "10.255.0.{other_number}"

[[balancer.peer.port]]
name = "{other_port}"
addresses = ["10.0.{other_number}.1/24"]
"""


class PairBed(Bed):
    """Two balancers in front of the same boxes: lan is behind the left one, wan behind the right one."""

    def __init__(self, lab: Lab, names: list[str]):
        self.lab, self.names, self.runs = lab, names, 0
        self.switch = lab.namespace("switch")
        self.switch.ip("link add br0 type bridge")
        self.switch.ip("link set br0 up")
        self.lan, self.wan = lab.namespace("lan"), lab.namespace("wan")
        self.boxes: dict[str, Namespace] = {}
        sides = (("left", "lan", self.lan), ("right", "wan", self.wan))
        self.routers = [self.balancer(number, sides) for number in (1, 2)]
        self.router, self.file = self.routers[0], lab.folder / "left.toml"
        for name in names:
            self.backend(name)

    def balancer(self, number: int, sides: tuple) -> AshlarRouter:
        name, port, host = sides[number - 1]
        other, other_port, _ = sides[2 - number]
        backends = "".join(BACKEND.format(name=of, number=of[1:], more="") for of in self.names)
        (self.lab.folder / f"{name}.toml").write_text(PAIR_FILE.format(
            name=name, number=number, port=port, other=other, other_number=3 - number, other_port=other_port,
            speakers=json.dumps(self.names)) + backends)
        space = self.lab.namespace(name)
        self.lab.link(space, "eth0", host, "eth0")
        host.ip(f"address add 10.0.{number}.9/24 dev eth0")
        host.ip(f"route add default via 10.0.{number}.1")
        self.cable(space, "eth2", f"up{number}")
        space.ip(f"link set eth2 address 02:00:00:00:00:f{number}")
        for device in ("eth0", "eth2"):
            space.sysctl(**{f"net__ipv4__conf__{device}__arp_ignore": 8,
                            f"net__ipv6__conf__{device}__disable_ipv6": 1})
        router = AshlarRouter(space, 1)
        router.socket = self.lab.folder / f"{name}.sock"
        return router

    def balancers(self) -> list[AshlarRouter]:
        return self.routers

    def start(self, *words: str) -> None:
        for router, name in zip(self.routers, ("left", "right")):
            router.start(self.lab.folder / f"{name}.toml", *words)

    def states_at_all(self) -> list[list[str]]:
        """State of the first back end at each balancer, as shown."""
        return [router.cli("show", "lb.backends").splitlines()[0].split() for router in self.routers]

    def tables_are_equal(self) -> bool:
        left, right = (router.cli("show", "lb.owners") for router in self.routers)
        return left == right


def kernel_drops() -> int:
    """Number of packets for which the kernel's queue of a core had no room, since the machine's start."""
    return sum(int(line.split()[1], 16) for line in Path("/proc/net/softnet_stat").read_text().splitlines())


class Load:
    """Packets on their way from lan to wan."""

    def __init__(self, bed: Bed, number: int, rate: float, seconds: float, flows: int, size: int):
        folder = bed.lab.folder
        start = folder / f"start{number}"
        self.bed, self.rate, self.seconds, self.flows = bed, rate, seconds, flows
        self.hosts: list[Process] = []
        self.kernel_drops = kernel_drops()
        self.records = {name: folder / f"{name}{number}" for name in ("lan", "wan")}
        for name, space, own, targets in (("lan", bed.lan, LAN, {WAN: rate}), ("wan", bed.wan, WAN, {})):
            plan = folder / f"{name}{number}.json"
            plan.write_text(json.dumps({
                "own": own, "records": str(self.records[name]), "start": str(start), "seconds": seconds,
                "targets": targets, "size": size, "flows": flows}))
            self.hosts.append(space.spawn(sys.executable, str(HOST), str(plan)))
        for host in self.hosts:
            host.wait_for("ready")
        self.begins = time.time() + 0.2
        ready = start.with_suffix(".new")
        ready.write_text(str(int(self.begins * 1e9)))
        ready.rename(start)

    def end(self) -> Outcome:
        for host in self.hosts:
            if host.wait(self.seconds + 30):
                raise Failed(host.said())
        sent = sum(int(line.split()[2]) for line in self.records["lan"].read_text().splitlines() if line.startswith("sent"))
        newest: dict[int, int] = {}
        seen: set[tuple[int, int]] = set()
        reordered = twice = 0
        times = []
        for line in self.records["wan"].read_text().splitlines():
            words = line.split()
            if words[0] != LAN:
                continue
            flow, number = int(words[1]), int(words[2])
            twice += (flow, number) in seen
            seen.add((flow, number))
            reordered += number < newest.get(flow, -1)
            newest[flow] = max(number, newest.get(flow, -1))
            times.append(int(words[5]))
        gaps = [(b - a) / 1e6 for a, b in zip(times, times[1:])]
        if len(seen) < sent:
            self.tell(seen)
        return Outcome(sent, len(seen) + twice, reordered, twice, max(gaps, default=0.0),
                       kernel_drops() - self.kernel_drops)

    def tell(self, seen: set[tuple[int, int]]) -> None:
        """Prints when lost packets were due, and what has been counted, for the reader of a failed test."""
        due = int(self.rate * self.seconds)
        lost = [at for at in range(due) if (at % self.flows, at // self.flows) not in seen]
        print("lost at (seconds)", *(f"{at / self.rate:.3f}" for at in lost[:200]))
        for router in self.bed.balancers():
            print(router.losses() if router.process and router.process.running else "the balancer has ended")
        for name, box in self.bed.boxes.items():
            print(name, "forwarded", self.bed.forwarded(name), box.run("ip", "-s", "neigh", ok=None).out)


def exactly(one: socket.socket, size: int) -> bytes:
    """Reads exactly this number of bytes, or fewer if the other end closes."""
    data = b""
    while len(data) < size and (more := one.recv(size - len(data))):
        data += more
    return data


class Connection:
    """A TCP connection from lan to wan, open until it is closed."""

    def __init__(self, bed: Bed, port: int):
        self.listener = bed.wan.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind((WAN, port))
        self.listener.listen()
        self.here = bed.lan.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.here.settimeout(20)
        self.here.connect((WAN, port))
        self.there, self.peer = self.listener.accept()
        self.there.settimeout(20)

    def works(self) -> bool:
        """True if bytes pass both ways."""
        for a, b in ((self.here, self.there), (self.there, self.here)):
            a.sendall(b"hello")
            if exactly(b, 5) != b"hello":
                return False
        return True

    def transfer(self, size: int) -> bool:
        """True if this number of bytes arrives unchanged."""
        block = bytes(i * 7 % 251 for i in range(65536))
        sent, came = hashlib.sha256(), hashlib.sha256()

        def send() -> None:
            for _ in range(size // len(block)):
                self.here.sendall(block)
                sent.update(block)

        sender = threading.Thread(target=send)
        sender.start()
        left = size // len(block) * len(block)
        while left:
            data = self.there.recv(65536)
            if not data:
                break
            came.update(data)
            left -= len(data)
        sender.join(20)
        return left == 0 and sent.digest() == came.digest()

    def close(self) -> None:
        for one in (self.here, self.there, self.listener):
            one.close()


def ping(host: Namespace, target: str, *words: str) -> bool:
    return host.run("ping", "-c1", "-W1", *words, target, ok=None).status == 0


def answers(host: Namespace, target: str, *words: str) -> bool:
    """True if an echo request is answered, however busy the machine is."""
    return ping(host, target, "-W15", *words)


def ready(bed: Bed) -> None:
    """Waits until packets cross, and hosts and back ends know their neighbours."""
    until(lambda: ping(bed.lan, WAN) and ping(bed.wan, LAN), "packets to cross", timeout=20)
    bed.load(500, 1.0)
