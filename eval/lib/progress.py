"""A progress bar: one changing line on a terminal, otherwise one line per step."""

import sys
import time


class Bar:
    """Progress in steps, with the remaining time."""

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
