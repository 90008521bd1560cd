"""Runs of many cases, and their results."""

from collections import Counter

from .cases import case_of
from .judge import difference, first_lines
from .shrink import shrink
from .texts import TEXTS, found_in, told_text

STATUS = {0: "taken", 1: "refused"}
"""Counts by Click's exit status; anything else is `undefined`: Click crashed or did not end."""


def run_case(peers, name, seed, number, wording=False):
    """Counts of a case, and its difference or None."""
    if name in TEXTS:
        case = TEXTS[name](seed, number)
        (of_click, _), found = found_in(peers, case, wording)
    else:
        case = case_of(name, seed, number, peers.handlers(name))
        of_click, of_ashlar = peers.both(case)
        found = difference(of_click, of_ashlar, wording)
    counts = Counter({STATUS.get(of_click.status, "undefined"): 1, "packets": len(case.packets), "differ": int(found is not None)})
    return counts, case, found


def told(peers, case, seed, number, found, wording=False):
    """Text of a difference, with the smallest case that shows it."""
    if case.name in TEXTS:
        return told_text(peers, case, seed, number, found, wording)
    small = shrink(peers, case, found[0], wording)
    found = difference(*peers.both(small), wording) or found
    return f"{case.name}, seed {seed}, case {number}: {found[0]}\n{small.text()}{first_lines(found[1], found[2])}"


def compare(peers, name, seed, cases, wording=False):
    """The first difference among random cases of a class, shrunk, as a text; None if there is none. And counts."""
    total, text = Counter(), None
    for number in range(cases):
        counts, case, found = run_case(peers, name, seed, number, wording)
        total += counts
        if found and text is None:
            text = told(peers, case, seed, number, found, wording)
    return text, total
