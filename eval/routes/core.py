"""Other programs that ran on the worker's core, from the kernel's trace of context switches (tracefs)."""

import collections
import contextlib
import os
import pathlib
import re

from lib import lab, machine

FOLDER = pathlib.Path("/sys/kernel/tracing/instances/ashlar-routes")
SWITCH = re.compile(
    r" (\d+)\.(\d{6}): sched_switch: prev_comm=.* prev_pid=(\d+) prev_prio=\d+ prev_state=(\S+) ==> next_comm=(.*) next_pid=(\d+) ")
KB = 32 << 10  # of the record; what is older is overwritten


def _set(name, value):
    (FOLDER / name).write_text(value)


@contextlib.contextmanager
def recorded():
    """Starts recording context switches on the worker's core."""
    if not FOLDER.parent.is_dir():
        raise machine.Absent("this kernel has no tracefs at /sys/kernel/tracing")
    FOLDER.mkdir(exist_ok=True)
    try:
        for name, value in (("trace", ""), ("tracing_cpumask", f"{1 << lab.MEASURED:x}"), ("buffer_size_kb", str(KB)),
                            ("set_event", "sched:sched_switch")):
            _set(name, value)
        yield
    finally:
        os.rmdir(FOLDER)


def absences(worker):
    """Intervals in which a thread was kept from its core since the last call: (microseconds, {program: microseconds}),
    the longest first. Voluntary sleeps do not count.
    """
    found, away, by, since = [], None, None, None
    with open(FOLDER / f"per_cpu/cpu{lab.MEASURED}/trace") as lines:
        for switch in filter(None, map(SWITCH.search, lines)):
            seconds, micros, old, state, name, new = switch.groups()
            at = int(seconds) * 1_000_000 + int(micros)
            if away is not None:
                by[who] += at - since
            if int(old) == worker and state.startswith("R"):
                away, by = at, collections.Counter()
            elif int(new) == worker and away is not None:
                found.append((at - away, dict(by.most_common())))
                away = None
            who, since = f"{name}/{new}", at
    _set("trace", "")
    return sorted(found, key=lambda absence: -absence[0])
