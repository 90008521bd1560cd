"""Smallest case that still shows a difference."""

import re
from dataclasses import replace

from .judge import difference

NEEDED = re.compile("Check|Mark|AggregateIP")
"""Elements without which a class works on packets that it does not expect."""

ROUNDS = 4
"""Passes over a case at most."""


def shrink(peers, case, kind, wording):
    """A reduced case that still shows a difference of this kind."""

    def shows(c):
        found = difference(*peers.both(c), wording)
        return found is not None and found[0] == kind

    for _ in range(ROUNDS):
        smaller = with_fewer_steps(case, shows)
        for candidates in (fewer_args, fewer_before, simpler):
            smaller = first_that_shows(smaller, candidates, shows)
        if smaller == case:
            break
        case = smaller
    return case


def with_fewer_steps(case, shows):
    """The case without steps that the difference does not need: first half of them at a time, at last single ones."""
    size = max(1, len(case.steps) // 2)
    while size >= 1:
        at = 0
        while at < len(case.steps):
            smaller = replace(case, steps=case.steps[:at] + case.steps[at + size :])
            if shows(smaller):
                case = smaller
            else:
                at += size
        size //= 2
    return case


def first_that_shows(case, candidates, shows):
    """The case made smaller as long as one of its candidates still shows the difference."""
    found = True
    while found:
        found = next((smaller for smaller in candidates(case) if smaller != case and shows(smaller)), None)
        case = found or case
    return case


def fewer_args(case):
    """Cases with one argument less, but for those that every case of the class has."""
    always = {arg.split("!")[0] for arg in case.spec.args if "!" in arg}
    for at in reversed(range(len(case.args))):
        if case.args[at].split(" ")[0] in always:
            continue
        yield replace(case, args=case.args[:at] + case.args[at + 1 :])


def fewer_before(case):
    """Cases with one element less in front."""
    for at in reversed(range(len(case.before))):
        if not NEEDED.match(case.before[at]):
            yield replace(case, before=case.before[:at] + case.before[at + 1 :])


def simpler(case):
    """Cases without names, without pull, or with fewer ports."""
    yield replace(case, names=False)
    yield replace(case, pull=False)
    yield replace(case, outputs=case.spec.outputs[0])
    if case.inputs > 1 >= case.spec.inputs[0] and not any(port for port, _ in case.packets):
        yield replace(case, inputs=1)
