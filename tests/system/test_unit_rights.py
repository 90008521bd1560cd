"""Rights of the router under the unit of dist, as systemd rates them without running the unit."""

import re
import shutil
import subprocess

import pytest

from topology import ROOT

pytestmark = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="this needs systemd-analyze")

# Exposure level of systemd-analyze, from 0 (no rights) to 10. A router needs the rest: the host's network, packet sockets,
# two capabilities, and a third one to enter a namespace.
EXPOSURE_MAX = 2.8


def test_the_unit_gives_the_router_few_rights(tmp_path):
    # systemd-analyze judges no template, but an instance of it.
    unit = tmp_path / "ashlar@edge.service"
    unit.write_text((ROOT / "dist/ashlar@.service").read_text())
    command = ["systemd-analyze", "security", "--no-pager", "--offline=true", str(unit)]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    exposure = re.search(r"exposure level for \S+: ([0-9.]+)", said)
    assert exposure, said
    assert float(exposure[1]) <= EXPOSURE_MAX, said
