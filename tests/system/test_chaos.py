"""Chaos for some seconds: each kind of event once (`make soak` has ten minutes of it)."""

import chaos
import pytest

pytestmark = pytest.mark.ashlar


def test_failures_around_a_router_cost_packets_and_nothing_else():
    chaos.run(seconds=8.7, seed=1, every=0.6)
