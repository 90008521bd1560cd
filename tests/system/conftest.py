"""Fixtures of the system tests. Every test gets networks of its own, so each can run alone.

`network`: client, router and server, addressed, the router running.
`lab`: an empty lab, for tests that build their own.
`wire`: scapy at both ends of a running router, the hosts' stacks quiet; one per module, for speed.

`ASHLAR_ROUTER=linux` runs the tests that need no feature of Ashlar's own against the kernel.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from net import Lab, leftovers, room_for_neighbours  # noqa: E402
from topology import ASHLAR, KIND, Network  # noqa: E402


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "ashlar: needs Ashlar itself, not only some router")
    # pytest unwinds on Ctrl-C by itself; a SIGTERM must end as tidily.
    signal.signal(signal.SIGTERM, lambda *_: pytest.exit("terminated", returncode=143))
    config.addinivalue_line("markers", "alone: judges times of milliseconds, or takes all cores, so nothing else may run")
    config.addinivalue_line("markers", "long: a module that takes a minute or more, begun before the others")
    if KIND != "linux" and not os.access(ASHLAR, os.X_OK):
        pytest.exit(f"there is no {ASHLAR}: run `make build`, or set ASHLAR_BIN", returncode=2)
    # Once, before the workers of pytest-xdist start.
    if os.geteuid() == 0 and not hasattr(config, "workerinput"):
        limits = contextlib.ExitStack()
        limits.enter_context(room_for_neighbours(400_000))
        config.add_cleanup(limits.close)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.geteuid() != 0:
        for item in items:
            item.add_marker(pytest.mark.skip(reason="only root makes network namespaces"))
    # Beside each other, modules take as long as the last to end.
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    if KIND == "linux":
        dropped = [item for item in items if item.get_closest_marker("ashlar")]
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item not in dropped]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Checks that the tests have left nothing behind, whatever their outcome."""
    if left := leftovers(f"ashlar-{os.getpid()}-"):
        print("\nleft behind:", *left, sep="\n  ", file=sys.stderr)
        session.exitstatus = 1


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab() as made:
        yield made


@pytest.fixture
def network(lab: Lab) -> Network:
    made = Network(lab)
    made.router.start()
    return made


@pytest.fixture(scope="module")
def wire() -> Iterator["Wire"]:
    from wire import Wire
    with Lab() as lab:
        network = Network(lab, quiet=True)
        network.router.start()
        made = Wire(network)
        made.flush()
        yield made


@pytest.fixture(autouse=True)
def _fresh_wire(request: pytest.FixtureRequest) -> None:
    """Clears old frames, so that a test sees only its own."""
    if "wire" in request.fixturenames:
        wire = request.getfixturevalue("wire")
        wire.flush()
        wire.client.clear()
        wire.server.clear()
