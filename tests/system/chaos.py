"""Chaos test: a router under load with a random event every second: `chaos.py [--seconds 600] [--seed 1] [--every 1]`.

What happens is drawn by the seed, which is printed: memory, disk and descriptors run out, the clock jumps, the process stands still
or is ended in the middle of a reload, links go, hosts and clients of the API send garbage, and so do the other ends of a memif and
of an AF_XDP port, whose links, MTU and numbers of queues change, too. Meanwhile packets pass all the time. Each event may cost packets
and be refused in words; none may end the router but that which asks for it, which must end it in order. Afterwards everything works
as before: packets pass, buffers of packets balance, and memory and descriptors are where they were. Prints a line per kind of event,
and the exit status is 0 if all that is so.

Not here: hugepages (they are taken at the start: test_dpdk_ports.py), and the clock of the machine (a library shifts that of the process).
"""

import argparse
import array
import contextlib
import os
import random
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from net import Failed, Lab, stop_on_signals, until
from streams import Streams
from taps import mac_of
from topology import ASHLAR, CLIENT, CONFIGURATION, SERVER, Network

# Memory by which a process may grow: the allocator keeps freed memory.
MEMORY_MAX = 64 << 20
# A frame that an AF_XDP port sends back.
ECHO = bytes(12) + b"\x88\xb5" + b"chaos" * 10
# AF_PACKET's option for a header before each frame with unfinished checksums (linux/if_packet.h, linux/virtio_net.h).
SOL_PACKET, PACKET_VNET_HDR = 263, 15
UNFINISHED, TCP4 = 1, 1
# An event must be over by then; a reload that waits for an answer takes up to ten seconds to give up.
PATIENCE = 30.0
DISK = 1 << 20

CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
static const volatile long *shift;
__attribute__((constructor)) static void begin(void) {
    int file = open(getenv("CHAOS_CLOCK"), O_RDONLY | O_CLOEXEC);
    void *memory = mmap(0, sizeof *shift, PROT_READ, MAP_SHARED, file, 0);
    if (memory != MAP_FAILED) shift = memory;
}
int clock_gettime(clockid_t id, struct timespec *time) {
    static int (*own)(clockid_t, struct timespec *);
    if (!own) own = dlsym(RTLD_NEXT, "clock_gettime");
    int result = own(id, time);
    if (!result && shift && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) time->tv_sec += *shift;
    return result;
}
"""


class Load:
    """UDP packets in both directions, as steadily as possible while hosts and links are disturbed."""

    def __init__(self, network: Network, rate: float = 500.0):
        self.sent, self.came, self._rate, self._over = 0, 0, rate, threading.Event()
        self._pairs = []
        for host, peer, side in ((network.client, network.server, SERVER), (network.server, network.client, CLIENT)):
            sink = peer.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sink.bind((side.host[4], 0))
            source = host.socket(socket.AF_INET, socket.SOCK_DGRAM)
            for made in (sink, source):
                made.setblocking(False)
            self._pairs.append((source, sink, sink.getsockname()))
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        start, count = time.monotonic(), 0
        while not self._over.wait(0.005):
            due = int((time.monotonic() - start) * self._rate)
            for _ in range(min(due - count, 100)):
                for source, _, target in self._pairs:
                    with contextlib.suppress(OSError):
                        source.sendto(bytes(64), target)
                        self.sent += 1
            count = due
            for _, sink, _ in self._pairs:
                with contextlib.suppress(BlockingIOError):
                    while sink.recv(2048):
                        self.came += 1


class Chaos:
    """The network, its router, and the events."""

    def __init__(self, lab: Lab, seed: int):
        self.lab, self.rng, self.network = lab, random.Random(seed), Network(lab)
        self.router = self.network.router
        self._disk()
        text = CONFIGURATION.read_text()
        dump = f'\nchaos :: RatedSource(RATE 200) -> ToDump("{self.disk}/dump.pcap");\n'
        self.sound = [self._file(f"sound{n}", text + dump + more) for n, more in enumerate(("", "Idle -> Counter -> Discard;\n"))]
        self.wrong = [self._file("unknown", f"{text}\nNoSuchClass -> Discard;\n"), self._file("cut", text[:len(text) // 2]),
                      self._file("doubled", "".join(f"elementclass A{n + 1} {{ A{n}; A{n} }}\n" for n in range(40)) + "A40;")]
        self.large = self._file("large", text + 12 * "Idle -> GetIPAddress(16) -> DirectIPLookup(0.0.0.0/0 0) -> Discard;\n")
        self.clock, env = self._clock()
        self._spawn = lambda *words: lab.spawn(*words, env=env)
        self.start()
        # A host without its router's answers still knows the router's address, and refuses no packet.
        for host in (self.network.client, self.network.server):
            side = self.network.side(host)
            for version in (4, 6):
                mac = mac_of(self.network.router_space, side.interface)
                host.ip(f"-{version} neigh replace {side.router[version]} lladdr {mac} dev eth0 nud permanent")
        self.memif, self.xdp = self._memif(), self._xdp()
        self.kinds = [
            self.memory_short, self.disk_full, self.descriptors_gone, self.clock_jumps, self.ended_in_a_reload, self.stands_still,
            self.link_down, self.frames_of_garbage, self.clients_of_garbage, self.memif_peer_of_garbage, self.xdp_peer_of_garbage,
            self.xdp_link_changes, self.reloads, self.wrong_reloads,
        ]
        self.settle()
        self.base = self.state()

    # ---- Resources.

    def _file(self, name: str, text: str) -> Path:
        path = self.lab.folder / f"{name}.click"
        path.write_text(text)
        return path

    def _disk(self) -> None:
        """A small file system of its own."""
        self.disk = self.lab.folder / "disk"
        self.disk.mkdir()
        self.lab.run("mount", "-t", "tmpfs", "-o", f"size={DISK}", "none", str(self.disk))
        self.lab.closing(subprocess.run, ["umount", "-l", str(self.disk)])

    def _clock(self) -> tuple[Path, dict[str, str]]:
        """A clock that can be shifted, and the environment in which a process uses it."""
        source, library, clock = (self.lab.folder / name for name in ("clock.c", "clock.so", "clock"))
        source.write_text(CLOCK)
        clock.write_bytes(bytes(8))
        self.lab.run("clang", "-shared", "-fPIC", "-O1", "-o", str(library), str(source))
        return clock, {"LD_PRELOAD": str(library), "CHAOS_CLOCK": str(clock)}

    def _shift(self, seconds: int) -> None:
        # In place: the process has the file mapped.
        with open(self.clock, "r+b") as file:
            file.write(struct.pack("q", seconds))

    def _memif(self):
        """A separate router with a memif that anyone may connect to, and its socket."""
        path = self.lab.folder / "memif.sock"
        file = self._file("memif", f'FromDevice("memif:role=server,id=0,socket={path},socket-abstract=no") -> Discard;\n')
        self.memif_socket = self.lab.folder / "memif-control.sock"
        process = self.lab.spawn(ASHLAR, "run", str(file), "--socket", str(self.memif_socket), "--workers", "1")
        until(lambda: path.exists() or not process.running, "the memif", 30)
        if not process.running:
            raise Failed(f"no memif: {process.said()}")
        self.memif_path = path
        return process

    def _xdp(self):
        """A separate router that returns frames of an AF_XDP port, and the port's peer."""
        self.xdp_space, self.xdp_peer = self.lab.namespace("xdp"), self.lab.namespace("xdp-peer")
        self.lab.link(self.xdp_space, "x0", self.xdp_peer, "p0")
        self._xdp_queues(1, 1)
        file = self._file("xdp", "FromDevice(af_xdp:x0) -> ToDevice(af_xdp:x0);\n")
        control = str(self.lab.folder / "xdp-control.sock")
        process = self.xdp_space.spawn(ASHLAR, "run", str(file), "--socket", control, "--workers", "1")
        process.wait_for(" start ", 30)
        self.xdp_raw = self.xdp_peer.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
        self.xdp_raw.bind(("p0", 0x0003))
        self.xdp_raw.settimeout(0.2)
        until(self.xdp_echoes, "a frame to come back by AF_XDP", 20)
        return process

    def _xdp_queues(self, here: int, there: int) -> None:
        """Changes numbers of queues; the kernel may refuse combinations, and then nothing changes."""
        for space, interface, queues in ((self.xdp_space, "x0", here), (self.xdp_peer, "p0", there)):
            space.run("ethtool", "-L", interface, "rx", str(queues), "tx", str(queues), ok=None)

    def xdp_echoes(self) -> bool:
        with contextlib.suppress(OSError):
            while self.xdp_raw.recv(65536, socket.MSG_DONTWAIT):
                pass
        with contextlib.suppress(OSError):
            self.xdp_raw.send(ECHO)
            while frame := self.xdp_raw.recv(65536):
                if frame == ECHO:
                    return True
        return False

    def start(self) -> None:
        router, words = self.router, self.router.definitions()
        command = router.space.inside(ASHLAR, "run", str(self.sound[0]), "--socket", str(router.socket), "--workers", "2", *words)
        router.process = self._spawn(*command)
        self.answers()

    def answers(self) -> None:
        def answers() -> bool:
            if not self.router.process.running:
                status = self.router.process.wait()
                raise Failed(f"the router ended with {status}\n{self.router.process.said()[-4000:]}")
            return self.router._answers()

        until(answers, "the router's answer", PATIENCE)

    @property
    def pid(self) -> int:
        return self.router.process.pid

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def size(self, name: str) -> int:
        """VmSize or VmRSS, in bytes."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return 1024 * int(re.search(rf"^{name}:\s+(\d+)", status, re.MULTILINE)[1])

    def astray(self) -> int:
        """Number of buffers that workers took and no element holds; constant, except for packets under way."""
        stats = self.router.stats()
        held = sum(copy["held"] for element in stats["elements"] for copy in element["copies"])
        return sum(worker["buffers"] for worker in stats["workers"]) - held

    def state(self) -> dict[str, int]:
        return {"descriptors": self.descriptors(), "memory": self.size("VmRSS"), "astray": self.astray()}

    def reload(self, file: Path, *, good: bool | None = True) -> str:
        """Reloads the router; `good` says whether it must succeed (None: either)."""
        words = ("--socket", str(self.router.socket), str(file), *self.router.definitions())
        done = self.lab.run(ASHLAR, "reload", *words, timeout=PATIENCE, ok=None)
        if good is not None and (done.status == 0) != good:
            raise Failed(f"a reload of {file.name} was {'refused' if good else 'taken'}: {done}")
        if done.status and len(done.err.strip()) + len(done.out.strip()) == 0:
            raise Failed(f"a reload of {file.name} was refused without a word")
        return done.out + done.err

    @contextlib.contextmanager
    def limited(self, what: int, most: int):
        """Limits a resource of the process for a time, then restores it."""
        soft, hard = resource.prlimit(self.pid, what)
        resource.prlimit(self.pid, what, (most, hard))
        try:
            yield
        finally:
            resource.prlimit(self.pid, what, (soft, hard))

    # ---- Events.

    def memory_short(self) -> None:
        with self.limited(resource.RLIMIT_AS, self.size("VmSize") + (512 << 20)):
            said = self.reload(self.large, good=False)
            if "memory" not in said and "refuses" not in said:
                raise Failed(f"refused for another reason: {said}")
            self.reload(self.rng.choice(self.sound))

    def disk_full(self) -> None:
        filler = self.disk / "filler"
        with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        self.reload(self.rng.choice(self.sound), good=None)
        filler.unlink()
        self.reload(self.rng.choice(self.sound))

    def descriptors_gone(self) -> None:
        with self.limited(resource.RLIMIT_NOFILE, self.descriptors()):
            clients = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(4)]
            for client in clients:
                client.settimeout(0.2)
                with contextlib.suppress(OSError):
                    client.connect(str(self.router.socket))
                    client.send(b"GET /v1/info HTTP/1.1\r\nHost: x\r\n\r\n")
                    client.recv(100)
        for client in clients:
            client.close()

    def clock_jumps(self) -> None:
        shift = self.rng.choice((0, 1, -1, 3600, -3600, 86400 * 365, -86400 * 365))
        self._shift(shift)

    def ended_in_a_reload(self) -> None:
        words = ("--socket", str(self.router.socket), str(self.rng.choice(self.sound)), *self.router.definitions())
        client = self.lab.spawn(ASHLAR, "reload", *words)
        pause = self.rng.uniform(0, 0.1)
        with contextlib.suppress(Failed):
            client.wait(pause)
        self.router.process.signal(signal.SIGTERM)
        status = self.router.process.wait(PATIENCE)
        client.wait(PATIENCE)
        if status:
            raise Failed(f"SIGTERM after {1000 * pause:.0f} ms of a reload: status {status}\n{self.router.process.said()[-4000:]}")
        self.start()

    def stands_still(self) -> None:
        with self.router.process.still():
            time.sleep(self.rng.uniform(0.05, 0.5))

    def link_down(self) -> None:
        name = self.rng.choice(("eth0", "eth1"))
        self.network.router_space.ip(f"link set {name} down")
        self.network.router_space.ip(f"link set {name} up")

    def frames_of_garbage(self) -> None:
        host = self.rng.choice((self.network.client, self.network.server))
        out = host.socket(socket.AF_PACKET, socket.SOCK_RAW)
        out.bind(("eth0", 0))
        mac = bytes.fromhex(mac_of(self.network.router_space, self.network.side(host).interface).replace(":", ""))
        kinds = (b"\x08\x00\x45", b"\x08\x00\x46", b"\x86\xdd\x60", b"\x08\x06\x00", b"\x81\x00\x00", b"\x88\xcc\x02")
        for _ in range(300):
            frame = mac + self.rng.randbytes(6) + self.rng.choice(kinds) + self.rng.randbytes(self.rng.randrange(0, 1400))
            with contextlib.suppress(OSError):
                out.send(frame)
        out.close()

    def clients_of_garbage(self) -> None:
        texts = (b"GET /v1/stats HTTP/1.1\r\n", b"POST /v1/reload HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n{", b"\0" * 5000,
                 b"PUT /v1/handlers/x.y HTTP/1.1\r\nHost: x\r\n\r\n", self.rng.randbytes(2000))
        clients = []
        for _ in range(30):
            client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            client.settimeout(1)
            clients.append(client)
            with contextlib.suppress(OSError):
                client.connect(str(self.router.socket))
                client.send(self.rng.choice(texts))
        self.rng.shuffle(clients)
        for client in clients:
            client.close()

    def memif_peer_of_garbage(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
            peer.settimeout(1)
            peer.connect(str(self.memif_path))
            with contextlib.suppress(OSError):
                peer.recv(128)
                for _ in range(self.rng.randrange(1, 8)):
                    # Messages of memif have 128 bytes, the first two their type.
                    message = struct.pack("H", self.rng.randrange(0, 12)) + self.rng.randbytes(self.rng.choice((10, 126, 126, 300)))
                    region = os.memfd_create("chaos")
                    os.truncate(region, self.rng.choice((0, 4096, 1 << 20)))
                    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [region]))] if self.rng.random() < 0.5 else []
                    try:
                        peer.sendmsg([message], rights)
                    finally:
                        os.close(region)
        if not self.memif.running:
            raise Failed(f"the memif's router ended with {self.memif.wait()}\n{self.memif.said()[-4000:]}")

    def xdp_peer_of_garbage(self) -> None:
        """Sends frames of any length, and frames that only a veth can deliver: super-frames and unfinished checksums.
        """
        with self.xdp_peer.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
            out.bind(("p0", 0))
            for _ in range(200):
                with contextlib.suppress(OSError):
                    out.send(self.rng.randbytes(self.rng.choice((14, 15, 60, 1514, self.rng.randrange(1, 9018)))))
            out.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
            for _ in range(50):
                payload = self.rng.randrange(1, 60_000)
                ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40 + payload, 0, 0, 64, 6, 0, b"\x0a\0\0\1", b"\x0a\0\0\2")
                tcp = struct.pack("!HHIIBBHHH", 1, 2, 3, 4, 0x50, 0x10, 1000, 0, 0)
                frame = bytes(12) + b"\x08\x00" + ip + tcp + bytes(payload)
                header = struct.pack("=BBHHHH", UNFINISHED, TCP4, 54, self.rng.choice((1, 536, 1448, 65_000)), 34, 16)
                with contextlib.suppress(OSError):
                    out.send(header + frame)
        self._xdp_runs()

    def xdp_link_changes(self) -> None:
        space, interface = self.rng.choice(((self.xdp_space, "x0"), (self.xdp_peer, "p0")))
        match self.rng.randrange(3):
            case 0:
                space.ip(f"link set {interface} down")
                space.ip(f"link set {interface} up")
            case 1:
                space.run("ip", "link", "set", interface, "mtu", str(self.rng.choice((68, 576, 1280, 1500, 3000, 9000))), ok=None)
            case _:
                self._xdp_queues(self.rng.choice((1, 2)), self.rng.choice((1, 2)))
        self._xdp_runs()

    def _xdp_runs(self) -> None:
        if not self.xdp.running:
            raise Failed(f"the AF_XDP port's router ended with {self.xdp.wait()}\n{self.xdp.said()[-4000:]}")

    def reloads(self) -> None:
        self.reload(self.rng.choice(self.sound))

    def wrong_reloads(self) -> None:
        self.reload(self.rng.choice(self.wrong), good=False)

    # ---- What is so at the end.

    def settle(self) -> None:
        """Uses every function of the test once, so that the router has allocated the memory for them."""
        self.reload(self.sound[1])
        self.reload(self.sound[0])
        until(self.crosses, "packets to cross", PATIENCE)

    def crosses(self) -> bool:
        ping = ("-c1", "-W1")
        return all(self.network.client.run("ping", f"-{v}", *ping, SERVER.host[v], ok=None).status == 0 for v in (4, 6))

    def stream(self) -> bool:
        """True if packets of both families pass both ways without loss."""
        streams = Streams(rate=100)
        for version in (4, 6):
            streams.add("there", self.network.client, self.network.server, version, SERVER.host[version])
            streams.add("back", self.network.server, self.network.client, version, CLIENT.host[version])
        with streams:
            time.sleep(1)
        return all(stream.sent and not stream.lost and not stream.doubled for stream in streams.streams)

    def finish(self) -> dict[str, int]:
        """Checks that everything is as before; returns the measured state."""
        self._shift(0)
        self.answers()
        self.settle()
        until(self.stream, "packets that all arrive", 60)
        until(lambda: self.descriptors() <= self.base["descriptors"], f"{self.base['descriptors']} descriptors", 40)
        until(lambda: self.astray() == self.base["astray"], f"{self.base['astray']} buffers on their way", 20)
        for space, interface in ((self.xdp_space, "x0"), (self.xdp_peer, "p0")):
            space.ip(f"link set {interface} mtu 1500 up")
        # The sending side first, then the receiving side.
        self._xdp_queues(1, 1)
        self._xdp_queues(1, 1)
        until(self.xdp_echoes, "a frame to come back by AF_XDP", 60)
        found = self.state()
        if found["memory"] > self.base["memory"] + MEMORY_MAX:
            raise Failed(f"{found['memory'] >> 20} MiB of memory, before {self.base['memory'] >> 20}")
        if status := self.router.stop():
            raise Failed(f"the router ended with {status}\n{self.router.process.said()[-4000:]}")
        for name, process in (("memif", self.memif), ("AF_XDP port", self.xdp)):
            if status := process.stop():
                raise Failed(f"the {name}'s router ended with {status}\n{process.said()[-4000:]}")
        return found


def run(seconds: float, seed: int, every: float, say=print) -> None:
    """Runs the events; raises an error for any fault. Every kind of event happens at least once if there is time."""
    with Lab() as lab:
        chaos = Chaos(lab, seed)
        done, left = Counter(), []
        with Load(chaos.network) as load:
            end = time.monotonic() + seconds
            while (begin := time.monotonic()) < end:
                left = left or chaos.rng.sample(chaos.kinds, len(chaos.kinds))
                event = left.pop()
                try:
                    event()
                    chaos.answers()
                except Failed as error:
                    raise Failed(f"seed {seed}, event {sum(done.values()) + 1}, {event.__name__}: {error}") from None
                done[event.__name__] += 1
                time.sleep(max(0.0, min(begin + every, end) - time.monotonic()))
        if load.came < load.sent / 4:
            raise Failed(f"seed {seed}: of {load.sent} packets only {load.came} came")
        try:
            found = chaos.finish()
        except Failed as error:
            raise Failed(f"seed {seed}, afterwards: {error}") from None
        for name, count in sorted(done.items()):
            say(f"chaos {name} {count}")
        say(f"chaos packets {load.sent} sent {load.came} came")
        for name, value in found.items():
            say(f"chaos {name} {chaos.base[name]} before {value} after")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0, help="how long (default 600)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="what is drawn (default: the time)")
    parser.add_argument("--every", type=float, default=1.0, help="seconds from event to event (default 1)")
    asked = parser.parse_args()
    stop_on_signals()
    print(f"chaos seed {asked.seed}", flush=True)
    try:
        run(asked.seconds, asked.seed, asked.every)
        return 0
    except Failed as error:
        print(f"  ✗ {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
