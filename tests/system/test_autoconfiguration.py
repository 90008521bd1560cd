"""A Linux host finds the router and configures its addresses itself (RFC 4861, 6.2; RFC 4862).

The configuration is conf/ip-router.click with the lines that its comment suggests.
"""

import re
from pathlib import Path

import pytest
from net import until
from topology import CONFIGURATION, SERVER, Network

pytestmark = pytest.mark.ashlar


def advertising(folder: Path) -> Path:
    text = CONFIGURATION.read_text()
    line = re.search(r"//     (nd\[3\] -> ra .*)", text).group(1)
    switch = re.search(r"`(nd :: IP6ProtocolSwitch\(.*icmp6 133\))`", text).group(1)
    text, n = re.subn(r"nd :: IP6ProtocolSwitch\(icmp6 135, icmp6 133 134 136 137, -\);", f"{switch};", text)
    assert n == 1
    text = text.replace("    nd[1] -> [1] nd6;", f"    {line}\n    nd[1] -> [1] nd6;")
    made = folder / "advertising.click"
    made.write_text(text)
    return made


def test_a_host_finds_the_router_and_makes_an_address(lab):
    network = Network(lab)
    client = network.client
    client.flush("-6 address flush dev eth0")
    client.flush("-6 route flush dev eth0")
    network.router.start(advertising(lab.folder))
    client.sysctl(net__ipv6__conf__eth0__accept_ra=1, net__ipv6__conf__eth0__autoconf=1,
                  net__ipv6__conf__eth0__router_solicitations=3)
    # A link that comes up makes the host ask for routers.
    client.ip("link set eth0 down")
    client.ip("link set eth0 up")
    until(lambda: "fd00:1:" in client.ip("-6 address show dev eth0 scope global dynamic").out, "an address", timeout=20)
    route = client.ip("-6 route show default").out
    assert "via fe80::1" in route and "proto ra" in route, route
    until(lambda: client.run("ping", "-6", "-c1", "-W1", SERVER.host[6], ok=None).status == 0, "a ping", timeout=10)
    assert network.router.stop() == 0
