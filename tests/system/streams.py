"""Steady streams of numbered packets between hosts, and the fate of every packet."""

import select
import socket
import struct
import threading
import time
from dataclasses import dataclass, field

from net import Namespace, until
from traffic import FAMILY, udp

NUMBER = struct.Struct("!I")
# After a time without a core, a sender sends the packets of this many last seconds. It skips earlier ones, whose burst
# would fill queues.
BEHIND = 0.1
# Seconds after which packets that have not come are lost.
PATIENCE = 5.0


@dataclass
class Stream:
    """UDP packets from one host to another, numbered from 0."""

    name: str
    source: socket.socket
    sink: socket.socket
    target: tuple[str, int]
    sent: list[float] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)
    doubled: int = 0
    newest: int = -1
    overtaken: int = 0

    @property
    def lost(self) -> int:
        return len(self.sent) - len(self.seen)

    def outages(self) -> list[tuple[float, float]]:
        """Outages: for each row of lost packets, the second at which the first of them was sent, and the seconds until
        the next packet that arrived.
        """
        found: list[tuple[float, float]] = []
        start = None
        for number, at in enumerate(self.sent):
            if number in self.seen:
                if start is not None:
                    found.append((start, at - start))
                    start = None
            elif start is None:
                start = at
        if start is not None:
            found.append((start, self.sent[-1] - start))
        return found

    def longest(self) -> float:
        """Seconds of the longest outage."""
        return max((length for _, length in self.outages()), default=0.0)


class Streams:
    """Streams that run in parallel from `with` to its end, each with `rate` packets per second, in turn."""

    def __init__(self, rate: float = 200.0, size: int = 64):
        self.rate, self.payload = rate, bytes(size - NUMBER.size)
        self.streams: list[Stream] = []
        self._over, self._sent_all = threading.Event(), threading.Event()
        self._threads = [threading.Thread(target=job, daemon=True) for job in (self._send, self._receive)]

    def add(self, name: str, source: Namespace, sink: Namespace, version: int, address: str) -> Stream:
        """Adds a stream to `address`, which is the sink's. Each stream has its own port, so hashes distinguish them."""
        receiver = udp(sink, version)
        receiver.setblocking(False)
        sender = source.socket(FAMILY[version], socket.SOCK_DGRAM)
        made = Stream(name, sender, receiver, (address, receiver.getsockname()[1]))
        self.streams.append(made)
        return made

    def __enter__(self) -> "Streams":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.stop()

    def _send(self) -> None:
        rate = self.rate * len(self.streams)
        start, count = time.monotonic(), 0
        while not self._over.is_set():
            now = time.monotonic()
            start = max(start, now - BEHIND - count / rate)
            while count < (now - start) * rate:
                number, place = divmod(count, len(self.streams))
                stream = self.streams[place]
                stream.source.sendto(NUMBER.pack(number) + self.payload, stream.target)
                stream.sent.append(time.monotonic())
                count += 1
            self._over.wait(0.002)

    def _receive(self) -> None:
        by_socket = {stream.sink.fileno(): stream for stream in self.streams}
        poll = select.poll()
        for number in by_socket:
            poll.register(number, select.POLLIN)
        quiet_since = None
        while True:
            # A sender that had no core for long makes up for it at the end.
            sent_all = self._sent_all.is_set()
            ready = poll.poll(200)
            for number, _ in ready:
                self._drain(by_socket[number])
            if ready or not sent_all:
                quiet_since = None
                continue
            quiet_since = quiet_since or time.monotonic()
            if not self.lost or time.monotonic() > quiet_since + PATIENCE:
                return

    @staticmethod
    def _drain(stream: Stream) -> None:
        try:
            while True:
                number = NUMBER.unpack(stream.sink.recv(2048)[:NUMBER.size])[0]
                stream.doubled += number in stream.seen
                stream.overtaken += number < stream.newest
                stream.newest = max(stream.newest, number)
                stream.seen.add(number)
        except BlockingIOError:
            pass

    def stop(self) -> None:
        """Stops sending, and waits for packets under way."""
        if not self._over.is_set():
            self._over.set()
            sender, receiver = self._threads
            sender.join()
            self._sent_all.set()
            receiver.join()
            for stream in self.streams:
                stream.source.close()
                stream.sink.close()

    def warm(self, timeout: float = 20.0) -> None:
        """Waits until a packet of every stream has arrived."""
        until(lambda: all(stream.seen for stream in self.streams), "the first packet of every stream", timeout)

    @property
    def lost(self) -> int:
        return sum(stream.lost for stream in self.streams)

    @property
    def sent(self) -> int:
        return sum(len(stream.sent) for stream in self.streams)

    def longest(self) -> float:
        return max(stream.longest() for stream in self.streams)

    def report(self) -> str:
        """Streams with losses and their outages, for messages."""
        lines = [f"{stream.name}: {stream.lost} of {len(stream.sent)} lost, out at "
                 + ", ".join(f"{at - stream.sent[0]:.2f} s for {long:.3f} s" for at, long in stream.outages()[:8])
                 for stream in self.streams if stream.lost]
        return f"{self.sent} sent, {self.lost} lost" + "".join(f"\n  {line}" for line in lines)
