"""The demonstration of `make run`: Ashlar between two Linux hosts, with real traffic.

Three network namespaces are made on this machine and always removed at the end. The exit status is 0 if every step
succeeded. On a terminal, the final table of rates runs until Ctrl-C; without a terminal, or with `--seconds N`, it
runs for some seconds.
"""

import argparse
import json
import re
import signal
import sys
from collections.abc import Callable

from net import Failed, Lab, left_behind, stop_on_signals
from topology import ASHLAR, CLIENT, KIND, SERVER, AshlarRouter, LinuxRouter, Network

CLIENT_MTU, SERVER_MTU = 1800, 1500
PICTURE = f"""
  client ─────────── MTU {CLIENT_MTU} ─────────── router ─────────── MTU {SERVER_MTU} ─────────── server
  {CLIENT.host[4]:<32}{CLIENT.router[4]:>9} │ {SERVER.router[4]:<9}{SERVER.host[4]:>33}
  {CLIENT.host[6]:<32}{CLIENT.router[6]:>9} │ {SERVER.router[6]:<9}{SERVER.host[6]:>33}
"""


class Steps:
    """Runs steps, prints a line for each, and records failures."""

    def __init__(self) -> None:
        self.failed = 0

    def run(self, name: str, step: Callable[[], str]) -> bool:
        """Runs a step: `step` returns the text to show after the name, or raises an error."""
        try:
            line, mark = step(), "✓"
        except (Failed, OSError, ValueError, KeyError) as error:
            line, mark = str(error).strip().replace("\n", "\n      "), "✗"
            self.failed += 1
        print(f"  {mark} {name:<32} {line}", flush=True)
        return mark == "✓"


def start(network: Network) -> str:
    network.router.start()
    if KIND == "linux":
        return "the kernel's own forwarding, for comparison"
    queues = {}
    for element in network.router.stats()["elements"]:
        for copy in element["copies"]:
            if device := copy.get("device"):
                if device["receives"]:
                    queues.setdefault(copy["worker"], set()).add(device["port"])
    if len(queues) < 2:
        raise Failed(f"two workers should receive, but these do: {queues}")
    return f"conf/ip-router.click, {len(queues)} workers, each with a queue of {' and '.join(sorted(queues[0]))}"


def ping(network: Network, version: int) -> str:
    done = network.client.run("ping", f"-{version}", "-c5", "-l5", "-i3", "-W15", "server", ok=None)
    count = re.search(r"(\d+) received", done.out)
    if done.status != 0 or count[1] != "5":
        raise Failed(str(done))
    # The first ones have waited for neighbours to answer.
    done = network.client.run("ping", f"-{version}", "-c5", "-i0.2", "-W2", "server")
    times = re.search(r"= [\d.]+/([\d.]+)/", done.out)
    return f"5 of 5 answered, {times[1]} ms on average when neighbours are known"


def traceroute(network: Network, version: int) -> str:
    done = network.client.run("traceroute", f"-{version}", "-q1", "-w10", "server")
    hops = re.findall(r"^ *\d+ +(\S+ \(\S+\))", done.out, re.MULTILINE)
    wanted = [f"router ({CLIENT.router[version]})", f"server ({SERVER.host[version]})"]
    if hops != wanted:
        raise Failed(str(done))
    return " → ".join(hops)


def tcp(network: Network, version: int, reverse: bool, port: int) -> float:
    """Bits per second from the client to the server, or the reverse."""
    words = ["iperf3", f"-{version}", "-c", "server", "-p", str(port), "-t", "2", "-J", *(["-R"] if reverse else [])]
    done = network.client.run(*words, timeout=20)
    rate = json.loads(done.out)["end"].get("sum_received", {}).get("bits_per_second", 0)
    if rate <= 0:
        raise Failed(str(done))
    return rate


def tcp_rates(network: Network, steps: Steps, compared: dict | None = None) -> dict:
    """Adds a step for each IP version and direction; returns their results. `compared` has Ashlar's results."""
    rates: dict[tuple[int, bool], float] = {}

    def rate(version: int, reverse: bool) -> str:
        rates[version, reverse] = bits = tcp(network, version, reverse, 5203 if compared else 5201)
        ashlar = (compared or {}).get((version, reverse))
        return f"{bits / 1e9:.2f} Gbit/s" + (f", Ashlar carried {ashlar / bits:.2f} of it" if ashlar else "")

    for version in (4, 6):
        for reverse, words in ((False, "to"), (True, "from")):
            steps.run(f"TCP {words} the server, IPv{version}", lambda: rate(version, reverse))
    return rates


def without_offloads(network: Network) -> str:
    words = "tso off gso off gro off"
    for host in (network.client, network.server):
        host.run("ethtool", "-K", "eth0", *words.split())
    return words


def linux_instead(network: Network) -> str:
    for side in (CLIENT, SERVER):
        network.router_space.sysctl(**{f"net__ipv4__conf__{side.interface}__arp_ignore": 0,
                                       f"net__ipv6__conf__{side.interface}__disable_ipv6": 0})
    network.router = LinuxRouter(network.router_space)
    network.router.start()
    for host in (network.client, network.server):
        host.ip("neigh flush dev eth0")
    network.meet()
    return "the kernel forwards in Ashlar's place, for comparison"


def too_large(network: Network, version: int) -> str:
    """A packet of 1628 (1648) bytes, which fits the client's link but not the server's."""
    network.client.ip(f"-{version} route flush cache")
    words = ["ping", f"-{version}", "-c1", "-W2", "-M", "do", "-s", "1600", "server"]
    done = network.client.run(*words, ok=None)
    said = re.search(r"From router.*(Frag needed and DF set|Packet too big).*mtu ?= ?(\d+)", done.out)
    if not said or said[2] != str(SERVER_MTU):
        raise Failed(str(done))
    what = "fragmentation needed" if version == 4 else "packet too big"
    return f"the router answers: {what}, MTU {said[2]}"


def table(network: Network, seconds: float | None) -> str:
    """Shows rates while traffic runs in the background: a live table until Ctrl-C (or `q`), or one table without
    elements after some seconds.
    """
    traffic = [network.client.spawn("iperf3", "-c", "server", "-t0", "-i0", *words)
               for words in (["-4", "-P2"], ["-6", "-P2", "-R", "-p5202"])]
    how = "Ctrl-C ends it" if seconds is None else f"{seconds:g} s"
    print(f"\n  Rates per port and worker, under iperf3 both ways ({how}):\n", flush=True)
    if seconds is None:
        watch(network)
    else:
        lines = network.router.cli("top", "--once", "--interval", f"{seconds:g}").split("\nelement ")[0]
        print("    " + lines.strip().replace("\n", "\n    ") + "\n")
        rows = re.findall(r"^(eth\d) +up +(in|out) +\d+ +(\d+) ", lines, re.MULTILINE)
        wanted = {(port, way, worker) for port in ("eth0", "eth1") for way in ("in", "out") for worker in "01"}
        if set(rows) != wanted:
            raise Failed(f"the table should have rows {sorted(wanted)}")
    for process in traffic:
        process.stop()
    return "shown"


def watch(network: Network) -> None:
    """Runs the live table. Ctrl-C ends the table, too; here it only ends the waiting."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    top = network.lab.attach(ASHLAR, "top", "--socket", str(network.router.socket))
    try:
        status = top.wait()
    except KeyboardInterrupt:
        status = top.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    if status != 0:
        raise Failed(f"`ashlar top` ended with {status}")


def demonstrate(lab: Lab, seconds: float | None, offloads: bool) -> int:
    steps = Steps()
    print("Ashlar between two Linux hosts (network namespaces on this machine)")
    print(PICTURE)
    network = Network(lab, client_mtu=CLIENT_MTU, server_mtu=SERVER_MTU)
    for port in ("5201", "5202", "5203"):
        network.server.spawn("iperf3", "-s", "--forceflush", "-p", port).wait_for("listening")
    if not steps.run("router", lambda: start(network)):
        return 1
    if not offloads:
        steps.run("hosts without offloads", lambda: without_offloads(network))
    for version in (4, 6):
        steps.run(f"ping, IPv{version}", lambda: ping(network, version))
    for version in (4, 6):
        steps.run(f"traceroute, IPv{version}", lambda: traceroute(network, version))
    rates = tcp_rates(network, steps)
    for version in (4, 6):
        steps.run(f"1600 bytes, not to be cut, IPv{version}", lambda: too_large(network, version))
    if isinstance(network.router, AshlarRouter):
        steps.run("table", lambda: table(network, seconds))
        if steps.run("router ends", lambda: ended(network.router)) and steps.run("Linux", lambda: linux_instead(network)):
            tcp_rates(network, steps, rates)
    return 1 if steps.failed else 0


def ended(router: AshlarRouter) -> str:
    status = router.stop()
    if status != 0:
        raise Failed(f"{router.process} ended with {status}\n{router.process.said()}")
    return "cleanly"


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, help="how long the table of rates is shown")
    arguments.add_argument("--no-offloads", dest="offloads", action="store_false",
                           help="the hosts cut and join TCP segments themselves, as with the simplest cards")
    words = arguments.parse_args()
    seconds = words.seconds
    if seconds is None and not (sys.stdout.isatty() and sys.stdin.isatty()):
        seconds = 4.0
    stop_on_signals()
    with Lab() as lab:
        try:
            status = demonstrate(lab, seconds, words.offloads)
        except Failed as error:
            print(f"  ✗ {error}")
            status = 1
    left = left_behind(lab)
    print(f"\n  taken away again; left behind: {', '.join(left) or 'nothing'}")
    return 1 if left else status


if __name__ == "__main__":
    sys.exit(main())
