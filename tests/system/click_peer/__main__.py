"""Runs random cases of classes with both programs, and prints what differs and a table of counts.

    cd tests/system
    python3 -m click_peer --click CLICK --ashlar ASHLAR --cases 100 --seeds 1-5 Strip Paint

Without classes it takes all. `language` stands for random texts of the language, `graphs` for random graphs of several
elements with scripts, `options` for command lines, and `control` for dialogues with control sockets. `--results FILE` keeps the counts of each class under each seed. A class and seed that are
in the file do not run again, so that a run may be stopped and resumed. `--page FILE` puts the table into a page.
`--case N` runs one case alone and prints it.
"""

import argparse
import json
import os
import sys
import tempfile
from collections import Counter

from .classes import SPECS
from .peers import Peers
from .runs import run_case, told
from .table import into_page, table
from .texts import TEXTS

SHOWN = 3
"""Differences of a class under one seed that are shrunk and printed."""


def numbers(text):
    """Numbers of a list of ranges: `1-3,7`."""
    spans = (part.partition("-") for part in text.split(","))
    return [n for low, _, high in spans for n in range(int(low), int(high or low) + 1)]


def arguments():
    parser = argparse.ArgumentParser(
        prog="click_peer", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--click", default=os.environ.get("CLICK_BIN"), help="Click's user-level program")
    parser.add_argument("--ashlar", default=os.environ.get("ASHLAR_BIN"), help="the program that is judged")
    parser.add_argument("--cases", type=int, default=100, help="cases of a class under each seed")
    parser.add_argument("--seeds", type=numbers, default=[1], help="such as 1-20 or 1,5")
    parser.add_argument("--case", type=int, help="number of the only case that runs")
    parser.add_argument("--wording", action="store_true", help="compare messages by their words, too")
    parser.add_argument("--results", help="file with counts, one class and seed a line")
    parser.add_argument("--page", help="page that gets the table, such as ../../docs/click-compared.md")
    parser.add_argument("classes", nargs="*", metavar="CLASS")
    given = parser.parse_args()
    if wrong := [name for name in given.classes if name not in SPECS and name not in TEXTS]:
        parser.error(f"no cases for {' '.join(wrong)}")
    if not (given.click and given.ashlar):
        parser.error("--click and --ashlar are needed")
    given.click, given.ashlar = os.path.abspath(given.click), os.path.abspath(given.ashlar)
    return given


def run_class(peers, name, seed, given):
    """Counts of the cases of a class under a seed; prints what differs."""
    total = Counter()
    for number in range(given.cases) if given.case is None else [given.case]:
        counts, case, found = run_case(peers, name, seed, number, given.wording)
        total += counts
        if given.case is not None:
            print(case.text())
        if found and total["differ"] <= SHOWN:
            print(f"--- {told(peers, case, seed, number, found, given.wording)}", flush=True)
        elif found:
            print(f"--- {name}, seed {seed}, case {number}: {found[0]}", flush=True)
    return total


def main():
    given = arguments()
    lines = []
    if given.results and os.path.exists(given.results):
        with open(given.results, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
    done = {(line["class"], line["seed"], line["cases"]) for line in lines}
    with tempfile.TemporaryDirectory(prefix="click-peer-") as folder:
        peers = Peers(given.click, given.ashlar, folder)
        for seed in given.seeds:
            for name in given.classes or SPECS:
                if (name, seed, given.cases) in done:
                    continue
                counts = run_class(peers, name, seed, given)
                lines.append({"class": name, "seed": seed, "cases": given.cases, **counts})
                if given.results:
                    with open(given.results, "a", encoding="utf-8") as file:
                        file.write(json.dumps(lines[-1]) + "\n")
    text = table(lines)
    print(text)
    if given.page:
        with open(given.page, encoding="utf-8") as file:
            page = file.read()
        with open(given.page, "w", encoding="utf-8") as file:
            file.write(into_page(page, text))
    return int(any(line.get("differ") for line in lines))


if __name__ == "__main__":
    sys.exit(main())
