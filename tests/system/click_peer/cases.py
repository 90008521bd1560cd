"""Cases: one element with random arguments, its neighbours, packets, and a script that sends them and calls handlers."""

import re
from dataclasses import dataclass

from .arguments import arguments
from .classes import (
    AFTER, BAD_OPTIONS, BEFORE, BESIDE, MERGED, NEAT_OPTIONS, PULLERS, PUSHED, RANDOM_BYTES, SPECS, SQUARE, Spec, UNFRAGMENTED,
    UNIVERSAL, UNREAD, UNTIMED, WHOLE,
)
from .files import files_of
from .packets import ADDRESSES, PACKETS, Draw, querier_packets
from .values import NAMES, value, with_output


@dataclass(frozen=True)
class Case:
    """One element with its neighbours, packets and handler calls."""

    spec: Spec
    args: tuple
    inputs: int
    outputs: int
    pull: bool
    before: tuple
    """Elements in front of the element under test."""
    packets: tuple
    """Input and bytes of each packet."""
    steps: tuple
    """Lines of the script; `send N` sends packet N."""
    files: tuple = ()
    """Name and bytes of each file that the element reads."""
    names: bool = True

    @property
    def name(self):
        """Name of the class."""
        return self.spec.name

    def text(self):
        """The configuration."""
        lines = [NAMES] if self.names else []
        if self.spec.name in BESIDE:
            lines.append(BESIDE[self.spec.name])
        lines.append(f"e :: {self.spec.name}({', '.join(self.args)});")
        lines += self.neighbours() + self.sources()
        lines.append('s :: Script(TYPE PASSIVE, print "called");')
        lines.append("DriverManager(" + ",\n  ".join(self.script()) + ");")
        return "\n".join(lines) + "\n"

    def neighbours(self):
        """Connections at the ports of the element under test."""
        spec, lines = self.spec, []
        pull_in = spec.processing.startswith("l") or (spec.processing == "a" and self.pull)
        pull_out = spec.processing.endswith("l") or (spec.processing == "a" and self.pull)
        before = "".join(f"{element} -> " for element in self.before)
        for i in range(self.inputs):
            queue = f"q{i} :: Queue(100) -> " if pull_in else ""
            lines.append(f"i{i} :: Null -> {before}{queue}[{i}]e;")
        for o in range(self.outputs):
            behind = AFTER.get((spec.name, o), AFTER.get(spec.name))
            after = f"{behind} -> " if behind else ""
            pulled = pull_out and (o == 0 or spec.processing != "a")
            puller = f"{PULLERS.get(spec.name, 'Unqueue')} -> " if pulled else ""
            label = "o" if spec.name in MERGED else f"o{o}"
            length = 0 if spec.name in RANDOM_BYTES else -1
            times = "" if spec.name in UNTIMED else f"SetTimestamp -> Print({label}, 0, TIMESTAMP true) -> "
            shown = f"Print({label}, {length}, TIMESTAMP true, PRINTANNO true)"
            lines.append(f"e[{o}] -> {puller}{after}{shown} -> {times}Discard;")
        return lines

    def sources(self):
        """A source for each packet, and none for inputs without packets."""
        used = {int(s.split()[1]) for s in self.steps if s.startswith("send ")}
        sent = [(n, port, data) for n, (port, data) in enumerate(self.packets) if n in used]
        lines = [f"s{n} :: InfiniteSource(DATA \\<{data.hex()}>, LIMIT 1, ACTIVE false) -> i{port};" for n, port, data in sent]
        quiet = set(range(self.inputs)) - {port for _, port, _ in sent}
        return lines + [f"Idle -> i{i};" for i in sorted(quiet)]

    def script(self):
        """Instructions of the driver."""
        out = []
        for step in self.steps:
            if step.startswith("send "):
                out += [f"write s{step.split()[1]}.active true", "wait 0.01037"]
            else:
                out += step.split("; ")
        return [*out, "stop"]


def read(handler, argument=""):
    """A step that reads a handler."""
    return f'print "@{handler}"; print $(e.{handler} {argument})' if argument else f'print "@{handler}"; print $(e.{handler})'


def elements_before(r, spec):
    """Elements that note what the class needs, and some that note more."""
    before = []
    if spec.packets in ("ip", "tcp", "udp", "icmp", "nat", "errors", "ipa", "ipfrag", "onlytcp", "onlyudp", "ping", "ftp"):
        before.append("Null" if spec.name in ("CheckIPHeader", "CheckIPHeader2", "MarkIPHeader") else "CheckIPHeader(0)")
    if spec.packets == "ipa":
        before.append("IPClassifier(not (src host 0.0.0.0 or dst host 0.0.0.0))")
        before.append(r.choice(["AggregateIP(ip src)", "AggregateIP(ip dst)", "AggregateIP(ip[15])"]))
    if spec.packets in ("ip6", "routed6", "hosts6"):
        before.append("Null" if spec.name == "MarkIP6Header" else "MarkIP6Header(0)")
    if spec.name in BEFORE:
        before.append(BEFORE[spec.name])
    if r.random() < 0.3 and spec.name != "ICMP6Error":
        before.insert(r.randrange(len(before) + 1), f"Paint({r.choice([0, 1, 2, 5, 255])})")
    if r.random() < 0.2 and spec.name not in ("ARPQuerier", "IPGWOptions"):
        noted = r.choice(ADDRESSES)
        before.append("SetIPAddress(10.0.0.2)" if spec.name == "StoreIPAddress" else f"SetIPAddress({noted})")
    return before


def random_packets(r, spec, inputs):
    """Input and bytes of some packets."""
    count = r.choice([0, 1, 2, 3, 4, 6, 10, 20]) if inputs else 0
    if spec.packets == "arpq":
        return querier_packets(r, count)
    draw = PACKETS[spec.packets]
    return [(r.randrange(inputs), draw(r)) for _ in range(count)]


class Calls:
    """Handlers that a case may read and write."""

    def __init__(self, r, spec, handlers, unread, outputs):
        self.r, self.outputs = r, outputs
        self.values = {h[0].rstrip("?"): h[1] for h in spec.handlers}
        self.asks = sorted(h[0].rstrip("?") for h in spec.handlers if h[0].endswith("?"))
        self.reads = [n for n, flags in handlers.items() if "r" in flags and n not in unread]
        self.writes = [n for n in self.values if n not in self.asks and "w" in handlers.get(n, "")]

    def draw(self):
        """Steps of a random call."""
        r = self.r
        if self.reads and r.random() < 0.6:
            name = r.choice(self.reads)
            return [read(name, value(r, self.values[name]) if name in self.asks else "")]
        if self.asks and r.random() < 0.5:
            name = r.choice(self.asks)
            return [read(name, value(r, self.values[name]))]
        if self.writes:
            name = r.choice(self.writes)
            kind = self.values[name]
            text = with_output(r, value(r, kind, 0 if kind in ("port_number", "handler") else 0.005), self.outputs)
            if "," not in text:
                return [f"write e.{name} {text}".rstrip() + "; wait 0.00011"]
        return []


def random_steps(r, calls, inputs, count):
    """Packets with calls and pauses between them, and all handlers at the end."""
    steps = []
    busy = r.choice([0, 0.1, 0.5])
    for n in range(count):
        if r.random() < busy:
            steps += calls.draw()
        steps.append(f"send {n}")
        if r.random() < 0.1:
            steps.append(f"wait {r.choice(['0.10713', '1.0391', '0.5177', '5.0371', '0.00317', '60.0413'])}")
    if not inputs:
        for _ in range(r.choice([0, 1, 3, 6])):
            steps += calls.draw()
            steps.append(f"wait {r.choice(['0.10713', '1.0391', '0.02137', '0.3119'])}")
    steps.append("wait 0.5233")
    return steps + [read(name) for name in calls.reads if name not in calls.asks]


def kept_back(spec, args):
    """Handlers that lead to what docs/click.md names of FromDump: a lost packet at the end, and other bounds of its window."""
    given = {arg.split(" ")[0] for arg in args}
    if spec.name != "FromDump" or not given & {"START_AFTER", "END", "END_AFTER", "INTERVAL"}:
        return set()
    return {"reset_timing"} if "END_CALL" in given else {"active", "extend_interval", "reset_timing"}


def make(r, spec, handlers):
    """A random case of a class whose `handlers` both programs have."""
    inputs = r.randint(*spec.inputs)
    outputs = inputs if spec.name in SQUARE else r.randint(*spec.outputs)
    r.whole = spec.name in WHOLE
    r.fragments = spec.name not in UNFRAGMENTED
    r.options = spec.name != "IPOutputCombo"
    r.any_timestamps = spec.name not in NEAT_OPTIONS
    r.bad_options = spec.name in BAD_OPTIONS
    before = elements_before(r, spec)
    packets = random_packets(r, spec, inputs)
    args = arguments(r, spec, inputs, outputs)
    unread = UNIVERSAL | set(UNREAD.get(spec.name, "").split())
    handlers = {name: flags for name, flags in handlers.items() if name not in kept_back(spec, args)}
    unread |= {f"pattern{n}" for n in range(outputs, 16)} | {f"tickets{n}" for n in range(inputs, 32)}
    if not any(re.match("DETAILS (true|1|yes|t)$", arg) for arg in args):
        unread.add("drop_details")
    steps = random_steps(r, Calls(r, spec, handlers, unread, outputs), inputs, len(packets))
    pull = r.random() < 0.15 and not (spec.name in PUSHED and outputs > 1)
    return Case(spec, tuple(args), inputs, outputs, pull, tuple(before), tuple(packets), tuple(steps), files_of(r, spec, args))


def case_of(name, seed, number, handlers):
    """The case of a class that has this number under a seed: the same in every run."""
    return make(Draw(f"{name} {seed} {number}"), SPECS[name], handlers)
