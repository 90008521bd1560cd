"""Routing daemons on boxes behind a balancer: an outside neighbour sees one router."""

import re
import time

import pytest
from daemons import available
from multistage_vlan import CALM
from net import until
from speakers import SpeakerBed, converge, crosses

pytestmark = [pytest.mark.ashlar, pytest.mark.long, pytest.mark.skipif(not available(), reason="needs frr")]


def test_a_box_speaks_for_the_router_and_another_takes_its_place(lab):
    bed = SpeakerBed(lab, ["r1", "r2"], more=CALM)
    bed.start()
    bed.speak()
    converge(bed, "r1")
    # The daemons of the other box are up, and not heard outside.
    assert re.search(r"not_speaker\t[1-9]", bed.router.cli("show", "out1.named_drops"))
    before = bed.sessions()
    bed.balance("drain", "r2", "--within", "30s")
    until(lambda: bed.state("r2") == "drained", "r2 to be drained", timeout=30)
    # Longer than the hold times of both.
    time.sleep(12)
    assert bed.sessions() == before
    until(lambda: crosses(bed), "packets to cross")
    bed.balance("add", "r2", "--within", "0")
    until(lambda: bed.buckets("r2") > 30000, "r2 to have its share", timeout=20)
    assert bed.sessions() == before
    # The speaker dies: outside, only the daemons of the other box announce it.
    bed.crash("r1")
    until(lambda: bed.state("r1") == "down", "r1 to be down")
    print(f"\nthe other box speaks after {converge(bed, 'r2'):.1f} s")
    # The box comes back, and speaks again.
    bed.revive("r1")
    until(lambda: bed.state("r1") == "up", "r1 to be up", timeout=30)
    print(f"the first box speaks again after {converge(bed, 'r1'):.1f} s")
    for frr in bed.frr.values():
        frr.must_run()
