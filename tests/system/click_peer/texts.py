"""Random texts of the language and random graphs: the output of both programs, and the smallest texts that still
differ."""

import time

from .control import control_case, dialogue_difference, run_dialogue
from .graphs import graph_case
from .judge import difference, first_lines
from .language import language_case
from .messages import message_difference, only_packages
from .options import line_difference, options_case, run_line

TEXTS = {"language": language_case, "graphs": graph_case, "options": options_case, "control": control_case}
"""Kinds of cases that are no class."""

SHRINK_S = 20
"""Seconds after which a difference is shown as small as it is by then."""

def text_difference(a, b, wording):
    """Difference as of `judge.difference`, with messages and their places; without `wording` only the first message."""
    if b.status not in (0, 1, -99):
        return "crash", a.err, b.err
    if a.status < 0 or only_packages(a.err):
        return None
    if a.status != b.status:
        return {0: "taken", 1: "refused"}.get(a.status, "status"), a.err, b.err
    if a.out != b.out:
        return "stdout", a.out, b.out
    return message_difference(a, b, wording)


def run_text(peers, case):
    """Results of both programs for a text in a file."""
    return peers.run(case.command(), case.text(), case.files)


RUNS = {
    "language": (run_text, text_difference), "graphs": (run_text, difference), "options": (run_line, line_difference),
    "control": (run_dialogue, dialogue_difference),
}
"""For each kind of case, how it runs and how its results are compared."""


def found_in(peers, case, wording):
    """Results of both programs, and their difference or None."""
    run, judge = RUNS[case.name]
    both = run(peers, case)
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
