"""Four servers that agree on their description by etcd: the cluster of rb4.py with a network for control.

    etcd and the servers' agents reach each other by `control`, 192.0.2.N, on a bridge in a namespace of its own.
"""

import http.client
import json
import re
import shlex
import shutil
import ssl
from base64 import b64encode
from pathlib import Path

from net import Done, Lab, Process, until
from rb4 import NAMES, Rb4, number
from topology import ASHLAR, ROOT

MEMBERS = ("a", "b", "c")


def available() -> bool:
    return shutil.which("etcd") is not None


def control(name: str) -> str:
    """Address of a server on the network for control."""
    return f"192.0.2.{number(name)}"


def typed() -> list[tuple[str, list[str]]]:
    """Commands of the section of docs/cluster.md, and the server on which each is typed."""
    section = (ROOT / "docs/cluster.md").read_text().split("\n## One place to change all servers\n")[1].split("\n## ")[0]
    return [(server, shlex.split(words)) for server, words in re.findall(r"^    ([a-d])# (.+)$", section, re.MULTILINE)]


class Agreed(Rb4):
    """Servers of which each has a folder, its own certificate, and nothing else in common but etcd."""

    def __init__(self, lab: Lab):
        # A machine under load may not run a server for as long as RB4's links wait for a heartbeat.
        super().__init__(lab, options='heartbeat = "50ms"\ndead = "3s"')
        self.etcd = dict[str, Process]()
        self.tokens = dict[str, str]()
        between = lab.namespace("control")
        between.ip("link add bridge type bridge")
        between.ip("link set bridge up")
        for name in NAMES:
            lab.link(self.servers[name], "control", between, f"to-{name}")
            between.ip(f"link set to-{name} master bridge")
            self.servers[name].ip(f"address add {control(name)}/24 dev control")

    def home(self, name: str) -> Path:
        return self.lab.folder / f"home-{name}"

    def tls(self, name: str) -> ssl.SSLContext:
        """TLS with a server's certificate, to servers of the cluster."""
        home = self.home(name)
        tls = ssl.create_default_context(cafile=str(home / "ca.pem"))
        tls.load_cert_chain(home / "server.pem", home / "server.key")
        return tls

    def cluster(self, name: str, *words: str, ok: tuple[int, ...] = (0,), timeout: float = 90.0):
        """Runs `ashlar cluster` as an operator at a server."""
        return self.servers[name].run(ASHLAR, "cluster", *words, "--home", str(self.home(name)), ok=ok, timeout=timeout)

    def found(self) -> Process:
        """The first server makes the cluster and invites the others, as docs/cluster.md says. Returns the process that
        waits for them.
        """
        self.type("a", "init")
        host = self.type("a", "invite")
        for name in NAMES[1:]:
            self.tokens[name] = host.wait_for(rf"on server {name}:\n +ashlar cluster join (\S+)\n")[1]
        return host

    def bring_up(self) -> None:
        """Starts etcd's members, then the servers."""
        for name in MEMBERS:
            self.start_etcd(name)
        for name in NAMES:
            self.processes[name] = self.type(name, "up")
        for name in NAMES:
            self.processes[name].wait_for(" start ", timeout=30)
        until(lambda: self.leader(), "a leader", 40)

    def type(self, name: str, command: str) -> Process | Done:
        """Types the command that docs/cluster.md has for a server, with the lab's files. Returns it at its end, unless it
        is to run on.
        """
        *_, words = (words for server, words in typed() if server == name and command in words[:3])
        files = {"ashlar": ASHLAR, "cluster.toml": str(self.file), "TOKEN": self.tokens.get(name)}
        words = [files.get(word) or word.replace("/etc/ashlar/cluster", str(self.home(name))) for word in words]
        runs_on = command in ("etcd", "up", "invite")
        if command not in ("etcd", "up"):
            words += ["--home", str(self.home(name))]
        return self.spawn(name, *words) if runs_on else self.servers[name].run(*words, timeout=90.0)

    def spawn(self, name: str, *words: str) -> Process:
        """Starts a program that is to run on, at a server."""
        return self.servers[name].spawn(*words)

    def start_etcd(self, name: str) -> None:
        self.etcd[name] = self.type(name, "etcd")

    def shown(self, at: str = "a") -> dict:
        """The agreement, as one of the servers sees it; with `error` if etcd does not answer."""
        done = self.cluster(at, "show", "--json", ok=(0, 1))
        return json.loads(done.out) if done.out else {"error": str(done)}

    def leader(self) -> str | None:
        return self.shown().get("leader")

    def write(self, name: str, key: str, value: str) -> None:
        """Writes to etcd with a server's certificate, past all rules."""
        with self.servers[name].entered():
            line = http.client.HTTPSConnection(control("a"), 2379, context=self.tls(name), timeout=10)
            body = {"key": b64encode(f"/ashlar/rb4/{key}".encode()).decode(), "value": b64encode(value.encode()).decode()}
            line.request("POST", "/v3/kv/put", json.dumps(body))
            reply = line.getresponse()
            assert reply.status == 200, reply.read()
            line.close()

    def said(self) -> str:
        """Output of all servers and of etcd's members."""
        return "".join(process.said() for process in (*self.processes.values(), *self.etcd.values()))

    def stop(self) -> None:
        super().stop()
        for process in self.etcd.values():
            process.stop()


def version(text: str) -> int:
    return int(re.search(r"version (\d+) of the description", text)[1])
