"""A host that sends numbered UDP packets to others at a given pace, and records arriving ones.

    paced_host.py PLAN

PLAN is a JSON file: `own` address; `records`, the file to write; `start`, a file that appears with the kernel's real
time in nanoseconds at which all hosts begin; `seconds` for which they send. Either `targets`, packets a second by
address, `size`, bytes of a packet with its IP header in the mean, and `flows`, between which a target's packets change
in turn; or `trace`, a file of pairs of such a size and a flow's number (HEAD's first two fields), which goes to
`target` as fast as its bytes are due at `rate` bit/s of Ethernet frames, again and again, each time with new flows.

Records are a line per packet that came: the sender's address, flow, number in the flow, size, when it was sent, when it
came (both of the kernel's real time, in nanoseconds); before them, a line `sent ADDRESS PACKETS BYTES` for each target.
"""

import heapq
import json
import select
import socket
import struct
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random

PORT, FIRST_SOURCE = 4000, 4001
ETHER, MTU = 14, 1500
HEAD = struct.Struct("!HIQ")
RECORD = struct.Struct("!HI")
IP_UDP = struct.Struct("!BBHHHBBH4s4sHHHH")
LEAST = IP_UDP.size + HEAD.size
SO_TIMESTAMPNS, SO_RCVBUFFORCE, SO_SNDBUFFORCE = 35, 33, 32
STAMP = struct.Struct("qq")
# Packets that have not come this long after the last was sent are lost.
PATIENCE = 3.0
# Seconds that a host makes up for, if it had no core: what was due earlier is not sent. A burst of all of it would be
# more than the 1,000 packets that the kernel holds for a core.
BEHIND = 0.1

# Due time in nanoseconds from the start, receiver, flow, number in the flow, and size in bytes.
Due = tuple[float, str, int, int, int]


def sizes(mean: int) -> tuple[int, int]:
    """The smallest and the greatest packet size for this mean: as far from it as a frame allows, at most by half."""
    spread = min(mean // 2, MTU - mean)
    return mean - spread, mean + spread


def even(plan: dict) -> Iterator[Due]:
    """Packets to the targets, one at a random time in each slot; a slot is as long as its packet's bytes take.

    Packets of one size, evenly sent, would leave a paced cable like a clock's ticks, and which of several cables wins
    the room in a full queue would be the same each time (S. Floyd and V. Jacobson, "On Traffic Phase Effects in
    Packet-Switched Gateways", 1992).
    """
    chance, size = Random(plan["own"]), plan["size"]
    least, most = sizes(size)
    queue = []

    def slot(begin: float, number: int, address: str, rate: float) -> tuple:
        octets = chance.randint(least, most)
        end = begin + 1e9 / rate * (octets + ETHER) / (size + ETHER)
        return begin + chance.random() * (end - begin), number, address, octets, end, rate

    for at, (address, rate) in enumerate(plan["targets"].items()):
        queue.append(slot(1e9 / rate * at / len(plan["targets"]), 0, address, rate))
    heapq.heapify(queue)
    while queue:
        due, number, address, octets, end, rate = queue[0]
        yield due, address, number % plan["flows"], number // plan["flows"], octets
        if end < plan["seconds"] * 1e9:
            heapq.heapreplace(queue, slot(end, number + 1, address, rate))
        else:
            heapq.heappop(queue)


def replayed(plan: dict) -> Iterator[Due]:
    """The trace: each packet follows when the bytes of the previous one are over."""
    records = list(RECORD.iter_unpack(Path(plan["trace"]).read_bytes()))
    flows, due, first = 1 + max(flow for _, flow in records), 0.0, 0
    numbers = defaultdict[int, int](int)
    while True:
        for size, flow in records:
            if due >= plan["seconds"] * 1e9:
                return
            flow = (first + flow) % (65536 - FIRST_SOURCE)
            yield due, plan["target"], flow, numbers[flow], size
            numbers[flow] += 1
            due += 8e9 * (size + ETHER) / plan["rate"]
        first += flows


class Host:
    def __init__(self, own: str):
        self.own = socket.inet_aton(own)
        self.sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sink.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
        self.sink.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.sink.bind((own, PORT))
        self.sink.setblocking(False)
        # Whole IP packets, so that one socket is the source of all flows; it receives nothing.
        self.source = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        self.source.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 16 << 20)
        self.sent = defaultdict[str, list[int]](lambda: [0, 0])
        self.came: list[tuple[str, bytes, int, int]] = []
        self._pad = bytes(MTU)

    def send(self, due: Due) -> None:
        _, address, flow, number, size = due
        size = max(size, LEAST)
        # Length, identification and checksum of the IP header are the kernel's to write; 0: UDP without a checksum.
        header = IP_UDP.pack(0x45, 0, size, 0, 0x4000, 64, socket.IPPROTO_UDP, 0, self.own, socket.inet_aton(address),
                             FIRST_SOURCE + flow, PORT, size - 20, 0)
        head = HEAD.pack(flow, number, time.time_ns())
        self.source.sendto(header + head + self._pad[:size - LEAST], (address, 0))
        count = self.sent[address]
        count[0] += 1
        count[1] += size

    def receive(self) -> None:
        while True:
            try:
                data, ancillary, _, sender = self.sink.recvmsg(2048, 64)
            except BlockingIOError:
                return
            seconds, nanoseconds = STAMP.unpack(ancillary[0][2][:STAMP.size])
            self.came.append((sender[0], data[:HEAD.size], len(data) + 28, seconds * 1_000_000_000 + nanoseconds))

    def run(self, schedule: Iterator[Due], start: int, seconds: float) -> None:
        poll = select.poll()
        poll.register(self.sink, select.POLLIN)
        following, burst = next(schedule, None), 0
        while True:
            now = time.time_ns()
            while following and start + following[0] <= now:
                if now - start - following[0] <= BEHIND * 1e9:
                    self.send(following)
                following, burst = next(schedule, None), burst + 1
                if burst % 8 == 0:
                    self.receive()
            self.receive()
            if not following and now > start + (seconds + PATIENCE) * 1e9:
                return
            poll.poll(1)

    def write(self, path: str) -> None:
        with open(path, "w") as out:
            for target, (packets, octets) in self.sent.items():
                out.write(f"sent {target} {packets} {octets}\n")
            for sender, head, size, came in self.came:
                flow, number, at = HEAD.unpack(head)
                out.write(f"{sender} {flow} {number} {size} {at} {came}\n")


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text())
    host = Host(plan["own"])
    schedule = replayed(plan) if "trace" in plan else even(plan)
    print("ready", flush=True)
    start = Path(plan["start"])
    while not start.exists():
        time.sleep(0.005)
    host.run(schedule, int(start.read_text()), plan["seconds"])
    host.write(plan["records"])


if __name__ == "__main__":
    main()
