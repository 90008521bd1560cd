"""Fixtures of the tests on cards. `router`: a guest with two cards of a model, left to programs, one for each module."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from guest import ASHLAR, MODELS, ROOT, Guest, Router, missing  # noqa: E402
from net import Lab, leftovers  # noqa: E402

def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "short: part of `make test`")
    # pytest unwinds on Ctrl-C by itself; a SIGTERM must end as tidily.
    signal.signal(signal.SIGTERM, lambda *_: pytest.exit("terminated", returncode=143))
    if os.geteuid() != 0:
        pytest.exit("the guests read all of this machine's files: run the tests as root", returncode=2)
    if not os.access(ASHLAR, os.X_OK):
        pytest.exit(f"there is no {ASHLAR}: run `make build`, or set ASHLAR_BIN", returncode=2)
    hidden = [path for path in (ROOT, Path(ASHLAR).resolve()) if path.parts[1] in ("tmp", "run")]
    if hidden and not missing():
        pytest.exit(f"guests see nothing of /tmp and /run, and {hidden[0]} is there: put the project elsewhere", returncode=2)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if missing():
        for item in items:
            item.add_marker(pytest.mark.skip(reason=missing()))


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
