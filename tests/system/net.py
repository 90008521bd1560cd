"""Networks of namespaces for system tests and the demonstration, which are always removed completely.

A `Lab` owns all it makes: network namespaces, processes, sockets and one temporary folder. Their
names begin with `ashlar-PID-`, so several runs share a machine. `with Lab() as lab:` takes
everything away at the end, after a failure, and on SIGINT and SIGTERM (see `stop_on_signals`).

Only the standard library is used here: the demonstration needs nothing else.
"""

import contextlib
import ctypes
import itertools
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

Found = TypeVar("Found")

CLONE_NEWNET = 0x4000_0000
# In the environment of every process that a lab starts; tests look for it to find what is left.
MARK = "ASHLAR_LAB"

_libc = ctypes.CDLL(None, use_errno=True)
_numbers = itertools.count()


class Failed(AssertionError):
    """A network is not in the expected state; the message says what was expected and observed."""


def until(ask: Callable[[], Found], what: str, timeout: float = 20.0) -> Found:
    """Calls a function repeatedly until its result is true, and returns the result; fails after `timeout` seconds."""
    end = time.monotonic() + timeout
    pause = 0.001
    while True:
        answer = ask()
        if answer:
            return answer
        if time.monotonic() > end:
            raise Failed(f"waited {timeout:g} s in vain for {what}; last answer: {answer!r}")
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


class Process:
    """A running program. Its output is read continuously, so it never blocks on a full pipe."""

    def __init__(self, command: Sequence[str], env: dict[str, str], cwd: str | None = None):
        self.command = list(command)
        # Dies with this process even if that is killed; a session of its own keeps the terminal's
        # Ctrl-C away, so that the lab decides the order in which things end.
        self._popen = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *command],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True, env=env, cwd=cwd)
        self.pid = self._popen.pid
        self._status: int | None = None
        self._pieces: dict[str, list[str]] = {"out": [], "err": []}
        self._news = threading.Condition()
        self._readers = [
            threading.Thread(target=self._read, args=(name,), daemon=True) for name in ("out", "err")]
        for reader in self._readers:
            reader.start()

    def _read(self, name: str) -> None:
        pipe = self._popen.stdout if name == "out" else self._popen.stderr
        for line in pipe:
            with self._news:
                self._pieces[name].append(line.decode(errors="replace"))
                self._news.notify_all()
        pipe.close()

    def _text(self, name: str) -> str:
        with self._news:
            pieces = self._pieces[name]
            pieces[:] = ["".join(pieces)]
            return pieces[0]

    @property
    def out(self) -> str:
        """The output so far."""
        return self._text("out")

    @property
    def err(self) -> str:
        """The error output so far."""
        return self._text("err")

    def __str__(self) -> str:
        return f"`{' '.join(self.command)}`"

    def said(self) -> str:
        """All output so far, for messages."""
        return f"stdout:\n{self.out}\nstderr:\n{self.err}"

    @property
    def status(self) -> int | None:
        """The exit status (negative: the signal); None while the program runs.

        A signal's exception in `Popen.wait` can leave a lock of `Popen` locked. The program would then seem to run for
        ever, so the end is asked for without `Popen`.
        """
        if self._status is None:
            try:
                end = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:  # another thread has just reaped it, and knows
                return self._status
            if end:
                self._status = end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
                self._popen.poll()
        return self._status

    @property
    def running(self) -> bool:
        return self.status is None

    def wait_for(self, pattern: str, timeout: float = 10.0, since: int = 0) -> re.Match:
        """Waits until the output or the error output (from character `since` on) matches `pattern`."""
        end = time.monotonic() + timeout
        with self._news:
            while True:
                for text in (self.out, self.err):
                    if found := re.search(pattern, text[since:], re.MULTILINE):
                        return found
                ended = not self.running and not any(r.is_alive() for r in self._readers)
                if ended or time.monotonic() > end:
                    how = f"ended with {self.status}" if ended else f"took {timeout:g} s"
                    raise Failed(f"{self} {how} without saying /{pattern}/\n{self.said()}")
                self._news.wait(0.05)

    def wait(self, timeout: float = 30.0) -> int:
        """Waits for the end; returns the exit status (negative: the signal)."""
        end, pause = time.monotonic() + timeout, 0.0005
        while self.running:
            if time.monotonic() > end:
                raise Failed(f"{self} still runs after {timeout:g} s\n{self.said()}")
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
        for reader in self._readers:
            reader.join(10.0)
        return self.status

    def signal(self, number: int) -> None:
        if self.running:
            os.kill(self.pid, number)

    @contextlib.contextmanager
    def still(self) -> Iterator[None]:
        """Stops the program for the duration of a `with` block."""
        self.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.signal(signal.SIGCONT)

    def stop(self, timeout: float = 30.0) -> int:
        """Ends the program by SIGTERM, or by SIGKILL if that takes too long; returns its status."""
        self.signal(signal.SIGTERM)
        try:
            return self.wait(timeout)
        except Failed:
            self.signal(signal.SIGKILL)
            return self.wait(timeout)


class Done:
    """Output and status of an ended program."""

    def __init__(self, process: Process, status: int):
        self.command, self.status = str(process), status
        self.out, self.err = process.out, process.err

    def __str__(self) -> str:
        return f"{self.command} ended with {self.status}\n{self.out}{self.err}"


class Namespace:
    """A network namespace."""

    def __init__(self, lab: "Lab", name: str):
        self.lab, self.name = lab, name

    def __str__(self) -> str:
        return self.name

    def inside(self, *command: str) -> list[str]:
        """The command that runs `command` in the namespace; the process is that of `command` itself."""
        return ["ip", "netns", "exec", self.name, *command]

    def run(self, *command: str, **more) -> Done:
        return self.lab.run(*self.inside(*command), **more)

    def spawn(self, *command: str, **more) -> Process:
        return self.lab.spawn(*self.inside(*command), **more)

    def ip(self, words: str) -> Done:
        """Runs iproute2 here, such as `ip("link set eth0 up")`."""
        return self.lab.run("ip", "-n", self.name, *words.split())

    def flush(self, words: str) -> None:
        """Runs an iproute2 command that deletes all entries, such as `flush("neigh flush dev eth0")`, until none is
        left. The kernel also deletes entries itself, and iproute2 gives up at the first one that has disappeared.
        """
        gone = ("No such file or directory", "No such process", "Cannot assign requested address")

        def done() -> bool:
            flushed = self.lab.run("ip", "-n", self.name, *words.split(), ok=None)
            if flushed.status and not any(reason in flushed.err for reason in gone):
                raise Failed(str(flushed))
            return flushed.status == 0

        until(done, f"`ip {words}` to find nothing more in {self}", timeout=30)

    def sysctl(self, **settings: object) -> None:
        """Sets kernel parameters, dots written as two underscores: `net__ipv4__ip_forward=1`."""
        with self.entered():
            for name, value in settings.items():
                Path("/proc/sys", *name.split("__")).write_text(f"{value}\n")

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Moves the calling thread into the namespace; sockets made there stay there."""
        with open("/proc/thread-self/ns/net") as home, open(f"/run/netns/{self.name}") as here:
            _setns(here.fileno())
            try:
                yield
            finally:
                _setns(home.fileno())

    def socket(self, family: int, kind: int, protocol: int = 0) -> socket.socket:
        """A socket in the namespace, closed with the lab at the latest."""
        with self.entered():
            made = socket.socket(family, kind, protocol)
        self.lab.closing(made.close)
        return made


def _setns(fd: int) -> None:
    if _libc.setns(fd, CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot enter a network namespace: {os.strerror(number)}")


class Lab:
    """Owner of everything that a test makes outside its own process."""

    def __init__(self):
        self.name = f"ashlar-{os.getpid()}-{next(_numbers)}"
        self.folder = Path(tempfile.mkdtemp(prefix=f"{self.name}-"))
        self._undo = contextlib.ExitStack()
        self._undo.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self._closed = False

    def __enter__(self) -> "Lab":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def closing(self, undo: Callable, *args: object) -> None:
        """Registers `undo` to be called when the lab is closed, in reverse order."""
        self._undo.callback(undo, *args)

    def close(self) -> None:
        """Removes everything in reverse order. Signals are delayed until this is done."""
        if self._closed:
            return
        self._closed = True
        wait = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, wait)
        try:
            self._undo.close()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def spawn(self, *command: str, env: dict[str, str] | None = None, cwd: str | None = None) -> Process:
        """Starts a program; the lab ends it."""
        with _signals_later():
            process = Process(command, {**os.environ, "LC_ALL": "C.UTF-8", MARK: f"{self.name}-", **(env or {})}, cwd)
            self.closing(process.stop)
        return process

    def run(self, *command: str, timeout: float = 30.0, ok: Sequence[int] | None = (0,), **more) -> Done:
        """Runs a program to its end; fails unless its status is in `ok` (`None`: any)."""
        process = self.spawn(*command, **more)
        done = Done(process, process.wait(timeout))
        if ok is not None and done.status not in ok:
            raise Failed(str(done))
        return done

    def attach(self, *command: str) -> subprocess.Popen:
        """Starts a program that uses the terminal directly; the lab ends it."""
        with _signals_later():
            popen = subprocess.Popen(command, env={**os.environ, MARK: f"{self.name}-"})
            self.closing(popen.wait)
            self.closing(popen.terminate)
        return popen

    def namespace(self, name: str, hosts: Sequence[tuple[str, str]] = (), add: Sequence[str] = ("ip", "netns", "add")) -> Namespace:
        """Makes a namespace by the command `add`, with loopback up and without automatic addresses. Programs run in it
        know the `hosts`, pairs of address and name.
        """
        made = Namespace(self, f"{self.name}-{name}")
        with _signals_later():
            subprocess.run([*add, made.name], check=True)
            self.closing(_delete_namespace, made.name)
            if hosts:
                etc = Path("/etc/netns", made.name)
                self.closing(_remove_with_parent, etc)
                _make_with_parent(etc)
                lines = "".join(f"{address} {name}\n" for address, name in hosts)
                (etc / "hosts").write_text(f"127.0.0.1 localhost\n{lines}")
        made.sysctl(net__ipv6__conf__default__accept_dad=0, net__ipv6__conf__default__accept_ra=0,
                    net__ipv6__conf__default__router_solicitations=0)
        made.ip("link set lo up")
        return made

    def link(self, a: Namespace, a_name: str, b: Namespace, b_name: str, queues: int = 2, *, a_mac: str = "", b_mac: str = "") -> None:
        """Connects two namespaces by a veth pair with `queues` queues at both ends, and sets both ends up. MAC addresses of
        the ends are optional; the ends have them from the first moment.
        """
        n = f"numtxqueues {queues} numrxqueues {queues}"
        a_end, b_end = (f"name {name} {f'address {mac} ' * bool(mac)}{n}" for name, mac in ((a_name, a_mac), (b_name, b_mac)))
        a.ip(f"link add {a_end} type veth peer {b_end} netns {b.name}")
        a.ip(f"link set {a_name} up")
        b.ip(f"link set {b_name} up")


@contextlib.contextmanager
def _signals_later() -> Iterator[None]:
    """Delays signals between making something and registering its removal. Children must not inherit a blocked signal,
    so handlers are replaced instead of setting a mask.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    missed: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {n: signal.signal(n, lambda number, _: missed.append(number)) for n in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in missed:
            signal.raise_signal(number)


def _delete_namespace(name: str) -> None:
    subprocess.run(["ip", "netns", "delete", name], check=False)


def _make_with_parent(folder: Path) -> None:
    """Makes a folder. Another lab may remove the parent when it becomes empty, so this retries."""
    while not folder.exists():
        with contextlib.suppress(FileNotFoundError):
            folder.mkdir(parents=True)


def _remove_with_parent(folder: Path) -> None:
    """Removes a folder, and its parent if that is then empty."""
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.parent.rmdir()


@contextlib.contextmanager
def room_for_neighbours(entries: int) -> Iterator[None]:
    """Raises the kernel's limits of neighbour tables, which all namespaces share: a flood in one lab would otherwise keep
    hosts of another from resolving their neighbours. Leaves them as they are where they cannot be written.
    """
    paths = [Path(f"/proc/sys/net/ipv{v}/neigh/default/gc_thresh{n}") for v in (4, 6) for n in (1, 2, 3)]
    before = [path.read_text() for path in paths]
    with contextlib.suppress(OSError):
        for path in paths:
            path.write_text(str(entries))
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            for path, text in zip(paths, before, strict=True):
                path.write_text(text)


def stop_on_signals() -> None:
    """Turns SIGTERM, SIGHUP and SIGINT into an exit that unwinds, so that labs are closed."""
    def stop(number: int, _frame: object) -> None:
        sys.exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)


def leftovers(prefix: str) -> list[str]:
    """Remains of labs whose names begin with `prefix`."""
    left = [f"namespace {p.name}" for p in Path("/run/netns").glob(f"{prefix}*")]
    left += [f"file {p}" for p in Path(tempfile.gettempdir()).glob(f"{prefix}*")]
    left += [f"file {p}" for p in Path("/etc/netns").glob(f"{prefix}*")]
    mark = f"{MARK}={prefix}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (process / "environ").read_bytes():
                words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                left.append(f"process {process.name} {words}")
    return left


def left_behind(lab: Lab) -> list[str]:
    """Remains of a closed lab, after the kernel has had time to remove it."""
    with contextlib.suppress(Failed):
        until(lambda: not leftovers(lab.name + "-"), "nothing to be left")
    return leftovers(lab.name + "-")
