"""Packets sorted into buckets, and buckets that move between workers under real traffic.

`CLASSIFY hash` is inserted into the configurations that the router ships with. A thread moves buckets as fast as the
router does it, by the command of an operator (`ashlar set eth0@steer.move "BUCKETS WORKER"`).
"""

import random
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from streams import Streams
from topology import CONFIGURATION, KIND, SERVER, Network, _Connection
from traffic import tcp_transfer

BUCKETS, WORKERS = 256, 2
SIZE = 4_000_000
pytestmark = pytest.mark.skipif(KIND != "ashlar", reason="the kernel's queues are its own")


def classified(network: Network, configuration: Path = CONFIGURATION) -> Path:
    """A configuration with `CLASSIFY` by a symmetric hash for its devices."""
    text = configuration.read_text()
    assert "FromDevice($device)" in text
    made = network.lab.folder / "classified.click"
    made.write_text(text.replace("FromDevice($device)", "FromDevice($device, CLASSIFY hash)"))
    return made


class Moves:
    """Moves random buckets from `with` to its end."""

    def __init__(self, network: Network):
        self.router = network.router
        self.moves = self.parked = self.longest = 0
        self.late: list[str] = []
        self.trouble: Exception | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> "Moves":
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._over.set()
        self._thread.join()
        if self.trouble:
            raise self.trouble

    def _work(self) -> None:
        try:
            for order in self._orders():
                self._read(put(self.router, "eth0@steer.move", order))
        except Exception as error:
            self.trouble = error

    def _orders(self) -> Iterator[str]:
        chance = random.Random(7)
        while not self._over.is_set():
            buckets = " ".join(map(str, chance.sample(range(BUCKETS), 32)))
            yield f"{buckets} {chance.randrange(WORKERS)}"

    def _read(self, answer: str) -> None:
        found = re.fullmatch(r"(\d+) buckets moved; (\d+) packets waited, the longest (\d+) us(?:; (.*))?",
                             answer.strip())
        assert found, answer
        self.moves += int(found[1])
        self.parked += int(found[2])
        self.longest = max(self.longest, int(found[3]))
        # A move that is called off overtakes nothing.
        if found[4] and "still held packets of before" in found[4]:
            self.late.append(found[4])

    def __str__(self) -> str:
        return (f"{self.moves} buckets moved, {self.parked} packets waited, the longest {self.longest} us, "
                f"late: {self.late}")


def put(router, handler: str, value: str) -> str:
    """Writes a handler by the router's API; returns its answer."""
    connection = _Connection(router.socket)
    try:
        connection.request("PUT", f"/v1/handlers/{handler}", value)
        answer = connection.getresponse()
        body = answer.read().decode()
    finally:
        connection.close()
    assert answer.status in (200, 204), f"{handler} {value}: {answer.status} {body}"
    return body


def lost(network: Network) -> int:
    """Number of packets that Steers have dropped."""
    elements = network.router.stats()["elements"]
    steers = [element for element in elements if element["name"].endswith("@steer")]
    return sum(sum(copy["drops"]) for element in steers for copy in element["copies"])


@pytest.fixture
def moving(lab) -> Network:
    made = Network(lab, workers=WORKERS)
    made.router.start(classified(made))
    made.meet()
    return made


def test_tcp_arrives_byte_for_byte_while_buckets_move(moving: Network) -> None:
    with Moves(moving) as moves:
        # Few buckets have a flow: it may take some transfers until one of those moves.
        for _ in range(10):
            for version in (4, 6):
                for from_client in (True, False):
                    tcp_transfer(moving, version, SIZE, from_client=from_client)
            if moves.parked:
                break
    print(moves)
    assert moves.moves > 0 and moves.parked > 0, moves


def test_no_packet_is_lost_or_out_of_order_while_buckets_move(moving: Network) -> None:
    streams = Streams(rate=500)
    for version in (4, 6):
        for number in range(4):
            streams.add(f"{version}-{number}", moving.client, moving.server, version, SERVER.host[version])
    with Moves(moving) as moves, streams:
        streams.warm()
        threading.Event().wait(3)
    print(moves)
    assert moves.moves > 0 and not moves.late, moves
    assert (streams.lost, lost(moving)) == (0, 0), streams.report()
    wrong = [(s.name, s.doubled, s.overtaken) for s in streams.streams if s.doubled or s.overtaken]
    assert wrong == [], moves
