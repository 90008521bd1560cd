"""The ring of routers (network.py) under random events: after each, Ashlar's tables equal the kernel's.

Links are cut, unplugged and set down, daemons killed and started, routes of all kinds (multipath, weights,
next-hop objects and groups, blackhole, unreachable), addresses and MTUs changed, Ashlar killed, upgraded,
stopped and started. `ASHLAR_SEED` sets the row (or several: "1 2 3"), which is printed when a test fails;
200 events of each of six rows are `make soak`'s, and ASHLAR_EVENTS sets another number.
"""

import itertools
import os
import random
import signal
from collections.abc import Callable

import pytest
from daemons import available, wait_for
from net import Failed
from network import NUMBERS, RING, Ring, links, on_link

SOAK = bool(os.environ.get("ASHLAR_SOAK"))
EVENTS = int(os.environ.get("ASHLAR_EVENTS", "200" if SOAK else "40"))
SEEDS = [int(seed) for seed in os.environ.get("ASHLAR_SEED", "1 2 3 5 11 42" if SOAK else "5").split()]
pytestmark = [pytest.mark.skipif(not available(), reason="needs frr and bird2"), pytest.mark.ashlar, pytest.mark.long]


class Events:
    """Random events; each prints its description before it happens."""

    def __init__(self, ring: Ring, seed: int):
        self.ring, self.random = ring, random.Random(seed)
        self.said: list[str] = []
        self.away: dict[str, Callable[[], None]] = {}
        weights = {self.link: 5, self.daemon: 4, self.route: 8, self.nexthop: 5, self.address: 4, self.static: 3,
                   self.mtu: 1, self.all_daemons: 1, self.ashlar_killed: 2, self.ashlar_upgraded: 1,
                   self.ashlar_stopped: 1, self.neighbours: 1}
        self.kinds, self.weights = list(weights), list(weights.values())

        # With these, most operations on next-hop objects find an existing one.
        for router in (ring.routers["a1"], ring.routers["a2"]):
            for version in (4, 6):
                for number in range(6):
                    self.ip(router, f"-{version} nexthop add id {1000 * version + number} {self._hop(router, version)}")
                    self.ip(router, f"nexthop add id {1000 * version + 100 + number} group {1000 * version + number}")

    def happen(self) -> None:
        self.random.choices(self.kinds, self.weights)[0]()

    def say(self, text: str) -> None:
        self.said.append(f"{len(self.said) + 1}. {text}")

    def router(self):
        """One of the routers whose data plane is Ashlar."""
        return self.ring.routers[self.random.choice(("a1", "a2"))]

    def toggle(self, name: str, away: Callable[[], None], back: Callable[[], None]) -> None:
        """Takes something away, or puts it back if it is away."""
        if name in self.away:
            self.say(f"{name}: back")
            self.away.pop(name)()
        else:
            self.say(f"{name}: away")
            self.away[name] = back
            away()

    def link(self) -> None:
        link, ring = self.random.choice(list(RING)), self.ring
        name = self.random.choice(RING[link])
        other = links(name)[link]
        space = ring.routers[name].space
        match self.random.choice(("cut", "unplugged", "down")):
            case "cut":
                self.toggle(f"link {link} cut", lambda: ring.cut(link), lambda: ring.mend(link))
            case "unplugged":
                self.toggle(f"link {link} unplugged at {name}", lambda: ring.unplug(link, name), lambda: ring.plug(link, name))
            case "down":
                def back() -> None:
                    space.ip(f"link set to-{other} up")
                    # The kernel forgets IPv6 addresses of an interface that goes down.
                    ring.routers[name].address()
                self.toggle(f"to-{other} of {name} down", lambda: space.ip(f"link set to-{other} down"), back)

    def daemon(self) -> None:
        name = self.random.choice(list(NUMBERS))
        daemons = self.ring.routers[name].daemons
        which = self.random.choice(daemons.running())
        self.say(f"{which} of {name} killed and started")
        daemons.kill(which)
        daemons.start()

    def all_daemons(self) -> None:
        router = self.router()
        self.say(f"all daemons of {router.name} killed and started")
        router.daemons.kill()
        router.daemons.start()

    def _prefix(self, version: int) -> str:
        """One of a few prefixes, so that routes collide, including those of hosts and loopbacks."""
        number = self.random.randrange(8)
        if version == 4:
            return self.random.choice((f"10.50.{number}.0/24", f"10.{48 + number % 4 * 4}.0.0/14", f"10.2.{1 + number % 4}.0/24",
                                       f"10.255.0.{1 + number % 4}/32", "0.0.0.0/0"))
        return self.random.choice((f"fd00:50:{number}::/48", f"fd00:{number % 4}::/32", f"fd00:2:{1 + number % 4}::/64",
                                   f"fd00:255::{1 + number % 4}/128", "::/0"))

    def _hop(self, router, version: int) -> str:
        """A next hop in iproute2's syntax."""
        link, other = self.random.choice(list(links(router.name).items()))
        if self.random.random() < 0.2:
            return f"dev to-{other}"
        return f"via {on_link(link, other, version)} dev to-{other}"

    def _target(self, router, version: int) -> str:
        match self.random.randrange(5):
            case 0 | 1:
                return self._hop(router, version)
            case 2 | 3:
                return " ".join(f"nexthop {self._hop(router, version)} weight {self.random.randint(1, 4)}" for _ in range(2))
            case _:
                return ""

    def route(self) -> None:
        router, version = self.router(), self.random.choice((4, 6))
        prefix, metric = self._prefix(version), self.random.choice(("", "metric 5", "metric 50"))
        target = self._target(router, version)
        kind = "" if target else self.random.choice(("blackhole", "unreachable", "prohibit"))
        verb = self.random.choice(("add", "replace", "append", "del", "del"))
        self.ip(router, f"-{version} route {verb} {kind} {prefix} {metric} {'' if verb == 'del' else target}")

    def ip(self, router, words: str) -> None:
        """Runs a command of an operator, which the kernel may refuse."""
        words = " ".join(words.split())
        done = router.space.lab.run("ip", "-n", router.space.name, *words.split(), ok=None)
        self.say(f"{router.name}: ip {words}" + (f" ({done.err.strip()})" if done.status else ""))

    def nexthop(self) -> None:
        router, version = self.router(), self.random.choice((4, 6))
        number = 1000 * version + self.random.randrange(6)
        match self.random.randrange(6):
            case 0 | 1:
                self.ip(router, f"-{version} nexthop replace id {number} {self._hop(router, version)}")
            case 2:
                members = "/".join(f"{1000 * version + n},{self.random.randint(1, 9)}"
                                   for n in self.random.sample(range(6), 2))
                self.ip(router, f"nexthop replace id {number + 100} group {members}")
            case 3:
                self.ip(router, f"nexthop del id {number + self.random.choice((0, 100))}")
            case _:
                self.ip(router, f"-{version} route replace {self._prefix(version)} nhid {number + self.random.choice((0, 100))}")

    def address(self) -> None:
        router, version = self.router(), self.random.choice((4, 6))
        port, number = self.random.choice(router.ports), self.random.randrange(4)
        address = f"10.60.{number}.1/24" if version == 4 else f"fd00:60:{number}::1/64"
        self.ip(router, f"address {self.random.choice(('add', 'del'))} {address} dev {port}")

    def static(self) -> None:
        """Static routes of FRR."""
        router, version = self.router(), self.random.choice((4, 6))
        link, other = self.random.choice(list(links(router.name).items()))
        prefix = f"10.70.{self.random.randrange(4)}.0/24" if version == 4 else f"fd00:70:{self.random.randrange(4)}::/48"
        target = self.random.choice((on_link(link, other, version), on_link(link, other, version), "Null0", "reject"))
        no = self.random.choice(("", "", "no "))
        command = f"{no}{'ip' if version == 4 else 'ipv6'} route {prefix} {target}"
        self.say(f"{router.name}: {command}")
        router.daemons.vtysh("configure terminal", command, ok=False)

    def mtu(self) -> None:
        router = self.router()
        port, mtu = self.random.choice(router.ports), self.random.choice((1500, 1400, 1280))
        self.say(f"{router.name}: MTU {mtu} of the device {port}")
        router.device_space.ip(f"link set {port} mtu {mtu}")

    def neighbours(self) -> None:
        router = self.router()
        self.ip(router, f"-{self.random.choice((4, 6))} neigh flush all")

    def ashlar_killed(self) -> None:
        router = self.router()
        self.say(f"Ashlar of {router.name} killed")
        before = router.ashlar.kill()
        self._again(router, before)

    def ashlar_upgraded(self) -> None:
        router = self.router()
        self.say(f"Ashlar of {router.name} upgraded")
        before = router.ashlar.pid()
        router.ashlar.process.signal(signal.SIGUSR2)
        self._again(router, before)

    def _again(self, router, before: int) -> None:
        wait_for(lambda: router.ashlar.pid() not in (before, router.ashlar.process.pid), "the keeper to start it again",
                 router.ashlar.said)
        router.ashlar.wait()

    def ashlar_stopped(self) -> None:
        router = self.router()
        self.say(f"Ashlar of {router.name} stopped and started")
        assert router.ashlar.stop() == 0, router.ashlar.said()
        router.ashlar.start()

    def restore(self) -> None:
        """Restores the initial state. FRR is restarted for two reasons: FRR 8.4 claims next-hop objects of others and
        loses routes when these disappear; and if only zebra was killed, bgpd's next hops may stay unknown to it
        (`show ip nht`), and so invalid.
        """
        for name in list(self.away):
            self.say(f"{name}: back")
            self.away.pop(name)()
        for name in ("a1", "a2"):
            router = self.ring.routers[name]
            router.daemons.kill()
            router.space.flush("nexthop flush")
            for version, protocol in itertools.product((4, 6), ("boot", "static", "ospf", "bgp")):
                router.space.flush(f"-{version} route flush proto {protocol}")
            for port in router.ports:
                router.device_space.ip(f"link set {port} mtu 1500")
                for version, number in itertools.product((4, 6), range(4)):
                    address = f"10.60.{number}.1/24" if version == 4 else f"fd00:60:{number}::1/64"
                    router.space.lab.run("ip", "-n", router.space.name, "address", "del", address, "dev", port, ok=None)
            router.address()
            router.daemons.start()
        daemons = self.ring.routers["l"].daemons
        daemons.kill()
        daemons.start()


@pytest.mark.parametrize("seed", SEEDS)
def test_tables_follow_the_kernel_through_random_events(lab, seed):
    ring = Ring(lab)
    ring.start()
    ring.converge()
    events = Events(ring, seed)
    print(f"\n{EVENTS} events, ASHLAR_SEED={seed}")
    try:
        for _ in range(EVENTS):
            events.happen()
            ring.agree(20.0)
            ring.must_run()
        events.restore()
        ring.agree(20.0)
        took = ring.converge(120.0)
        ring.agree(20.0)
    except Failed as failed:
        raise Failed(f"ASHLAR_SEED={seed}, events:\n" + "\n".join(events.said) + f"\n{failed}") from None
    print(f"the ring is whole again {took:.1f} s after the last event")
