"""docs/conformance.md and the conformance cases agree; only text is compared, no router runs."""

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
TABLE = HERE.parents[1] / "docs" / "conformance.md"
CASE = re.compile(r"`(\w+)::(test_\w+)`")


def named() -> set[tuple[str, str]]:
    """Cases named in the table: `ip4::test_x` is test_x of test_conformance_ip4.py."""
    return set(CASE.findall(TABLE.read_text()))


def written() -> set[tuple[str, str]]:
    """Existing cases."""
    found = set()
    for file in HERE.glob("test_conformance_*.py"):
        if file != Path(__file__):
            area = file.stem.removeprefix("test_conformance_")
            functions = (node for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef))
            found |= {(area, node.name) for node in functions if node.name.startswith("test_")}
    return found


def test_every_case_of_the_table_exists():
    assert not sorted(named() - written())


def test_every_case_is_in_the_table():
    assert written() and not sorted(written() - named())


def test_every_requirement_has_a_case_or_a_reason():
    rows = [line for line in TABLE.read_text().splitlines() if re.match(r"\| [0-9]", line)]
    bad = [row for row in rows if row.count("|") != 5 or not row.split("|")[4].strip()]
    assert rows and not bad
