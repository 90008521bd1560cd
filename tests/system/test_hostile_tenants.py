"""Attacks of a hostile tenant that must fail (SECURITY.md, docs/routers.md, "Isolated routers"): hostile.py tries them
with the rights of an isolated router. Also tenants that refuse to end, and tenants that send arbitrary answers,
doorbells and logs.
"""

import contextlib
import fcntl
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
from net import Lab, until
from test_isolated_routers import OTHER, USER, answering, folder_of, listening, number_of, processes
from topology import ASHLAR, ROOT, AshlarRouter

pytestmark = pytest.mark.ashlar
HOSTILE = ROOT / "tests/system/hostile.py"


def confined(lab: Lab, *more: str) -> list[str]:
    """The command that confines a program, with a folder of its own."""
    lab.folder.chmod(0o755)
    own = lab.folder / "own"
    own.mkdir(mode=0o700, exist_ok=True)
    os.chown(own, number_of(USER), -1)
    return [ASHLAR, "confine", "--user", USER, "--folder", str(own), "--memory", str(256 << 20), "--program", ASHLAR, "--cores", "0", *more]


def test_forbidden_actions_of_a_tenant_fail(lab):
    """The attempts are repeated with rights in a network namespace of its own, whose interface has its peer in another
    tenant's namespace.
    """
    own = lab.namespace("own", add=(ASHLAR, "netns", "--user", USER))
    others = [lab.namespace("tenant", add=(ASHLAR, "netns", "--user", OTHER)), lab.namespace("machine")]
    command = confined(lab, "--netns", f"/run/netns/{own}")
    other = lab.folder / "other"
    other.mkdir(mode=0o700)
    os.chown(other, number_of(OTHER), -1)
    (lab.folder / "other.click").touch(mode=0o640)
    lock = lab.folder / "lock"
    lock.touch(mode=0o600)
    script = lab.folder / "hostile.py"
    shutil.copy(HOSTILE, script)
    with contextlib.ExitStack() as stack:
        for path, kind in ((other / "wan.sock", socket.SOCK_SEQPACKET), (lab.folder / "plane.sock", socket.SOCK_STREAM)):
            listener = stack.enter_context(socket.socket(socket.AF_UNIX, kind))
            listener.bind(str(path))
            path.chmod(0o600)
            listener.listen()
        shadow = stack.enter_context(open("/etc/shadow"))
        for number, space in enumerate(others):
            space.ip(f"link add wan0 type veth peer name wan{number + 1}")
            own.ip(f"link add to{number} type veth peer name from0 netns {space}")
            index = space.ip("-o link show wan0").out.split(":")[0]
            words = [*command, "--", "/usr/bin/python3", str(script), str(os.getpid()), str(lab.folder / "own"), str(other),
                     str(lab.folder / "plane.sock"), str(space), str(number), index, str(lock)]
            # Started like by a process that has files open without close-on-exec.
            done = subprocess.run(words, capture_output=True, text=True, pass_fds=[shadow.fileno()], timeout=60)
            said = dict(line.split(" = ") for line in done.stdout.splitlines())
            assert len(said) > 50, done
            for attempt, how in said.items():
                assert (how == "done") == attempt.startswith("allowed"), (attempt, how, done.stderr)
            there = space.ip("-o link").out
            assert "wan0" in there and "evil0" not in there and "over0" not in there, there
            own.ip(f"link delete to{number}")
            own.ip("link delete mine0")


def test_a_tenant_has_rights_only_in_a_namespace_that_is_its_users(lab):
    machine = lab.namespace("machine")
    another = lab.namespace("another", add=(ASHLAR, "netns", "--user", OTHER))
    for space, why in ((machine, "belongs to the machine"), (another, f"belongs to user {number_of(OTHER)}")):
        refused = lab.run(*confined(lab, "--netns", f"/run/netns/{space}"), "--", "/bin/true", ok=None)
        assert refused.status and why in refused.err and "ashlar netns" in refused.err, refused
        (lab.folder / "a.click").write_text("Idle -> Discard;\n")
        file = lab.folder / "routers.toml"
        file.write_text(f'[[router]]\nname = "red"\ngraph = "a.click"\nnetns = "{space}"\nisolation = "process"\nuser = "{USER}"\n')
        refused = lab.run(ASHLAR, "run", str(file), "--no-socket", ok=None)
        assert refused.status and why in refused.err, refused
    refused = lab.run(ASHLAR, "netns", str(another), "--user", USER, ok=None)
    assert refused.status and "File exists" in refused.err, refused
    refused = lab.run(ASHLAR, "netns", f"{lab.name}-root", "--user", "root", ok=None)
    assert refused.status and "root" in refused.err and not Path(f"/run/netns/{lab.name}-root").exists(), refused


STUBBORN = """
import ctypes, os, signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
if os.fork() == 0:
    os.setsid()
print("stands", flush=True)
time.sleep(1000)
"""


def users(user: str) -> list[int]:
    """The processes of a user."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid == number_of(user) and (entry / "stat").read_text().split()[2] != "Z":
                found.append(int(entry.name))
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_tenant_that_ignores_signals_ends_with_the_process(lab, number):
    """The tenant does not request a signal at its parent's end, and starts a session of its own."""
    before = users(USER)
    # The starter of `confine` ends by the signal that ends a common process.
    outer = lab.spawn("/usr/bin/python3", "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])",
                      *confined(lab), "--", "/usr/bin/python3", "-c", STUBBORN)
    outer.wait_for("^stands$")
    assert len(users(USER)) > len(before)
    outer.signal(number)
    until(lambda: users(USER) == before, "its end", 20)


def test_processes_of_a_tenant_end_with_confine_however_that_ends(lab):
    before = users(USER)
    confine = lab.spawn(*confined(lab), "--", "/usr/bin/python3", "-c", STUBBORN)
    confine.wait_for("^stands$")
    confine.signal(signal.SIGKILL)
    until(lambda: users(USER) == before, "their end", 20)


def test_a_tenants_words_do_not_reach_the_terminal_as_commands(tenant, lab):
    router, _ = tenant
    path = folder_of(lab, router, "red") / "control.sock"
    for kind in ("keep", "run"):
        os.kill(processes(lab)[kind][0], signal.SIGSTOP)
    evil = b"\x1b]0;owned\x07\xc2\x9b2J{fine}\n"
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(evil) + evil
    refusal = b'{"error": "\\u001b]0;owned\\u0007no"}'
    refusal = b"HTTP/1.1 400 No\r\nContent-Length: %d\r\n\r\n" % len(refusal) + refusal
    with listening(path, number_of(USER)) as listener:
        for sentence in (answer, refusal):
            for words in (["set", "a.b", "1"], ["set", "a.b", "1", "--json"]):
                with answering(listener, sentence):
                    shown = on_a_terminal([ASHLAR, *words, "--router", "red", "--socket", str(router.socket)])
                assert b"\x1b]" not in shown and b"\x07" not in shown and b"\xc2\x9b" not in shown, shown
                assert b"owned" in shown, shown


def on_a_terminal(command: list[str]) -> bytes:
    """Output of a command on a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):
        while piece := os.read(ours, 4096):
            shown += piece
    process.wait()
    os.close(ours)
    return shown


GRAPH = "FromDevice(between) -> c :: Counter -> ToDevice(back);\n"


@pytest.fixture
def tenant(lab):
    """An isolated router whose links are each used in one direction; its packets are counted."""
    (lab.folder / "source.click").write_text(
        "TimedSource(0.001, DATA \\<00>, LIMIT -1) -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> ToDevice(between);\n"
        "FromDevice(back) -> back :: Counter -> Discard;\n"
        "s :: TimedSource(0.001, DATA \\<00>, LIMIT -1) -> sent :: Counter -> q :: Queue(1000) -> Unqueue -> got :: Counter -> Discard;\n")
    (lab.folder / "red.click").write_text(GRAPH)
    file = lab.folder / f"{lab.name}.toml"
    file.write_text(
        '[[router]]\nname = "source"\ngraph = "source.click"\n\n'
        f'[[router]]\nname = "red"\ngraph = "red.click"\nisolation = "process"\nuser = "{USER}"\ndefinitions = {{ SECRET = "abracadabra" }}\n\n'
        + "".join(f'[[link]]\nname = "{name}"\nrouters = ["source", "red"]\n' for name in ("between", "back")))
    (lab.folder / "red.click").write_text(f"// $SECRET\n{GRAPH}Idle -> Print($SECRET) -> Discard;\n")
    router = AshlarRouter(lab.namespace("ports"), workers=1)
    router.definitions = list
    router.start(file)
    # The isolated router starts after the common process, which does not wait for it.
    until(lambda: count(router, "back.count") > 0, "packets through the isolated router", 30)
    yield router, file
    assert router.stop() == 0
    assert processes(lab) == {"confine": [], "keep": [], "run": []}


def count(router, path: str) -> int:
    return int(router.cli("show", "--router", "source", path))


def test_packets_cross_an_isolated_router_whose_links_are_used_one_way(tenant):
    router, _ = tenant
    until(lambda: count(router, "back.count") > 100, "packets that come back", 20)


def test_possible_secrets_are_in_no_command_line(tenant, lab):
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            assert not entry.name.isdigit() or b"abracadabra" not in (entry / "cmdline").read_bytes(), entry
    definitions = Path(f"/run/ashlar-isolated/{lab.name}/red.definitions")
    assert b"abracadabra" in definitions.read_bytes() and definitions.stat().st_mode & 0o777 == 0o640


def test_the_processs_lock_is_not_for_tenants(tenant, lab):
    [lock] = Path("/run/ashlar-isolated").glob(f"{lab.name}.lock")
    assert lock.stat().st_mode & 0o077 == 0
    with lock.open() as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_an_answer_makes_no_more_metrics_than_the_routers_plan(tenant, lab):
    """0.25 MiB of an answer once caused 763 MiB of metrics."""
    router, _ = tenant
    until(lambda: 'ashlar_element_packets_total{element="c",class="Counter",worker="0",router="red"}' in router.get("/metrics").decode(),
          "the router's own counts", 20)
    honest = len(router.get("/metrics"))
    path = folder_of(lab, router, "red") / "control.sock"
    for kind in ("keep", "run"):
        os.kill(processes(lab)[kind][0], signal.SIGSTOP)
    copy = ('{"worker":%d,"packets":1,"batches":1,"cycles":1,"sent":[],"drops":[1],"held":0,'
            '"task":{"runs":1,"empty":1,"cycles":1,"empty_cycles":1},"device":null}')
    copies = ",".join(copy % n for n in range(1500))
    element = '{"name":"%s","class":"x","drop_names":["%s"],"copies":[%s]}'
    stats = ('{"time_ns":1,"reloads":0,"elements":[' + ",".join(element % (name, "y" * 20_000, copies) for name in ("z" * 20_000, "c"))
             + '],"workers":[],"ports":[],"pool":{"buffers":0,"bytes":0}}').encode()
    info = b'{"name":"red","version":"0","pid":1,"uptime_ns":1,"clock_ns":1,"configuration":"x","own":"x","reloads":0}'

    def told(target: bytes) -> bytes:
        body = info if b"/v1/info" in target else stats
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    asked = []
    with listening(path, number_of(USER)) as listener:
        done = threading.Event()

        def answer() -> None:
            while not done.is_set():
                with contextlib.suppress(OSError):
                    peer, _ = listener.accept()
                    with peer:
                        peer.settimeout(5)
                        request = peer.recv(1000)
                        asked.append(request.split()[1])
                        peer.sendall(told(request))

        talker = threading.Thread(target=answer)
        talker.start()
        try:
            text = until(lambda: (text := router.get("/metrics").decode()) and b"/v1/stats" in asked and text, "a request for counts")
        finally:
            done.set()
            talker.join()
    assert len(text) < 2 * honest, (len(text), honest)
    assert "zzz" not in text and "yyy" not in text
    assert 'router="source"' in text


def test_a_killed_router_loses_none_of_its_neighbours_packets(tenant, lab):
    router, _ = tenant
    for _ in range(3):
        [run] = processes(lab)["run"]
        os.kill(run, signal.SIGKILL)
        until(lambda gone=run: processes(lab)["run"] not in ([], [gone]), "another", 20)
    before = count(router, "back.count")
    until(lambda: count(router, "back.count") > before, "packets through it again", 20)
    assert count(router, "sent.count") - count(router, "got.count") <= 1


def test_all_of_a_tenants_processes_have_one_bound_of_memory(lab):
    """Runs in a process that sees the machine's control groups, which `ip netns exec` hides."""
    (lab.folder / "red.click").write_text("TimedSource(1) -> Discard;\n")
    file = lab.folder / f"{lab.name}.toml"
    file.write_text(f'[[router]]\nname = "red"\ngraph = "red.click"\nisolation = "process"\nuser = "{USER}"\nmemory = 128\n')
    router = lab.spawn(ASHLAR, "run", str(file), "--no-socket", "--workers", "1")
    until(lambda: processes(lab)["run"] or "holds for each of its programs" in router.said(), "the router", 20)
    if "holds for each of its programs" in router.said():
        pytest.skip("no control group can be made here")
    [run] = processes(lab)["run"]
    lines = [line.split(":", 2) for line in Path(f"/proc/{run}/cgroup").read_text().splitlines()]
    [(kinds, path)] = [(kinds, path) for _, kinds, path in lines if path.endswith(f"/ashlar-{lab.name}-red")]
    folder, bound = ("/memory", "memory.limit_in_bytes") if kinds else ("", "memory.max")
    group = Path(f"/sys/fs/cgroup{folder}{path}")
    assert int((group / bound).read_text()) == 128 << 20
    for kind in ("keep", "run", "confine"):
        assert all(f"{path}\n" in Path(f"/proc/{pid}/cgroup").read_text() for pid in processes(lab)[kind])
    assert router.stop() == 0
    assert not group.exists()


def test_a_log_without_end_is_passed_on_in_part_and_lines_keep_their_level(tenant, lab):
    router, _ = tenant
    for line in router.process.said().splitlines():
        levels = [word for word in ("ERROR", "WARN", "INFO") if f" {word} " in line]
        assert len(levels) <= 1, line
        assert levels == ["INFO"] or not re.search("port open|link up", line), line
    [run] = processes(lab)["run"]
    lines = 20_000
    # The writer blocks, because nothing reads its pipe.
    with open(f"/proc/{run}/fd/2", "wb") as log:
        log.write(b"\x1b]0;owned\x07 evil\n" * lines)
    until(lambda: "lines more" in router.process.said(), "what was left out", 30)
    said = router.process.said()
    assert "owned" in said and "\x1b]0" not in said
    assert said.count("evil") < lines / 10
