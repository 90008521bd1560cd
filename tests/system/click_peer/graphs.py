"""Random graphs: chains and small trees of several elements, with scripts that read and write their handlers."""

from dataclasses import dataclass, replace

from .packets import Draw, whole_datagram
from .shrink import with_fewer_steps

PUSH = ("Null", "Counter", "Paint(3)", "Strip(4)", "Truncate(30)", "Pad(60)", "PushNull", "EtherEncap(0x800, 1:2:3:4:5:6, 7:8:9:a:b:c)",
        "CheckPaint(3)", "SetTimestamp(5.25)", "AdjustTimestamp(1)", "Align(4, 0)", "StoreIPAddress(1.2.3.4, 12)", "AggregateIP(ip src)",
        "SetIPChecksum", "CheckIPHeader", "MarkIPHeader", "DecIPTTL", "SetIPDSCP(3)", "IPMirror", "RoundRobinSwitch", "Bypass", "Suppressor",
        "Switch(0)", "Tee(1)", "CheckLength(50)", "AverageCounter", "PaintSwitch", "SetIPECN(1)", "AggregateCounter", "UDPIPEncap(1.2.3.4, 5, 6.7.8.9, 10)")
PULL = ("Null", "Counter", "PullNull", "Shaper(50)", "Paint(2)", "Strip(1)", "DelayShaper(0.05)", "RatedSplitter(10)", "Truncate(20)", "AverageCounter")
QUEUES = ("Queue(5)", "SimpleQueue(3)", "FrontDropQueue(2)", "ThreadSafeQueue(10)", "MixedQueue(4)", "NotifierQueue(3)", "FullNoteQueue(3)",
          "QuickNoteQueue(4)", "Queue")
PULLERS = ("Unqueue", "Unqueue(BURST 3)", "RatedUnqueue(20)", "DelayUnqueue(0.05)", "Unqueue(LIMIT 4)",
           "BandwidthRatedUnqueue(2000)")
NUMBERS = ("0", "1", "2", "3", "-1", "7", "10", "0x10", "4294967296", "1.5", "-2.5", "abc", "1000000000000", "08", "")
WORDS = ('"a b c"', "hello", '"1 2 3"', '"x\\ty"', "''", '""', "a.b", "'q'", '"$a"')
TWO = ("add", "sub", "mul", "div", "idiv", "mod", "rem", "eq", "ne", "lt", "gt", "le", "ge", "min", "max", "and", "or", "nor",
       "in")
ONE = ("not", "neg", "abs", "first", "length", "unquote")
FORMATS = ("%d", "%5d", "%-4d|", "%s", "%05d", "%i", "%%", "%d-%s", "%3s", "%.2s", "%+d", "a%", "%ld", "%")


@dataclass(frozen=True)
class Graph:
    """Elements in a graph, and instructions of its scripts."""

    lines: tuple
    steps: tuple
    second: tuple
    kind: str
    name: str = "graphs"
    files: tuple = ()
    packets: tuple = ()

    def text(self):
        script = f"DriverManager({', '.join(self.steps)});"
        other = [f"s :: Script({', '.join((self.kind, *self.second))});"] if self.second else []
        return "\n".join([*self.lines, *other, script]) + "\n"

    def command(self):
        return ["--simtime", "case.click"]

    def told(self):
        return self.text()

    def smaller(self, shows):
        case = self
        for _ in range(3):
            before = case
            case = with_fewer_steps(case, shows)
            for at in reversed(range(len(case.second))):
                fewer = replace(case, second=case.second[:at] + case.second[at + 1 :])
                case = fewer if shows(fewer) else case
            for line in case.lines:
                fewer = replace(case, lines=tuple(one for one in case.lines if one is not line))
                case = fewer if shows(fewer) else case
            if case == before:
                break
        return case


def sure(r, depth=0):
    """An expression of a script that is never empty: text that becomes empty is a named difference."""
    if r.random() < 0.5 or depth > 2:
        return r.choice(NUMBERS[:8])
    name = r.choice(("add", "sub", "mul", "eq", "lt", "ge", "min", "max"))
    return f"$({name} {sure(r, depth + 1)} {sure(r, depth + 1)})"


def value(r, depth=0):
    """An expression of a script."""
    draw = r.random()
    if draw < 0.3 or depth > 2:
        return r.choice(NUMBERS[:8] if r.random() < 0.8 else NUMBERS)
    if draw < 0.4:
        return r.choice(WORDS)
    if draw < 0.5:
        return r.choice(["$a", "$b", "$i", "${a}", '"$a $b"', "$nothing"])
    if draw < 0.75:
        many = r.choice([2, 2, 2, 2, 3, 1, 0])
        return f"$({r.choice(TWO)} {' '.join(value(r, depth + 1) for _ in range(many))})"
    if draw < 0.8:
        return f"$(sprintf \"{r.choice(FORMATS)}\" {value(r, depth + 1)}{r.choice(['', ' ' + value(r, 3)])})"
    if draw < 0.86:
        return f"$(if {value(r, depth + 1)} {value(r, depth + 1)} {value(r, depth + 1)})"
    if draw < 0.93:
        return f"$({r.choice(ONE)} {value(r, depth + 1)})"
    return r.choice(["$(c0.count)", "$(q0.length)", "$(c1.count)", "$(c0.nothing)", "$(s.run)", "$(q0.capacity)", "$(c0.name)", "$(list)",
                     "$(s.run 1)", "$(q0.config)", "$(c0.class)", "$(in 3 1 2 3)"])


def instruction(r, labels):
    """An instruction of a script."""
    draw = r.random()
    if draw < 0.2:
        return f"set {r.choice(['a', 'b', 'i'])} {sure(r)}"
    if draw < 0.55:
        return f"print \"<{value(r)}>\"" if r.random() < 0.9 else r.choice(["print", "printn x", "printq \"a b\"", "print \"a\" b", "printn $a"])
    if draw < 0.65:
        return f"wait {r.choice(['0.1', '0.01', '0.5', '1ms', '1', '0'])}"
    if draw < 0.75:
        return r.choice(["write c0.reset", "write q0.reset", "write c1.reset_counts", "write q0.capacity 2", "write src.active true",
                         "write src.active false", "write s.run", "write c0.nothing 1", "write nothing.x 1",
                         "write src.reset", "write q0.length 3"])
    if draw < 0.82:
        return r.choice(["read c0.count", "read q0.length", "read c0.byte_count", "read q0.drops", "read c0.nothing", "read src.count", "readq c0.config",
                         "read s.run"])
    if draw < 0.9:
        labels.append(f"l{len(labels)}")
        return f"label {labels[-1]}"
    if draw < 0.95 and labels:
        return f"goto {r.choice(labels)} {r.choice(['$(lt $i 3)', '$(c0.nothing)', 'false', '$(lt $(c0.count) 3)'])}, set i $(add $i 1)"
    return r.choice(["init a 5", "init b $(add 1 2)", "save c0.count -", "append c0.count -", "error \"hm\"", "errorq",
                     "set i $(add $i 1)", "end", "exit"]
                    if r.random() < 0.3 else ["set i $(add $i 1)"])


def graph_case(seed, number):
    """The graph that has this number under a seed."""
    r = Draw(f"graphs {seed} {number}")
    r.whole, r.fragments, r.options, r.any_timestamps, r.bad_options = True, True, False, True, False
    data = whole_datagram(r, 17)
    first = [r.choice(PUSH) for _ in range(r.choice([0, 1, 2, 3]))]
    last = [r.choice(PULL) for _ in range(r.choice([0, 1, 2]))]
    # Behind an Ethernet header the elements that expect an IP header at the start would work on other bytes.
    ether = next((at for at, one in enumerate(first) if one.startswith("EtherEncap")), len(first))
    first = first[: ether + 1]
    queue, puller = r.choice(QUEUES[:-1] if r.random() < 0.9 else QUEUES[-1:]), r.choice(PULLERS)
    source = r.choice([f"InfiniteSource(DATA \\<{data.hex()}>, LIMIT {r.choice([1, 3, 8])}, STOP {r.choice(['true', 'false'])})",
                       f"RatedSource(DATA \\<{data.hex()}>, RATE {r.choice([10, 40, 100])}, LIMIT {r.choice([1, 5, 12])}, STOP false)",
                       f"TimedSource(INTERVAL {r.choice(['0.05', '0.11'])}, DATA \\<{data.hex()}>, LIMIT 6)"])
    lines = [f"src :: {source} -> " + "".join(f"{e} -> " for e in first) + "c0 :: Counter -> t :: Tee;",
             f"t[0] -> q0 :: {queue} -> " + "".join(f"{e} -> " for e in last) + f"{puller} -> c1 :: Counter -> Print(o0, -1, TIMESTAMP true) -> Discard;",
             "t[1] -> " + "".join(f"{r.choice(PUSH[:12])} -> " for _ in range(r.choice([0, 1, 2]))) + "Print(o1, 24, TIMESTAMP true) -> Discard;"]
    labels = []
    timed = source.startswith("TimedSource")  # its handlers `active` and `reset` are not in Click's manual
    steps = [step for step in (instruction(r, labels) for _ in range(r.choice([1, 2, 4, 8]))) if not timed or "src." not in step]
    # A script that runs itself ends by a bound, which is another one in each program.
    second = tuple(step for step in (instruction(r, []) for _ in range(r.choice([0, 1, 2, 4])))
                   if "s.run" not in step and "s.step" not in step and not (timed and "src." in step))
    kind = r.choice(["TYPE PASSIVE", "TYPE PASSIVE", "TYPE ACTIVE", "TYPE PASSIVE"])
    ends = ["wait 2.5", "print $(c0.count)", "print $(c1.count)", "print $(q0.length)", "print $(q0.drops)",
            *(["print $(s.run)"] if second else []), "stop"]
    return Graph(tuple(lines), (*steps, *ends), second, kind)
