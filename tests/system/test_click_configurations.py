"""Third-party configurations, from the `conf` folders of Click and FastClick, run by `ashlar click`.

Shows: each starts as it is, or is refused with what it lacks: a class of Click's kernel module, of radios, of its own
TCP, of FastClick's middleboxes or traffic generator, a translator, an interface of its author's machine.
`CLICK_CHECKOUT` names a checkout of the repository kohler/click, `FASTCLICK_CHECKOUT` one of tbarbette/fastclick;
without one its configurations are skipped.
"""

import os
from pathlib import Path

import pytest
from topology import ASHLAR

pytestmark = pytest.mark.ashlar

CLICK = (
    "CLICK_CHECKOUT",
    """dnsproxy fake-iprouter icmp6error ip601 ip6ndadvertiser ip6ndsolicitor print-pings script-parabolawave
script-squarewave script-trianglewave stridetest test test-clicky test-device test-tap test-tun test2 test3
urewrite
""",
    {
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
    },
)

FASTCLICK = (
    "FASTCLICK_CHECKOUT",
    """deprecated/fake-iprouter ip6/icmp6error ip6/ip601 ip6/ip6ndadvertiser ip6/ip6ndsolicitor nat/urewrite
proxy/dnsproxy sched/stridetest script/script-parabolawave script/script-squarewave script/script-trianglewave
simple/print-pings test/test test/test-device test/test-ping-userlevel test/test-tap test/test-tun test/test2
test/test3 tools/test-clicky tutorial/tutorial-01 tutorial/tutorial-02 tutorial/tutorial-03
""",
    {
        "app/webgen": "WebGen",
        "deprecated/demo": "PollDevice",
        "dpdk/dpdk-ring-primary": "ToDPDKRing",
        "flow-parser/dpdk-flow-parser": "AverageCounterMP",
        "grid/simple-dsdv": "DSDVRouteTable",
        "ids/ids": "FastUDPFlows",
        "ip6/ip6print": "IP6Print",
        "kernel/fromhost-tunnel": "FromHost",
        "llvm/router": "LookupIPRouteMP",
        "middleclick/firewall": "CTXDispatcher",
        "middleclick/middlebox-tcp-ids": "CTXManager",
        "nat/gnat02": "ProtocolTranslator",
        "nat/mazu-nat": "PullTee",
        "nat/rewriter": "Rewriter",
        "pktgen/pktgen-l2": "MultiReplayUnqueue",
        "pktgen/tester-l3": "ReplayUnqueue",
        "router/ipsec-router": "IPsecESPEncap",
        "router/router": "FromNetmapDevice",
        "rsspp/dpdk": "DeviceBalancer",
        "switch/switch-stp-2ports-dpdk": "EtherSpanTree",
        "wifi/access-point": "WifiEncap",
    },
)

INTERFACES = {
    "router/router-vanilla": "netmap:eth2-0",
    "switch/switch-2ports-vanilla": "sw1-eth0",
}


def cases():
    for variable, starts, lacks in (CLICK, FASTCLICK):
        checkout = os.environ.get(variable, "")
        if not checkout:
            reason = f"{variable} names no checkout"
            yield pytest.param("", "", "", id=variable, marks=pytest.mark.skip(reason=reason))
            continue
        wrong = {name: "" for name in starts.split()}
        wrong |= {name: f"unknown element class '{missing}'" for name, missing in lacks.items()}
        if variable == FASTCLICK[0]:
            wrong |= {name: f"there is no interface {missing}" for name, missing in INTERFACES.items()}
        for name, message in wrong.items():
            yield pytest.param(checkout, name, message, id=f"{variable.split('_')[0].lower()}/{name}")


@pytest.mark.parametrize(("checkout", "name", "message"), cases())
def test_a_configuration_starts_unchanged_or_is_refused_with_the_missing_parts(lab, checkout, name, message):
    space = lab.namespace("conf")
    file = Path(checkout, "conf", f"{name}.click")
    # Some configurations name the interfaces and the gateway of their author's machine.
    space.ip("link add eth0 type veth peer name eth1")
    for device in ("eth0", "eth1"):
        space.ip(f"addr add 192.0.2.{device[-1]}/24 dev {device}")
        space.ip(f"link set {device} up")
    space.ip("route add default via 192.0.2.9 dev eth0")
    done = space.run(ASHLAR, "click", "-q", str(file), ok=None)
    assert done.status == (1 if message else 0), str(done)
    assert message in done.err, str(done)
