"""Real routing daemons on a ring of four routers."""

import os
import pytest
from daemons import available
from network import Ring

DUT = os.environ.get("ASHLAR_RING", "linux")
pytestmark = pytest.mark.skipif(not available(), reason="needs frr and bird2")

@pytest.fixture
def ring(lab):
    made = Ring(lab, DUT)
    made.start()
    yield made
    made.must_run()


def test_ospf_and_bgp_converge(ring):
    print(f"converged after {ring.converge():.1f} s")
