"""Figures on hand-written pages, compared with the raw results that are kept beside them; and commits that pages name."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "eval"))

from lib import stated  # noqa: E402

# A commit has letters and digits; a number has no letters, a word no digits. Other projects' commits stand in backquotes.
COMMIT = re.compile(r"(?<![\w.:/#`%-])(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,10}(?![\w-])")


def git(*words: str, given: str = "") -> str:
    return subprocess.run(["git", *words], cwd=ROOT, input=given, capture_output=True, text=True, check=True).stdout


def has_history() -> bool:
    asked = subprocess.run(["git", "rev-parse", "--is-shallow-repository"], cwd=ROOT, capture_output=True, text=True)
    return asked.stdout.strip() == "false"


@pytest.mark.parametrize("page", stated.PAGES)
def test_page_has_the_figures_of_its_raw_results(page):
    assert not stated.missing(page), f"{page} must say this, by its raw results; eval/lib/stated.py computes it"


def test_page_lacks_a_figure_that_its_raw_results_changed(monkeypatch):
    page, wanted = next(iter(stated.PAGES.items()))
    monkeypatch.setitem(stated.PAGES, page, lambda: [*wanted(), "| random over all 2^32 | 2.8 (2.7-4.4) |"])
    assert stated.missing(page) == ["| random over all 2^32 | 2.8 (2.7-4.4) |"]


def test_pages_name_commits_of_this_repository():
    if not has_history():
        pytest.skip("there is no history of commits")
    pages = [ROOT / name for name in git("ls-files", "README.md", "CHANGELOG.md", ":(glob)docs/*.md", "eval/*.md").split()]
    named = {commit: page for page in pages for commit in COMMIT.findall(page.read_text())}
    assert len(named) > 20, "no page names commits as this test knows them"
    kinds = git("cat-file", "--batch-check=%(objecttype)", given="".join(f"{commit}^{{commit}}\n" for commit in named)).splitlines()
    unknown = {commit: str(page.relative_to(ROOT)) for (commit, page), kind in zip(named.items(), kinds, strict=True) if kind != "commit"}
    assert not unknown
