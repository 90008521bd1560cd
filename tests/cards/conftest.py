"""Fixtures of the tests on cards. `router`: a guest with two cards of a model, bound to a driver for programs; one per
module.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from guest import ASHLAR, MODELS, Guest, Router, missing  # noqa: E402
from net import Lab, leftovers  # noqa: E402

def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "short: part of `make test`")
    # pytest unwinds on Ctrl-C by itself; a SIGTERM must end as tidily.
    signal.signal(signal.SIGTERM, lambda *_: pytest.exit("terminated", returncode=143))
    if not os.access(ASHLAR, os.X_OK):
        pytest.exit(f"there is no {ASHLAR}: run `make build`, or set ASHLAR_BIN", returncode=2)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = missing() if os.geteuid() == 0 else "only root can give a guest this machine's files"
    if reason:
        for item in items:
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_sessionfinish(session: pytest.Session) -> None:
    if left := leftovers(f"ashlar-{os.getpid()}-"):
        print("\nleft behind:", *left, sep="\n  ", file=sys.stderr)
        session.exitstatus = 1


@pytest.fixture(scope="module")
def router(request: pytest.FixtureRequest) -> Iterator[Router]:
    with Lab() as lab:
        made = Router(Guest(lab, MODELS[request.param]))
        made.prepare()
        yield made
