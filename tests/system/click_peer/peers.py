"""Both programs, and their output for a case."""

import os
import re
import select
import shutil
import subprocess
from dataclasses import dataclass, replace

from .cases import case_of

LIMIT_S = 6
"""Seconds after which a run counts as endless."""

STAMP = re.compile(r"\b(\d{1,10}\.\d{6})\d{3}\b")
"""A time with nanoseconds."""


@dataclass
class Result:
    """Exit status and output of a run; the status is -99 if the run did not end."""

    status: int
    out: str
    err: str


class Run:
    """A program that runs."""

    def __init__(self, program, arguments, folder, name, stdin=os.devnull):
        self.out, self.err = (open(os.path.join(folder, f"{name}.{kind}"), "w+b") for kind in ("out", "err"))
        with open(os.path.join(folder, stdin), "rb") as given:
            self.process = subprocess.Popen([*program, *arguments], stdin=given, stdout=self.out, stderr=self.err, cwd=folder)

    def result(self):
        """Waits for the end of the run."""
        ended = self.process.poll() is not None
        if not ended:
            end = os.pidfd_open(self.process.pid)
            ended, _, _ = select.select([end], [], [], LIMIT_S)
            os.close(end)
        if not ended:
            self.process.kill()
        status = self.process.wait()
        texts = []
        for file in (self.out, self.err):
            file.seek(0)
            texts.append(STAMP.sub(r"\1", file.read(1 << 24).decode("latin-1")))
            file.close()
        return Result(status, *texts) if ended else Result(-99, "", "timeout")


class Peers:
    """Both programs."""

    def __init__(self, click, ashlar, folder):
        self.programs = ([click], [ashlar, "click"])
        self.folder = folder
        self.handlers_of = {}

    def both(self, case):
        """Output of Click for a case, and that of `ashlar click`."""
        return self.run(["--simtime", os.path.join(self.folder, "case.click")], case.text(), case.files)

    def folders(self):
        """Each program with an empty folder of its own."""
        for at, program in enumerate(self.programs):
            folder = os.path.join(self.folder, f"line{at}")
            shutil.rmtree(folder, ignore_errors=True)
            os.mkdir(folder)
            yield program, folder

    def run(self, arguments, text, files=()):
        """Output of Click with these arguments, and that of `ashlar click`; the text is in case.click."""
        with os.scandir(self.folder) as entries:  # Files that earlier cases wrote may be read by name.
            for entry in entries:
                if entry.is_file():
                    os.remove(entry)
        for name, data in (("case.click", text.encode()), *files):
            with open(os.path.join(self.folder, name), "wb") as file:
                file.write(data)
        running = [Run(p, arguments, self.folder, f"run{n}") for n, p in enumerate(self.programs)]
        return [run.result() for run in running]

    def handlers(self, name):
        """Handlers that both programs have of a class, from a configuration that both take, with their flags in Click."""
        if name not in self.handlers_of:
            self.handlers_of[name] = self.shared_handlers(name)
        return self.handlers_of[name]

    def shared_handlers(self, name):
        for number in range(60):
            case = replace(case_of(name, "handlers", number, {}), steps=("print $(e.handlers)",))
            both = self.both(case)
            if all(result.status == 0 for result in both):
                of_click, of_ashlar = (listed_handlers(result.out) for result in both)
                return {n: shared_flags(flags, of_ashlar[n]) for n, flags in of_click.items() if n in of_ashlar}
        return {}


def listed_handlers(text):
    """Names and flags that a handler `handlers` lists."""
    lines = (line.split() for line in text.splitlines())
    return {words[0]: words[1] for words in lines if len(words) == 2}


def shared_flags(of_click, of_ashlar):
    """Reads and writes that both programs have of a handler."""
    return "".join(flag for flag in "rw" if flag in of_click and flag in of_ashlar)
