"""A folder of eval/: its measurement in steps, and the generation of its page from the results.

A folder has a `measure.py` (this class, filled in), the configurations it runs, `page.md` (the text with
places for figures), and what `make eval` writes: `raw.json`, `plot.svg` and `README.md`. Pages hold no figure
that is not computed from `raw.json`.
"""

import argparse
import concurrent.futures
import json
import math
import pathlib
import re
import statistics
import sys
import time
import traceback

from . import between, machine, plot, ratios, spread  # noqa: F401  for the folders
from .lab import Lab, need_program
from .progress import Bar

# Marks of the table of all figures.
BEGIN, END = "<!-- made by eval/run -->", "<!-- end -->"
BUSY = 1.0  # the load from which a page warns its readers
LIMITS = "**Not shown here:**"  # begins the first paragraph of each page


class Figure:
    """A figure of a paper. `steps(quick)` yields pairs of a label and a function of the lab; a label that appears once
    per round collects a list of results. `values(raw)` returns the figures for the page, and `draw(axes, raw)` draws
    the plot. A figure that is only computed or simulated needs no `lab`: neither root nor hugepages nor a quiet
    machine. Results of a figure that is not `timed` do not depend on other programs. `at_once` steps run at the same time: more
    than one only if no step measures time. `summary(raw, values)` returns rows for the table of all figures: description,
    the paper's value, and the measured value.
    """

    def __init__(self, file, steps, values, draw, summary, rounds=3, size=(7, 4), panels=1, lab=True, timed=None, at_once=1):
        self.folder = pathlib.Path(file).resolve().parent
        self.steps, self.values, self.draw, self.summary = steps, values, draw, summary
        self.rounds, self.size, self.panels, self.lab = rounds, size, panels, lab
        self.timed = lab if timed is None else timed
        self.at_once = at_once
        self.only = ""

    @property
    def name(self):
        return self.folder.name

    def wanted(self):
        """Steps to run: all, or those whose labels begin with `only`."""
        return [(label, run) for label, run in self.steps() if label.startswith(self.only)]

    def count(self):
        """Number of steps."""
        return self.rounds * len(self.wanted())

    def measure(self, lab, bar):
        """Runs everything and writes raw.json; with `only`, keeps the results of other steps."""
        notes, begin = machine.notes(), time.monotonic()
        results = {}

        def step(label, run):
            bar.show(f"{self.name}: {label}")
            try:
                result = run(lab)
                if isinstance(result, dict) and "rate" in result:
                    machine.some(result["rate"], "packets a second")
            except machine.Failed as failed:
                raise machine.Failed(f"{self.name}, {label}: {failed}") from failed
            finally:
                lab.end_all()
            bar.step()
            return result

        for _ in range(self.rounds):
            wanted = self.wanted()
            for (label, _), result in zip(wanted, each(step, wanted, self.at_once)):
                results.setdefault(label, []).append(result)
        if not results:
            raise machine.Failed(f"{self.name} has no step that begins with {self.only!r}")
        raw = {"host": notes, "command": f"eval/{self.name}/measure.py", "rounds": self.rounds, "seconds": round(time.monotonic() - begin), "results": results}
        if self.only:
            raw = self.raw()
            raw["results"] |= results
            raw.setdefault("later", {})[self.only] = notes
        (self.folder / "raw.json").write_text(json.dumps(raw, indent=1) + "\n")

    def raw(self):
        """The raw results."""
        path = self.folder / "raw.json"
        if not path.exists():
            raise machine.NotMeasured(f"{path} is missing: measure first, with eval/{self.name}/measure.py")
        return json.loads(path.read_text())

    def rows(self):
        """Rows for the table of all figures."""
        raw = self.raw()
        host = raw["host"]
        return [[*row, f"[{self.name}]({self.name})", host["commit"], host["date"]] for row in self.summary(raw, self.values(raw))]

    def write_page(self):
        """Makes the plot and the page from raw.json."""
        raw = self.raw()
        plot.write(self.folder / "plot.svg", lambda axes: self.draw(axes, raw), self.size, self.panels)
        values = {"host": host_table(raw), "command": f"    {raw['command']}"} | self.values(raw)
        text = fill(page_text(self.folder), values)
        (self.folder / "README.md").write_text(warned(text, raw["host"]) if self.timed else text)

    def other(self, name):
        """The raw results of another folder, which is measured before this one."""
        path = self.folder.parent / name / "raw.json"
        if not path.exists():
            raise machine.NotMeasured(f"{path} is missing: measure it first, with eval/{name}/measure.py")
        return json.loads(path.read_text())

    def main(self):
        """Command line of one folder."""
        parser = argparse.ArgumentParser(description=f"Measures eval/{self.name} and writes its page.")
        parser.add_argument("--page", action="store_true", help="only make plot and page again, of raw.json")
        parser.add_argument("--rounds", type=int, default=self.rounds, help="default %(default)s")
        parser.add_argument("--only", metavar="WORD", default="", help="measure only steps whose label begins with this word; keep the other results")
        words = parser.parse_args()
        self.rounds, self.only = words.rounds, words.only
        guarded(lambda: run_all([self], words.page))


class Failures:
    """Failures of figures, which do not keep the others from being measured."""

    def __init__(self):
        self.found = []

    def catch(self, work, *words):
        """Calls a function, and collects its failure, also one that is a fault of the program. Missing results are only told."""
        try:
            work(*words)
        except machine.NotMeasured as missing:
            print(f"no page: {missing}", file=sys.stderr)
        except machine.Failed as failed:
            self.found.append(str(failed))
        except FileNotFoundError:
            raise  # a program is missing, for the other figures too
        except Exception:  # the figures after it can still be measured
            self.found.append(traceback.format_exc().rstrip())

    def report(self):
        """Raises all failures as one."""
        if self.found:
            raise machine.Failed("\nerror: ".join(self.found))


def run_all(figures, page_only=False):
    """Measures figures one after the other; writes each page when its figure is done."""
    failures = Failures()
    if page_only:
        for figure in figures:
            failures.catch(figure.write_page)
    else:
        need_program()
        with Lab() if any(f.lab for f in figures) else Desk() as lab, Bar(sum(f.count() for f in figures)) as bar:
            for figure in figures:
                failures.catch(figure.measure, lab, bar)
                failures.catch(figure.write_page)
    failures.report()


def each(step, words, at_once):
    """Results of a function for each of some tuples of arguments, in their order; `at_once` calls run at the same time."""
    if at_once == 1:
        yield from (step(*one) for one in words)
        return
    pool = concurrent.futures.ThreadPoolExecutor(at_once)
    try:
        yield from pool.map(lambda one: step(*one), words)
    finally:
        pool.shutdown(cancel_futures=True)


def write_summary(path, figures, not_shown):
    """Writes the table of all figures into a page, between two markers; `not_shown` has the rows of figures without results."""
    text = path.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    head = ["figure", "paper", "here", "page", "commit", "date"]
    rows = []
    for figure in figures:
        try:
            rows += figure.rows()
        except machine.NotMeasured:
            rows.append(["not measured yet", "", "", f"[{figure.name}]({figure.name})", "", ""])
    path.write_text(f"{before}{BEGIN}\n{table(head, rows + not_shown)}\n{END}{after}")


class Desk:
    """Resources of measurements that start no router."""

    def __enter__(self):
        machine.end_in_order()
        machine.WORK.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_):
        pass

    def end_all(self):
        """Does nothing: no program runs."""


def guarded(work):
    """Turns an exception into an error message and an exit status."""
    try:
        work()
    except machine.Failed as failed:
        sys.exit(f"error: {failed}")
    except FileNotFoundError as missing:
        sys.exit(f"error: {missing.filename} is missing: run scripts/deps eval")
    except KeyboardInterrupt:
        sys.exit("interrupted; nothing is left running")


def page_text(folder):
    """The text of a folder's page, with placeholders. Its first paragraph must say what the page does not show."""
    path = folder / "page.md"
    text = path.read_text()
    if not text.split("\n", 2)[2].startswith(LIMITS):
        raise machine.Failed(f"{path} does not begin with \"{LIMITS} ...\" below its title")
    return text


def fill(template, values):
    """Replaces placeholders by figures; a placeholder without a figure is an error."""

    def one(place):
        if place[1] not in values:
            raise machine.Failed(f"the page asks for {{{{{place[1]}}}}}, which is not measured")
        return str(values[place[1]])

    return re.sub(r"\{\{([^}]+)\}\}", one, template)


def claim(is_so, sentence):
    """A sentence for a page, if the results support it; otherwise the page is not generated."""
    if not is_so:
        raise machine.Failed(f"the page would say what its results contradict: {sentence}")
    return sentence


def compared(ones, others):
    """Comparison of two lists of values: `more`, `less`, or `no different` if they overlap."""
    if min(ones) > max(others):
        return "more"
    return "less" if max(ones) < min(others) else "no different"


def warned(text, host):
    """The text of a page, with a warning below its title if the machine had other work."""
    load = float(host["load before"])
    if load < BUSY:
        return text
    title, rest = text.split("\n", 1)
    return (f"{title}\n\n> The load of this machine was {load:.2f} in the minute before, in which the measurement before this one counts.\n"
            f"> If other programs ran, rates are lower, cycles and latencies higher and the spread wider.\n{rest}")


def quotient(ones, others, digits=1):
    """Quotient of the medians of two lists; in parentheses the least and greatest quotient of any two rounds."""
    middle = statistics.median(ones) / statistics.median(others)
    if len(ones) == len(others) == 1:
        return f"{middle:.{digits}f}"
    return f"{middle:.{digits}f} ({between(min(ones) / max(others), max(ones) / min(others), digits)})"


def percent_less(ones, others):
    """Percent by which the median of a list is below that of another; in parentheses, of any two rounds."""
    def percent(one, other):
        return 100 * (1 - one / other)

    middle = percent(statistics.median(ones), statistics.median(others))
    if len(ones) == len(others) == 1:
        return f"{middle:.0f}"
    return f"{middle:.0f} ({between(percent(max(ones), min(others)), percent(min(ones), max(others)), 0)})"


def listed(words):
    """Words as a list of a sentence: with commas, and "and" before the last."""
    words = list(map(str, words))
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def at_most(value, digits=0):
    """A number for a page's "at most": rounded up."""
    return f"{math.ceil(round(value * 10**digits, 6)) / 10**digits:.{digits}f}"


def of_rounds(count):
    """Words for a page: how its figures come from so many rounds."""
    if count == 1:
        return "of one round"
    return f"{'means' if count == 2 else 'medians'} of {count} rounds, least and most"


def host_table(raw):
    rows = [f"| {name} | {value} |" for name, value in raw["host"].items()]
    rows += [f"| results \"{only}\" | {host['date']}, commit {host['commit']} |" for only, host in raw.get("later", {}).items()]
    return "\n".join(["| host | |", "|---|---|", *rows])


def column(results, label, field="rate", scale=1.0):
    """A field of a label's results: one value per round."""
    return [one[field] / scale for one in results[label]]


def median(results, label, field="rate", scale=1.0):
    return statistics.median(column(results, label, field, scale))


def dropped(results, label):
    """Percentage of the received packets that were not sent: median, least and most of the rounds."""
    return spread([100 * max(0, 1 - one["sent"] / one["received"]) for one in results[label]], 0)


def cores_of(raw):
    """Numbers of cores that were measured: the third words of the labels."""
    return sorted({int(label.split()[2]) for label in raw["results"]})


def table(head, rows):
    """A Markdown table."""
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in [head, ["---"] * len(head), *rows]]
    return "\n".join(lines)
