"""Raw frames of an interface, with the kernel's timestamps."""

import select
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

from net import Failed, Namespace

# Linux numbers that Python's socket module does not name.
SO_RCVBUFFORCE, SO_TIMESTAMPNS = 33, 35
SOL_PACKET, PACKET_AUXDATA, PACKET_STATISTICS, PACKET_IGNORE_OUTGOING = 263, 8, 6, 23
ETH_P_ALL, PACKET_OUTGOING = 3, 4
AUXDATA = struct.Struct("IIIHHHH")
VLAN_VALID = 1 << 4


@dataclass(frozen=True)
class Frame:
    """A frame that crossed an interface."""

    data: bytes
    time_ns: int
    outgoing: bool

    @property
    def ethertype(self) -> int:
        return int.from_bytes(self.data[12:14])

    @property
    def l3(self) -> bytes:
        """Bytes after the Ethernet header, including padding."""
        return self.data[14:]


class Tap:
    """Captures frames of an interface, and can send some. The kernel stores them with timestamps until they are read, so
    no thread is needed.
    """

    def __init__(self, space: Namespace, interface: str = "eth0", *, outgoing: bool = True,
                 room: int = 64 << 20):
        self.space, self.interface = space, interface
        self.socket = space.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, room)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        if not outgoing:
            self.socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        self.socket.bind((interface, ETH_P_ALL))
        self.socket.setblocking(False)
        self.mac = ":".join(f"{byte:02x}" for byte in self.socket.getsockname()[4])

    def fileno(self) -> int:
        return self.socket.fileno()

    def take(self) -> list[Frame]:
        """The frames since the last call."""
        frames = []
        while True:
            try:
                data, notes, _, address = self.socket.recvmsg(1 << 17, 256)
            except BlockingIOError:
                return frames
            stamp = 0
            for level, kind, value in notes:
                if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
                    seconds, nanos = struct.unpack("qq", value[:16])
                    stamp = seconds * 1_000_000_000 + nanos
                elif (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
                    status, *_, tag, protocol = AUXDATA.unpack(value[:AUXDATA.size])
                    if status & VLAN_VALID:
                        data = data[:12] + struct.pack("!HH", protocol, tag) + data[12:]
            frames.append(Frame(data, stamp, address[2] == PACKET_OUTGOING))

    def collect(self, enough: Callable[[list[Frame]], bool], what: str, timeout: float = 20.0) -> list[Frame]:
        """Reads frames until `enough` returns true."""
        end, frames = time.monotonic() + timeout, self.take()
        while not enough(frames):
            if time.monotonic() > end:
                raise Failed(f"no {what} within {timeout:g} s on {self.space}/{self.interface}; "
                             f"{len(frames)} frames were seen")
            select.select([self], [], [], 0.05)
            frames += self.take()
        return frames

    def lost(self) -> int:
        """Number of frames since the last call that did not fit the kernel's buffer: a test that loses some cannot
        judge.
        """
        return struct.unpack("II", self.socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1]

    def send(self, frame: bytes) -> None:
        while True:
            try:
                self.socket.send(frame)
                return
            except (BlockingIOError, OSError) as error:
                # The interface's queue is full for a moment.
                if error.errno not in (socket.EAGAIN, 105):
                    raise
                select.select([], [self], [], 0.01)

    def close(self) -> None:
        self.socket.close()


def mac_of(space: Namespace, interface: str) -> str:
    """The MAC address of an interface."""
    tap = Tap(space, interface, room=0)
    tap.close()
    return tap.mac
