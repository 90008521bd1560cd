"""Routing daemons as Debian ships them: FRR's and BIRD; each router's daemons have their own namespace and files.

FRR's daemons use fixed paths (/etc/frr, /run/frr, /var/tmp/frr). Those of one router get a mount
namespace of their own, where these are folders of the lab, so that nothing of the machine's is
touched and many routers run beside each other. They are not started by the machine's init system.

What a daemon says goes to a file below the lab's folder; failures show its end.
"""

import json
import os
import pwd
import shutil
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from net import Done, Failed, Namespace, Process, until

FRR = Path("/usr/lib/frr")
# zebra first: the others speak to the kernel through it.
ORDER = ("zebra", "staticd", "bfdd", "ospfd", "ospf6d", "bgpd", "vrrpd")
# Seconds for which zebra, killed and started again, keeps the routes that it finds in the kernel.
KEEP = 30


class _Daemons:
    """Processes by name, common to FRR and BIRD."""

    def __init__(self, space: Namespace):
        self.space = space
        self.processes: dict[str, Process] = {}
        self.folder = space.lab.folder / f"daemons-{space.name}"
        self.folder.mkdir()

    def running(self) -> list[str]:
        return [name for name, process in self.processes.items() if process.running]

    def kill(self, *names: str) -> None:
        """Kills the named daemons (all by default) by SIGKILL, at once, and waits until they have ended."""
        chosen = [self.processes[name] for name in names or self.running()]
        for process in chosen:
            process.signal(signal.SIGKILL)
        for process in chosen:
            process.wait()

    def stop(self, *names: str) -> None:
        """Stops the named daemons (all by default) by SIGTERM, the last started first."""
        for name in names or reversed(self.running()):
            self.processes[name].stop()

    def said(self, lines: int = 15) -> str:
        """The end of each daemon's log, for messages."""
        parts = []
        for name, process in self.processes.items():
            state = "runs" if process.running else f"ended with {process.wait()}"
            text = (process.out + process.err).splitlines()[-lines:]
            parts.append("\n  ".join([f"{self.space} {name} {state}", *text]))
        return "\n".join(parts)

    def must_run(self) -> None:
        """Fails if a daemon has ended without being told to."""
        if dead := set(self.processes) - set(self.running()):
            raise Failed(f"{', '.join(sorted(dead))} ended\n{self.said()}")


class Frr(_Daemons):
    """FRR in a namespace. `configuration` has one text per daemon; those daemons run."""

    def __init__(self, space: Namespace, configuration: dict[str, str], zebra: Iterable[str] = ()):
        super().__init__(space)
        self.zebra = list(zebra)
        self.names = [name for name in ORDER if name in configuration or name == "zebra"]
        user = pwd.getpwnam("frr")
        for folder in ("etc", "run", "tmp"):
            (self.folder / folder).mkdir()
            shutil.chown(self.folder / folder, user.pw_uid, user.pw_gid)
        for name in self.names:
            path = self.folder / "etc" / f"{name}.conf"
            path.write_text(configuration.get(name, ""))
            shutil.chown(path, user.pw_uid, user.pw_gid)
        (self.folder / "etc/vtysh.conf").touch()

    def _command(self, *words: str) -> list[str]:
        """The command that runs `words` with FRR's paths mapped to this router's files."""
        mounts = " && ".join(f"mount --bind {self.folder / ours} {theirs}" for ours, theirs in
                             (("etc", "/etc/frr"), ("run", "/run/frr"), ("tmp", "/var/tmp")))
        return ["sh", "-c", f'{mounts} && exec "$@"', "sh", *words]

    def start(self, *names: str) -> None:
        """Starts those named daemons that do not run, and waits until they respond."""
        for name in [n for n in self.names if n in (names or self.names) and n not in self.running()]:
            # Without the latter, IPv6 routes are replaced by deleting and adding them.
            more = ["-K", str(KEEP), "--v6-rr-semantics", *self.zebra] if name == "zebra" else []
            socket = self.folder / "run" / f"{name}.vty"
            # A daemon that was killed has left its socket.
            socket.unlink(missing_ok=True)
            process = self.space.spawn(*self._command(
                str(FRR / name), "-A", "127.0.0.1", "-P", "0", "--log", "stdout", "--log-level", "informational", *more))
            self.processes[name] = process
            until(lambda: socket.exists() or not process.running, f"{name} of {self.space}", timeout=20)
            if not process.running:
                raise Failed(f"{name} ended\n{self.said()}")

    def vtysh(self, *commands: str, ok: bool = True) -> str:
        """Output of vtysh for commands, each as typed by a user."""
        words = [word for command in commands for word in ("-c", command)]
        done: Done = self.space.run(*self._command("vtysh", *words), ok=(0,) if ok else None)
        return done.out

    def configure(self, *commands: str) -> None:
        """Enters configuration commands, starting at the top level."""
        said = self.vtysh("configure terminal", *commands)
        if "%" in said:
            raise Failed(f"{self.space}: vtysh says to {commands}:\n{said}")

    def show(self, what: str) -> dict:
        """Result of `show WHAT json`; empty if the daemon does not respond now."""
        try:
            return json.loads(self.vtysh(f"show {what} json", ok=False) or "{}")
        except ValueError:
            return {}

    def bgp(self) -> dict[str, dict]:
        """BGP's neighbours by address: state, and the second in which the session was established."""
        return self.show("bgp neighbors")

    def established(self) -> dict[str, int]:
        """Established BGP sessions: neighbour, and number of establishments."""
        return {name: peer.get("connectionsEstablished", 0) for name, peer in self.bgp().items()
                if isinstance(peer, dict) and peer.get("bgpState") == "Established"}


class Since(float):
    """A time of day as BIRD prints it, which varies by a millisecond."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Since) and abs(self - other) < 0.1

    __hash__ = None


class Bird(_Daemons):
    """BIRD in a namespace."""

    def __init__(self, space: Namespace, configuration: str):
        super().__init__(space)
        self.socket = self.folder / "bird.ctl"
        self.file = self.folder / "bird.conf"
        self.file.write_text(configuration)

    def start(self, *words: str) -> None:
        """Starts BIRD and waits until it responds."""
        if "bird" in self.running():
            return
        self.socket.unlink(missing_ok=True)
        process = self.space.spawn("/usr/sbin/bird", "-f", "-c", str(self.file), "-s", str(self.socket), *words)
        self.processes["bird"] = process
        until(lambda: self.socket.exists() or not process.running, f"bird of {self.space}", timeout=20)
        self.must_run()

    def birdc(self, command: str, ok: bool = True) -> str:
        """Output of birdc for a command."""
        return self.space.run("/usr/sbin/birdc", "-s", str(self.socket), *command.split(), ok=(0,) if ok else None).out

    def established(self) -> dict[str, "Since"]:
        """Established BGP sessions: the protocol's name, and the time of establishment."""
        found = {}
        for line in self.birdc("show protocols", ok=False).splitlines():
            match line.split():
                case [name, "BGP", _, "up", since, "Established", *_]:
                    hours, minutes, seconds = since.split(":")
                    found[name] = Since(float(seconds) + 60 * (int(minutes) + 60 * int(hours)))
        return found


def wait_for(ask: Callable[[], object], what: str, seen: Callable[[], str], timeout: float = 30.0) -> float:
    """Waits until `ask` returns true; returns the seconds it took. On failure the message contains the result of `seen`.
    """
    start = time.monotonic()
    try:
        until(ask, what, timeout)
    except Failed as failed:
        raise Failed(f"{failed}\n{seen()}") from None
    return time.monotonic() - start


def available() -> bool:
    """True if FRR and BIRD are installed."""
    return os.access(FRR / "zebra", os.X_OK) and os.access("/usr/sbin/bird", os.X_OK)
