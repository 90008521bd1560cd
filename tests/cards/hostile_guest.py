"""A hostile guest: it drives its virtio card (vhost-user) directly, with arbitrary content in the rings. Runs in the
guest, as root.

    hostile_guest.py KIND SECONDS

Prints `attacking` when it has started, and at the end the number of notifications sent.
"""

import ctypes
import mmap
import os
import random
import struct
import sys
import time
from pathlib import Path

SIZE = 256
HUGE = 2 << 20
NEXT, WRITE, INDIRECT = 1, 2, 4
DESC, AVAIL, USED, BUFFERS = 0, 0x4000, 0x6000, 0x10000
RECEIVE, SEND = 0, 1
RING_INDIRECT, VERSION_1 = 1 << 28, 1 << 32


def write(path: Path, text: str) -> None:
    path.write_text(text)


class Memory:
    """A huge page, which is physically contiguous, so that its address is known."""

    def __init__(self):
        Path("/proc/sys/vm/nr_hugepages").write_text("8")
        anonymous, private, huge, populate = 0x20, 2, 0x40000, 0x8000
        self.map = mmap.mmap(-1, HUGE, flags=anonymous | private | huge | populate)
        self.map[0] = 1
        here = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        with open("/proc/self/pagemap", "rb") as pages:
            pages.seek(here // 4096 * 8)
            self.physical = (struct.unpack("<Q", pages.read(8))[0] & ((1 << 55) - 1)) * 4096
        assert self.physical, "only root sees addresses"


class Card:
    """Registers of the card (virtio 1.2, 4.1.4), accessed without a driver."""

    def __init__(self):
        found = [d for d in Path("/sys/bus/pci/devices").iterdir() if (d / "device").read_text().strip() == "0x1041"]
        self.folder = found[0]
        if (self.folder / "driver").exists():
            write(self.folder / "driver/unbind", self.folder.name)
        write(self.folder / "enable", "1")
        self.command(0x406)  # memory, bus master, no interrupts
        self.space = (self.folder / "config").read_bytes()[:256]
        at, self.bars = self.space[0x34], {}
        while at:
            if self.space[at] == 9:
                kind, bar = self.space[at + 3], self.space[at + 4]
                offset = struct.unpack_from("<I", self.space, at + 8)[0]
                if kind == 1:
                    self.common = (self.bar(bar), offset)
                elif kind == 2:
                    self.notify, self.step = (self.bar(bar), offset), struct.unpack_from("<I", self.space, at + 16)[0]
            at = self.space[at + 1]

    def command(self, value: int) -> None:
        with open(self.folder / "config", "r+b", buffering=0) as config:
            config.seek(4)
            config.write(struct.pack("<H", value))

    def end(self) -> None:
        """Leaves the card in the state that a driver expects."""
        self.put(0x14, "B", 0)
        self.command(0x6)

    def bar(self, number: int) -> mmap.mmap:
        if number not in self.bars:
            with open(self.folder / f"resource{number}", "r+b", buffering=0) as file:
                self.bars[number] = mmap.mmap(file.fileno(), 0)
        return self.bars[number]

    def put(self, offset: int, size: str, value: int) -> None:
        """Writes a register with one access of its size."""
        kind = {"B": ctypes.c_uint8, "H": ctypes.c_uint16, "I": ctypes.c_uint32}[size]
        bar, base = self.common
        kind.from_buffer(bar, base + offset).value = value

    def get(self, offset: int, size: str) -> int:
        kind = {"B": ctypes.c_uint8, "H": ctypes.c_uint16, "I": ctypes.c_uint32}[size]
        bar, base = self.common
        return kind.from_buffer(bar, base + offset).value

    def ring(self, queue: int) -> None:
        self.put(0x16, "H", queue)
        bar, base = self.notify
        ctypes.c_uint16.from_buffer(bar, base + self.get(0x1E, "H") * self.step).value = queue

    def begin(self, rings: dict[int, int], wanted: int) -> None:
        """Resets the card, and sets its rings to these addresses."""
        self.put(0x14, "B", 0)
        while self.get(0x14, "B"):
            time.sleep(0.001)
        self.put(0x14, "B", 1 | 2)
        for half in (0, 1):
            self.put(0, "I", half)
            offered = self.get(4, "I")
            self.put(8, "I", half)
            self.put(12, "I", offered & (wanted >> 32 * half) & 0xFFFFFFFF)
        self.put(0x14, "B", 1 | 2 | 8)
        assert self.get(0x14, "B") & 8, "these features are not taken"
        for queue, address in rings.items():
            self.put(0x16, "H", queue)
            self.put(0x18, "H", SIZE)
            for register, part in ((0x20, DESC), (0x28, AVAIL), (0x30, USED)):
                self.put(register, "I", (address + part) & 0xFFFFFFFF)
                self.put(register + 4, "I", (address + part) >> 32)
            self.put(0x1C, "H", 1)
        self.put(0x14, "B", 1 | 2 | 8 | 4)


class Ring:
    """A queue's ring in memory."""

    def __init__(self, memory: Memory, offset: int):
        self.map, self.at, self.address = memory.map, offset, memory.physical + offset
        self.index = 0

    def describe(self, slot: int, address: int, length: int, flags: int = 0, follows: int = 0) -> None:
        struct.pack_into("<QIHH", self.map, self.at + DESC + 16 * (slot % SIZE), address, length, flags, follows)

    def offer(self, heads: list[int], jump: int = 0) -> None:
        for head in heads:
            struct.pack_into("<H", self.map, self.at + AVAIL + 4 + 2 * (self.index % SIZE), head & 0xFFFF)
            self.index += 1
        self.index = (self.index + jump) & 0xFFFF
        struct.pack_into("<H", self.map, self.at + AVAIL + 2, self.index & 0xFFFF)


def attack(kind: str, ring: Ring, queue: int, dice: random.Random) -> None:
    """Writes an attack of some kind into a ring."""
    flag = WRITE if queue == RECEIVE else 0
    room = ring.address + BUFFERS
    slots = [dice.randrange(SIZE) for _ in range(16)]
    if kind == "loop":
        for slot in slots:
            ring.describe(slot, room, 64, flag | NEXT, dice.choice(slots))
        ring.offer(slots)
    elif kind == "far":
        for slot in slots:
            far = dice.choice([0, 1, 1 << 63, (1 << 64) - 16, (1 << 40) + 5, ring.address + (1 << 31), room, 0xFFFFF000])
            ring.describe(slot, far, dice.choice([0, 1, 11, 12, 64, 1500, 65535, 1 << 20, (1 << 32) - 1]), flag)
        ring.offer(slots)
    elif kind == "short":
        for slot in slots:
            ring.describe(slot, room, dice.choice([0, 1, 10, 11, 12, 13, 25]), dice.choice([flag, flag | NEXT]), dice.randrange(SIZE))
        ring.offer(slots)
    elif kind == "heads":
        for slot in range(SIZE):
            ring.describe(slot, room, 64, flag)
        ring.offer([dice.randrange(65536) for _ in range(64)])
    elif kind == "jump":
        for slot in range(SIZE):
            ring.describe(slot, room, 64, dice.randrange(4), dice.randrange(65536))
        ring.offer(slots, dice.choice([257, 1000, 32768, 65000]))
    elif kind == "indirect":
        table = room + 4096
        for place in range(64):
            struct.pack_into("<QIHH", ring.map, ring.at + BUFFERS + 4096 + 16 * place, dice.choice([room, table, 1 << 50]),
                             dice.choice([12, 64, 1 << 30]), dice.choice([flag, flag | NEXT, INDIRECT, INDIRECT | NEXT]), dice.randrange(65536))
        for slot in slots:
            ring.describe(slot, dice.choice([table, table + 7, 1 << 50]), dice.choice([0, 16, 17, 1024, 65536 * 16, (1 << 32) - 16]),
                          INDIRECT | dice.choice([0, NEXT, flag]), dice.randrange(SIZE))
        ring.offer(slots)
    elif kind == "random":
        ring.map[ring.at:ring.at + 0x8000] = dice.randbytes(0x8000)
    elif kind == "doorbells":
        for slot in range(SIZE):
            ring.describe(slot, room, 64, flag)
        ring.offer(slots[:1])


def main() -> None:
    kind, seconds = sys.argv[1], float(sys.argv[2])
    memory, dice = Memory(), random.Random(kind)
    card = Card()
    rings = {RECEIVE: Ring(memory, 0), SEND: Ring(memory, HUGE // 2)}
    features = VERSION_1 | (RING_INDIRECT if kind == "indirect" else 0)
    card.begin({queue: ring.address for queue, ring in rings.items()}, features)
    print("attacking", flush=True)
    end, rung = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        for queue, ring in rings.items():
            attack(kind, ring, queue, dice)
            card.ring(queue)
            rung += 1
        if kind in ("reset", "random") and rung % 64 == 0:
            for ring in rings.values():
                ring.index = 0
            card.begin({queue: ring.address for queue, ring in rings.items()}, features)
    print(f"rang {rung} times", flush=True)
    card.end()
    os._exit(0)


main()
