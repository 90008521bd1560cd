"""Soak test of `make soak` for a router on cards and interfaces: for ten minutes, an event happens every few seconds.

In a guest a router forwards between two cards and between two interfaces of the kernel, under traffic. Cards are unplugged and
come back, cables too, interfaces are renamed, made anew, taken down and get another MTU, the router is reloaded. In the end
everything crosses again, each packet that the router took was sent or dropped under a name, and no memory, descriptor or buffer
is gone. Prints `cards-soak MODEL NAME VALUE`:

    EVENT COUNT                  how often it happened
    packets COUNT                that the router took
    memory BEFORE AFTER          KiB that the process had when all had happened once, and in the end
    descriptors BEFORE AFTER     its open files, likewise
"""

import argparse
import contextlib
import random
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from guest import MODELS, Guest, Router  # noqa: E402
from net import Failed, Lab, stop_on_signals, until  # noqa: E402
from test_cards import frame, traffic  # noqa: E402

GRAPH = """
FromDevice($A, PROMISC true) -> a :: Counter -> to_b :: ToDevice($B);
FromDevice($B, PROMISC true) -> b :: Counter -> to_a :: ToDevice($A);
FromDevice(x0, PROMISC true) -> c :: Counter -> to_x1 :: ToDevice(x1);
FromDevice(x1, PROMISC true) -> d :: Counter -> to_x0 :: ToDevice(x0);
"""
# The other ends of x0 and x1 are in a namespace, and ping each other through the router.
SETUP = """ip netns add far
for n in 0 1; do ip link add x$n type veth peer name y$n; ip link set y$n netns far; done
ip netns add farther; ip -n far link set y1 netns farther
{ends}"""
ENDS = """ip -n far address replace 10.7.0.1/24 dev y0; ip -n far link set y0 up; ip link set x0 up
ip -n farther address replace 10.7.0.2/24 dev y1; ip -n farther link set y1 up; ip link set x1 up"""
PINGS = "setsid ip netns exec far ping -q -i 0.05 10.7.0.2 > /dev/null 2>&1 &"
# KiB that the process may have more in the end.
MEMORY_MAX = 16 << 10


class Soak:
    """A router in a guest, and the events."""

    def __init__(self, lab: Lab, model: str, seed: int):
        self.rng, self.round = random.Random(seed), 0
        self.guest = Guest(lab, MODELS[model])
        self.router = Router(self.guest)
        self.router.prepare()
        self.guest.run("modprobe veth; " + SETUP.format(ends=ENDS))
        self.router.write("soak", GRAPH)
        self.router.start("soak")
        self.works()
        self.guest.run(PINGS)
        self.events = [self.unplug, self.pull, self.rename, self.mtu, self.down, self.anew, self.reload]

    # ---- Events

    def unplug(self) -> None:
        number = self.rng.randrange(2)
        self.guest.unplug(number)
        until(lambda: not self.guest.has_card(number), "the card to be gone", 240)
        until(lambda: not self.up(self.router.addresses[number]), "the router to say so", 60)
        self.guest.plug(number)
        until(lambda: self.up(self.router.addresses[number]), "the card to work again", 240)

    def pull(self) -> None:
        number = self.rng.randrange(2)
        self.guest.link(number, False)
        until(lambda: not self.up(self.router.addresses[number]), "the link to be down", 180)
        self.guest.link(number, True)
        until(lambda: self.up(self.router.addresses[number]), "the link to be up", 180)

    def rename(self) -> None:
        name = self.rng.choice(("x0", "x1"))
        # Not every kernel renames an interface that is up.
        self.guest.run(f"ip link set {name} down; ip link set {name} name z9; ip link set z9 up; sleep 0.5; "
                       f"ip link set z9 down; ip link set z9 name {name}; ip link set {name} up")

    def mtu(self) -> None:
        name = self.rng.choice(("x0", "x1"))
        self.guest.run(f"ip link set {name} mtu {self.rng.choice((68, 576, 1280, 1500, 9000))}")

    def down(self) -> None:
        name = self.rng.choice(("x0", "x1"))
        self.guest.run(f"ip link set {name} down; sleep 0.5; ip link set {name} up")

    def anew(self) -> None:
        """Recreates an interface under the same name."""
        number = self.rng.randrange(2)
        space = ("far", "farther")[number]
        self.guest.run(f"ip link del x{number}; ip link add x{number} type veth peer name y{number}; ip link set y{number} netns {space}\n{ENDS}")

    def reload(self) -> None:
        self.round += 1
        self.router.write("soak", GRAPH + f"// {self.round}\n" + "Idle -> Discard;" * (self.round % 2))
        self.router.cli("reload --socket /run/router.sock")

    # ---- Checks

    def up(self, name: str) -> bool:
        return next(p for p in self.router.stats()["ports"] if p["name"] == name)["up"]

    def works(self) -> None:
        """Checks that packets cross both ways."""
        here, there = self.guest.cables
        for one, other in ((here, there), (there, here)):
            def passes(one=one, other=other) -> bool:
                one.offer(frame(60000))
                return frame(60000) in other.take()
            until(passes, "a frame through the cards", 240)
        until(lambda: "1 received" in self.guest.run("ip netns exec far ping -q -c1 -W1 10.7.0.2", ok=False), "a ping through the interfaces", 120)

    def state(self) -> dict[str, int]:
        said = self.guest.run("pid=$(cat /run/pid); awk '/VmRSS/ {print $2}' /proc/$pid/status; ls /proc/$pid/fd | wc -l").split()
        return {"memory": int(said[0]), "descriptors": int(said[1])}

    def balance(self) -> int:
        """Fails unless all received packets were sent, dropped under a name, or are held. Returns the number of received
        packets.
        """
        came = 0
        for counter, sender in (("a", "to_b"), ("b", "to_a"), ("c", "to_x1"), ("d", "to_x0")):
            def adds_up(counter=counter, sender=sender) -> bool:
                elements = {e["name"]: e for e in self.router.stats()["elements"]}
                of = elements[sender]["copies"]
                taken = sum(copy["packets"] for copy in of)
                done = self.router.number(f"{sender}.count") + self.router.number(f"{sender}.waiting") + sum(sum(copy["drops"]) for copy in of)
                nonlocal came
                now = sum(copy["packets"] for copy in elements[counter]["copies"])
                balanced = taken == done == now
                came += now if balanced else 0
                self.books = f"{counter} had {now}, {sender} {taken}, of which {done} were sent, dropped or wait"
                return balanced
            try:
                until(adds_up, "the books to balance", 60)
            except Failed as error:
                raise Failed(f"{error}: {self.books}") from None
        return came


def run(model: str, seconds: float, seed: int, every: float, say=print) -> None:
    """Runs the events; raises an error for any fault. Every kind of event happens at least once."""
    with Lab() as lab:
        soak = Soak(lab, model, seed)
        done, left, before = Counter(), [], None
        with contextlib.ExitStack() as load:
            for number in range(2):
                load.enter_context(traffic(soak.guest, number))
            end = time.monotonic() + seconds
            while (begin := time.monotonic()) < end or before is None:
                if not left:
                    before = soak.state() if done and before is None else before
                    left = soak.rng.sample(soak.events, len(soak.events))
                event = left.pop()
                try:
                    event()
                    if not soak.guest.get("/v1/info"):
                        raise Failed("the router does not answer")
                except Failed as error:
                    raise Failed(f"{model}, seed {seed}, event {sum(done.values()) + 1}, {event.__name__}: {error}\n{soak.router.log()[-3000:]}") from None
                done[event.__name__] += 1
                time.sleep(max(0.0, min(begin + every, end) - time.monotonic()))
        try:
            soak.guest.run(f"for n in 0 1; do ip link set x$n mtu 1500; done; {ENDS}")
            soak.works()
            soak.guest.run("pkill ping; true")
            came = soak.balance()
            after = soak.state()
            if after["memory"] > before["memory"] + MEMORY_MAX or after["descriptors"] > before["descriptors"]:
                raise Failed(f"before {before}, after {after}")
            soak.router.stop()
        except Failed as error:
            raise Failed(f"{model}, seed {seed}, afterwards: {error}\n{soak.router.log()[-3000:]}") from None
        for name, count in sorted(done.items()):
            say(f"cards-soak {model} {name} {count}")
        say(f"cards-soak {model} packets {came}")
        for name, value in after.items():
            say(f"cards-soak {model} {name} {before[name]} {value}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0, help="how long, for all models together (default 600)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="what is drawn (default: the time)")
    parser.add_argument("--every", type=float, default=3.0, help="seconds from event to event (default 3)")
    parser.add_argument("models", nargs="*", default=["e1000e", "virtio"], help=f"of {', '.join(MODELS)} (default e1000e virtio)")
    asked = parser.parse_args()
    stop_on_signals()
    print(f"cards-soak seed {asked.seed}", flush=True)
    try:
        for model in asked.models:
            run(model, asked.seconds / len(asked.models), asked.seed, asked.every)
        return 0
    except Failed as error:
        print(f"  ✗ {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
