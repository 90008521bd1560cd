"""Random command lines: options, definitions, configurations from files, archives and standard input, handlers."""

import os
import re
from dataclasses import dataclass, replace

from .messages import message_difference
from .packets import Draw
from .peers import Run

CONFIGURATIONS = (
    "",
    "Idle; DriverManager(stop)",
    "c :: Counter; c1 :: Counter; Idle -> c -> c1 -> Discard; s :: Script(TYPE PASSIVE, return $(sprintf '%05d' 7)); DriverManager(stop);\n",
    "InfiniteSource(LIMIT 3, STOP true) -> c :: Counter -> Discard; q :: Queue; Idle -> q -> Idle;",
    "InfiniteSource(LIMIT 3, STOP true) -> c :: Counter -> Discard; DriverManager(wait_stop, print $(c.count));",
    "Script(TYPE PASSIVE, return $x); DriverManager(print $x, stop)",
    "x :: Idle(1);\n",
    "x :: Nothing;\n",
    "Idle ->\n",
    "require(library lib.click); Lib; DriverManager(stop)",
    "s :: Script(TYPE PASSIVE, return $x); t :: Script(TYPE PASSIVE, print x); DriverManager(stop)",
    "TimedSource(INTERVAL 0.05, LIMIT 3, STOP true) -> c :: Counter -> Discard;",
    "elementclass C { $a | input -> p :: Print($a) -> output } Idle -> e :: C(hi) -> Discard; DriverManager(stop)",
    "a :: { Idle -> c :: Counter -> Discard }; DriverManager(stop);",
)
HANDLERS = ("list", "config", "flatconfig", "requirements", "nothing", "c.count", "c.config", "c.class", "c.name", "c.nothing", "c.reset",
            "*.count", "c?.count", "c[01].name", "[a-c].name", "Counter.count", "Counter.nothing", "*.nothing", "Nothing.count", "x.name", ".", "c.",
            ".count", "", "s.run", "e/p.config", "a/c.count", "a*.class", "e.class", "*/p.config", "q.length", "*.name", "*.class", "Idle@1.name",
            "stop", "c.count 1", "hotconfig", "\\*.name", "[^a-b].name", "Queue.length", "*e.config")
STATUSES = ("c.count", "s.run", "list", "nothing", "nothing.x", "c.nothing", "c.class", "s.nothing", "c.reset")
VALUES = ("0", "1", "7", "255", "256", "-1", "true", "false", "0x10", "010", "abc", "", "1.5", "yes", "y", "4294967296", " 3 ", "'3'")
PORTS = ("0x10000", "http", "65536", "-1", "+", "x", "", "80x", "0+", "070000x")
PREFIXES = ("--q", "--qui", "--sim", "--simtime", "--simulation-time", "--no-allow", "--no-w", "--warnings", "--no-warnings", "--no-affinity", "--cpu", "--cpu=0",
            "--allow-reconfigure", "--aff", "--time", "-R", "-w", "-t", "-tw", "-wR", "--simtime=5", "--simtime=1e3", "-j1", "-j", "--threads=2", "-j0x2", "--thr=1", "-C",
            "-C.", "--clickpath=lib", "--help", "--hel", "-v", "--version")
WRONG = ("--a", "--c", "--s", "--e", "--h", "--no-a", "--n", "--no", "--no-quit", "--zz", "-Z", "-qZ", "--quit=1", "-jx", "--threads=x", "--cpu=x", "--simtime=x", "--simtime=",
         "-q=1", "--time=3", "-x", "-o", "-e", "-h", "--handler", "--no-x")


@dataclass(frozen=True)
class Line:
    """A command line, and the files that it reads."""

    words: tuple
    text: str
    stdin: str
    files: tuple
    name: str = "options"
    packets: tuple = ()

    def told(self):
        return f"click {' '.join(map(repr, self.words))}\n{self.text}\n{self.stdin}"

    def smaller(self, shows):
        """The case without words that the difference does not need."""
        case = self
        for at in reversed(range(len(case.words))):
            fewer = replace(case, words=case.words[:at] + case.words[at + 1 :])
            case = fewer if shows(fewer) else case
        return case


def archive(members):
    """An archive of ar(1)."""
    data = b"!<arch>\n"
    for name, text in members:
        data += f"{name:<16}{'0':<12}{'0':<6}{'0':<6}{'644':<8}{len(text):<10}`\n".encode() + text + b"\n" * (len(text) % 2)
    return data


def source(r):
    """Words for the configuration; most name the file."""
    other = r.choice(CONFIGURATIONS)
    return r.choice([["case.click"]] * 8 + [
        ["-f", "case.click"], ["--file=case.click"], ["--fil", "case.click"], ["-fcase.click"], ["-e", other], [f"-e{other}"], [f"--expression={other}"],
        ["-"], [], ["nothing.click"], ["-f", "-"], ["case.ar"], ["case.ar"], ["short.ar"], ["other.ar"], ["case.click", "-e", "Idle"], ["--", "case.click"],
        ["./case.click"], ["-e", ""], ["case.click", "case.click"]])


def option(r):
    """Words of an option."""
    draw = r.random()
    if draw < 0.35:
        return r.choice([["-h", r.choice(HANDLERS)], [f"-h{r.choice(HANDLERS)}"], [f"--handler={r.choice(HANDLERS)}"], ["--hand", r.choice(HANDLERS)]])
    if draw < 0.5:
        return r.choice([["-x", r.choice(STATUSES)], [f"--exit-handler={r.choice(STATUSES)}"]])
    if draw < 0.62:
        return [f"x={r.choice(VALUES)}"] if r.random() < 0.8 else [r.choice(["y=1", "a_b=c=d", "x1="])]
    if draw < 0.7:
        return r.choice([["-o", "-"], ["-o", "flat.out"], ["--output=flat.out"], ["-onothing/flat.out"], ["-o."]])
    if draw < 0.93:
        words = [r.choice(PREFIXES)]
        return [*words, "1"] if words[0] in ("-j", "-C") else words
    if draw < 0.96:
        return r.choice([["-p", r.choice(PORTS)], [f"--port={r.choice(PORTS)}"]])
    return [r.choice(WRONG)]


def options_case(seed, number):
    """The command line that has this number under a seed."""
    r = Draw(f"options {seed} {number}")
    text, stdin = r.choice(CONFIGURATIONS), r.choice(CONFIGURATIONS)
    parts = [source(r), *(option(r) for _ in range(r.choice([0, 1, 2, 2, 3, 4])))]
    if r.random() < 0.8:
        parts.append(r.choice([["-q"], ["--quit"], ["--simtime"], ["-q"]]))
    # A value of a variable that is given twice is a named difference.
    kept, names = [], set()
    for part in parts:
        name = part[0].split("=")[0] if part and re.match(r"\w+=", part[0]) else None
        if name is None or name not in names:
            kept.append(part)
        names.add(name)
    r.shuffle(kept)
    member = text.encode()
    files = (("lib.click", b"elementclass Lib { Idle }"), ("case.ar", archive([("other", b"x"), ("config", member)])),
             ("other.ar", archive([("other", b"x")])), ("short.ar", archive([("config", member)])[:40]))
    return Line(tuple(w for part in kept for w in part), text, stdin, files)


def settled(text):
    """Output without what may differ: signs of quotes, the order of options in a list, times, and version."""
    text = text.replace("â\x80\x98", "'").replace("â\x80\x99", "'")
    text = re.sub(r"(Possibilities are )(.*)\.\)", lambda m: m[1] + " ".join(sorted(re.findall("'[^']*'", m[2]))), text)
    if text.startswith(("'Click' runs", "Usage: click [OPTION]... [NAME")):
        return "HELP"
    if re.match(r"click \((Click|Ashlar)\) ", text):
        return "VERSION"
    text = re.sub(r"^\d+\.\d{3}u \d+\.\d{3}s \d+:\d\d\.\d\d$", "TIMES", text, flags=re.MULTILINE)
    return text


def run_line(peers, case):
    """Output of Click for a command line, and that of `ashlar click`, each in a folder of its own."""
    running = []
    for program, folder in peers.folders():
        for name, data in (("case.click", case.text.encode()), ("stdin", case.stdin.encode()), *case.files):
            with open(os.path.join(folder, name), "wb") as file:
                file.write(data)
        running.append((Run(program, case.words, folder, "run", stdin="stdin"), folder))
    results = []
    for run, folder in running:
        result = run.result()
        written = os.path.join(folder, "flat.out")
        if os.path.exists(written):
            with open(written, encoding="latin-1") as file:
                result.out += f"--- flat.out\n{file.read()}"
        results.append(replace(result, out=settled(result.out), err=settled(result.err)))
    return results


def line_difference(a, b, _wording):
    """A word for the kind of difference of two results, and two texts; None if there is none."""
    if a.status < 0:
        return None
    if a.status != b.status:
        return f"status {a.status} / {b.status}", a.err + a.out, b.err + b.out
    if a.out != b.out:
        return "stdout", a.out, b.out
    return message_difference(a, b, a.status == 0)
