"""Random configurations of single classes, run by Click itself and by `ashlar click`.

Shows: what leaves by each port with its time and annotations, what handlers answer, and whether a configuration is taken
are the same. `CLICK_BIN` names Click's user-level program; without it all classes are skipped. `CLICK_CASES` is the number
of cases of a class, `CLICK_SEED` their seed. Random texts of the language, command lines and dialogues with control sockets
are run in the same way.
"""

import os
from pathlib import Path

import pytest
from click_peer.classes import SPECS
from click_peer.peers import Peers
from click_peer.runs import compare, run_case, told
from click_peer.table import row_classes
from click_peer.texts import TEXTS, text_difference
from topology import ASHLAR, ROOT

pytestmark = pytest.mark.ashlar

CLICK = os.environ.get("CLICK_BIN", "")
TEXT_CASES = [
    ("Idle -> (-> Null ->) -> Idle", []),
    ("a, b, c :: Idle; a[0x0] => b, [1]c; a[01] -> [0]c", []),
    ("elementclass A { $a, K $b, __REST__ $r | Script(TYPE PASSIVE, return $a, return $b, return $r) } A(K 2, 1, K 3)", []),
    ("elementclass Null { $a | input -> Null -> output || ... } Idle -> Null -> Idle -> Null(3) -> Idle", []),
    ("a :: Idle -> b :: Idle -> c :: Idle -> a", []),
    ("define($a 5 6) Script(TYPE PASSIVE, return $(a), return $$a, return ${a[1]}, return ${a[x]})", []),
    ("define($x 6) Script(TYPE PASSIVE, return $x)", ["x=5"]),
    ("x :: { input -> output }; Idle -> x", []),
    ("elementclass A { Foo }", []),
    ("elementclass A { Idle || ... }", []),
    ("a :: Paint(x); Queue -> Queue", []),
    ("Tee; Null; Queue; Counter -> Idle", []),
    ("b/a :: Idle; b :: { a :: Idle; }", []),
    ("elementclass A { $x | Idle }\nA(1,2)\nIdle\n", []),
]
"""Texts, with options, that showed differences once."""

CASES = int(os.environ.get("CLICK_CASES", "20"))
SEED = int(os.environ.get("CLICK_SEED", "1"))


@pytest.mark.skipif(not CLICK, reason="CLICK_BIN names no program of Click's")
@pytest.mark.parametrize("name", SPECS)
def test_a_class_does_as_in_click(name, tmp_path):
    difference, counts = compare(Peers(CLICK, ASHLAR, str(tmp_path)), name, SEED, CASES)
    assert difference is None, f"{difference}\n{dict(counts)}"
    assert counts["taken"] > 0, dict(counts)


@pytest.mark.skipif(not CLICK, reason="CLICK_BIN names no program of Click's")
@pytest.mark.parametrize("text", TEXT_CASES)
def test_a_text_means_the_same_as_in_click(text, tmp_path):
    written, options = text
    peers = Peers(CLICK, ASHLAR, str(tmp_path))
    of_click, of_ashlar = peers.run(["-q", *options, "-h", "flatconfig", "case.click"], written)
    assert text_difference(of_click, of_ashlar, True) is None


@pytest.mark.skipif(not CLICK, reason="CLICK_BIN names no program of Click's")
@pytest.mark.parametrize("name", [name for name in TEXTS if name != "graphs"])
def test_texts_command_lines_and_dialogues_do_as_in_click(name, tmp_path):
    peers, taken = Peers(CLICK, ASHLAR, str(tmp_path)), 0
    for number in range(CASES):
        counts, case, found = run_case(peers, name, SEED, number)
        taken += counts["taken"]
        assert found is None, told(peers, case, SEED, number, found)
    assert taken > 0


def test_the_page_counts_cases_of_every_class():
    page = Path(ROOT, "docs/click-compared.md").read_text()
    assert row_classes(page) == sorted(SPECS)
