"""A hostile guest attacks the program that has the other end of its virtio card (vhost-user, DPDK's library). It drives
the card directly, with arbitrary content in the rings (hostile_guest.py). A second router of the same process and
worker forwards packets of two hosts meanwhile.

Shows for each kind of attack: the process lives, the other router loses no packet, and a well-behaved guest can use
the card again. Prints the worker's turns.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from guest import ASHLAR
from net import Lab, until
from streams import Streams
from test_hostile_memif import percentile
from test_vhost import SETUP, Bed

SECONDS = 3
OWN = "FromDevice(left, PROMISC true) -> ToDevice(right);\nFromDevice(right, PROMISC true) -> ToDevice(left);\n"
KINDS = ["loop", "far", "short", "heads", "jump", "indirect", "random", "doorbells", "reset"]


class Beside(Bed):
    """The same bed, with a second router for two hosts."""

    def connect(self) -> None:
        (self.lab.folder / "own.click").write_text(OWN)
        self.more = '[[router]]\nname = "own"\ngraph = "own.click"\n'
        self.hosts = [self.lab.namespace(name) for name in ("left", "right")]
        for number, (host, name) in enumerate(zip(self.hosts, ("left", "right"), strict=True)):
            self.lab.link(host, "eth0", self.space, name)
            host.ip(f"address add 10.9.0.{number + 1}/24 dev eth0")

    def runs(self) -> list[int]:
        return self.stats()["workers"][0]["runs"]


@pytest.fixture(scope="module")
def bed() -> Iterator[Beside]:
    with Lab() as lab:
        yield Beside(lab)


@pytest.mark.parametrize("kind", KINDS)
def test_a_guest_that_means_harm_ends_nothing_and_costs_others_no_packet(bed, kind):
    assert ASHLAR and bed.router.running
    guest = bed.guest
    script = Path(__file__).with_name("hostile_guest.py")
    streams = Streams(rate=200)
    for number in (0, 1):
        streams.add(f"from{number}", bed.hosts[number], bed.hosts[1 - number], 4, f"10.9.0.{2 - number}")
    guest.run(f"python3 {script} {kind} {SECONDS} > /tmp/said 2>&1 & true")
    until(lambda: "attacking" in guest.run("cat /tmp/said"), f"the attack {kind}", timeout=120)
    with streams:
        streams.warm()
        before, end = bed.runs(), time.monotonic() + SECONDS
        while time.monotonic() < end:
            time.sleep(0.1)
            assert bed.router.running, bed.router.said()
        runs = [now - was for now, was in zip(bed.runs(), before, strict=True)]
    until(lambda: "rang" in guest.run("cat /tmp/said"), "the end of the attack", timeout=120)
    said = guest.run("cat /tmp/said").split("\n")[1]
    print(f"{kind}: {said}; of {streams.sent} packets {streams.lost} lost; turns: p50 below {percentile(runs, .5)} ms, "
          f"p99 below {percentile(runs, .99)} ms, by us: {runs}")
    assert streams.lost == 0, streams.report()
    # The driver has the card again.
    card = "d=$(grep -l 0x1041 /sys/bus/pci/devices/*/device | xargs dirname | xargs basename); echo $d > /sys/bus/pci/drivers/virtio-pci/bind"
    guest.run(f"{card}\n{SETUP}")
    bed.reaches()
    assert bed.router.running, bed.router.said()
