"""A scripted BGP speaker: one session that sends given messages at given times, IPv4 and IPv6 (RFC 4271, RFC 4760)."""

import socket
import struct
import threading
import time

import birds
import bed
from tables import BITS

OPEN, UPDATE, NOTIFICATION, KEEPALIVE = 1, 2, 3, 4
HOLD = 90  # seconds
ORIGIN, AS_PATH, NEXT_HOP, MP_REACH, MP_UNREACH = 1, 2, 3, 14, 15
OPTIONAL, TRANSITIVE = 0x80, 0x40
AFI = {4: 1, 6: 2}
UNICAST = 1


def message(kind, body=b""):
    """A message with its header (RFC 4271, 4.1)."""
    return b"\xff" * 16 + struct.pack("!HB", 19 + len(body), kind) + body


def attribute(flags, kind, value):
    return struct.pack("!BBB", flags, kind, len(value)) + value


def nlri(version, address, length):
    """A prefix as encoded in updates (NLRI)."""
    return bytes([length]) + address.to_bytes(BITS[version] // 8)[:(length + 7) // 8]


def open_message():
    """An OPEN message with both address families and four-octet AS numbers (RFC 5492, RFC 6793)."""
    capabilities = b"".join(struct.pack("!BBHBB", 1, 4, AFI[version], 0, UNICAST) for version in (4, 6))
    capabilities += struct.pack("!BBI", 65, 4, birds.SPEAKER_AS)
    parameters = bytes([2, len(capabilities)]) + capabilities
    body = struct.pack("!BHH4sB", 4, birds.SPEAKER_AS, HOLD, socket.inet_aton(bed.SPEAKER), len(parameters))
    return message(OPEN, body + parameters)


def update(event):
    """The UPDATE message for an event (RFC 4271, 4.3; RFC 4760, 3 and 4)."""
    prefix = nlri(event.version, event.address, event.length)
    if event.hop is None:
        if event.version == 4:
            return message(UPDATE, struct.pack("!H", len(prefix)) + prefix + b"\0\0")
        gone = attribute(OPTIONAL, MP_UNREACH, struct.pack("!HB", AFI[6], UNICAST) + prefix)
        return message(UPDATE, b"\0\0" + struct.pack("!H", len(gone)) + gone)
    hop = bed.gateway(event.version)(event.hop).to_bytes(BITS[event.version] // 8)
    common = attribute(TRANSITIVE, ORIGIN, b"\0")
    common += attribute(TRANSITIVE, AS_PATH, struct.pack("!BBI", 2, 1, birds.SPEAKER_AS))
    if event.version == 4:
        common += attribute(TRANSITIVE, NEXT_HOP, hop)
        return message(UPDATE, b"\0\0" + struct.pack("!H", len(common)) + common + prefix)
    reach = struct.pack("!HBB", AFI[6], UNICAST, len(hop)) + hop + b"\0" + prefix
    common += attribute(OPTIONAL, MP_REACH, reach)
    return message(UPDATE, b"\0\0" + struct.pack("!H", len(common)) + common)


class Closed(Exception):
    """The session has ended; the message has the reason."""


class Speaker:
    """A BGP session with the router."""

    def __init__(self, space):
        self.socket = space.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.settimeout(60)
        self.socket.bind((bed.SPEAKER, 0))
        self.socket.connect((bed.ROUTER[4], 179))
        self.socket.sendall(open_message())
        self._expect(OPEN)
        self.socket.sendall(message(KEEPALIVE))
        self._expect(KEEPALIVE)
        self.failed = None
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _message(self):
        head = self._exactly(19)
        length, kind = struct.unpack("!HB", head[16:])
        return kind, self._exactly(length - 19)

    def _exactly(self, count):
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise Closed("the router closed the session")
            data += part
        return data

    def _expect(self, wanted):
        kind, body = self._message()
        if kind != wanted:
            raise Closed(f"message {kind} {body.hex()} in place of {wanted}")

    def _read(self):
        """Answers keepalives, and ignores the router's other messages."""
        try:
            while True:
                kind, body = self._message()
                if kind == NOTIFICATION:
                    raise Closed(f"the router notified {body.hex()}")
                if kind == KEEPALIVE:
                    self.socket.sendall(message(KEEPALIVE))
        except (OSError, Closed) as failed:
            self.failed = failed

    def replay(self, events, speed):
        """Sends all events at their times, `speed` times as fast; returns the greatest lateness in seconds."""
        groups = {}
        for event in events:
            groups.setdefault(event.second, []).append(update(event))
        start, late = time.monotonic(), 0
        for second, said in sorted(groups.items()):
            due = start + second / speed
            time.sleep(max(due - time.monotonic(), 0))
            if self.failed:
                raise Closed(f"the session ended: {self.failed}")
            self.socket.sendall(b"".join(said))
            late = max(late, time.monotonic() - due)
        return late

    def close(self):
        self.socket.close()
