"""An idle router sleeps, and forwards all packets that arrive afterwards.

Shows: an idle worker sleeps after a few turns, again and again, where one that is told to poll does not sleep; the
packet that comes after a pause is forwarded, once; a burst of one ring's size (8192 small frames) after a pause loses
nothing. How much of a core an idle router takes, and after how long the first packet leaves by the kernel's time stamps
on the hosts' interfaces, depends on the machine and is printed (`pytest -s`). That a sleep ends with the packet, and not
a while later, is judged in tests/workers.rs, where sleeps last a minute.
"""

import json
import os
import statistics
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
from failing import ask
from net import until
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from taps import Tap
from topology import ASHLAR, SERVER
from traffic import port, udp

pytestmark = pytest.mark.ashlar

SOAK = os.environ.get("ASHLAR_SOAK") == "1"
# Turns that an idle worker may take for each sleep. It polls for up to 64 turns when something has come; one that only polls
# takes some thousands in a millisecond.
TURNS_MOST = 10
RING = 8192


def cpu_seconds(pid: int) -> float:
    """Processor time that all threads of a process have used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def workers(path: str) -> list[dict]:
    """Counters of the workers of the router at a socket."""
    return json.loads(ask(path, "GET", "/v1/stats"))["workers"]


def turns_per_sleep(path: str, sleeps: int) -> float:
    """Turns per sleep: the maximum over workers. Fails if a worker has not slept this many more times."""
    first = workers(path)

    def since(name: str) -> list[int]:
        return [now[name] - then[name] for now, then in zip(workers(path), first, strict=True)]

    until(lambda: min(since("sleeps")) >= sleeps, f"{sleeps} sleeps of each worker", timeout=60)
    return max(turns / slept for turns, slept in zip(since("turns"), since("sleeps"), strict=True))


def test_an_idle_router_sleeps(network):
    network.client.run("ping", "-c3", "-i0.01", "server")
    router = network.router
    before, start = cpu_seconds(router.process.pid), time.monotonic()
    turns = turns_per_sleep(str(router.socket), 1000 if SOAK else 100)
    share = (cpu_seconds(router.process.pid) - before) / (time.monotonic() - start)
    print(f"\nidle: {turns:.1f} turns for each sleep, {share:.2%} of a core")
    assert turns < TURNS_MOST


@pytest.mark.parametrize("version", [4, 6], ids=["IPv4", "IPv6"])
def test_the_first_packet_after_idle_is_forwarded_once(network, version):
    network.client.run("ping", f"-{version}", "-c3", "-i0.01", "server")
    near, far = udp(network.client, version), udp(network.server, version)
    taps = Tap(network.client), Tap(network.server)
    times, count = [], 1000 if SOAK else 100
    for number in range(count):
        # Long enough for the longest step in which workers sleep, and no multiple of it.
        time.sleep(0.02 + 0.06 * ((number * 0.618) % 1))
        mark = b"after idle" + number.to_bytes(4)
        near.sendto(mark, (SERVER.host[version], port(far)))
        assert far.recv(64) == mark
        left, came = ([f.time_ns for f in tap.take() if mark in f.data] for tap in taps)
        assert len(left) == len(came) == 1, f"packet {number}: sent {len(left)} times, came {len(came)} times"
        times.append(came[0] - left[0])
    times.sort()
    median, p99 = statistics.median(times), times[int(len(times) * 0.99) - 1]
    print(f"\nfirst packet after idle, IPv{version}: median {median / 1000:.0f} us, "
          f"p99 {p99 / 1000:.0f} us, largest {times[-1] / 1000:.0f} us of {len(times)}")


@pytest.mark.parametrize(("options", "sleeps"), [((), True), (("--poll",), False)], ids=["as ever", "--poll"])
def test_a_worker_told_to_poll_never_sleeps(lab, options, sleeps):
    space = lab.namespace("router")
    space.ip("link add name eth0 type bridge")
    space.ip("link set eth0 up")
    file, path = lab.folder / "quiet.click", str(lab.folder / "quiet.sock")
    file.write_text("FromDevice(eth0) -> Discard;\n")
    router = space.spawn(ASHLAR, "run", str(file), "--socket", path, *options)
    router.wait_for(" start ", timeout=30)

    def rested() -> bool | None:
        """True if the worker has slept since then; None while it has not polled for long either."""
        now = workers(path)[0]
        slept = now["asleep_ns"] > first["asleep_ns"]
        return slept if slept or now["turns"] > first["turns"] + 10_000 else None

    first = workers(path)[0]
    until(lambda: rested() is not None, "a sleep, or ten thousand turns")
    assert rested() == sleeps


def frames(wire, version: int) -> list[bytes]:
    """One ring's capacity of minimum-size frames, numbered, all of one flow and so in one queue."""
    layer = (IP(src=wire.client.ip4, dst=wire.server.ip4) if version == 4
             else IPv6(src=wire.client.ip6, dst=wire.server.ip6))
    template = bytes(wire.client.frame(layer / UDP(sport=7, dport=7, chksum=0) / bytes(4)))
    return [template[:-4] + number.to_bytes(4) for number in range(RING)]


def numbers_after(wire, tap: Tap, version: int) -> list[int]:
    """The numbers of the frames that reached the server."""
    at = 14 + (20 if version == 4 else 40) + 8
    came = tap.collect(lambda fs: sum(is_numbered(f) for f in fs) >= RING, f"{RING} frames", timeout=10)
    assert tap.lost() == 0
    return [int.from_bytes(f.data[at:at + 4]) for f in came if is_numbered(f)]


def is_numbered(frame) -> bool:
    start = 34 if frame.ethertype == 0x0800 else 54
    return frame.data[start:start + 4] == b"\0\7\0\7"


@pytest.mark.parametrize("version", [4, 6], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
def test_a_burst_of_one_ring_after_idle_loses_nothing(wire, version, stopped):
    """The test also runs with a router that gets no processor until the burst is over: all frames wait in the ring."""
    burst = frames(wire, version)
    wire.flush()
    tap = Tap(wire.network.server, outgoing=False, room=256 << 20)
    router = wire.network.router.process
    time.sleep(0.2)
    with router.still() if stopped else nullcontext():
        for frame in burst:
            wire.client.send(frame)
    assert numbers_after(wire, tap, version) == list(range(RING))
    tap.close()
    # Frames that the wire has seen of it are thrown away.
    wire.server.tap.take()
