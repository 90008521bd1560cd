"""A hundred random events while packets pass a balancer: all packets are accounted for.

Boxes crash, hang and lose what they send, are drained, added and weighted, and the balancer is started again. A box that fails does so by
nftables rules that count what they drop. After each event: packets sent = packets that came + drops of boxes and balancer by name.
Only packets that cross a balancer at the moment of its restart have no name but `restart`.
"""

import json
import os
import random
import socket
import threading
import time

import pytest
from multistage import WAN, Bed, ready
from net import Failed, Lab, until

pytestmark = [pytest.mark.ashlar, pytest.mark.long]

PORT = 4100
EVENTS = 100
BURST, RATE = 150, 1500
COUNTERS = ("came", "crash", "hang", "oneway", "left")
# A balancer's drop reasons for packets of a burst. The other reasons are for frames of other traffic.
DROPS = ("no_backend", "owner_down", "malformed", "short", "no_front")
# nftables statements of the three chains of a box, by its state. `drop` drops all packets, probes as well.
RULES = {
    "well": ("", "", ""),
    "crash": (f"udp dport {PORT} counter name crash; drop", "", ""),
    "hang": ("", f"udp dport {PORT} counter name hang; drop", ""),
    "oneway": ("", "", f"udp dport {PORT} counter name oneway; drop"),
}


class Books(Bed):
    """A bed that counts the packets of bursts."""

    def __init__(self, lab: Lab, names: list[str]):
        super().__init__(lab, names)
        for name in names:
            self.become(name, "well")
        self.sender = self.lan.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.receiver = self.wan.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.receiver.bind((WAN, PORT))
        self.receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.receiver.setblocking(False)
        self.number = 0
        self.seen: list[int] = []
        self.broken: dict[str, str] = {}

    def become(self, name: str, state: str) -> None:
        """Gives a box its nftables rules, in one transaction. Counters continue."""
        before, between, after = RULES[state]
        lines = ["add table ip books", *(f"add counter ip books {counter}" for counter in COUNTERS)]
        for chain, priority, statements in (("prerouting", -300, f"udp dport {PORT} counter name came; {before}"), ("forward", 0, between),
                                            ("postrouting", 300, f"{after}; udp dport {PORT} counter name left")):
            lines.append(f"add chain ip books {chain} {{ type filter hook {chain} priority {priority}; }}")
            lines.append(f"flush chain ip books {chain}")
            lines += [f"add rule ip books {chain} {one.strip()}" for one in statements.split(";") if one.strip()]
        file = self.lab.folder / f"{name}.nft"
        file.write_text("\n".join(lines) + "\n")
        self.boxes[name].run("nft", "-f", str(file))

    def counts(self) -> dict[str, int]:
        """Packets over all boxes, by counter."""
        total = dict.fromkeys(COUNTERS, 0)
        for box in self.boxes.values():
            for entry in json.loads(box.run("nft", "-j", "list", "counters", "table", "ip", "books").out)["nftables"]:
                if counter := entry.get("counter"):
                    total[counter["name"]] += counter["packets"]
        return total

    def drops(self) -> dict[str, int]:
        """The balancer's drops by name, of inbound and returning packets."""
        found = dict.fromkeys(DROPS, 0)
        for element in ("in0", "out"):
            for line in self.router.cli("show", f"{element}.named_drops").splitlines():
                name, count = line.split("\t")
                if name in DROPS:
                    found[name] += int(count)
        return found

    def send(self) -> None:
        """Sends a burst."""
        begin = time.monotonic()
        for n in range(BURST):
            while time.monotonic() < begin + n / RATE:
                time.sleep(0.0005)
            self.number += 1
            self.sender.sendto(self.number.to_bytes(8, "big"), (WAN, PORT))

    def receive(self) -> None:
        while True:
            try:
                self.seen.append(int.from_bytes(self.receiver.recv(64), "big"))
            except BlockingIOError:
                return


def event(bed: Books, rng: random.Random) -> str:
    """Causes a random event; returns its description."""
    name = rng.choice(bed.names)
    kind = rng.choice(["crash", "hang", "oneway", "heal", "heal", "drain", "add", "add", "weight", "restart"])
    if kind in RULES:
        bed.broken[name] = kind
        bed.become(name, kind)
    elif kind == "heal":
        name = rng.choice(list(bed.broken) or [name])
        bed.broken.pop(name, None)
        bed.become(name, "well")
    elif kind == "weight":
        bed.balance("weight", name, str(rng.randint(1, 4)))
    elif kind == "restart":
        bed.router.process.stop()
        bed.start()
        return kind
    else:
        bed.balance(kind, name, "--within", rng.choice(["0", "100ms", "10s"]))
    return f"{kind} {name}"


def test_packets_are_accounted_for_in_a_hundred_events(lab):
    seed = int(os.environ.get("ASHLAR_SEED", "45"))
    rng = random.Random(seed)
    bed = Books(lab, ["r1", "r2", "r3"])
    bed.start()
    ready(bed)
    told: list[str] = []
    total = dict.fromkeys(("sent", "came", "restart"), 0)
    for _ in range(EVENTS):
        counts, drops, number, seen = bed.counts(), bed.drops(), bed.number, len(bed.seen)
        burst = threading.Thread(target=bed.send)
        burst.start()
        time.sleep(rng.uniform(0, 0.06))
        told.append(event(bed, rng))
        burst.join()
        is_restart = told[-1] == "restart"
        gone: dict[str, int] = {}

        def balances() -> bool:
            bed.receive()
            now = bed.counts()
            gone.clear()
            gone.update({name: now[name] - counts[name] for name in ("crash", "hang", "oneway")})
            in_balancer = bed.number - number - (now["came"] - counts["came"])
            on_the_way_back = now["left"] - counts["left"] - (len(bed.seen) - seen)
            if is_restart:
                gone["restart"] = in_balancer + on_the_way_back
            else:
                gone.update({name: count - drops[name] for name, count in bed.drops().items()})
                if on_the_way_back != 0 or in_balancer != gone["no_backend"]:
                    return False
            return in_balancer >= 0 and on_the_way_back >= 0 and bed.number - number == len(bed.seen) - seen + sum(gone.values())

        try:
            until(balances, "the books to balance", timeout=10)
        except Failed as failed:
            raise Failed(f"{failed}\nseed {seed}, {told}\nsent {bed.number - number}, came {len(bed.seen) - seen}, gone {gone}, "
                         f"boxes {bed.counts()}, before {counts}\n{bed.journal()[-5:]}") from None
        for name, count in gone.items():
            total[name] = total.get(name, 0) + count
        assert len(set(bed.seen)) == len(bed.seen), "nothing is doubled"
    total["sent"], total["came"] = bed.number, len(bed.seen)
    print(f"\nseed {seed}: {total}")
    assert total["came"] > total["sent"] / 2
    # All servers have recovered.
    for name in bed.names:
        bed.become(name, "well")
        bed.balance("add", name, "--within", "0")
        bed.balance("weight", name, "1", "--within", "0")
    bed.router.cli("set", "health.forget", "")
    until(lambda: all(bed.state(name) == "up" and abs(bed.buckets(name) - 21845) < 400 for name in bed.names), "all to be up", timeout=60)
    outcome = bed.load(1000, 1.0)
    assert (outcome.lost, outcome.reordered, outcome.twice) == (0, 0, 0)
