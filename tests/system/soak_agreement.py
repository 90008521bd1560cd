"""Chaos among servers that agree by etcd: members of etcd and servers are killed, paused and cut off at random while an
operator applies descriptions. Not collected by pytest; `make soak-agreement` runs it.

After each round the faults end, and all must hold: every server runs the wanted version, no server has gone back, nobody
but one leader has written in an epoch, and no packet was lost while only etcd and its network were touched.
"""

import argparse
import json
import random
import signal
import sys
import time

from agreed import MEMBERS, Agreed, version
from net import Failed, Lab, left_behind, stop_on_signals, until
from rb4 import NAMES, host
from streams import Streams

# Faults of control alone, during which no packet may be lost; and those of servers, which forward nothing meanwhile.
CONTROL = ("member killed", "member paused", "majority killed", "cut off")
SERVERS = ("server paused", "leader paused")
ROUTE = '\n[[route]]\nprefix = "198.51.{}.0/24"\nvia = "10.0.1.254"\n'


class Chaos:
    def __init__(self, bed: Agreed, seed: int):
        self.bed, self.chance = bed, random.Random(seed)
        self.applied, self.refused, self.faults = 0, 0, dict[str, int]()
        self.highest = dict.fromkeys(NAMES, 0)
        self.epoch, self.takeovers = 0, 0
        self.text = bed.file.read_text()

    def round(self) -> Streams | None:
        """Runs one round: a fault begins and ends, and all servers converge. Returns the packets that crossed
        meanwhile, if none of them may be lost.
        """
        kind = self.chance.choice(CONTROL + SERVERS)
        self.faults[kind] = self.faults.get(kind, 0) + 1
        if kind in SERVERS:
            self.fault(kind)
            self.settle()
            return None
        with (streams := crossing(self.bed)):
            streams.warm(20)
            self.fault(kind)
            self.settle()
        return streams

    def fault(self, kind: str) -> None:
        seconds = self.chance.uniform(0.5, 9)
        if kind == "member killed":
            self.killed([self.chance.choice(MEMBERS)], seconds)
        elif kind == "majority killed":
            self.killed(self.chance.sample(MEMBERS, 2), seconds)
        elif kind == "member paused":
            self.paused(self.bed.etcd[self.chance.choice(MEMBERS)], seconds)
        elif kind == "cut off":
            name = self.chance.choice(NAMES)
            self.bed.servers[name].ip("link set control down")
            self.during(seconds)
            self.bed.servers[name].ip("link set control up")
        else:
            leader = self.bed.shown().get("leader") if kind == "leader paused" else None
            self.paused(self.bed.processes[leader or self.chance.choice(NAMES)], seconds)

    def killed(self, names: list[str], seconds: float) -> None:
        for name in names:
            self.bed.etcd[name].signal(signal.SIGKILL)
            self.bed.etcd[name].wait()
        self.during(seconds)
        for name in names:
            self.bed.start_etcd(name)

    def paused(self, process, seconds: float) -> None:
        process.signal(signal.SIGSTOP)
        try:
            self.during(seconds)
        finally:
            process.signal(signal.SIGCONT)

    def during(self, seconds: float) -> None:
        """Lets time pass, in which an operator may apply a description somewhere."""
        end = time.monotonic() + seconds
        if self.chance.random() < 0.6:
            self.apply(max(1, int(seconds)))
        time.sleep(max(0.0, end - time.monotonic()))

    def apply(self, wait: int) -> bool:
        path = self.bed.lab.folder / "proposed.toml"
        path.write_text(self.text + ROUTE.format(self.chance.randrange(256)))
        done = self.bed.cluster(self.chance.choice(NAMES), "apply", "--wait", str(wait), str(path), ok=(0, 1))
        self.applied += done.status == 0
        self.refused += done.status != 0
        return done.status == 0 and version(done.out) > 0

    def settle(self) -> None:
        """Waits until all servers converge after the faults, and checks that none has gone back to an older version."""
        until(lambda: self.apply(20), "a description that all use", 120)

        def converged() -> dict | None:
            seen = self.bed.shown()
            good = all(server["there"] and server["version"] == seen["version"] and not server["links"]["down"]
                       for server in seen.get("servers", [{"there": False}]))
            return seen if good and seen.get("leader") else None

        seen = until(converged, "all servers to run the wanted version", 60)
        for server in seen["servers"]:
            if server["version"] < self.highest[server["server"]] or server["error"]:
                raise Failed(f"went back, or failed: {server}, which had version {self.highest}")
            self.highest[server["server"]] = server["version"]
        if seen["epoch"] < self.epoch:
            raise Failed(f"the epoch was {self.epoch}, and is {seen['epoch']}")
        self.takeovers, self.epoch = self.takeovers + seen["epoch"] - self.epoch, seen["epoch"]
        texts = {(self.bed.home(name) / "cluster.toml").read_text() for name in NAMES}
        kept = [json.loads((self.bed.home(name) / "kept.json").read_text())["epoch"] for name in NAMES]
        if len(texts) != 1 or max(kept) > seen["epoch"]:
            raise Failed(f"servers keep {len(texts)} texts, and the epochs {kept}")


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=600, help="duration (default 600)")
    arguments.add_argument("--seed", type=int, default=1, help="seed of all choices (default 1)")
    asked = arguments.parse_args()
    stop_on_signals()
    status = 0
    with Lab() as lab:
        bed = Agreed(lab)
        try:
            inviting = bed.found()
            for name in NAMES[1:]:
                bed.type(name, "join")
            inviting.wait()
            bed.bring_up()
            bed.meet((4,))
            chaos, end, rounds, lost, sent = Chaos(bed, asked.seed), time.monotonic() + asked.seconds, 0, 0, 0
            while time.monotonic() < end:
                rounds += 1
                if streams := chaos.round():
                    lost, sent = lost + streams.lost, sent + streams.sent
                    if streams.lost:
                        raise Failed(f"round {rounds}: {streams.report()}; faults so far: {chaos.faults}")
            bed.stop()
            print(f"agreement rounds {rounds}\nagreement applied {chaos.applied}\nagreement refused {chaos.refused}")
            print(f"agreement takeovers {chaos.takeovers}\nagreement sent {sent}\nagreement lost {lost}")
            for fault, count in sorted(chaos.faults.items()):
                print(f"agreement {fault.replace(' ', '-')} {count}")
        except Failed as error:
            print(f"  ✗ {error}")
            status = 1
    if left := left_behind(lab):
        print(f"left behind: {', '.join(left)}", file=sys.stderr)
        status = 1
    return status


def crossing(bed: Agreed) -> Streams:
    streams = Streams(rate=100, size=200)
    for a, b in zip(NAMES, (*NAMES[1:], NAMES[0]), strict=True):
        streams.add(f"{a}{b}", bed.hosts[a], bed.hosts[b], 4, host(b, 4))
    return streams


if __name__ == "__main__":
    sys.exit(main())
