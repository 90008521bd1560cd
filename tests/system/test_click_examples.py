"""Unmodified configurations for Click, run by `ashlar click` with the kernel as the other end.

Shows: KernelTun and KernelTap reach the kernel and are reached by it, push and pull; an IPRewriter
between a program and itself makes a proxy; FromDevice hands on what an interface receives; timed
sources meet in a scheduler.
"""

import contextlib
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from net import Namespace, Process
from topology import ASHLAR
from traffic import answered

pytestmark = pytest.mark.ashlar

TUN = """
tun :: KernelTun(10.77.0.1/24);
ICMPPingSource(10.77.0.2, 10.77.0.1, INTERVAL 0.1) -> q :: Queue -> tun;
tun -> check :: CheckIPHeader -> kind :: IPClassifier(icmp type echo, icmp type echo-reply, -);
kind[0] -> ICMPPingResponder -> q;
kind[1] -> IPPrint(reply) -> Discard;
kind[2] -> Discard;
check[1] -> Discard;
tun[1] -> Discard;
"""

TAP = """
AddressInfo(here 02:00:00:00:77:01, kernel 02:00:00:00:77:02);
tap :: KernelTap(10.78.0.1/24, ETHER kernel);
tap -> kind :: Classifier(12/0806 20/0001, 12/0800, -);
kind[0] -> ARPResponder(0/0 here) -> tap;
kind[1] -> Strip(14) -> CheckIPHeader -> IPClassifier(icmp type echo)
    -> ICMPPingResponder -> EtherEncap(0x0800, here, kernel) -> tap;
kind[2] -> Discard;
"""

PROXY = """
Idle -> tun :: KernelTun(10.79.0.1/24);
tun -> way :: Classifier(16/0a4f0009 9/11, 9/11 22/0035, -);
rw :: IPRewriter(pattern 10.79.0.9 1024-65535 10.79.0.1 - 0 1);
way[0] -> CheckIPHeader -> rw;
way[1] -> CheckIPHeader -> rw;
rw[0] -> tun;
rw[1] -> tun;
way[2] -> Discard;
"""

PINGS = """
FromDevice(eth0, SNIFFER true, PROMISC true) -> Classifier(12/0800) -> Strip(14) -> CheckIPHeader
    -> IPFilter(allow icmp && icmp type echo) -> IPPrint(seen) -> Discard;
"""

SCHEDULER = """
s :: StrideSched(1, 100000);
TimedSource(0.02) -> Queue(20) -> Print(slow) -> [0] s;
TimedSource(0.01) -> Queue(20) -> Print(fast) -> [1] s;
s -> TimedSink(0.005);
"""


@contextlib.contextmanager
def click(space: Namespace, text: str, tmp_path: Path) -> Iterator[Process]:
    """Runs a configuration; it must stop at the end when it is told to."""
    file = tmp_path / "test.click"
    file.write_text(text)
    router = space.spawn(ASHLAR, "click", str(file))
    yield router
    assert router.stop() == 0


def test_a_tun_interface_carries_pings_both_ways(lab, tmp_path):
    space = lab.namespace("tun")
    with click(space, TUN, tmp_path) as router:
        router.wait_for(r"^reply: [0-9.]+: 10\.77\.0\.1 > 10\.77\.0\.2: icmp echo-reply \(0, 2\)")
        answered(space, "10.77.0.2")


def test_a_tap_interface_answers_arp_and_pings(lab, tmp_path):
    space = lab.namespace("tap")
    with click(space, TAP, tmp_path):
        space.run("bash", "-c", "until ip -br link show tap0 2>/dev/null | grep -q UP; do :; done")
        assert "02:00:00:00:77:02" in space.ip("link show tap0").out
        answered(space, "10.78.0.9")


def test_a_rewriter_makes_a_program_its_own_proxy(lab, tmp_path):
    space = lab.namespace("proxy")
    with click(space, PROXY, tmp_path):
        space.run("bash", "-c", "until ip -br link show tun0 2>/dev/null | grep -q UP; do :; done")
        server, client = (space.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
        server.bind(("10.79.0.1", 53))
        client.bind(("10.79.0.1", 0))
        for end in (server, client):
            end.settimeout(5)
        client.sendto(b"question", ("10.79.0.2", 53))
        question, asker = server.recvfrom(100)
        assert (question, asker[0]) == (b"question", "10.79.0.9")
        server.sendto(b"answer", asker)
        assert client.recvfrom(100) == (b"answer", ("10.79.0.2", 53))


def test_pings_that_an_interface_receives_are_printed_with_their_time(lab, tmp_path):
    near, far = lab.namespace("near"), lab.namespace("far")
    near.ip(f"link add eth0 type veth peer name eth0 netns {far.name}")
    for space, host in ((near, 1), (far, 2)):
        space.ip(f"addr add 10.80.0.{host}/24 dev eth0")
        space.ip("link set eth0 up")
    with click(near, PINGS, tmp_path) as router:
        pings = far.spawn("ping", "-i0.1", "-c100", "10.80.0.1")
        seen = router.wait_for(r"^seen: (\d+)\.\d+: 10\.80\.0\.2 > 10\.80\.0\.1: icmp echo")
        assert int(seen[1]) > 1_700_000_000
        pings.stop()


def test_timed_sources_meet_in_a_scheduler_that_warns_of_too_many_tickets(lab, tmp_path):
    with click(lab.namespace("timed"), SCHEDULER, tmp_path) as router:
        for name in ("slow", "fast"):
            router.wait_for(rf"^{name}:   69 \| ")
        assert re.search("too many", router.err), router.said()
