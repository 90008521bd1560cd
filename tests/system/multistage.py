#!/usr/bin/env python3
"""`make balance`: three stock Linux boxes behind a balancer are one router.

    lan eth0 --- eth0 balancer eth2 --- bridge --- eth0 r1, r2, r3
    wan eth0 --- eth1

Everything is a network namespace of this machine. The back ends are Linux as it is, set up by the commands that `ashlar balance
backend` prints. Each is held to a rate by an nftables rule that drops what is more, so that two carry twice as much as
one. Ends with lines `balance NAME VALUE` and fails if one misses its bound.
"""

import argparse
import json
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from net import Failed, Lab, Namespace, Process, stop_on_signals, until  # noqa: E402
from topology import ASHLAR, AshlarRouter  # noqa: E402

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
    """A balancer's file. `each` is written into each back end, `{number}` being its own."""
    backends = "".join(
        BACKEND.format(name=name, number=name[1:], more=each.replace("{number}", name[1:])) for name in names)
    return FILE.format(speakers=json.dumps(names), more=more, lan=lan, wan=wan) + backends


@dataclass
class Outcome:
    """What came of the packets that one host sent to another."""

    sent: int
    came: int
    reordered: int
    twice: int
    longest_gap_ms: float

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
            # The kernel of the balancer's namespace keeps out of it.
            self.space.sysctl(**{f"net__ipv4__conf__{port}__arp_ignore": 8, f"net__ipv6__conf__{port}__disable_ipv6": 1})
        self.boxes: dict[str, Namespace] = {}
        for name in names:
            self.backend(name)
        self.router = AshlarRouter(self.space, workers)
        self.runs = 0

    def describe(self, **more: str) -> str:
        """The balancer's file."""
        return text(self.names, **more)

    def cable(self, space: Namespace, name: str, port: str) -> None:
        """A cable from a namespace to the switch."""
        self.lab.link(space, name, self.switch, port)
        self.switch.ip(f"link set {port} master br0")

    def backend(self, name: str) -> None:
        """A stock Linux box, set up as the program says."""
        box = self.boxes[name] = self.lab.namespace(name)
        self.cable(box, "eth0", f"to-{name}")
        self.set_up(name, box)

    def set_up(self, name: str, box: Namespace) -> None:
        """Has a box's kernel do what a back end needs."""
        script = self.lab.run(ASHLAR, "balance", "backend", str(self.file), "--name", name).out
        path = self.lab.folder / f"{name}.sh"
        path.write_text(script)
        box.run("sh", str(path))

    def start(self, *words: str) -> None:
        self.router.start(self.file, *words)

    def balance(self, *words: str) -> str:
        """`ashlar balance` of the running balancer."""
        return self.lab.run(ASHLAR, "balance", words[0], "--socket", str(self.router.socket), *words[1:]).out

    def states(self) -> dict[str, list[str]]:
        """The words about each back end."""
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
        """Has a back end drop what it would forward beyond a rate. Probes are not counted: routers send control first."""
        rules = ("add table ip hold", "add chain ip hold forward { type filter hook forward priority 0; }",
                 "flush chain ip hold forward", "add rule ip hold forward udp dport 3785 accept",
                 f"add rule ip hold forward limit rate over {packets}/second burst {max(packets // 50, 20)} packets drop")
        self.boxes[name].run("nft", "; ".join(rules))

    def unlimit(self, name: str) -> None:
        self.boxes[name].run("nft", "delete table ip hold")

    def forwarded(self, name: str) -> int:
        """Packets that a back end has forwarded, probes among them."""
        snmp = self.boxes[name].run("cat", "/proc/net/snmp").out.splitlines()
        ip = [line.split() for line in snmp if line.startswith("Ip:")]
        return int(dict(zip(ip[0], ip[1]))["ForwDatagrams"])

    def begin(self, rate: float, seconds: float, flows: int = 200, size: int = 100) -> "Load":
        """Starts packets from lan to wan: so many a second."""
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

    def start(self, *words: str) -> None:
        for router, name in zip(self.routers, ("left", "right")):
            router.start(self.lab.folder / f"{name}.toml", *words)

    def states_at_all(self) -> list[list[str]]:
        """The words about the first back end, at each balancer."""
        return [router.cli("show", "lb.backends").splitlines()[0].split() for router in self.routers]

    def tables_are_equal(self) -> bool:
        left, right = (router.cli("show", "lb.owners") for router in self.routers)
        return left == right


class Load:
    """Packets on their way from lan to wan."""

    def __init__(self, bed: Bed, number: int, rate: float, seconds: float, flows: int, size: int):
        folder = bed.lab.folder
        start = folder / f"start{number}"
        self.seconds = seconds
        self.hosts: list[Process] = []
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
        return Outcome(sent, len(seen) + twice, reordered, twice, max(gaps, default=0.0))


def ping(host: Namespace, target: str, *words: str) -> bool:
    return host.run("ping", "-c1", "-W1", *words, target, ok=None).status == 0


def ready(bed: Bed) -> None:
    """Waits until packets cross, and hosts and back ends know their neighbours."""
    until(lambda: ping(bed.lan, WAN) and ping(bed.wan, LAN), "packets to cross", timeout=20)
    bed.load(500, 1.0)


def detection(bed: Bed, name: str) -> float:
    """Milliseconds from the moment when a back end stops to forward until its buckets have moved."""
    before = len(bed.journal())
    at = time.time()
    bed.boxes[name].sysctl(net__ipv4__ip_forward=0)
    line = until(lambda: [(when, what) for when, what in bed.journal()[before:] if what.startswith(f"{name} down")],
                 f"{name} to be down")
    after = len(bed.journal())
    bed.boxes[name].sysctl(net__ipv4__ip_forward=1)
    until(lambda: any(what == f"{name} up" for _, what in bed.journal()[after:]), f"{name} to be up", timeout=30)
    return (line[0][0] - at) * 1000


def restart_health(bed: Bed) -> None:
    """Forgets failures, so that a back end comes back as soon as after its first one."""
    bed.router.cli("set", "health.forget", "")


@dataclass
class Bound:
    name: str
    value: float
    good: bool


def demonstrate(bed: Bed, asked: argparse.Namespace) -> list[Bound]:
    """Measures, and says what is good enough."""
    values: list[Bound] = []

    def note(name: str, value: float, good: bool) -> None:
        values.append(Bound(name, value, good))
        print(f"balance {name} {value:g}" + ("" if good else "   (misses its bound)"), flush=True)

    rate, seconds = asked.rate, asked.seconds
    print("one back end, then two: each is held to a rate", flush=True)
    for name in bed.names:
        bed.limit(name, rate)
    bed.balance("remove", "r2")
    bed.balance("remove", "r3")
    one = bed.load(rate * 2.5, seconds)
    bed.balance("add", "r2", "--within", "0")
    until(lambda: bed.buckets("r2") > 0, "r2 to have buckets")
    two = bed.load(rate * 2.5, seconds)
    note("two-backends/one", two.came / max(one.came, 1), two.came >= 1.9 * one.came)
    bed.balance("add", "r3", "--within", "0")
    for name in bed.names:
        bed.unlimit(name)
    until(lambda: bed.buckets("r3") > 0, "r3 to have buckets")

    print("planned changes under load: drained, used again, removed from the table", flush=True)
    bed.load(500, 0.5)
    before = {name: bed.buckets(name) for name in bed.names}
    note("share-error-percent", max(abs(3 * count / 65536 - 1) for count in before.values()) * 100,
         all(abs(3 * count / 65536 - 1) <= 0.01 for count in before.values()))
    load = bed.begin(asked.load, 6.0, flows=asked.flows)
    time.sleep(max(load.begins - time.time(), 0) + 1)
    bed.balance("drain", "r2", "--within", "60s")
    until(lambda: bed.state("r2") == "drained", "r2 to be drained", timeout=60)
    bed.balance("add", "r2", "--within", "60s")
    until(lambda: bed.buckets("r2") == before["r2"], "r2 to have its buckets again", timeout=60)
    planned = load.end()
    note("reordered", planned.reordered, planned.reordered == 0)
    note("lost", planned.lost, planned.lost == 0)

    owners = bed.router.cli("show", "lb.owners").split()
    bed.balance("remove", "r3")
    until(lambda: bed.buckets("r3") == 0, "r3 to have no bucket")
    moved = sum(a != b for a, b in zip(owners, bed.router.cli("show", "lb.owners").split()))
    note("moved/share", moved / before["r3"], moved == before["r3"])
    bed.balance("add", "r3", "--within", "0")
    until(lambda: bed.router.cli("show", "lb.owners").split() == owners, "the first table")

    print("a back end that does not forward any more", flush=True)
    times = []
    for _ in range(asked.times):
        restart_health(bed)
        times.append(detection(bed, "r2"))
    note("detection-ms-median", statistics.median(times), statistics.median(times) <= 50)
    note("detection-ms-worst", max(times), max(times) <= 50)
    load = bed.begin(asked.load, 3.0)
    time.sleep(max(load.begins - time.time(), 0) + 1)
    bed.boxes["r1"].ip("link set eth0 down")
    crash = load.end()
    share = before["r1"] / 65536
    allowed = asked.load * share * 0.050 + asked.load * 0.01
    note("lost-at-crash", crash.lost, crash.lost <= allowed)
    bed.boxes["r1"].ip("link set eth0 up")
    bed.boxes["r1"].run("sh", str(bed.lab.folder / "r1.sh"))
    until(lambda: bed.state("r1") == "up", "r1 to be up", timeout=30)

    print(f"all back ends at their limit for {asked.full:g} s", flush=True)
    for name in bed.names:
        bed.limit(name, asked.load // 6)
    before_full = len(bed.journal())
    bed.load(asked.load, asked.full)
    alarms = [what for _, what in bed.journal()[before_full:] if " down" in what]
    note("false-alarms", len(alarms), not alarms)
    return values


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=2000, help="packets a second to which each back end is held")
    parser.add_argument("--load", type=int, default=6000, help="packets a second in the other parts")
    parser.add_argument("--flows", type=int, default=2000, help="flows while buckets move by plan")
    parser.add_argument("--seconds", type=float, default=5, help="seconds of each measurement of a rate")
    parser.add_argument("--times", type=int, default=20, help="measurements of detection")
    parser.add_argument("--full", type=float, default=120, help="seconds at full load")
    asked = parser.parse_args()
    stop_on_signals()
    try:
        with Lab() as lab:
            bed = Bed(lab, ["r1", "r2", "r3"])
            bed.start()
            ready(bed)
            values = demonstrate(bed, asked)
            print(bed.balance("show"), flush=True)
            bed.router.process.stop()
    except Failed as failed:
        print(failed, file=sys.stderr)
        return 1
    missed = [bound.name for bound in values if not bound.good]
    if missed:
        print(f"missed: {', '.join(missed)}", file=sys.stderr)
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
