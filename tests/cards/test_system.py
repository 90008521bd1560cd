"""System tests that need kernel features which the test machine's kernel may lack, run in a guest: Debian's kernel has
bonds and macvlan. tests/system skips them where a feature is missing.
"""

from collections.abc import Iterator

import pytest
from guest import ASHLAR, MODELS, PROGRAM, ROOT, Guest
from net import Lab

SETUP = f"cp {ASHLAR} {PROGRAM}; for m in af_packet veth bridge bonding macvlan tun; do modprobe $m; done"
TESTS = ["test_tasks.py::test_a_bond", "test_tasks.py::test_a_virtual_router"]


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    with Lab() as lab:
        made = Guest(lab, MODELS["e1000e"])
        made.run(SETUP)
        yield made


@pytest.mark.parametrize("test", TESTS)
def test_it_passes_in_a_guest(guest, test):
    words = f"-q -rs -p no:cacheprovider tests/system/{test}"
    said = guest.run(f"cd {ROOT} && ASHLAR_BIN={PROGRAM} /usr/bin/python3 -m pytest {words}", timeout=600, ok=False)
    assert "1 passed" in said and "skipped" not in said, said
