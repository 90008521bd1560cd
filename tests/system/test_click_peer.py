"""Random configurations of single classes, run by Click itself and by `ashlar click`.

Shows: what leaves by each port with its time and annotations, what handlers answer, and whether a configuration is taken
are the same. `CLICK_BIN` names Click's user-level program; without it all classes are skipped. `CLICK_CASES` is the number
of cases of a class, `CLICK_SEED` their seed. Classes in DIFFERENT still differ, as docs/click-compared.md says.
"""

import os
from pathlib import Path

import pytest
from click_peer.classes import DIFFERENT, SPECS
from click_peer.peers import Peers
from click_peer.runs import compare
from click_peer.table import row_classes
from topology import ASHLAR, ROOT

pytestmark = pytest.mark.ashlar

CLICK = os.environ.get("CLICK_BIN", "")
CASES = int(os.environ.get("CLICK_CASES", "20"))
SEED = int(os.environ.get("CLICK_SEED", "1"))


@pytest.mark.skipif(not CLICK, reason="CLICK_BIN names no program of Click's")
@pytest.mark.parametrize("name", [name for name in SPECS if name not in DIFFERENT])
def test_a_class_does_as_in_click(name, tmp_path):
    difference, counts = compare(Peers(CLICK, ASHLAR, str(tmp_path)), name, SEED, CASES)
    assert difference is None, f"{difference}\n{dict(counts)}"
    assert counts["taken"] > 0, dict(counts)


def test_the_page_counts_cases_of_every_class():
    page = Path(ROOT, "docs/click-compared.md").read_text()
    assert row_classes(page) == sorted(SPECS)
