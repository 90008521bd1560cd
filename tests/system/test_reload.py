"""Reloads of a router under real traffic: their cost, and the place of every loss.

The rate that the set-up carries without loss is looked for first; the runs go at half of it. A run
with reloads may lose no more than one without, and whatever is lost is found in a counter: of the
router (drops by name), of its kernel (`kernel_drops`), or of the receiving socket. `make soak` makes
each run a minute long.
"""

import os
import re
import socket
import struct
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
from net import Lab
from streams import BEHIND, PATIENCE
from topology import CONFIGURATION, KIND, SERVER, Network
from traffic import FAMILY, port, udp

SECONDS = 60.0 if os.environ.get("ASHLAR_SOAK") else 5.0
pytestmark = [pytest.mark.alone, pytest.mark.skipif(KIND != "ashlar", reason="the kernel has no configuration to reload")]


@dataclass
class Run:
    """Fate of a paced stream of numbered packets."""

    sent: int = 0
    refused: int = 0
    seen: set[int] = field(default_factory=set)

    @property
    def lost(self) -> int:
        return self.sent - len(self.seen)


def stream(network: Network, rate: float, seconds: float, enough: Callable[[], bool] = lambda: True) -> Run:
    """Sends numbered UDP packets from client to server at a steady rate, for some seconds and until `enough` is true."""
    run = Run()
    receiver = udp(network.server, 4)
    sender = network.client.socket(FAMILY[4], socket.SOCK_DGRAM)
    sender.connect((SERVER.host[4], port(receiver)))
    over = threading.Event()
    receiver.settimeout(0.1)

    def receive() -> None:
        quiet_since = None
        while True:
            try:
                run.seen.add(struct.unpack("!I", receiver.recv(64)[:4])[0])
                quiet_since = None
            except TimeoutError:
                if over.is_set():
                    quiet_since = quiet_since or time.monotonic()
                    if not run.lost or time.monotonic() > quiet_since + PATIENCE:
                        return

    thread = threading.Thread(target=receive)
    thread.start()
    start = time.monotonic()
    end = start + seconds
    while (now := time.monotonic()) < end or not enough():
        start = max(start, now - BEHIND - run.sent / rate)
        due = int((now - start) * rate)
        while run.sent < due:
            try:
                sender.send(struct.pack("!I", run.sent) + bytes(60))
                run.sent += 1
            except OSError:
                run.refused += 1
        time.sleep(0.0005)
    over.set()
    thread.join()
    sender.close()
    receiver.close()
    return run


# Drops that are no losses: messages that ended at the element that processed them.
ABSORBED = ("learned",)


def losses(network: Network) -> dict[str, int]:
    """Every place where packets can have been lost, with its counter."""
    found: dict[str, int] = {}
    stats = network.router.stats()
    for element in stats["elements"]:
        for copy in element["copies"]:
            for name, count in zip(element["drop_names"], copy["drops"]):
                if count and name not in ABSORBED:
                    key = f"router {element['name']}.{name}"
                    found[key] = found.get(key, 0) + count
    for device in stats["ports"]:
        for counter in device["counters"]:
            if re.search("drop|no_buffer|error|too_long|full", counter["name"]) and counter["value"]:
                key = f"{device['name']} {counter['name']}"
                found[key] = found.get(key, 0) + counter["value"]
    return found


def steady_rate(network: Network) -> float:
    """The highest of some rates at which one second of traffic passes without loss. At half of the last one, the 8192 frames
    that a port holds last for four seconds without a core.
    """
    best = 500.0
    for rate in (1000.0, 2000.0, 4000.0):
        run = stream(network, rate, 1.0)
        if run.lost or run.sent < 0.9 * rate:
            break
        best = rate
    return best


@pytest.fixture(scope="module")
def network():
    with Lab() as lab:
        made = Network(lab)
        made.router.start()
        made.client.run("ping", "-c", "3", "-i", "0.2", SERVER.host[4])
        yield made


def variants(folder) -> list:
    """Configurations that differ: with one element more, with another setting, and unchanged."""
    text = CONFIGURATION.read_text()
    edits = [text.replace("-> DropBroadcasts", "-> Counter -> DropBroadcasts"),
             text.replace("ARPQuerier(here,", "ARPQuerier(TIMEOUT 600, here,"),
             text]
    paths = []
    for number, edit in enumerate(edits):
        assert number == 2 or edit != text, "the configuration has changed: this test must follow"
        path = folder / f"variant{number}.click"
        path.write_text(edit)
        paths.append(path)
    return paths


def test_reloads_lose_no_packet_beyond_a_run_without_them(network, tmp_path, capsys):
    rate = steady_rate(network) / 2
    before = losses(network)
    plain = stream(network, rate, SECONDS)
    between = losses(network)

    paths, stop, reloads = variants(tmp_path), threading.Event(), []

    def reload() -> None:
        while not stop.is_set():
            path = paths[len(reloads) % len(paths)]
            network.router.cli("reload", str(path), *network.router.definitions())
            reloads.append(path)

    with ThreadPoolExecutor(1) as pool:
        reloading = pool.submit(reload)
        try:
            run = stream(network, rate, SECONDS, lambda: len(reloads) >= 3 or reloading.done())
        finally:
            stop.set()
        # Raises what went wrong with a reload.
        reloading.result(timeout=60)
    after = losses(network)

    def difference(new: dict, old: dict) -> dict:
        return {k: v - old.get(k, 0) for k, v in new.items() if v != old.get(k, 0)}

    with capsys.disabled():
        print(f"\n{rate:.0f} packets/s for {SECONDS:.0f} s: without reloads {plain.sent} sent, {plain.lost} lost"
              f" {difference(between, before)}; with {len(reloads)} reloads {run.sent} sent, {run.lost} lost"
              f" {difference(after, between)}")
    assert len(reloads) >= 3
    assert run.lost <= plain.lost, f"lost {run.lost}, without reloads {plain.lost}: {difference(after, between)}"
    router = {k: v for k, v in difference(after, between).items() if k.startswith("router")}
    assert not router, "the router dropped packets while it reloaded"
