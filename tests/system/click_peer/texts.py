"""Random texts of the language and random graphs: what both programs say of them, and the smallest that still differ."""

import re
import time

from .graphs import graph_case
from .judge import difference, first_lines
from .language import language_case

TEXTS = {"language": language_case, "graphs": graph_case}
"""Kinds of cases that are no class."""

SHRINK_S = 20
"""Seconds after which a difference is shown as small as it is by then."""

ENVIRONMENT = re.compile(r"^While loading package|^  can't find required package|^  in CLICKPATH|requirement '.*' not available$")
"""Lines about packages, which Click looks for in files."""


def lines_of(text):
    """Messages, without those about packages."""
    return [line.rstrip() for line in text.splitlines() if line.strip() and not ENVIRONMENT.search(line)]


def kind_of(line):
    """A message without its names and numbers."""
    return re.sub(r"\d+", "N", re.sub("'[^']*'", "'...'", line))


def message_difference(a, b, after_first):
    """A difference between the messages of two runs, or None. After the first mistake the programs may go on differently."""
    of_click, of_ashlar = lines_of(a.err), lines_of(b.err)
    if not after_first:
        of_click, of_ashlar = of_click[:1], of_ashlar[:1]
    if of_click == of_ashlar:
        return None
    pairs = zip(of_click + [""] * len(of_ashlar), of_ashlar + [""] * len(of_click), strict=False)
    x, y = next((x, y) for x, y in pairs if x != y)
    return f"{kind_of(x)} / {kind_of(y)}", a.err, b.err


def text_difference(a, b, wording):
    """Difference as of `judge.difference`, with messages and their places; without `wording` only the first message."""
    if b.status not in (0, 1, -99):
        return "crash", a.err, b.err
    if a.status < 0:
        return None
    if a.status != b.status:
        return {0: "taken", 1: "refused"}.get(a.status, "status"), a.err, b.err
    if a.out != b.out:
        return "stdout", a.out, b.out
    return message_difference(a, b, wording)


def found_in(peers, case, wording):
    """Results of both programs, and their difference or None."""
    both = peers.run(case.command(), case.text(), case.files)
    judge = text_difference if case.name == "language" else difference
    return both, judge(*both, wording)


def told_text(peers, case, seed, number, found, wording):
    """Text of a difference, with the smallest case that shows it."""
    end = time.monotonic() + SHRINK_S

    def shows(smaller):
        again = found_in(peers, smaller, wording)[1] if time.monotonic() < end else None
        return again is not None and again[0] == found[0]

    small = case.smaller(shows)
    last = found_in(peers, small, wording)[1] or found
    return f"{case.name}, seed {seed}, case {number}: {last[0]}\n{small.told()}{first_lines(last[1], last[2])}"
