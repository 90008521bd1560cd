#!/usr/bin/python3
"""`make bench`: one core, 64-byte frames from memory to nowhere, in turn with DPDK's own programs.

Every round runs each peer for a while, one after the other, so that what else the machine does meets
all of them; a ratio is formed within a round. The last lines are for programs to read:

    ratio NAME MEDIAN (LEAST-MOST)
    added NAME CYCLES
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import links  # noqa: E402
import linux_router  # noqa: E402
import peers  # noqa: E402
import traffic  # noqa: E402
from lib import machine, spread  # noqa: E402

RATIOS = [
    ("forward", "testpmd-io"),
    ("route", "l3fwd-lpm"),
    ("route", "l3fwd-fib"),
    ("route-poptrie", "l3fwd-lpm"),
    ("forward-counter", "forward"),
    ("route-counter", "route"),
    ("router", "l3fwd-lpm"),
    ("route6", "route"),
    *linux_router.RATIOS,
    *links.RATIOS,
]
PEERS = peers.PEERS | linux_router.PEERS | links.PEERS
# Whose cycles are subtracted in `added`; none where packets come over other ports than the others'.
BASES = {name: "testpmd-io" for name in (*peers.PEERS, *linux_router.PEERS)} | {"forward-memif": "testpmd-memif"}
FOLDER = machine.WORK


def prepare():
    """Frames, tables and peers, made once; hugepages as they were come back at the end."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not (FOLDER / "l3fwd").exists():
        if subprocess.run([peers.HERE / "l3fwd", FOLDER]).returncode != 0:
            raise machine.Failed("l3fwd does not build: see above")
    if not (FOLDER / "in4.pcap").exists():
        traffic.write_all(FOLDER)


def measured(name, args):
    """Packets per second of a peer, which is started for it and ended, and what there is to say of it."""
    peer = PEERS[name](FOLDER, args.core, FOLDER / "log")
    try:
        peer.wait_running()
        rate = peer.rate(args.seconds)
        return rate, getattr(peer, "remark", "")
    finally:
        peer.close()


def lookups(rounds):
    """The ratio of look-ups alone, which eval/lookup measures after its own fashion."""
    command = [machine.ROOT / "eval" / "lookup" / "run", "--rounds", str(rounds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    return done.stdout.splitlines()[-1] if done.returncode == 0 else "skipped: lookup4/rte-fib: see above"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each peer is measured in a round")
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
    rates = {name: [] for name in args.peer}
    with machine.Hugepages():
        notes = machine.notes()
        for key, value in notes.items():
            print(f"{key}: {value}")
        for round in range(args.rounds):
            for name in list(rates):
                try:
                    rate, remark = measured(name, args)
                except machine.Absent as absent:
                    print(f"skipped: {name}: {absent}")
                    del rates[name]
                    continue
                rates[name].append(rate)
                print(f"round {round + 1}: {name:<13} {rate / 1e6:7.2f} Mpps  {remark}".rstrip(), flush=True)
    args.out.write_text(json.dumps({"host": notes, "command": sys.argv, "packets per second": rates}, indent=1))
    print(f"\n{'':<14}{'Mpps':>24}{'cycles/packet':>20}")
    for name, values in rates.items():
        print(f"{name:<14}{spread([v / 1e6 for v in values], 3):>24}{hz / statistics.median(values):>20.1f}")
    print()
    for ours, theirs in RATIOS:
        if ours in rates and theirs in rates:
            print(f"ratio {ours}/{theirs} {spread([a / b for a, b in zip(rates[ours], rates[theirs])], 3)}")
    if set(args.peer) == set(PEERS):
        print(lookups(args.rounds), flush=True)
    for name in rates:
        base = BASES.get(name)
        if base in rates and name != base:
            added = [hz / a - hz / b for a, b in zip(rates[name], rates[base])]
            print(f"added {name} {statistics.median(added):.1f}")


if __name__ == "__main__":
    try:
        main()
    except machine.Failed as failed:
        sys.exit(f"error: {failed}")
