"""A default-free routing table and its changes reach the data plane by BIRD and netlink while packets pass.

The table is that of ../shared/data/rib if it is there, else one of like shape. All of it is measured by `make bench-routes`;
here it is a part, so that it is quick.
"""

import os
import sys
from pathlib import Path

import pytest
from daemons import available

EVAL = Path(__file__).resolve().parents[2] / "eval"
sys.path[:0] = [str(EVAL / "routes"), str(EVAL)]

import phases  # noqa: E402
import routers  # noqa: E402
import tables  # noqa: E402

# The test takes both cores, so other programs are late.
pytestmark = [pytest.mark.skipif(not available() or os.cpu_count() < 2, reason="needs bird2 and two processors"), pytest.mark.long,
              pytest.mark.alone]
KIND = os.environ.get("ASHLAR_ROUTER", "ashlar")
COUNTS = (60_000, 12_000)
RATE = 1000  # probes per second


@pytest.fixture(scope="module")
def feed():
    return tables.feed(*COUNTS)


@pytest.fixture
def router(feed):
    made = routers.KINDS[KIND]()
    try:
        phases.add_static(made)
        made.settle()
        yield made
    finally:
        made.close()


def none_lost(router, window):
    """Fails if a probe was lost; the message says which, and where."""
    numbers = window.pop("lost_numbers")
    rows = [n for n in numbers if n - 1 not in numbers or n + 1 not in numbers]
    assert not window["lost"], f"{window}\nends of the rows of lost probes: {rows[:40]}\n{router.drops()}"


@pytest.mark.parametrize("form", phases.FORMS)
def test_a_burst_of_routes_takes_effect_and_goes_again(router, feed, form):
    phases.make_objects(router)
    static = phases.static_addresses()
    phases.quiet(router, static, RATE, 1)  # neighbours are found
    window, _ = phases.probed(router, static, RATE, lambda: [phases.burst(router, feed, form, v) for v in (4, 6)])
    none_lost(router, window)
    phases.replace_object(router, feed)


def test_a_table_by_bgp_and_its_churn_lose_no_packet(router, feed):
    static = phases.static_addresses()
    phases.quiet(router, static, RATE, 1)
    daemons = phases.Daemons(router, feed, 0)
    window, _ = phases.probed(router, static, RATE, lambda: daemons.learn(feed))
    none_lost(router, window)
    moved, still = phases.moving(feed)
    phases.quiet(router, moved + still, RATE, 3)
    window, said = phases.probed(router, moved + still, RATE, lambda: phases.churn(router, feed, 50))
    none_lost(router, window)
    assert not said["speaker"].failed
    assert phases.differences(router, feed) == []


class Deaf(routers.Ashlar):
    """Ashlar with a small buffer for the kernel's messages, so that a burst overflows it."""

    ENVIRONMENT = {"ASHLAR_NETLINK_BUFFER": "8000"}


@pytest.mark.ashlar
def test_changes_lost_in_a_burst_are_queried(feed):
    """Both ways: routes that were added unnoticed appear, and routes that were removed unnoticed disappear."""
    router = Deaf()
    try:
        phases.add_static(router)
        router.settle()
        phases.make_objects(router)
        # Fails unless the length becomes right.
        phases.burst(router, feed, "object", 4)
        counts = router.counts()
        assert counts["lost"] > 0 and counts["resyncs"] > 1, counts
        assert phases.differences(router, feed) == []
    finally:
        router.close()
