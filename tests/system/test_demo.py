"""`make run` prints the promised output and leaves nothing behind: at its end, when a step fails, and when it is
interrupted.
"""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from net import leftovers
from topology import KIND

pytestmark = pytest.mark.long

DEMO = [sys.executable, str(Path(__file__).with_name("demo.py")), "--seconds", "1"]


def start(**env: str) -> subprocess.Popen:
    return subprocess.Popen(DEMO, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env={**os.environ, "PYTHONUNBUFFERED": "1", **env})


def finish(run: subprocess.Popen) -> str:
    try:
        return run.communicate(timeout=90)[0]
    finally:
        run.kill()
        run.wait()


def test_every_step_of_the_demonstration_succeeds():
    run = start()
    said = finish(run)
    assert run.returncode == 0, said
    assert "✗" not in said
    steps = re.findall(r"✓ (.+?)  ", said)
    assert len(steps) == 11 if KIND == "linux" else len(steps) >= 18, said
    for text in ("router (10.0.1.1) → server", "router (fd00:1::1) → server", "Gbit/s", "MTU 1500", *(() if KIND == "linux" else ("Ashlar carried",))):
        assert text in said
    assert leftovers(f"ashlar-{run.pid}-") == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("step", ["server", "✓ router", "✓ ping", "✓ traceroute, IPv6"])
def test_an_interrupted_demonstration_leaves_nothing_behind(number, step):
    """Interrupts right after the line of `step`, that is, during the next step."""
    run = start()
    # If the step never comes, this ends the program's output, and so the loop.
    late = threading.Timer(180, run.kill)
    late.start()
    assert any(step in line for line in run.stdout), f"no step {step}"
    late.cancel()
    run.send_signal(number)
    said = finish(run)
    assert run.returncode == 128 + number, said
    assert leftovers(f"ashlar-{run.pid}-") == []


@pytest.mark.ashlar
def test_on_a_terminal_the_table_lives_until_ctrl_c():
    run, terminal = pty.fork()
    if run == 0:
        os.execv(DEMO[0], DEMO[:2])
    said, ended = b"", False
    end = time.monotonic() + 180
    while time.monotonic() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                said += os.read(terminal, 1 << 16)
            except OSError:
                break
        # The second picture has rates.
        if not ended and said.count(b"\x1b[H") >= 2:
            ended = True
            os.write(terminal, b"\x03")
    else:
        os.kill(run, signal.SIGKILL)
    os.close(terminal)
    text = said.decode(errors="replace")
    assert os.waitstatus_to_exitcode(os.waitpid(run, 0)[1]) == 0, text
    assert ended and "✓ table" in text and "✗" not in text, text
    assert leftovers(f"ashlar-{run}-") == []


@pytest.mark.ashlar
def test_a_demonstration_whose_router_does_not_start_fails_and_leaves_nothing_behind():
    run = start(ASHLAR_BIN="/bin/false")
    said = finish(run)
    assert run.returncode == 1
    assert "✗ router" in said
    assert leftovers(f"ashlar-{run.pid}-") == []
