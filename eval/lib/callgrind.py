"""Instructions and memory accesses per packet, by valgrind's callgrind, limited to the running packet loop.

This machine gives its guests no performance counters, so both are counted by simulation: instructions exactly,
misses by a model of two caches (a first level as the processor's, and its last level). Valgrind 3.19 knows no
AVX-512, so code that chooses its vectors at run time runs with AVX2.
"""

import pathlib
import re
import subprocess
import time

from .lab import ASHLAR, MEASURED, Router, vdevs
from .machine import Failed

CACHES = ["--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64", "--LL=33554432,16,64"]

# Valgrind cannot reserve the addresses that DPDK wants for hugepages: words before a command that then sees none.
HIDDEN = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /sys/kernel/mm/hugepages && exec "$@"', "sh"]
POLL = r"dpdk::Rx as .*RxQueue>::receive"  # what the engine calls for every poll of a port


class Valgrind(Router):
    """`ashlar run` under callgrind, which counts between two calls of `dump`; with `more` options of callgrind."""

    def __init__(self, lab, conf, values, vdevs, buffers, more=()):
        self.out = lab.folder / f"{lab.number()}.callgrind"
        options = ["--tool=callgrind", f"--callgrind-out-file={self.out}", "--instr-atstart=no", "--fair-sched=yes", *CACHES, *more]
        super().__init__(lab, conf, values, vdevs, (MEASURED,), buffers, before=[*HIDDEN, "valgrind", *options])

    def control(self, *words):
        """Sends a command to callgrind, and waits until it is done."""
        done = subprocess.run(["vgdb", f"--pid={self.pid()}", *words], capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise Failed(f"callgrind does not answer\n{self.command}\n{done.stderr[-1000:]}")

    def pid(self):
        return self.process.pid  # each of the programs before it replaces itself by the next

    def count(self, seconds):
        """Number of events by name, and number of packets, during some seconds."""
        before = self.stats()
        self.control("instrumentation", "on")
        time.sleep(seconds / 3)  # the simulated caches fill
        self.control("dump")
        time.sleep(seconds)
        self.control("dump")
        seen = self.difference(before, self.stats())
        each = seen["received"] / seen["turns"]  # the port is polled once in each
        text = self.text()
        # The dump itself tells how often the port was polled; the clock would not be exact.
        return events(text) | {"own Ir": by_object(text).get(str(ASHLAR), 0)}, calls(text, POLL) * each

    def text(self):
        """The file that callgrind wrote of what was counted."""
        return pathlib.Path(f"{self.out}.2").read_text(errors="replace")


def calls(text, name):
    """Number of calls of functions whose name matches, from a callgrind file."""
    names, callee, sum = {}, None, 0
    for line in text.splitlines():
        if line.startswith(("fn=", "cfn=")):
            number, _, full = line.partition("=")[2].partition(" ")
            names[number] = full or names[number]
            callee = number if line.startswith("cfn=") else callee
        elif line.startswith("calls=") and re.search(name, names[callee]):
            sum += int(line[6:].split()[0])
    if not sum:
        raise Failed(f"no calls of {name} were counted: has the function another name now?")
    return sum


# Words that name a program or library, a function, or a source file; those with "c" belong to a call.
KINDS = {word: word[-2:] for word in ("ob", "cob", "fn", "cfn", "fl", "cfl")} | dict.fromkeys(("fi", "fe", "cfi"), "fl")


def moved(before, word):
    """A position by the word for it: itself, the same as before, or by how much it is further."""
    return before if word == "*" else before + int(word, 0) if word[0] in "+-" else int(word, 0)


def costs(text):
    """Costs of each position, without those of called functions.

    Yields the position (program or library, function, source file, line, address) and its counts of all events. The
    address is None if callgrind ran without `--dump-instr=yes`.
    """
    order = re.search(r"^events: (.*)$", text, re.MULTILINE)[1].split()
    has_address = re.search(r"^positions: instr line$", text, re.MULTILINE)
    names, at, line, address, call = {}, {"ob": None, "fn": None, "fl": None}, 0, 0, False
    for row in text.splitlines():
        word, equals, rest = row.partition("=")
        if equals and word in KINDS:
            number, _, full = rest.partition(" ")
            names.setdefault((KINDS[word], number), full)
            if not word.startswith("c"):
                at[KINDS[word]] = names[KINDS[word], number]
        elif word == "calls":
            call = True  # the next row has the costs of the called function, which are counted there
        elif re.match(r"[0-9+*-]", row):
            counts = row.split()
            if has_address:
                address = moved(address, counts.pop(0))
            line = moved(line, counts.pop(0))
            if not call:
                # Counts that are missing at the end of a row are zero.
                counted = dict.fromkeys(order, 0) | dict(zip(order, map(int, counts)))
                yield (at["ob"], at["fn"], at["fl"], line, address if has_address else None), counted
            call = False


def sums_by(key, text):
    """Counts of all events by a part of their place, which `key` chooses."""
    sums = {}
    for place, counts in costs(text):
        total = sums.setdefault(key(*place), dict.fromkeys(counts, 0))
        for event, count in counts.items():
            total[event] += count
    return sums


def by_function(text):
    """Counts of all events by the file (program or library) and the function that hold them."""
    return sums_by(lambda held, function, *_: (held, function), text)


def by_address(text):
    """Counts of all events by the file (program or library) and the address that hold them."""
    return sums_by(lambda held, _, __, ___, address: (held, address), text)


def places(program, addresses, wanted):
    """The source file and line of each address: of the innermost of inlined functions whose file is `wanted`.

    None for an address without one.
    """
    command = ["addr2line", "--addresses", "--inlines", f"--exe={program}"]
    said = subprocess.run(command, input="\n".join(map(hex, addresses)), capture_output=True, text=True, check=True)
    found = {}
    for row in said.stdout.splitlines():
        if row.startswith("0x"):
            address = int(row, 16)
            found[address] = None
            continue
        file, _, line = row.partition(" ")[0].rpartition(":")
        if found[address] is None and wanted(file):
            found[address] = (file, int(line) if line.isdigit() else 0)
    return found


def by_object(text):
    """Instructions by file (program or library)."""
    sums = {}
    for (file, _), counts in by_function(text).items():
        sums[file] = sums.get(file, 0) + counts["Ir"]
    return sums


def events(text):
    """Sums of events in a callgrind file."""
    names = re.search(r"^events: (.*)$", text, re.MULTILINE)
    sums = re.search(r"^(?:totals|summary): (.*)$", text, re.MULTILINE)
    if not names or not sums:
        raise Failed("callgrind counted nothing")
    # Sums that are missing at the end of the line are zero.
    return dict.fromkeys(names[1].split(), 0) | dict(zip(names[1].split(), map(int, sums[1].split())))


# Option, and events of callgrind: misses of the last level for which a changed line was written back.
WRITE_BACKS, WRITTEN = ["--simulate-wb=yes"], ["ILdmr", "DLdmr", "DLdmw"]


def by_function_per_packet(lab, conf, frames, values=(), seconds=6):
    """Like `per_packet`, and under "functions" the same for each function."""
    sums = per_packet(lab, conf, frames, values, seconds)
    found = by_function(lab.running[-1].text())
    return sums | {"functions": [
        {"name": short(function), "object": pathlib.Path(held).name} | {event: count / sums["packets"] for event, count in counts.items()}
        for (held, function), counts in found.items() if counts["Ir"] >= sums["packets"] / 100]}


def short(function):
    """A function's name without generics, traits and what the compiler added."""
    name = re.sub(r"'\d+$|::h[0-9a-f]{16}$", "", function)
    if of_trait := re.match(r"<(.+?) as .+?>(::.+)", name):
        name = of_trait[1] + of_trait[2]
    while (shorter := re.sub(r"<[^<>]*>", "", name)) != name:
        name = shorter
    return "::".join(name.split("::")[-2:])


def per_packet(lab, conf, frames, values=(), seconds=6, more=()):
    """Instructions, accesses and misses per packet of `conf`, from the endless capture IN to the null port OUT."""
    router = lab.keep(Valgrind(
        lab, conf, ["IN=net_pcap0", "OUT=net_null1", *values], vdevs(frames), 262_143, more))
    router.wait_sending()
    sums, packets = router.count(seconds)
    if packets < 1000:
        raise Failed(f"only {packets} packets passed under callgrind\n{router.command}")
    return {name: value / packets for name, value in sums.items()} | {"packets": packets}
