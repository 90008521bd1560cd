"""Configurations that others wrote, from Click's folder `conf`, by `ashlar click`.

Shows: each starts as it is, or is refused with what it lacks: a class of Click's kernel module, of radios, of
its own TCP, or a translator. `CLICK_CHECKOUT` names a checkout of the repository kohler/click; without it the
tests are skipped.
"""

import os
from pathlib import Path

import pytest
from topology import ASHLAR

CHECKOUT = os.environ.get("CLICK_CHECKOUT", "")

if not CHECKOUT:
    pytest.skip("CLICK_CHECKOUT names no checkout of kohler/click", allow_module_level=True)
pytestmark = pytest.mark.ashlar

STARTS = """
dnsproxy fake-iprouter icmp6error ip601 ip6ndadvertiser ip6ndsolicitor print-pings script-parabolawave
script-squarewave script-trianglewave stridetest test test-clicky test-device test-tap test-tun test2 test3
urewrite
""".split()

LACKS = {
    "delay": "PollDevice",
    "demo": "PollDevice",
    "fastudpsrc": "FastUDPSource",
    "fromhost-tunnel": "FromHost",
    "gnat01": "AddressTranslator",
    "ip64-nat": "ProtocolTranslator64",
    "ip6print": "IP6Print",
    "ipsec-router": "IPsecESPEncap",
    "mazu-nat": "ToHostSniffers",
    "rewriter": "Rewriter",
    "sampler": "PollDevice",
    "schedorder1": "SchedOrderTest",
    "test-tcp": "TCPConn",
    "test-toytcp": "ToyTCP",
    "thomer-nat": "ToHostSniffers",
    "udpgen": "FastUDPSource",
    "webgen": "WebGen",
}


def started(space, name: str):
    file = Path(CHECKOUT, "conf", f"{name}.click")
    # Some name interfaces of the machine of their author.
    space.ip("link add eth0 type veth peer name eth1")
    for device in ("eth0", "eth1"):
        space.ip(f"addr add 192.0.2.{device[-1]}/24 dev {device}")
        space.ip(f"link set {device} up")
    return space.run(ASHLAR, "click", "-q", str(file), ok=None)


@pytest.mark.parametrize("name", STARTS)
def test_a_configuration_starts_as_it_is(lab, name):
    done = started(lab.namespace("conf"), name)
    assert done.status == 0, str(done)


@pytest.mark.parametrize("name", LACKS)
def test_a_configuration_is_refused_with_the_class_that_is_missing(lab, name):
    done = started(lab.namespace("conf"), name)
    assert done.status == 1, str(done)
    assert f"unknown element class '{LACKS[name]}'" in done.err, str(done)
