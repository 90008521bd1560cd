"""A progress bar: on a terminal one line that changes, else a line for each step."""

import sys
import time


class Bar:
    """Steps done of all, with the time that is left."""

    WIDTH = 30

    def __init__(self, steps):
        self.steps, self.done, self.what = steps, 0, ""

    def __enter__(self):
        self.start = time.monotonic()
        self.live = sys.stderr.isatty()
        return self

    def __exit__(self, *_):
        if self.live:
            print(file=sys.stderr)

    def show(self, what):
        self.what = what
        passed = time.monotonic() - self.start
        left = f"{passed / self.done * (self.steps - self.done) / 60:.0f} min left" if self.done else "starting"
        full = self.WIDTH * self.done // max(self.steps, 1)
        line = f"[{'#' * full}{'.' * (self.WIDTH - full)}] {self.done}/{self.steps} {left}  {what}"
        print(f"\r\x1b[K{line}" if self.live else line, end="" if self.live else "\n", file=sys.stderr, flush=True)

    def step(self):
        self.done += 1
        if self.live:
            self.show(self.what)
