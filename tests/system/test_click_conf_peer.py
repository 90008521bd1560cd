"""Click's own configurations without devices, run by Click itself and by `ashlar click`.

Shows: for the same input both print the same and end with the same status, or the difference is named here. `CLICK_BIN`
names Click's user-level program and `CLICK_CHECKOUT` a checkout of its repository; without them all is skipped.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest
from topology import ASHLAR

pytestmark = pytest.mark.ashlar

CLICK = os.environ.get("CLICK_BIN", "")
CONF = Path(os.environ.get("CLICK_CHECKOUT", "/nonexistent"), "conf")

DEVICES = set("""
dnsproxy print-pings test-device test-ping-userlevel test-tap test-tun webgen fromhost-tunnel
""".split())

DIFFERENT = {
    "icmp6error": "IP6NDSolicitor asks once for each packet that waits, and asks again",
    "ip601": "output 0 of IP6NDSolicitor may be pulled here",
    "ip6ndadvertiser": "IP6NDAdvertiser takes packets without their Ethernet header",
    "ip6ndsolicitor": "BADADDRS may be a list here, as the manual says",
    "ip6print": "IP6Print is missing",
    "schedorder1": "SchedOrderTest is missing",
}

# Numbers that both draw: a port of a range, a time that Click's reading of the clock moves.
DRAWN = [(r"\b(\d{10}\.\d{6})\d{3}\b", r"\1"), (r"\b8\.0\.0\.2\.1\d{3}\b", "8.0.0.2.PORT")]
LINES = 2000
"""Lines that are compared of a configuration that does not end."""


def configurations():
    for file in sorted(CONF.rglob("*.click")):
        name = str(file.relative_to(CONF).with_suffix(""))
        if name not in DEVICES:
            yield name


def run(program, name, folder):
    """Status and output lines of a program; it is stopped after three seconds of simulated time."""
    file = folder / "case.click"
    file.write_text((CONF / f"{name}.click").read_text() + "\nzz_end :: Script(wait 3.0017, stop);\n")
    with subprocess.Popen(
        [*program, "--simtime", str(file)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace", cwd=folder,
    ) as process:
        lines = []
        for line in process.stdout:
            lines.append(line.rstrip())
            if len(lines) == LINES:
                process.kill()
                return 0, lines
        process.wait()
    return process.returncode, lines


def said(lines):
    """Output of packets and scripts, without warnings, and with random values replaced by names."""
    for line in lines:
        if "warning: " in line or line.startswith(("While ", "/")) or ".click:" in line:
            continue
        for drawn, name in DRAWN:
            line = re.sub(drawn, name, line)
        yield line


@pytest.mark.skipif(not CLICK or not CONF.is_dir(), reason="CLICK_BIN and CLICK_CHECKOUT name no Click")
@pytest.mark.parametrize("name", configurations() if CONF.is_dir() else [""])
def test_a_configuration_does_as_in_click(name, tmp_path):
    of_click, of_ashlar = (run(p, name, tmp_path) for p in ([CLICK], [ASHLAR, "click"]))
    same = of_click[0] == of_ashlar[0] and (
        of_click[0] != 0 or list(said(of_click[1]))[: LINES - 10] == list(said(of_ashlar[1]))[: LINES - 10])
    assert same != (name in DIFFERENT), (
        f"{name} is said to differ: {DIFFERENT.get(name)}\n{of_click[0]} {of_click[1][:20]}\n{of_ashlar[0]} {of_ashlar[1][:20]}")
