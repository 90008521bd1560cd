"""Table of counts."""

import re
from collections import Counter, defaultdict

COLUMNS = ("taken", "refused", "undefined", "packets", "differ")


def spans(numbers):
    """Numbers as ranges: `1-3, 7`."""
    out = []
    for n in sorted(numbers):
        if out and n == out[-1][1] + 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    return ", ".join(f"{low}" if low == high else f"{low}-{high}" for low, high in out)


def table(lines):
    """Counts of each class and of all, as Markdown."""
    counts, seeds = defaultdict(Counter), defaultdict(set)
    for line in lines:
        of_class = counts[line["class"]]
        of_class.update({name: line.get(name, 0) for name in ("cases", *COLUMNS)})
        seeds[line["class"]].add(line["seed"])
    rows = ["| class | cases | taken | refused | undefined | packets | differ | seeds |", "|---|--:|--:|--:|--:|--:|--:|---|"]
    for name in sorted(counts):
        cells = [f"{counts[name][column]:,}" for column in ("cases", *COLUMNS)]
        rows.append(f"| {name} | {' | '.join(cells)} | {spans(seeds[name])} |")
    total = sum(counts.values(), Counter())
    cells = [f"{total[column]:,}" for column in ("cases", *COLUMNS)]
    rows.append(f"| {len(counts)} classes | {' | '.join(cells)} | |")
    return "\n".join(rows)


BEGIN, END = "<!-- made by click_peer -->\n", "<!-- end -->\n"


def into_page(page, text):
    """A page with a table in the place of its old one."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{text}\n\n{END}{after}"


def row_classes(page):
    """Names of the classes in a page's table."""
    _, _, rest = page.partition(BEGIN)
    return re.findall(r"^\| (\w+) \| \d", rest, flags=re.MULTILINE)
