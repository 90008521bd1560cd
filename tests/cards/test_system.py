"""Sections of docs/tasks.md whose interfaces the kernel of this machine may not have, typed in a guest: its kernel has them all.

The tests are those of tests/system/test_tasks.py, which are skipped where an interface is missing.
"""

from collections.abc import Iterator

import pytest
from guest import ASHLAR, MODELS, PROGRAM, ROOT, Guest
from net import Lab

MODULES = "af_packet veth bridge bonding macvlan tun"


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    with Lab() as lab:
        made = Guest(lab, MODELS["e1000e"])
        made.run(f"cp {ASHLAR} {PROGRAM}; for m in {MODULES}; do modprobe $m; done")
        yield made


@pytest.mark.parametrize("task", ["a_bond", "a_virtual_router"])
def test_a_task_does_what_the_page_says(guest, task):
    words = f"-q -rs -p no:cacheprovider tests/system/test_tasks.py::test_{task}"
    said = guest.run(f"cd {ROOT} && ASHLAR_BIN={PROGRAM} /usr/bin/python3 -m pytest {words}", timeout=600, ok=False)
    assert "1 passed" in said and "skipped" not in said, said
