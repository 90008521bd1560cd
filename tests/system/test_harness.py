"""The tools of the system tests themselves: networks are made and removed completely, waits end with their event, and
`wire` detects frames and their absence. They run against any router.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from net import Failed, Lab, leftovers, until
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import ICMPv6TimeExceeded, IPv6
from topology import CLIENT, Network

HERE = Path(__file__).parent


def test_a_lab_leaves_nothing_behind_also_after_a_failure():
    with pytest.raises(ZeroDivisionError):
        with Lab() as lab:
            name = lab.name
            network = Network(lab)
            network.client.spawn("sleep", "1000")
            network.client.socket(2, 2)
            (lab.folder / "file").write_text("x")
            assert len(leftovers(f"{name}-")) >= 5
            raise ZeroDivisionError
    assert leftovers(f"{name}-") == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_lab_leaves_nothing_behind_when_its_process_is_told_to_end(number):
    script = f"""
import sys; sys.path.insert(0, {str(HERE)!r})
from net import Lab, stop_on_signals
from topology import Network
stop_on_signals()
with Lab() as lab:
    network = Network(lab)
    network.server.spawn("sleep", "1000")
    print("ready", flush=True)
    network.client.run("sleep", "1000")
"""
    run = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    prefix = f"ashlar-{run.pid}-"
    try:
        assert run.stdout.readline() == "ready\n"
        assert leftovers(prefix)
        run.send_signal(number)
        assert run.wait(10) == 128 + number
    finally:
        run.kill()
        run.wait()
    assert leftovers(prefix) == []


def test_waiting_in_vain_reports_the_goal_and_the_output(lab):
    with pytest.raises(Failed, match="for pigs to fly"):
        until(lambda: False, "pigs to fly", timeout=0.01)
    with pytest.raises(Failed, match="(?s)without saying /never/.*once"):
        lab.spawn("echo", "once").wait_for("never")
    with pytest.raises(Failed, match="ended with 3"):
        lab.run("sh", "-c", "exit 3")


def ended(pid: int) -> bool:
    """True if a process has ended, even if its parent has not yet waited for it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_programs_die_with_the_process_that_started_them():
    script = f"""
import sys; sys.path.insert(0, {str(HERE)!r})
from net import Lab
lab = Lab()
# The program prints a line when it runs. Before that the kernel does not yet know that it must end with this process.
program = lab.spawn("sh", "-c", "echo runs; exec sleep 1000")
program.wait_for("runs")
print(program.pid, flush=True)
sys.stdin.read()
"""
    run = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    child = int(run.stdout.readline())
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    until(lambda: ended(child), "the end of the child")
    for left in leftovers(f"ashlar-{run.pid}-"):
        Path(left.removeprefix("file ")).rmdir()


def test_hosts_know_the_names_of_all_addresses(network):
    assert network.client.run("getent", "hosts", CLIENT.router[4]).out.split() == [CLIENT.router[4], "router"]


def test_scapy_is_the_only_sender_and_sees_all_crossing_frames(wire):
    for near, far in ((wire.client, wire.server), (wire.server, wire.client)):
        near.send(IP(src=near.ip4, dst=far.ip4, ttl=9) / UDP(sport=1000, dport=1001) / b"four")
        got = far.expect(lambda p: UDP in p and p[UDP].dport == 1001 and IP in p)
        assert (got[IP].ttl, bytes(got[UDP].payload)[:4]) == (8, b"four")
        near.send(IPv6(src=near.ip6, dst=far.ip6, hlim=9) / UDP(sport=1000, dport=1001) / b"six")
        got = far.expect(lambda p: UDP in p and p[UDP].dport == 1001 and IPv6 in p)
        assert (got[IPv6].hlim, bytes(got[UDP].payload)[:3]) == (8, b"six")


def test_scapy_proves_that_nothing_came(wire):
    wire.client.send(IP(src=wire.client.ip4, dst=wire.server.ip4, ttl=1) / UDP(sport=1000, dport=1002) / b"x")
    wire.server.expect_nothing(lambda p: UDP in p and p[UDP].dport == 1002)
    error = wire.client.expect(lambda p: ICMP in p and p[ICMP].type == 11)
    assert error[IP].src == wire.client.router4
    wire.client.send(IPv6(src=wire.client.ip6, dst=wire.server.ip6, hlim=1) / UDP(sport=1000, dport=1002) / b"x")
    wire.client.expect(lambda p: ICMPv6TimeExceeded in p)


def test_a_flush_goes_on_where_entries_go_by_themselves(lab):
    space, count = lab.namespace("flushed"), 3000
    space.ip("link add name eth0 type bridge")
    space.ip("link set eth0 up")
    for name, words in (("add", "lladdr 02:00:00:00:00:01 nud permanent"), ("del", "")):
        lines = (f"neigh {name} 10.1.{n >> 8}.{n & 255} dev eth0 {words}\n" for n in range(count))
        (lab.folder / name).write_text("".join(lines))
    lab.run("ip", "-n", space.name, "-batch", str(lab.folder / "add"))
    other = space.spawn("ip", "-force", "-batch", str(lab.folder / "del"))
    space.flush("neigh flush dev eth0 nud permanent")
    other.wait()
    assert space.ip("neigh show nud permanent dev eth0").out == ""
    with pytest.raises(Failed, match="Cannot find device"):
        space.flush("neigh flush dev eth9")


def test_an_unexpected_frame_fails_the_proof_that_nothing_came(wire):
    wire.client.send(IP(src=wire.client.ip4, dst=wire.server.ip4) / UDP(sport=1000, dport=1003) / b"x")
    with pytest.raises(Failed, match="unexpected"):
        wire.server.expect_nothing(lambda p: UDP in p and p[UDP].dport == 1003)
