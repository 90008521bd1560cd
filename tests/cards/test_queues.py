"""Several queues of a virtio card: RSS, and its table following buckets that move (NIC1).

Cables end in TAP interfaces of this machine, which have as many queues as the card. Shows: the card puts every frame
into the queue that the software's hash predicts, so that no frame changes worker; after moves of buckets, the card's
own table follows under traffic, and no frame is lost or overtaken.
"""

import socket
import time
from collections import Counter

import pytest
from guest import Guest, Router
from net import Lab, until
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

MODEL = "virtio-net-pci,iommu_platform=on,disable-legacy=on,mq=on,vectors=6,rss=on"
TEXT = """
in :: FromDevice($A, PROMISC true, QUEUES 2, CLASSIFY hash BUCKETS 128) -> a :: Counter -> ToDevice($B);
FromDevice($B) -> Discard; Idle -> ToDevice($A);
"""
FLOWS = 64
# Source address of the test's frames; the kernel at the other end sends frames of its own.
OURS = bytes.fromhex("020000009902")


@pytest.fixture(scope="module")
def router():
    with Lab() as lab:
        space = lab.namespace("cables")
        space.sysctl(net__ipv6__conf__default__disable_ipv6=1)
        made = Router(Guest(lab, MODEL, taps=space, queues=2, memory=1536))
        for number in range(2):
            space.ip(f"link set n{number} up")
        made.prepare()
        made.write("queues", TEXT)
        made.ends = [end(space, f"n{number}") for number in range(2)]
        yield made


def end(space, interface: str) -> socket.socket:
    made = space.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
    made.bind((interface, 0))
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    made.setblocking(False)
    return made


def address(flow: int) -> tuple[str, str, int, int]:
    return f"192.0.2.{1 + flow % 7}", f"198.51.100.{1 + flow}", 1000 + 37 * flow, 9


def frame(flow: int, number: int) -> bytes:
    src, dst, sport, dport = address(flow)
    head = Ether(dst="02:00:00:00:99:01", src="02:00:00:00:99:02") / IP(src=src, dst=dst, len=50)
    return bytes(head / UDP(sport=sport, dport=dport, len=30)) + flow.to_bytes(2, "big") + number.to_bytes(8, "big") + bytes(12)


class Flows:
    """Sends frames of all flows in turn, few at a time, and checks that each comes out in its flow's order."""

    def __init__(self, ends):
        self.here, self.there = ends
        self.heads = [frame(flow, 0)[:44] for flow in range(FLOWS)]
        self.sent, self.came = Counter(), Counter()

    def receive(self) -> None:
        while True:
            try:
                got, (_, _, kind, *_) = self.there.recvfrom(2048)
            except BlockingIOError:
                return
            if got[6:12] != OURS or kind == socket.PACKET_OUTGOING:
                continue
            flow, number = int.from_bytes(got[42:44], "big"), int.from_bytes(got[44:52], "big")
            assert number == self.came[flow], f"frame {number} of flow {flow} came when {self.came[flow]} was expected"
            self.came[flow] += 1

    def all_came(self) -> bool:
        self.receive()
        return self.came == self.sent

    def round(self) -> None:
        """Sends one frame of each flow; waits until all have arrived."""
        for flow in range(FLOWS):
            self.here.send(self.heads[flow] + self.sent[flow].to_bytes(8, "big") + bytes(12))
            self.sent[flow] += 1
            if flow % 16 == 15:
                self.receive()
        until(self.all_came, "the frames of a round", timeout=120)


def element(router, kind: str) -> str:
    """Name of the element that implements a part of CLASSIFY."""
    return next(name for name in (e["name"] for e in router.stats()["elements"]) if name.endswith(kind))


def started(router) -> Flows:
    flows = Flows(router.ends)
    probe = frame(0, 1 << 40)
    def passes() -> bool:
        router.ends[0].send(probe)
        try:
            return any(router.ends[1].recv(2048) == probe for _ in range(100))
        except BlockingIOError:
            return False
    until(passes, "the first frame", timeout=240)
    before = None
    def quiet() -> bool:
        nonlocal before
        last, before = before, router.number("a.count")
        return last == before
    until(quiet, "no frame to be under way", timeout=120)
    try:
        while router.ends[1].recv(2048):
            pass
    except BlockingIOError:
        pass
    return flows


def crossed(router) -> int:
    return router.number(f"{element(router, '@steer')}.crossed")


def by_queue(router) -> list[int]:
    counters = router.counters(0)
    return [counters[f"rx_q{queue}_good_packets"] for queue in range(2)]


def test_the_card_spreads_flows_as_the_software_says_and_follows_buckets_that_move(router):
    with router.running("queues", "--workers 2 --balance off"):
        flows = started(router)
        said = router.cli("show --socket /run/router.sock in.rss")
        assert "the port hashes by the same key, with a table of 128: 64 of queue 0, 64 of queue 1" in said, said
        steer, bucket = element(router, "@steer"), element(router, "@bucket")
        # Bucket of each flow and the bucket's owner, as the software computes them.
        owners = table(router, steer)
        buckets = []
        for flow in range(FLOWS):
            asked = " ".join(map(str, address(flow)))
            buckets.append(int(router.cli(f"show --socket /run/router.sock '{bucket}.hash' '{asked}'").split()[-1]))
        predicted = Counter(owners[b] for b in buckets)
        assert min(predicted[0], predicted[1]) > FLOWS // 5, predicted
        before, count, rounds = by_queue(router), crossed(router), 8
        for _ in range(rounds):
            flows.round()
        now = by_queue(router)
        assert [b - a for a, b in zip(before, now, strict=True)] == [rounds * predicted[0], rounds * predicted[1]]
        assert crossed(router) == count

        # All to worker 1, a half back, and so on: frames pass meanwhile.
        for which, worker in (("0-127", 1), ("0-63", 0), ("0-127", 0), ("64-127", 1)):
            router.cli(f"set --socket /run/router.sock '{steer}.move' '{which} {worker}'")
            flows.round()
            router.cli("set --socket /run/router.sock in.rss ''")
            end = time.monotonic() + 120
            while True:
                count = crossed(router)
                for _ in range(4):
                    flows.round()
                if crossed(router) == count:
                    break
                assert time.monotonic() < end, router.cli("show --socket /run/router.sock in.rss")
        owners = table(router, steer)
        predicted = Counter(owners[b] for b in buckets)
        before = by_queue(router)
        for _ in range(rounds):
            flows.round()
        now = by_queue(router)
        assert [b - a for a, b in zip(before, now, strict=True)] == [rounds * predicted[0], rounds * predicted[1]]
        assert flows.came == flows.sent and sum(flows.sent.values()) > 1000
        assert not any(value for name, value in router.counters(0).items() if "missed" in name or "error" in name)


def table(router, steer: str) -> dict[int, int]:
    """The worker of each bucket."""
    owners = {}
    for line in router.cli(f"show --socket /run/router.sock '{steer}.table'").splitlines():
        worker, _, ranges = line.removeprefix("worker ").partition(":")
        for part in ranges.split():
            first, _, last = part.partition("-")
            owners.update(dict.fromkeys(range(int(first), int(last or first) + 1), int(worker)))
    return owners
