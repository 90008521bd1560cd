"""Measures how soon routes of the leader's kernel are on all servers of a cluster. Not collected by pytest:

    python3 tests/system/measure_routes.py --routes 100000

It prints the time from a change in the leader's table to the last acknowledgement, as the leader measures it (`ack-ms`, the
median and the longest of some), the seconds from `ip route` to the last server's table (`seen-s`, with the time that
`ashlar show` takes), the seconds for many routes (`routes-s`; of these `ip` takes `ip-s`), and the seconds from the
death of the leader to the next one's routes on all others (`takeover-s`, the median and the longest of some), with
packets lost meanwhile.
"""

import argparse
import signal
import statistics
import sys
import time

from net import Lab, left_behind, stop_on_signals, until
from rb4 import NAMES, host
from routed import Routed
from streams import Streams
from test_cluster_routes import bring_up, far, led, reach, whole


def result(name: str, value: float) -> None:
    print(f"cluster {name} {value:.3f}", flush=True)


def many(count: int) -> str:
    """Lines for `ip -batch` that add routes, evenly by all gateways."""
    return "".join(f"route add {10 + n // 65536 + 50}.{n // 256 % 256}.{n % 256}.0/24 via {host(NAMES[n % 4], 4)}\n"
                   for n in range(count))


def single_changes(bed: Routed, changes: int) -> None:
    leader, took, seen = led(bed), [], []
    for n in range(changes):
        start = time.monotonic()
        bed.route(leader, f"add 100.99.{n}.0/24 via {host('b', 4)}")
        reach(bed, f"100.99.{n}.0/24", f"100.99.{n}.1")
        seen.append(time.monotonic() - start)
        took.append(until(lambda n=n: (now := whole(bed)) and now["version"] > n and now, "the account", 20)["took_ms"])
    result("ack-ms", statistics.median(took))
    result("ack-max-ms", max(took))
    result("seen-s", statistics.median(seen))


def table(bed: Routed, count: int) -> None:
    batch = bed.lab.folder / "many"
    batch.write_text(many(count))
    leader = led(bed)
    for name in NAMES:
        if name != leader:
            bed.kernels[name].run("ip", "-batch", str(batch), timeout=300)
    start = time.monotonic()
    bed.kernels[leader].run("ip", "-batch", str(batch), timeout=300)
    result("ip-s", time.monotonic() - start)
    until(lambda: (now := whole(bed)) and now["routes"] >= count, "all routes on all servers", 300)
    result("routes-s", time.monotonic() - start)


def takeovers(bed: Routed, count: int) -> None:
    took = [takeover(bed, n) for n in range(count)]
    result("takeover-s", statistics.median(seconds for seconds, _ in took))
    result("takeover-max-s", max(seconds for seconds, _ in took))
    result("takeover-lost", sum(lost for _, lost in took))


def takeover(bed: Routed, round_: int) -> tuple[float, int]:
    """Kills the leader, and starts it again afterwards. Returns the seconds until all others have the next one's routes,
    and the number of packets lost meanwhile.
    """
    old = led(bed)
    others = tuple(name for name in NAMES if name != old)
    source, sink, _ = others
    for name in NAMES:
        bed.route(name, f"replace 198.51.100.0/24 via {host(sink, 4)}")
    for name in others:
        bed.route(name, f"replace 100.98.{round_}.0/24 via {host(sink, 4)}")
    reach(bed, "198.51.100.0/24", far(sink, 4))
    until(lambda: bed.ping(source, far(sink, 4), 4), "packets by routes", 20)
    streams = Streams(rate=500, size=200)
    streams.add("routed", bed.hosts[source], bed.hosts[sink], 4, far(sink, 4))
    with streams:
        streams.warm(20)
        start = time.monotonic()
        bed.processes[old].signal(signal.SIGKILL)
        until(lambda: all(bed.looked_up(name, f"100.98.{round_}.1") == f"100.98.{round_}.0/24" for name in others),
              "the next leader's routes", 60)
        seconds = time.monotonic() - start
        result("takeover-each-s", seconds)
        until(lambda: whole(bed, others), "all others to have all routes", 60)
    bed.processes.pop(old).wait()
    bed.processes[old] = bed.type(old, "up")
    bed.processes[old].wait_for(" start ", timeout=30)
    until(lambda: whole(bed), "all to have all routes", 120)
    return seconds, streams.streams[0].lost


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--routes", type=int, default=100_000, help="routes of the large table (default 100000)")
    arguments.add_argument("--changes", type=int, default=20, help="single changes (default 20)")
    arguments.add_argument("--takeovers", type=int, default=5, help="deaths of the leader (default 5)")
    asked = arguments.parse_args()
    stop_on_signals()
    with Lab() as lab:
        bed = bring_up(lab)
        single_changes(bed, asked.changes)
        table(bed, asked.routes)
        takeovers(bed, asked.takeovers)
        bed.stop()
    if left := left_behind(lab):
        print(f"left behind: {', '.join(left)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
