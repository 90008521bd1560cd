"""Numbered packets at a steady rate, with the kernel's timestamps of their passing the two ends.

`probe.py send INTERFACE RATE SECONDS FILE` runs in the source's namespace. The file has frames in hexadecimal, one
per line; the number is filled in. SIGUSR1 ends the program early. Captures at both ends are read afterwards.
"""

import random
import signal
import socket
import struct
import subprocess
import sys
import time

PORT = 7654
MARK = b"ROUT"
TICK = 0.001  # seconds between bursts
# Seconds that a sender makes up for, if it had no core: what was due earlier is not sent, and no burst of it fills queues.
BEHIND = 0.1


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def frame(version, macs, source, destination):
    """A UDP datagram that ends with the mark and a place for a number; addresses are numbers. The UDP checksum of IPv6
    is computed with zeros in that place; routers do not check it.
    """
    udp = struct.pack("!HHHH", PORT, PORT, 8 + 12, 0)
    if version == 4:
        head = struct.pack("!BBHHHBBHII", 0x45, 0, 40, 0, 0, 64, 17, 0, source, destination)
        head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
        kind = b"\x08\x00"
    else:
        head = struct.pack("!IHBB", 6 << 28, 20, 17, 64) + source.to_bytes(16) + destination.to_bytes(16)
        udp = udp[:6] + b"\xff\xff"
        kind = b"\x86\xdd"
    to, own = (bytes.fromhex(mac.replace(":", "")) for mac in macs)
    return to + own + kind + head + udp + MARK + bytes(8)


def send(interface, rate, seconds, path):
    """Sends the frames in turn."""
    frames = [bytes.fromhex(line) for line in open(path)]
    out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    out.bind((interface, 0))
    print("ready", flush=True)
    start, sent, refused, over = time.monotonic(), 0, 0, []
    end = start + seconds
    signal.signal(signal.SIGUSR1, lambda *_: over.append(True))
    while (now := time.monotonic()) < end and not over:
        start = max(start, now - BEHIND - sent / rate)
        for number in range(sent, int((now - start) * rate)):
            data = frames[number % len(frames)][:-8] + number.to_bytes(8)
            try:
                out.send(data)
            except OSError:
                refused += 1
            sent = number + 1
        time.sleep(max((sent + rate * TICK) / rate - (time.monotonic() - start), 0))
    print(f"sent {sent} refused {refused}", flush=True)


class Capture:
    """tcpdump at an interface, limited to probes."""

    def __init__(self, space, interface, direction):
        self.path = space.lab.folder / f"{interface}-{random.getrandbits(32):x}.pcap"
        self.process = space.spawn(
            "nice", "-n", "-10", "tcpdump", "-i", interface, "-Q", direction, "-j", "host", "--time-stamp-precision=nano", "-B", "65536", "-s", "96",
            "-n", "-Z", "root", "-w", str(self.path), "udp", "port", str(PORT))
        self.process.wait_for("listening on", 30)

    def times(self):
        """Ends the capture; returns nanoseconds by number, and the number of duplicates."""
        time.sleep(1.5)  # the last block of the ring comes after a second
        self.process.stop()
        dropped = self.process.wait_for(r"(\d+) packets? dropped by kernel")
        if int(dropped[1]):
            raise RuntimeError(f"the capture lost packets: {dropped[0]}")
        data, at, found, again = self.path.read_bytes(), 24, {}, 0
        while at + 16 <= len(data):
            seconds, nanos, length, _ = struct.unpack_from("=IIII", data, at)
            at += 16 + length
            if data[at - 12:at - 8] != MARK:
                continue
            number = int.from_bytes(data[at - 8:at])
            again += number in found
            found.setdefault(number, seconds * 1_000_000_000 + nanos)
        self.path.unlink()
        return found, again


class Probe:
    """A stream of probes through the router, from its creation to `result`."""

    def __init__(self, source, peer, frames, rate, seconds):
        self.frames, self.rate = frames, rate
        self.captures = [Capture(source, "s0", "out"), Capture(peer, "d0", "in")]
        path = source.lab.folder / "frames"
        path.write_text("\n".join(f.hex() for f in frames))
        self.process = source.spawn(
            "nice", "-n", "-10", sys.executable, __file__, "send", "s0", str(rate), str(seconds), str(path))
        self.process.wait_for("ready", 30)

    def stop(self):
        self.process.signal(signal.SIGUSR1)

    def result(self, timeout):
        """Numbers of packets sent, lost and duplicated; the numbers of the lost ones; sorted latencies in microseconds.
        """
        self.process.wait_for(r"sent (\d+) refused (\d+)", timeout)
        (near, _), (far, again) = (capture.times() for capture in self.captures)
        lost = sorted(near.keys() - far.keys())
        latency = sorted((far[n] - near[n]) / 1000 for n in near.keys() & far.keys())
        return {"sent": len(near), "lost": len(lost), "again": again,
                "latency_us": latency, "lost_numbers": lost}


if __name__ == "__main__" and sys.argv[1] == "send":
    send(sys.argv[2], float(sys.argv[3]), float(sys.argv[4]), sys.argv[5])
