"""After any change, the router's routes equal the kernel's in the daemons' namespace, where `ip` sets them.

A seeded sequence of changes (routes of all kinds, metrics, multipath, next-hop objects and groups, links,
cables, addresses) is made in the namespace of a router of conf/linux-router.click. After each, `rt4.table` and
`rt6.table` become what steered.py makes of `ip -json route show table all`: the kernel is asked, so nothing
that it has kept silent about is forgiven. `ASHLAR_EVENTS` and `ASHLAR_SEED` ask for longer or other ones.
"""

import json
import os
import random
from contextlib import nullcontext

import pytest
from steered import LINKS, Bed, addresses

pytestmark = pytest.mark.ashlar

EVENTS = int(os.environ.get("ASHLAR_EVENTS", "60"))
SEED = int(os.environ.get("ASHLAR_SEED", "1"))


class Chaos:
    """Random changes. `ip` may refuse some (for example a gateway without a link): then nothing has changed."""

    def __init__(self, bed: Bed, seed: int):
        self.bed, self.random = bed, random.Random(seed)

    def step(self) -> str:
        changes = [(12, self.route), (4, self.unroute), (4, self.nexthop), (2, self.no_nexthop), (2, self.link),
                   (2, self.cable), (2, self.address)]
        change = self.random.choices([c for _, c in changes], [n for n, _ in changes])[0]
        words = change()
        space = self.bed.cables if words.startswith("link set far") else self.bed.daemons
        done = space.run("ip", *words.split(), ok=None)
        return f"`ip {words}`" + (f" (refused: {done.err.strip()})" if done.status else "")

    def dst(self, version: int) -> str:
        return self.random.choice({4: ("default", "20.0.0.0/8", "20.1.0.0/16", "20.1.2.3/32", "10.9.0.0/24"),
                                   6: ("default", "2001:db8:20::/48", "2001:db8:20:1::/64", "2001:db8:20::3/128",
                                       "2001:db8:1::/64")}[version])

    def hop(self, version: int) -> str:
        number, host = self.random.randrange(3), self.random.randrange(2, 6)
        if self.random.random() < 0.15:
            return f"dev {LINKS[number]}"
        if version == 4 and self.random.random() < 0.2:
            return f"via inet6 fe80::{host} dev {LINKS[number]}"
        gateway = f"10.9.{number}.{host}" if version == 4 else self.random.choice(
            (f"2001:db8:{number}::{host}", f"fe80::{host}"))
        return f"via {gateway} dev {LINKS[number]}"

    def route(self) -> str:
        pick, version = self.random.choice, self.random.choice((4, 6))
        verb = pick(("add", "append", "prepend", "replace", "replace"))
        words = f"-{version} route {verb}"
        metric = pick(("", "", "metric 7", "metric 2000"))
        match self.random.randrange(10):
            case 0:
                return f"{words} {pick(('blackhole', 'unreachable', 'prohibit', 'throw'))} {self.dst(version)} {metric}"
            case 1 | 2:
                return f"{words} {self.dst(version)} nhid {self.random.randrange(1, 8)} {metric}"
            case 3 | 4 | 5:
                hops = [f"nexthop {self.hop(version)} weight {self.random.randrange(1, 4)}"
                        for _ in range(self.random.randrange(2, 4))]
                return f"{words} {self.dst(version)} {metric} {' '.join(hops)}"
            case 6:
                return f"{words} local {self.dst(version)} dev lo table local"
        return f"{words} {self.dst(version)} {self.hop(version)} {metric}"

    def unroute(self) -> str:
        version = self.random.choice((4, 6))
        known = [route for route in self.bed.json(f"-{version} route show") if route.get("protocol") != "kernel"]
        if known and self.random.random() < 0.7:
            route = self.random.choice(known)
            return f"-{version} route del {route.get('type', '')} {route['dst']} metric {route.get('metric', 0)}"
        return f"-{version} route del {self.dst(version)} {self.hop(version)}"

    def nexthop(self) -> str:
        number = self.random.randrange(1, 8)
        if number >= 6:
            members = self.random.sample(range(1, 6), self.random.randrange(1, 4))
            group = "/".join(f"{member},{self.random.randrange(1, 4)}" for member in members)
            return f"nexthop replace id {number} group {group}"
        if self.random.random() < 0.1:
            return f"nexthop replace id {number} blackhole"
        # The lower ones are of IPv4.
        version = 4 if number <= 3 else 6
        hop = self.hop(version)
        return f"nexthop replace id {number} {hop.replace('via inet6', 'via')}"

    def no_nexthop(self) -> str:
        return f"nexthop del id {self.random.randrange(1, 8)}"

    def link(self) -> str:
        return self.toggle({link["ifname"]: "UP" in link["flags"] for link in self.bed.json("link show")
                                if link["ifname"] in LINKS})

    def cable(self) -> str:
        found = json.loads(self.bed.cables.run("ip", "-json", "link", "show").out)
        return self.toggle({link["ifname"]: "UP" in link["flags"] for link in found
                                   if link["ifname"].startswith("far")})

    def toggle(self, up: dict[str, bool]) -> str:
        """Sets a link up or down; usually a link that is down is set up, as nothing happens on it otherwise."""
        down = [name for name in up if not up[name]]
        name = self.random.choice(down if down and self.random.random() < 0.8 else list(up))
        return f"link set {name} {'down' if up[name] else 'up'}"

    def address(self) -> str:
        has = {(number, address): False for number in range(3) for address in addresses(number)}
        for link in self.bed.json("address show"):
            for info in link.get("addr_info", []):
                found = (LINKS.index(link["ifname"]), f"{info['local']}/{info['prefixlen']}") if (
                    link.get("ifname") in LINKS) else None
                if found in has:
                    has[found] = True
        lost = [each for each in has if not has[each]]
        number, address = self.random.choice(lost if lost and self.random.random() < 0.8 else list(has))
        verb = "del" if has[number, address] else "add"
        return f"address {verb} {address} dev {LINKS[number]}"


def test_the_router_forwards_as_the_kernel_says(lab):
    bed = Bed(lab)
    bed.start()
    bed.address()
    bed.agree("the start")
    chaos, said = Chaos(bed, SEED), []
    for number in range(EVENTS):
        said.append(f"{number}: {chaos.step()}")
        bed.agree("\n".join([f"event {number} of seed {SEED}", *said[-12:]]))
    refused = sum("(refused" in line for line in said)
    print(f"\n{EVENTS} events of seed {SEED}, {refused} refused by the kernel: {len(bed.table(4))} + {len(bed.table(6))} routes")
    assert refused < EVENTS * 0.7, said
    assert bed.process.stop() == 0


def test_messages_that_are_lost_are_made_good(lab, monkeypatch):
    """The buffer for the kernel's messages is small, so bursts of changes do not fit.

    The router is stopped and reads no message, so the second burst certainly overflows the buffer.
    """
    monkeypatch.setenv("ASHLAR_NETLINK_BUFFER", "4096")
    bed = Bed(lab)
    bed.start()
    bed.address()
    batch = lab.folder / "batch"
    for round_ in range(3):
        lines = []
        for number in range(3000):
            verb = ("replace", "replace", "del")[(number + round_) % 3]
            hop = f"via 10.9.{(number + round_) % 2}.{2 + round_}" if verb == "replace" else ""
            lines.append(f"route {verb} 20.{number >> 8}.{number & 255}.0/24 {hop}")
        batch.write_text("\n".join(lines))
        with bed.process.still() if round_ == 1 else nullcontext():
            bed.daemons.run("ip", "-force", "-batch", str(batch), ok=None)
        bed.agree(f"burst {round_}")
    assert int(dict(line.split() for line in bed.show("netlink").splitlines())["lost"]) > 0
