"""FRR and BIRD, as Debian ships them, control the routers of a ring (network.py).

Shows: OSPF and BGP converge and every host reaches every other; a link that is cut without either end
noticing is left within BFD's detection time; FRR is killed and restarted while traffic passes, and
nothing is lost; Ashlar is killed, stopped and started. `ASHLAR_ROUTER=linux` puts the kernel in Ashlar's place.
"""

import os
import re
import time

import pytest
from daemons import KEEP, available, wait_for
from net import Failed
from network import DEAD, DETECTION, NUMBERS, RING, TICK, Ring, Wanted, host
from streams import Streams

SOAK = bool(os.environ.get("ASHLAR_SOAK"))
pytestmark = [pytest.mark.skipif(not available(), reason="needs frr and bird2"), pytest.mark.long]


def up(lab, **wanted) -> Ring:
    """A ring that has converged."""
    ring = Ring(lab, wanted=Wanted(**wanted))
    ring.start()
    ring.converge()
    return ring


def test_ospf_and_bgp_converge(lab):
    ring = Ring(lab)
    ring.start()
    print(f"\nconverged {ring.converge():.1f} s after the last daemon was started")
    ring.agree()
    ring.must_run()


def test_a_cut_link_is_left_as_soon_as_bfd_misses_it(lab):
    """OSPF alone would need DEAD seconds to detect the failure, but the streams resume earlier."""
    ring = up(lab)
    for link, ends in list(RING.items())[:None if SOAK else 1]:
        with ring.streams() as streams:
            streams.warm()
            cut = time.monotonic()
            ring.cut(link)
            wait_for(lambda: all(time.monotonic() - cut > 2 * DETECTION and s.sent and max(s.seen) > len(s.sent) - 50
                                 for s in streams.streams), "all streams by another way", ring.said)
        print(f"\n{'-'.join(ends)} cut: out for {streams.longest():.2f} s at the longest, BFD needs {DETECTION:g} s, "
              f"BIRD computes every {TICK:g} s; {streams.lost} of {streams.sent} packets lost")
        assert streams.longest() < DEAD, streams.report()
        ring.mend(link)
        ring.converge()
    ring.must_run()


def killed(ring: Ring, announced: bool) -> tuple[Streams, list[str]]:
    """Kills and restarts FRR of a1 under traffic; the streams end after its graceful restart. Returns the routes to
    hosts that a1's kernel was told to remove.
    """
    router = ring.routers["a1"]
    ring.quiet()
    monitor = router.space.spawn("ip", "-ts", "monitor", "route")
    with ring.streams() as streams:
        streams.warm()
        if announced:
            ring.restart_announced("a1")
        router.daemons.kill()
        if ring.wanted.bfd:
            wait_for(lambda: " Down " in ring.routers["b"].daemons.birdc("show bfd sessions"), "BFD to miss it", ring.said)
        # Routes that no daemon says again have to go, as the last thing of all.
        router.space.ip(f"route add 10.99.0.0/16 via {host('a1', 4)} proto bgp metric 20")
        router.daemons.start()
        took = ring.converge()
        wait_for(lambda: not router.space.ip("route show 10.99.0.0/16").out, "the end of the graceful restart",
                 ring.said, timeout=3 * KEEP)
    monitor.stop()
    gone = [line for line in monitor.out.splitlines() if re.search(r"Deleted (10\.1|fd00:1:)", line)]
    print(f"\nFRR of a1 killed: all sessions {took:.1f} s after the restart; {streams.report()}", *gone, sep="\n  ")
    ring.must_run()
    return streams, gone


def test_frr_killed_and_restarted_is_not_missed(lab):
    """Graceful restart: OSPF announces it (RFC 3623, 2); BGP needs no notice (RFC 4724). FRR is away until its
    neighbours' BFD reports the failure, which neighbours that help with the restart ignore.
    """
    ring = up(lab)
    for _ in range(3):
        streams, gone = killed(ring, announced=True)
        if not streams.lost:
            return
        assert gone, streams.report()
    raise Failed(f"FRR took routes out each time: {gone}\n{streams.report()}")


@pytest.mark.skipif(not SOAK, reason="one of `make soak`'s")
def test_frr_killed_without_notice_is_missed_only_by_routers_behind_it(lab):
    """FRR 8.4 has no unplanned graceful restart of OSPF: its neighbours drop their adjacencies at its first hello. Its
    first new LSAs list no adjacency, and the next ones may follow MinLSInterval later (5 s; RFC 2328, B). Until then
    there is no path to networks behind it, also with the kernel in Ashlar's place. All other traffic continues.
    """
    streams, _ = killed(up(lab, bfd=False), announced=False)
    for stream in streams.streams:
        assert not stream.lost or " to a1 " in stream.name, streams.report()


@pytest.mark.ashlar
def test_ashlar_killed_is_started_again_and_no_session_ends(lab):
    """Its keeper restarts it; the TAP interfaces never lose their queues, so daemons see late packets at most."""
    ring = up(lab, bfd=False)
    for name in ("a1", "a2"):
        router, before = ring.routers[name], ring.established()
        with ring.streams() as streams:
            streams.warm()
            killed = router.ashlar.kill()
            wait_for(lambda: router.ashlar.pid() != killed, "the keeper to start it again", ring.said)
            router.ashlar.wait()
            ring.converge()
        print(f"\nAshlar of {name} killed: out for {streams.longest():.3f} s; {streams.report()}")
        ring.agree()
        assert ring.established() == before, "BGP sessions have ended"
    ring.must_run()


@pytest.mark.ashlar
def test_ashlar_stopped_and_started(lab):
    """The TAP interfaces stay, with addresses and routes; while the router is stopped nothing passes it."""
    ring = up(lab)
    router = ring.routers["a1"]
    addresses = router.space.ip("-o address").out
    assert router.ashlar.stop() == 0, router.ashlar.said()
    wait_for(lambda: set(ring.unreached()) == {f"{x} to {y} by IPv{v}" for x in NUMBERS for y in NUMBERS for v in (4, 6)
                                               if x != y and "a1" in (x, y)}, "the others to go around", ring.said)
    router.ashlar.start()
    ring.converge()
    ring.agree()
    assert router.space.ip("-o address").out == addresses
    ring.must_run()
