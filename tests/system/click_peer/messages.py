"""Differences between the messages of two runs."""

import re

ENVIRONMENT = re.compile(r"^While loading package|^  can't find required package|^  in CLICKPATH|requirement '.*' not available$")
"""Lines about packages, which Click looks for in files."""


def lines_of(text):
    """Messages, without those about packages."""
    return [line.rstrip() for line in text.splitlines() if line.strip() and not ENVIRONMENT.search(line)]


def only_packages(text):
    """True if all messages are about packages: Click lacks their files here, and looks at nothing else then."""
    return bool(text.strip()) and not lines_of(text)


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
