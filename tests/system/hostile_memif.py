"""A hostile memif peer: it listens where an isolated router would, as that router's user, and serves the common process.

    hostile_memif.py ATTACK USER SOCKET...

Root binds the sockets; the user listens, so the kernel names that user as the peer. Prints `connected` at the first connection, and runs
until it is ended. Attacks:

    flood       fills every buffer again and again with frames of 60 bytes, and takes out all that comes
    chains      makes each frame as long as the rings allow, which is longer than a packet
    doorbells   rings each receiver's doorbell without end, and fills nothing
    punched     as flood, and takes the pages out of the shared memory all the time
    silent      takes nothing out and fills nothing
    reconnect   ends each connection as soon as it stands
    spoilt      writes anything anywhere into the memory

It offers as many rings as the protocol can say, of the greatest size.
"""

import contextlib
import ctypes
import mmap
import os
import random
import select
import socket
import struct
import sys

BYTES = 128
ACK, HELLO, INIT, ADD_REGION, ADD_RING, CONNECT, CONNECTED = range(1, 8)
VERSION, MOST_RINGS, LONGEST = 0x200, 254, 14
HEAD, TAIL, DESCRIPTORS, DESCRIPTOR = 6, 64, 128, 16
FRAME, NEXT = 60, 1
KEEP_SIZE_AND_PUNCH_HOLE = 3
libc = ctypes.CDLL(None)


class Ring:
    """One ring of the client's memory."""

    def __init__(self, memory: mmap.mmap, offset: int, size: int, bell: socket.socket):
        self.memory, self.at, self.size, self.bell = memory, offset, 1 << size, bell
        self.next = 0

    def short(self, place: int) -> int:
        return struct.unpack_from("H", self.memory, self.at + place)[0]

    def put(self, place: int, value: int) -> None:
        struct.pack_into("H", self.memory, self.at + place, value & 0xFFFF)

    def describe(self, bytes_each: int, flags: int) -> None:
        """Gives all buffers of the ring the same length; every 512th ends a chain."""
        for slot in range(self.size):
            last = (slot + 1) % 512 == 0
            at = self.at + DESCRIPTORS + slot * DESCRIPTOR
            struct.pack_into("=H", self.memory, at, 0 if last else flags)
            struct.pack_into("=I", self.memory, at + 4, bytes_each)

    def ring(self) -> None:
        with contextlib.suppress(OSError):
            self.bell.send(b"12345678", socket.MSG_DONTWAIT)


class Peer:
    """An established connection."""

    def __init__(self, talk: socket.socket, attack: str):
        self.talk, self.attack = talk, attack
        self.memory: mmap.mmap | None = None
        self.file = -1
        self.fills: list[Ring] = []
        self.takes: list[Ring] = []
        talk.settimeout(5)

    def agree(self) -> None:
        """Acts as a server until both sides are connected."""
        self.say(struct.pack("=H32s5HB", HELLO, b"hostile", VERSION, VERSION, 255, MOST_RINGS, MOST_RINGS, LONGEST))
        while True:
            said, files, _, _ = socket.recv_fds(self.talk, BYTES, 4)
            if not said:
                raise ConnectionError
            kind = struct.unpack_from("=H", said)[0]
            if kind == ADD_REGION:
                self.file = files[0]
                self.memory = mmap.mmap(self.file, struct.unpack_from("=Q", said, 4)[0])
            elif kind == ADD_RING:
                to_server, _, _, offset, size = struct.unpack_from("=HHHIB", said, 2)
                ring = Ring(self.memory, offset, size, socket.socket(fileno=files[0]))
                (self.takes if to_server & 1 else self.fills).append(ring)
            elif kind == CONNECT:
                self.say(struct.pack("=H", CONNECTED))
                break
            self.say(struct.pack("=H", ACK))
        for ring in self.fills:
            if self.attack == "chains":
                ring.describe(2048, NEXT)
            elif self.attack in ("flood", "punched"):
                ring.describe(FRAME, 0)

    def say(self, message: bytes) -> None:
        self.talk.send(message.ljust(BYTES, b"\0"))

    def step(self) -> None:
        """One pass over the rings."""
        if self.attack == "silent":
            return
        for ring in self.fills:
            if self.attack == "doorbells":
                for _ in range(64):
                    ring.ring()
            elif self.attack == "spoilt":
                self.spoil()
            else:
                # The client offers its buffers by the head: all that it has offered are full.
                offered = ring.short(HEAD)
                if offered != ring.next:
                    # The client has described what it took as empty again.
                    ring.describe(*((2048, NEXT) if self.attack == "chains" else (FRAME, 0)))
                    ring.next = offered
                    ring.put(TAIL, offered)
                    ring.ring()
        for ring in self.takes:
            ring.put(TAIL, ring.short(HEAD))
        if self.attack == "punched":
            libc.fallocate(self.file, KEEP_SIZE_AND_PUNCH_HOLE, ctypes.c_long(8192 * 16), ctypes.c_long(len(self.memory) - 8192 * 16))

    def spoil(self) -> None:
        for _ in range(100):
            at = random.randrange(random.choice((4096, len(self.memory) - 8)))
            self.memory[at:at + 8] = random.randbytes(8)

    def close(self) -> None:
        for ring in self.fills + self.takes:
            ring.bell.close()
        if self.file >= 0:
            os.close(self.file)
        self.talk.close()


def listener(path: str) -> socket.socket:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.bind(path)
    return made


def main() -> None:
    attack, user, *paths = sys.argv[1:]
    listeners = [listener(path) for path in paths]
    os.setgroups([])
    os.setgid(int(user))
    os.setuid(int(user))
    for made in listeners:
        made.listen(64)
    peers: list[Peer] = []
    connections = 0
    while True:
        ready, _, _ = select.select([*listeners, *(peer.talk for peer in peers)], [], [], 0.2 if attack == "silent" else 0)
        for peer in [peer for peer in peers if peer.talk in ready]:
            # The other end has gone, as it may after a broken rule.
            peer.close()
            peers.remove(peer)
        for made in [made for made in listeners if made in ready]:
            peer = Peer(made.accept()[0], attack)
            try:
                peer.agree()
            except (OSError, ConnectionError, struct.error):
                peer.close()
                continue
            connections += 1
            print("connected", connections, flush=True)
            if attack == "reconnect":
                peer.close()
            else:
                peers.append(peer)
        for peer in peers:
            peer.step()


if __name__ == "__main__":
    main()
