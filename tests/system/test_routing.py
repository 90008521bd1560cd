"""FRR and BIRD drive the routers of a ring (network.py), as they come from Debian.

Shows: OSPF and BGP converge and every host reaches every other; a link that is cut without either end
noticing is left within BFD's detection time; FRR is killed and restarted while traffic passes, and
nothing is lost. `ASHLAR_RING=linux` puts the kernel in Ashlar's place.
"""

import os
import time

import pytest
from daemons import KEEP, available, wait_for
from network import DETECTION, RING, TICK, Ring, Wanted, host
from streams import Streams

DUT = os.environ.get("ASHLAR_RING", "linux")
pytestmark = pytest.mark.skipif(not available(), reason="needs frr and bird2")


def up(lab, **wanted) -> Ring:
    """A ring that has converged."""
    ring = Ring(lab, DUT, Wanted(**wanted))
    ring.start()
    ring.converge()
    return ring


def test_ospf_and_bgp_converge(lab):
    ring = Ring(lab, DUT)
    ring.start()
    print(f"\nconverged {ring.converge():.1f} s after the last daemon was started")
    ring.must_run()


def test_a_cut_link_is_left_within_the_time_that_bfd_needs(lab):
    """Half a second more is for OSPF to tell the others and for all to compute anew."""
    ring = up(lab)
    for link, ends in RING.items():
        with ring.streams() as streams:
            streams.warm()
            cut = time.monotonic()
            ring.cut(link)
            wait_for(lambda: all(time.monotonic() - cut > 2 * DETECTION and s.sent and max(s.seen) > len(s.sent) - 50
                                 for s in streams.streams), "all streams by another way", ring.said)
        print(f"\n{'-'.join(ends)} cut: out for {streams.longest():.2f} s at the longest, BFD needs {DETECTION:g} s, "
              f"BIRD computes every {TICK:g} s; {streams.lost} of {streams.sent} packets lost")
        assert streams.longest() < DETECTION + TICK + 0.5, streams.report()
        ring.mend(link)
        ring.converge()
    ring.must_run()


def killed(ring: Ring, announced: bool) -> Streams:
    """FRR of a1 is killed and started again under traffic; the streams end when its graceful restart has."""
    router = ring.routers["a1"]
    with ring.streams() as streams:
        streams.warm()
        if announced:
            said = router.daemons.vtysh("graceful-restart prepare ip ospf", "graceful-restart prepare ipv6 ospf")
            assert "%" not in said, said
        router.daemons.kill()
        # Routes that no daemon says again have to go, as the last thing of all.
        router.space.ip(f"route add 10.99.0.0/16 via {host('a1', 4)} proto bgp metric 20")
        router.daemons.start()
        took = ring.converge()
        wait_for(lambda: not router.space.ip("route show 10.99.0.0/16").out, "the end of the graceful restart",
                 ring.said, timeout=3 * KEEP)
    print(f"\nFRR of a1 killed: all sessions {took:.1f} s after the restart; {streams.report()}")
    ring.must_run()
    return streams


def test_frr_killed_and_restarted_loses_nothing(lab):
    """Graceful restart: OSPF's is announced (RFC 3623, 2), BGP's needs no notice (RFC 4724)."""
    streams = killed(up(lab, bfd=False), announced=True)
    assert not streams.lost, streams.report()


def test_frr_killed_without_notice_is_missed_only_by_what_is_behind_it(lab):
    """FRR 8.4 has no graceful restart of OSPF without notice: its neighbours find their adjacencies gone when it
    says hello again, and know no way to what is behind it until they are back. All else goes on."""
    streams = killed(up(lab, bfd=False), announced=False)
    for stream in streams.streams:
        assert not stream.lost or " to a1 " in stream.name and stream.longest() < 10, streams.report()
