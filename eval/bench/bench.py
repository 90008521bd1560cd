#!/usr/bin/python3
"""`make bench`: Ashlar on one core with 64-byte frames from memory to a null port, compared with DPDK's own programs.

All peers are started at once. Then they run in short turns on the same core while the others are stopped, so that a
temporarily slower machine affects a whole round; ratios are computed within a round. The physical memory that a
process gets affects its speed for its lifetime, so all peers are restarted several times. The last lines of the
output are for programs:

    ratio NAME MEDIAN (LEAST-MOST)
    added NAME CYCLES
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import links  # noqa: E402
import linux_router  # noqa: E402
import peers  # noqa: E402
import workload  # noqa: E402
from lib import machine, progress, spread  # noqa: E402

RATIOS = [
    ("forward", "testpmd-io"),
    ("route", "l3fwd-lpm"),
    ("route", "l3fwd-fib"),
    ("route-poptrie", "l3fwd-lpm"),
    ("forward-counter", "forward"),
    ("route-counter", "route"),
    ("router", "l3fwd-lpm"),
    ("route6", "route"),
    ("swap", "route"),
    *linux_router.RATIOS,
    *links.RATIOS,
]
PEERS = peers.PEERS | linux_router.PEERS | links.PEERS
# Peer whose cycles `added` subtracts from another's. None for peers with other ports.
BASES = {name: "testpmd-io" for name in (*peers.PEERS, *linux_router.PEERS)} | {"forward-memif": "testpmd-memif"}
FOLDER = machine.WORK
SETTLE = 0.03  # seconds from when a peer goes on until it is measured
# Hugepages of 2 MiB that a peer uses, a tenth more than were seen: of most, and of those with larger tables or pools.
PAGES, PAGES_OF = 180, {"l3fwd-lpm": 340, "l3fwd-fib": 750, "testpmd-memif": 330}
PATIENCE = 60  # seconds until another program must have given back hugepages


def prepare():
    """Makes frames, tables and peers once; restores the number of hugepages at the end."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    l3fwd = FOLDER / "l3fwd"
    if not l3fwd.exists() or l3fwd.stat().st_mtime < (peers.HERE / "l3fwd").stat().st_mtime:
        if subprocess.run([peers.HERE / "l3fwd", FOLDER]).returncode != 0:
            raise machine.Failed("l3fwd does not build: see above")
    if not (FOLDER / "in-mpls.pcap").exists():
        workload.write_all(FOLDER)


def pages_of(name):
    return PAGES_OF.get(name, PAGES)


def reserve_again(huge):
    """Reserves hugepages that another program has given back since the last start. If there is no memory for them, peers
    that lack them are left out.
    """
    try:
        huge.reserve()
    except machine.Failed as failed:
        print(f"warning: {failed}")


def wait_pages(name, pages):
    """Waits until there are hugepages for a peer: without them the peer would fail, or run slower without a message."""
    end = time.monotonic() + PATIENCE
    while (free := machine.Hugepages.free()) < pages:
        if time.monotonic() > end:
            raise machine.Failed(f"{name} needs {pages} hugepages of 2 MiB and {free} are free: another program uses the others")
        time.sleep(0.1)


@contextlib.contextmanager
def started(names, core, known=None, pages=pages_of):
    """Peers by name, started in this order and then stopped, and the names of those that did not start. Peers that this
    machine cannot run are in neither.
    """
    known = known or PEERS
    found, failures = {}, []
    with contextlib.ExitStack() as stack:
        for name in names:
            # A peer that does not start gives its memory back before the next one starts.
            with contextlib.ExitStack() as own:
                try:
                    wait_pages(name, pages(name))
                    peer = known[name](FOLDER, core, FOLDER / f"{name}.log")
                    own.callback(peer.close)
                    peer.wait_running()
                    peer.go_on(False)
                except machine.Absent as absent:
                    print(f"skipped: {name}: {absent}")
                    continue
                except machine.Failed as failed:
                    print(f"left out: {name}: {failed}")
                    failures.append(name)
                    continue
                stack.enter_context(own.pop_all())
            found[name] = peer
        if not found:
            raise machine.Failed("no peer has started: see above")
        yield found, failures


def turn(peer, seconds):
    """Packets per second of a peer during one turn."""
    peer.go_on(True)
    try:
        time.sleep(SETTLE)
        return peer.rate(seconds)
    finally:
        peer.go_on(False)


def lookups(rounds):
    """The ratio of look-ups alone, which eval/lookup measures."""
    command = [machine.ROOT / "eval" / "lookup" / "run", "--rounds", str(rounds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    return done.stdout.splitlines()[-1] if done.returncode == 0 else "skipped: lookup4/rte-fib: see above"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=7, help="how often all peers are started (default 7)")
    parser.add_argument("--rounds", type=int, default=9, help="rounds after each start (default 9)")
    parser.add_argument("--seconds", type=float, default=0.1, help="how long each peer is measured in a round (default 0.1)")
    parser.add_argument("--core", type=int, default=os.cpu_count() - 1)
    parser.add_argument("--out", type=pathlib.Path, default=FOLDER / "results.json", help="raw results")
    parser.add_argument("peer", nargs="*", help=f"who runs; default all: {', '.join(PEERS)}")
    args = parser.parse_args()
    args.peer = args.peer or list(PEERS)
    if unknown := [name for name in args.peer if name not in PEERS]:
        parser.error(f"there is no peer {', '.join(unknown)}; there are {', '.join(PEERS)}")
    machine.end_in_order()
    prepare()
    hz = machine.tsc_hz()
    rates, remarks = {name: [] for name in args.peer}, {}
    left_out = []
    with machine.Hugepages(sum(map(pages_of, args.peer))) as huge, progress.Bar(args.starts * args.rounds) as bar:
        notes = machine.notes()
        for key, value in notes.items():
            print(f"{key}: {value}")
        for number in range(args.starts):
            bar.show(f"start {number + 1}")
            reserve_again(huge)
            # Each time in another order, so that none has always the same memory.
            shift = number * len(rates) // args.starts
            names = [*rates][shift:] + [*rates][:shift]
            with started(names, args.core) as (running, failures):
                left_out += failures
                rates = {name: values for name, values in rates.items() if name in running}
                for _ in range(args.rounds):
                    for name, values in rates.items():
                        values.append(turn(running[name], args.seconds))
                    bar.step()
                remarks = {name: getattr(peer, "remark", "") for name, peer in running.items()}
            args.out.write_text(json.dumps({"host": notes, "command": sys.argv, "packets per second": rates}, indent=1))
    print(f"\n{'':<14}{'Mpps':>24}{'cycles/packet':>20}")
    for name, values in rates.items():
        print(f"{name:<14}{spread([v / 1e6 for v in values], 3):>24}{hz / statistics.median(values):>20.1f}  {remarks[name]}".rstrip())
    print()
    ratios = {
        f"{ours}/{theirs}": [a / b for a, b in zip(rates[ours], rates[theirs])]
        for ours, theirs in RATIOS if ours in rates and theirs in rates}
    for name, values in ratios.items() if args.starts * args.rounds > 1 else ():
        low, _, high = statistics.quantiles(values, n=4)
        print(f"half of the rounds: {name} {low:.3f}-{high:.3f}")
    for name, values in ratios.items():
        print(f"ratio {name} {spread(values, 3)}")
    if set(args.peer) == set(PEERS):
        print(lookups(5), flush=True)
    for name in rates:
        base = BASES.get(name)
        if base in rates and name != base:
            added = [hz / a - hz / b for a, b in zip(rates[name], rates[base])]
            print(f"added {name} {statistics.median(added):.1f}")
    if left_out:
        raise machine.Failed(f"no results of {', '.join(left_out)}: see \"left out\" above")


if __name__ == "__main__":
    try:
        main()
    except machine.Failed as failed:
        sys.exit(f"error: {failed}")
