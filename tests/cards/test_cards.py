"""Every card that QEMU emulates and DPDK drives, with a router on two of them.

Shows for each: frames of all sizes cross both ways unchanged, in order; a cable that is pulled out and plugged in; frames
for others with and without PROMISC; VLAN tags; what the card drops has a name; a reload and a SIGKILL while the card is in
use; a second program that wants the same card is told who has it; a card that is unplugged under traffic is let go, and
works again when it has come back; a card takes over the address and the MTU of its control-plane interface.
"""

import contextlib
import json
import re
import threading
from collections.abc import Callable

import pytest
from guest import MODELS, PROGRAM, ROOT, mac
from net import until
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.l2 import Dot1Q, Ether

FORWARD = """
FromDevice($A, PROMISC true) -> a :: Counter -> ToDevice($B);
FromDevice($B, PROMISC true) -> b :: Counter -> ToDevice($A);
"""
PROMISC = "FromDevice($A, PROMISC true) -> a :: Counter -> ToDevice($B); Idle -> ToDevice($A); FromDevice($B) -> Discard;"
OWN = PROMISC.replace("PROMISC true", "PROMISC false")

pytestmark = pytest.mark.parametrize("router", MODELS, indirect=True, scope="module")


def frame(number: int, size: int = 64, *, to: str = "02:00:00:00:99:01", vlan: int | None = None) -> bytes:
    """A UDP datagram in a frame of this size that contains its number; it has no checksum."""
    head = Ether(dst=to, src="02:00:00:00:99:02")
    if vlan is not None:
        head /= Dot1Q(vlan=vlan)
    head = bytes(head / IP(src="192.0.2.1", dst="198.51.100.1", len=max(28, size - 18)) / UDP(sport=1000 + number, dport=9))
    return head + number.to_bytes(4, "big") + bytes(max(0, size - 4 - len(head) - 4))


def crosses(router, frames: list[bytes], way: tuple[int, int] = (0, 1), timeout: float = 180) -> None:
    """Checks that each frame leaves through the other card, in order. Only a few are under way at a time, so any loss is
    the router's.
    """
    here, there = router.guest.cables[way[0]], router.guest.cables[way[1]]
    there.take()
    seen: list[bytes] = []

    def came(count: int) -> bool:
        seen.extend(f for f in there.take() if f[6:12] == bytes.fromhex("020000009902"))
        return len(seen) >= count

    for at in range(0, len(frames), 32):
        part = frames[at:at + 32]
        here.send(*part)
        until(lambda: came(at + len(part)), f"{at + len(part)} frames", timeout)
    assert seen == frames


@pytest.fixture
def forwarding(router):
    router.write("forward", FORWARD)
    with router.running("forward"):
        ready(router)
        yield router


def ready(router) -> None:
    """Waits until both links carry frames."""
    for here, there in ((0, 1), (1, 0)):
        def passes() -> bool:
            router.guest.cables[here].offer(frame(60000))
            return any(f == frame(60000) for f in router.guest.cables[there].take())
        until(passes, "the first frame", timeout=240)
    # Some of the first packets are still under way.
    quiet(router)


def quiet(router, counted: Callable[[], object] | None = None) -> None:
    """Waits until no packet is under way: until the counters stay the same."""
    counted = counted or (lambda: (router.number("a.count"), router.number("b.count")))
    counts = None
    def same() -> bool:
        nonlocal counts
        before, counts = counts, counted()
        return before == counts
    until(same, "no frame to be under way", timeout=180)
    for cable in router.guest.cables:
        cable.take()


@pytest.mark.short
def test_frames_of_all_sizes_cross_both_ways_in_order(forwarding):
    sizes = [64, 65, 127, 128, 256, 512, 1024, 1500, 1514, 1518]
    for way in ((0, 1), (1, 0)):
        crosses(forwarding, [frame(n, sizes[n % len(sizes)]) for n in range(320)], way)


def test_jumbo_frames_cross_where_buffers_hold_them(router):
    router.write("forward", FORWARD)
    with router.running("forward", "--frame-bytes 9018"):
        ready(router)
        sizes = [64, 1518, 1519, 2048, 4096, 9000, 9018]
        crosses(router, [frame(n, sizes[n % len(sizes)]) for n in range(70)])


def test_a_cable_that_is_pulled_out_comes_back(forwarding):
    guest = forwarding.guest
    guest.link(0, False)
    until(lambda: not is_up(forwarding, 0), "the link to be down", timeout=180)
    assert is_up(forwarding, 1)
    guest.link(0, True)
    until(lambda: is_up(forwarding, 0), "the link to be up", timeout=180)
    ready(forwarding)
    crosses(forwarding, [frame(n) for n in range(64)])


def is_up(router, number: int) -> bool:
    return router.port(number)["up"]


def test_vlan_tags_stay_in_frames(forwarding):
    crosses(forwarding, [frame(n, 68, vlan=100 + n) for n in range(32)])


def test_frames_for_others_are_seen_if_they_are_asked_for(router):
    router.write("own", OWN)
    here, there = router.guest.cables
    ours = frame(1, to=mac(1))
    with router.running("own"):
        until(lambda: here.offer(ours) and router.number("a.count") > 0, "a frame of its own", timeout=240)
        there.take()
        here.send(*[frame(n) for n in range(20)], frame(2, to=mac(1)))
        until(lambda: frame(2, to=mac(1)) in there.received, "its own frame", timeout=180)
        assert not [f for f in there.take() if f[:6] == frame(0)[:6]]


def test_a_reload_changes_the_frames_that_a_card_accepts(router):
    router.write("own", OWN)
    here, there = router.guest.cables
    ours = frame(1, to=mac(1))
    with router.running("own"):
        until(lambda: here.offer(ours) and router.number("a.count") > 0, "a frame of its own", timeout=240)
        for text, hears in ((PROMISC, True), (OWN, False), (PROMISC, True)):
            router.write("own", text)
            router.cli("reload --socket /run/router.sock")

            def comes() -> bool:
                """Sends a frame for another station, then one for this station. Returns true if the first one arrives,
                too.
                """
                there.take()
                here.send(frame(7), ours)
                until(lambda: ours in there.received, "its own frame", timeout=180)
                return frame(7) in there.take()

            until(lambda h=hears: comes() == h, f"frames for others to be {'seen' if hears else 'left out'}", timeout=180)


def test_drops_of_the_card_have_a_name(forwarding):
    before = forwarding.counters(0)
    assert {"rx_missed", "rx_errors", "rx_no_buffer", "tx_errors", "too_long"} <= set(before)
    crosses(forwarding, [frame(n) for n in range(64)])
    counts = forwarding.counters(0)
    assert counts["rx_good_packets"] - before["rx_good_packets"] == 64, (before, counts)


def test_a_reload_loses_nothing(forwarding):
    for round in range(3):
        forwarding.write("forward", FORWARD + f"// round {round}\nIdle -> Discard;")
        forwarding.cli("reload --socket /run/router.sock")
        crosses(forwarding, [frame(n) for n in range(64)])


def test_a_killed_router_leaves_the_card_as_it_was(router):
    router.write("forward", FORWARD)
    for _ in range(2):
        router.start("forward")
        ready(router)
        router.guest.cables[0].send(*[frame(n) for n in range(16)])
        router.stop("KILL")
    with router.running("forward"):
        ready(router)
        crosses(router, [frame(n) for n in range(64)])


@pytest.mark.short
def test_a_second_program_is_told_the_owner_of_the_card(forwarding):
    a, b = forwarding.addresses
    said = forwarding.guest.run(f"timeout 60 {PROGRAM} run forward.click A={a} B={b} --buffers 1024 --name second", ok=False,
                                timeout=90)
    pid = forwarding.guest.run("cat /run/pid").strip()
    assert f"process {pid} (ashlar) has {a}" in said, said
    assert f"process {pid} (ashlar)" in forwarding.cli("ports")
    refused = forwarding.cli(f"ports unbind {a}", ok=False)
    assert re.search(rf"process {pid} \(ashlar\) has {a}: end it first", refused), refused
    crosses(forwarding, [frame(n) for n in range(32)])


def test_a_card_that_is_unplugged_under_traffic_is_let_go_and_works_again_when_it_is_back(forwarding):
    router, guest = forwarding, forwarding.guest
    for number in (0, 1, 0):
        with traffic(guest, 0), traffic(guest, 1):
            guest.unplug(number)
            until(lambda: not guest.has_card(number), "the card to be gone", timeout=240)
            until(lambda: not is_up(router, number), "the router to say so", timeout=60)
            assert is_up(router, 1 - number)
            dropped = router.counters(number)["tx_link_down"]
            until(lambda: router.counters(number)["tx_link_down"] > dropped, "frames to be dropped by name", timeout=180)
            guest.plug(number)
            until(lambda: is_up(router, number), "the card to work again", timeout=240)
        ready(router)
        crosses(router, [frame(n) for n in range(64)])
        crosses(router, [frame(n) for n in range(64)], (1, 0))

    def said() -> list[tuple[int, int]]:
        log = router.log()
        return [(log.count(f"{address} is unplugged"), log.count(f"{address} is back")) for address in router.addresses]
    # A line of the log may come later than the event that it reports.
    until(lambda: said() == [(2, 2), (1, 1)], "the lines of the log", timeout=30)


def test_a_router_ends_and_starts_while_a_card_is_away(router):
    guest = router.guest
    a, b = router.addresses
    router.write("forward", FORWARD)
    with router.running("forward"):
        ready(router)
        guest.unplug(0)
        until(lambda: not guest.has_card(0), "the card to be gone", timeout=240)
    why = router.cli(f"doctor forward.click A={a} B={b}", ok=False)
    assert f"there is no network card {a}" in why, why
    guest.plug(0)
    until(lambda: len(guest.cards()) == 2, "the card to be back", timeout=240)
    router.cli(f"ports bind {a}")
    with router.running("forward"):
        ready(router)
        crosses(router, [frame(n) for n in range(64)])


def test_a_card_takes_over_the_address_and_the_mtu_of_its_interface(router):
    """The operator of the kernel changes address and MTU of the interface; the card still has them after it was
    unplugged and plugged in again.
    """
    guest, (a, b), cable = router.guest, router.addresses, router.guest.cables[0]
    peer = "02:00:00:00:99:02"
    guest.run("modprobe -a tun af_packet; ip netns add kernel; ip -n kernel link set lo up")

    def echo(to: str, number: int, size: int = 100) -> bytes:
        packet = IP(src="192.0.2.2", dst="192.0.2.1") / ICMP(id=number) / bytes(size - 28)
        return bytes(Ether(dst=to, src=peer) / packet)

    def answered(to: str, number: int, size: int = 100) -> None:
        wanted = (bytes.fromhex(peer.replace(":", "") + to.replace(":", "")), number.to_bytes(2, "big"), size)

        def came() -> bool:
            cable.offer(echo(to, number, size))
            return wanted in [(f[:12], f[38:40], len(f) - 14) for f in cable.take()]
        until(came, f"an answer of {size} bytes from {to}", timeout=180)

    def becomes(name: str, value: str | int) -> None:
        until(lambda: router.port(0)[name] == value, f"{name} {value}", timeout=60)
        told = json.loads(guest.run("ip -n kernel -json link show lan"))[0]
        assert told["address" if name == "mac" else name] == value, told

    with router.running(ROOT / "conf/linux-router.click", f"DEV0={a} IF0=lan DEV1={b} IF1=wan --netns kernel --workers 1"):
        # The kernel forgets it with each change of the address.
        neighbour = f"ip -n kernel neigh replace 192.0.2.2 lladdr {peer} dev lan"
        guest.run(f"ip -n kernel link set lan up; ip -n kernel address add 192.0.2.1/24 dev lan; {neighbour}")
        old = router.port(0)["mac"]
        answered(old, 1)
        for new in ("02:00:00:00:aa:01", "02:00:00:00:aa:02"):
            guest.run(f"ip -n kernel link set lan address {new}; {neighbour}")
            becomes("mac", new)
            answered(new, 2)
            quiet(router, lambda: router.counters(0)["rx_good_packets"])
            heard = router.counters(0)["rx_good_packets"]
            cable.send(*[echo(old, 3)] * 4, echo(new, 4))
            until(lambda: any(f[38:40] == (4).to_bytes(2, "big") for f in cable.take()), "an answer", timeout=60)
            assert router.counters(0)["rx_good_packets"] == heard + 1
            old = new
        guest.run("ip -n kernel link set lan mtu 1600")
        becomes("mtu", 1600)
        answered(new, 5, 1600)
        guest.run("ip -n kernel link set lan mtu 5000")
        until(lambda: "start the router with larger --frame-bytes" in router.log(), "the reason", timeout=60)
        becomes("mtu", 1600)
        guest.unplug(0)
        until(lambda: not guest.has_card(0), "the card to be gone", timeout=240)
        guest.plug(0)
        until(lambda: is_up(router, 0), "the card to work again", timeout=240)
        becomes("mac", new)
        becomes("mtu", 1600)
        answered(new, 6, 1600)


@contextlib.contextmanager
def traffic(guest, number: int):
    """Sends frames to a card as long as it accepts them, a hundred a second."""
    ends = threading.Event()
    def send() -> None:
        while not ends.wait(0.01):
            guest.cables[number].offer(frame(50000))
    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        ends.set()
        sender.join()
