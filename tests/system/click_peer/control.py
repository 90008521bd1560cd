"""Random dialogues with control sockets: commands of the protocol, mistakes, and how they are cut into packets."""

import contextlib
import os
import re
import socket
import time
from dataclasses import dataclass, replace

from .packets import Draw
from .peers import Result, Run

START_S = 10
"""Seconds in which a program must listen."""
ANSWER_S = 5
"""Seconds without an answer after which a dialogue counts as endless."""
GAP_S = 0.005
"""Seconds between two packets of a client, so that they are not joined."""

ROUTER = ("c :: Counter; Idle -> c -> Discard; q :: Queue(5); Idle -> q -> Idle; w :: Switch(0); Idle -> w -> Discard; w[1] -> Discard;"
          "s :: Script(TYPE PASSIVE, return <$args>); t :: Script(TYPE PASSIVE, write c.nothing 1); a :: { Idle -> c :: Counter -> Discard };"
          "p :: Paint(3); Idle -> p -> Discard;")
READS = ("c.count", "c.class", "c.name", "c.config", "q.length", "q.capacity", "w.switch", "p.color", "a/c.count", "list", "config", "requirements", "s.run",
         "s.run  a b", "nothing", "nothing.x", "c.nothing", "c.reset", "q.reset", "stop", "hotconfig", "", "c", "c.", ".count", ".", "c..count", "*.count",
         "Counter.count", "a.count", "C.count", "c.count\t", "\tc.count", "c/count", "2.name", "0.name")
WRITES = ("c.reset", "c.reset 1", "q.reset", "w.switch 0", "w.switch 1", "w.switch x", "q.capacity 7", "q.capacity x", "p.color 5", "p.color 300",
          "c.count 1", "c.nothing", "nothing.x 1", "nothing", "list", "", "c.", ".reset", "s.run 1", "p.color  6 ", "w.switch \"0\"", "2.reset", "q.length 3")
VERBS = ("READ", "READ", "READ", "WRITE", "WRITE", "WRITE", "CHECKREAD", "CHECKWRITE", "GET", "SET", "read", "Write")
DATA = (b"0", b"1", b"x", b"7 8", b"\x00\x01")
WRONG = (b"", b" ", b"FOO", b"FOO bar", b"READ", b"WRITE", b"CHECKREAD", b"CHECKWRITE", b"LLRPC", b"READDATA c.count", b"WRITEDATA c.reset",
         b"WRITEDATA c.reset x", b"WRITEDATA c.reset -1", b"WRITEDATA nothing.x 2\nab", b"CHECKREAD c.count c.count", b"READ\tc.class", b"  READ c.class",
         b"READ c.class  ", b"QUIT now", b"CLOSE", b"EXIT", b"POLL c.count")


@dataclass(frozen=True)
class Dialogue:
    """Packets that a client sends, and how the program listens."""

    commands: tuple
    cuts: tuple
    kind: str
    arguments: str
    name: str = "control"
    packets: tuple = ()

    def sent(self):
        """The packets."""
        data = b"".join(self.commands)
        places = [0, *sorted({cut % (len(data) + 1) for cut in self.cuts}), len(data)]
        return [data[a:b] for a, b in zip(places, places[1:], strict=False) if a < b]

    def told(self):
        return f"{self.kind} {self.arguments}\n{self.sent()}\n"

    def smaller(self, shows):
        """The dialogue without commands and cuts that the difference does not need."""
        case = self
        for field in ("commands", "cuts"):
            for at in reversed(range(len(getattr(case, field)))):
                old = getattr(case, field)
                fewer = replace(case, **{field: old[:at] + old[at + 1 :]})
                case = fewer if shows(fewer) else case
        return case


def command(r):
    """A command, without the end of its line."""
    draw = r.random()
    if draw < 0.15:
        return r.choice(WRONG)
    if draw < 0.3:
        data = r.choice(DATA)
        verb = r.choice(["WRITEDATA", "READDATA"])
        handler = r.choice(["w.switch", "c.reset", "p.color", "s.run", "nothing.x"] if verb == "WRITEDATA" else ["s.run", "c.reset", "nothing.x"])
        return f"{verb} {handler} {len(data)}".encode() + r.choice([b"\n", b"\r\n"]) + data + r.choice([b"", b"", b"\n"])
    if draw < 0.38:
        verb, handler = r.choice([("READUNTIL", "s.run"), ("READUNTIL", "nothing.x"), ("WRITEUNTIL", "c.reset"), ("WRITEUNTIL", "nothing.x"), ("WRITEUNTIL", "c.count")])
        return f"{verb} {handler} END\n".encode() + r.choice([b"", b"1\n", b" END\n", b"end\n"]) + b"END"
    verb = r.choice(VERBS)
    reads = verb.upper() in ("READ", "GET", "CHECKREAD")
    handler = r.choice(READS if reads != (r.random() < 0.1) else WRITES)
    if not reads and handler.endswith(".config"):
        handler = "c.reset"  # Click's elements do not take it
    if not reads and handler == "q.capacity":
        handler += " 7"  # Click takes an empty value for the default
    if reads:
        # An argument that a handler ignores is a mistake in Click alone.
        handler = handler if handler.startswith("s.run") else handler.split(" ")[0]
    return f"{verb} {handler}".encode()


def control_case(seed, number):
    """The dialogue that has this number under a seed."""
    r = Draw(f"control {seed} {number}")
    commands = [command(r) + r.choice([b"\n", b"\n", b"\r\n", b"\r\n", b"\r"]) for _ in range(r.choice([1, 2, 3, 5, 8]))]
    commands.append(r.choice([b"QUIT\r\n", b"QUIT\n", b"quit\r\n", b""]))
    kind = r.choice(["unix", "unix", "tcp", "-u", "-p"])
    arguments = r.choice(["", "", "", ", READONLY true", ", READONLY false", ", VERBOSE true"]) if not kind.startswith("-") else ""
    cuts = tuple(r.randrange(1, 200) for _ in range(r.choice([0, 0, 0, 1, 2, 4])))
    return Dialogue(tuple(commands), cuts, kind, arguments)


def free_port():
    """A TCP port that is free now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def connected(run, address):
    """A connection to the program; None if it ends or does not listen."""
    family = socket.AF_INET if isinstance(address, tuple) else socket.AF_UNIX
    end = time.monotonic() + START_S
    while time.monotonic() < end and run.process.poll() is None:
        client = socket.socket(family)
        try:
            client.connect(address)
        except OSError:
            client.close()
            time.sleep(0.005)
        else:
            client.settimeout(ANSWER_S)
            return client
    return None


def talk(client, packets):
    """All answers to a dialogue."""
    # The program may have closed the connection already.
    with contextlib.suppress(OSError):
        for at, packet in enumerate(packets):
            if at:
                time.sleep(GAP_S)
            client.sendall(packet)
        client.shutdown(socket.SHUT_WR)
    answer = b""
    with contextlib.suppress(ConnectionResetError):
        while more := client.recv(65536):
            answer += more
    return answer


def run_dialogue(peers, case):
    """Answers of both programs; the status is 0, or -99 if a dialogue has no end."""
    results = []
    for program, folder in peers.folders():
        port, path = free_port(), os.path.join(folder, "socket")
        by_port = case.kind in ("tcp", "-p")
        address = ("127.0.0.1", port) if by_port else path
        where = str(port) if by_port else "socket"
        words = [case.kind, where] if case.kind.startswith("-") else []
        element = "" if words else f"ControlSocket({case.kind.upper()}, {where}{case.arguments});"
        run = Run(program, [*words, "-e", ROUTER + element], folder, "run")
        client = connected(run, address)
        status, answer = -1, b""
        if client:
            status = 0
            try:
                answer = talk(client, case.sent())
            except TimeoutError:
                status = -99
            client.close()
        if run.process.poll() is None:
            run.process.terminate()
        ended = run.result()
        results.append(Result(status, answer.decode("latin-1").replace(str(port), "PORT"), ended.err))
    return results


def without_last_feeds(text):
    """Answers of `s.run`, without white space at the ends of its arguments, which only Click keeps."""
    return re.sub(r"DATA \d+\r\n<\s*([^>]*?)\s*>", r"DATA\r\n<\1>", text)


def settled(text):
    """Answers, of which the refusals of handlers and those about syntax are their codes: their words are the program's own."""
    text = without_last_feeds(text)
    text = re.sub(r"500.Syntax error.*", "500", text)
    return re.sub(r"^(520|590)[- ].*\n(?:\1[- ].*\n)*", r"\1\n", text, flags=re.MULTILINE)


def dialogue_difference(a, b, _wording):
    """A word for the kind of difference of two results, and two texts; None if there is none."""
    if a.status != b.status:
        return f"status {a.status} / {b.status}", a.out + a.err, b.out + b.err
    of_click, of_ashlar = settled(a.out), settled(b.out)
    return None if of_click == of_ashlar else ("answers", of_click, of_ashlar)
