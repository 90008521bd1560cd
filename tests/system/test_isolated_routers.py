"""Routers that run as separate processes (docs/routers.md, "Isolated routers"), beside one in the common process.

The network is that of test_virtual_routers: two tenants by VLAN on the same ports, with the same addresses and BGP each. Red's
router is isolated, as user `games`.

Shows: FRR controls an isolated router like any other. The router is killed, hangs, is reloaded, removed and added,
and answers requests with garbage, while the other tenant's traffic and session are not affected. Its saved settings
are restored, its folder is limited, and forbidden actions of its user fail.
"""

import contextlib
import json
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from daemons import available
from net import Lab, until
from taps import mac_of
from test_virtual_routers import FAR, Bed
from topology import ASHLAR, ROOT, SERVER, AshlarRouter, Network
from traffic import Pings, answered

pytestmark = [pytest.mark.ashlar, pytest.mark.skipif(not available(), reason="needs frr and bird2"), pytest.mark.long]

USER, OTHER = "games", "news"
ISOLATED = f'isolation = "process"\nuser = "{USER}"'
RUN = Path("/run/ashlar-isolated")


def number_of(user: str) -> int:
    line = next(line for line in Path("/etc/passwd").read_text().splitlines() if line.startswith(f"{user}:"))
    return int(line.split(":")[2])


def folder_of(lab: Lab, router: AshlarRouter, name: str) -> Path:
    """The folder of an isolated router as seen by the common process, which has mounted it."""
    return Path(f"/proc/{router.process.pid}/root{RUN / lab.name / name}")


def processes(lab: Lab, router: str = "") -> dict[str, list[int]]:
    """Processes of isolated routers, or of one, by their command: `confine`, `keep` and `run`."""
    found: dict[str, list[int]] = {"confine": [], "keep": [], "run": []}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().decode().split("\0") if entry.name.isdigit() else []
            if any(str(RUN / lab.name / router) in word for word in words) and words[1] in found:
                found[words[1]].append(int(entry.name))
    return found


@pytest.fixture
def bed(lab: Lab) -> Iterator[Bed]:
    bed = Bed(lab, {"red": ISOLATED}, users={"red": USER})
    for tenant in bed.tenants:
        # An isolated router makes its interfaces when its process has come up.
        until(lambda t=tenant: t.routing.run("ip", "link", "show", "eth1", ok=None).status == 0, "its interfaces", 20)
        tenant.steer()
        tenant.begin()
    for tenant in bed.tenants:
        tenant.works()
    yield bed
    assert bed.router.stop() == 0
    assert processes(lab) == {"confine": [], "keep": [], "run": []}
    assert not list(RUN.glob(f"{lab.name}*"))


def isolated(bed: Bed) -> dict:
    routers = json.loads(bed.router.get("/v1/routers"))
    return next(r for r in routers if r["name"] == "red")["isolated"]


def test_an_isolated_router_that_dies_hangs_and_changes_is_not_noticed_by_the_other(bed):
    red, blue = bed.tenants
    sessions = blue.bird.established()
    pings = Pings(blue.host, FAR)
    until(lambda: len(pings.answered()) > 10, "answers")
    assert isolated(bed) == {"user": USER, "starts": 1, "running": True}
    # The router itself: its keeper starts it again.
    os.kill(processes(bed.lab)["run"][0], signal.SIGKILL)
    red.works()
    # The whole of the router is killed, with its keeper, and started again from outside.
    os.kill(processes(bed.lab)["confine"][0], signal.SIGKILL)
    until(lambda: isolated(bed)["starts"] == 2, "another start", 20)
    red.works()
    # The router hangs; packets for it are dropped under a name.
    [run] = processes(bed.lab)["run"]
    os.kill(run, signal.SIGSTOP)
    flood = red.peer.spawn("ping", "-f", "-s", "8", "10.0.2.2")
    until(lambda: dropped(bed) > 0, "drops of the gate, or of the share", 30)
    flood.stop()
    os.kill(run, signal.SIGCONT)
    red.works()
    for _ in range(2):
        bed.router.cli("router", "remove", "red")
        assert processes(bed.lab)["run"] == []
        bed.router.cli("router", "add", "red")
        red.works()
    # The file ends the router's isolation, and then isolates it again.
    red.more = ""
    bed.write(*bed.tenants)
    bed.router.cli("reload")
    assert processes(bed.lab)["run"] == []
    red.works()
    red.more = ISOLATED
    bed.write(*bed.tenants)
    bed.router.cli("reload")
    red.works()
    sent, lost = pings.lost()
    assert lost == 0, f"{lost} of {sent} lost"
    assert blue.bird.established() == sessions, "the session has stood all the time"


def test_its_interfaces_follow_the_links_of_the_shared_ports(bed):
    red, _ = bed.tenants

    def carrier(interface: str) -> bool:
        return "NO-CARRIER" not in red.routing.ip(f"link show {interface}").out
    assert carrier("eth0") and carrier("eth1")
    bed.wan.space.ip("link set eth0 down")
    until(lambda: not carrier("eth0"), "the interface's loss of carrier", 20)
    assert carrier("eth1")
    bed.wan.space.ip("link set eth0 up")
    until(lambda: carrier("eth0"), "its carrier", 20)
    red.works()


def dropped(bed: Bed) -> int:
    """Packets for red that were dropped, by name, in its gate or at its share of the port."""
    lines = bed.router.get("/metrics").decode().splitlines()
    names = ("ashlar_element_drops_total", "ashlar_port_events_total")
    of_red = [line for line in lines if line.startswith(names) and ('router="red.gate"' in line or '"rx_full"' in line)]
    return sum(int(line.split()[-1]) for line in of_red)


def test_commands_reach_an_isolated_router_by_its_name(bed):
    red, _ = bed.tenants
    cli = bed.router.cli
    assert re.search(rf"^red .* isolated: user {USER}, runs, started once$", cli("show"), re.MULTILINE)
    assert "rt4 " in cli("show", "--router", "red")
    assert "198.51.100.0/24" in cli("show", "--router", "red", "rt4.table")
    assert "ToDevice" in cli("show", "--router", "red.gate")
    cli("set", "--router", "red", "port0/punt.rate", "icmp 99")
    assert "wan " in cli("top", "--router", "red", "--once")
    capture = bed.lab.spawn(ASHLAR, "capture", "--socket", str(bed.router.socket), "--router", "red", "-n", "2", "rt4")
    until(lambda: answered(red.host, FAR) and not capture.running, "captured packets", 20)
    # Its output may be read later than its end is seen.
    capture.wait()
    assert FAR in capture.out, capture.said()
    # Metrics leave out an isolated router that answers late.
    named = [f'router="{router}"' for router in ("red", "red.gate", "blue")]
    until(lambda: (metrics := bed.router.get("/metrics").decode()) and all(name in metrics for name in named), "metrics of all routers")
    # Its own graph, by its name and by the file.
    refused = bed.lab.run(ASHLAR, "reload", "--socket", str(bed.router.socket), "--router", "red", "-", ok=None)
    assert refused.status
    wrong = bed.lab.run(ASHLAR, "show", "--socket", str(bed.router.socket), "--router", "red", "nothing.count", ok=None)
    assert wrong.status and "nothing" in wrong.err, wrong.said
    cli("reload", "--router", "red")
    cli("reload", "--router", "red", str(ROOT / "conf/linux-router.click"), "DEV0=wan", "DEV1=lan")
    red.works()


def test_a_router_with_arbitrary_answers_harms_no_other_router(bed):
    """Its user listens in the router's place, and sends arbitrary, endless, or no answers."""
    red, blue = bed.tenants
    path = folder_of(bed.lab, bed.router, "red") / "control.sock"
    # The keeper is stopped first: it would start the router again.
    for kind in ("keep", "run"):
        os.kill(processes(bed.lab)[kind][0], signal.SIGSTOP)
    sentences = [b"", b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{",
                 b'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnull', b"HTTP/1.1 500 No\r\n\r\n\xff"]
    asked = (["show"], ["show", "a.b"])
    with listening(path, number_of(USER)) as listener:
        for sentence in sentences:
            with answering(listener, sentence):
                # The command waits for a router that sends nothing, or only a part of its answer.
                for words in asked[:1 if sentence in sentences[:1] + sentences[2:3] else 2]:
                    line = [ASHLAR, *words, "--router", "red", "--socket", str(bed.router.socket)]
                    said = bed.lab.run("timeout", "-s", "KILL", "30", *line, ok=None)
                    assert said.status, f"{words}: {sentence!r} was taken for an answer: {said}"
                # Requests about other routers are answered all the time.
                assert 'router="blue"' in bed.router.get("/metrics").decode()
                assert "blue" in bed.router.cli("show")
        # The isolated router does not choose where the operator's `ashlar save` writes.
        info = {"name": "red", "version": "0", "pid": 1, "uptime_ns": 1, "clock_ns": 1, "configuration": "x", "own": "x",
                "saved": "/etc/cron.d/red", "reloads": 0}
        body = json.dumps(info).encode()
        with answering(listener, b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body):
            told = json.loads(bed.router.get("/v1/routers/red/info"))
            assert told == info | {"saved": str(ROOT / "conf/linux-router.red.saved")}
    # Nor is another process accepted in its place.
    path.unlink()
    with listening(path, number_of(OTHER)):
        refused = bed.lab.run(ASHLAR, "show", "--router", "red", "--socket", str(bed.router.socket), ok=None)
        assert refused.status and "another program listens at its socket" in refused.err, refused.err
    answered(blue.host, FAR)
    os.kill(processes(bed.lab)["confine"][0], signal.SIGKILL)
    red.works()


@contextlib.contextmanager
def listening(path: Path, user: int) -> Iterator[socket.socket]:
    """A listening socket that belongs to a user."""
    path.unlink(missing_ok=True)
    os.seteuid(0)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        # The socket belongs to the user who calls listen(2).
        os.seteuid(user)
        try:
            listener.listen()
        finally:
            os.seteuid(0)
        listener.settimeout(0.1)
        yield listener


@contextlib.contextmanager
def answering(listener: socket.socket, sentence: bytes) -> Iterator[None]:
    """Gives the same answer to all clients."""
    done = threading.Event()

    def answer() -> None:
        kept = []
        while not done.is_set():
            with contextlib.suppress(OSError):
                peer, _ = listener.accept()
                kept.append(peer)
                peer.settimeout(1)
                if sentence:
                    peer.recv(1000)
                    peer.sendall(sentence)
        for peer in kept:
            peer.close()

    talker = threading.Thread(target=answer)
    talker.start()
    try:
        yield
    finally:
        done.set()
        talker.join()


def test_saved_settings_hold_after_a_crash_and_a_start_and_their_folder_is_bounded(lab):
    graph = lab.folder / "red.click"
    graph.write_text("FromDevice(between) -> Strip(14) -> CheckIPHeader -> rt :: DirectIPLookup(10.0.0.0/8 0) -> Discard;\n"
                     "Idle -> ToDevice(between);\n")
    (lab.folder / "blue.click").write_text("FromDevice(between) -> ToDevice(between);\n")
    # The router `alone` shares nothing with others.
    (lab.folder / "alone.click").write_text("TimedSource(0.01) -> c :: Counter -> Discard;\n")
    file = lab.folder / f"{lab.name}.toml"
    file.write_text(f'[[router]]\nname = "red"\ngraph = "red.click"\n{ISOLATED}\n[[router]]\nname = "blue"\n'
                    'graph = "blue.click"\n[[link]]\nname = "between"\nrouters = ["red", "blue"]\n[[router]]\nname = "alone"\n'
                    f'graph = "alone.click"\nisolation = "process"\nuser = "{OTHER}"\n')
    router = AshlarRouter(lab.namespace("ports"), workers=1)
    router.definitions = list

    def shown(name: str, path: str) -> str:
        asked = lab.run(ASHLAR, "show", "--socket", str(router.socket), "--router", name, path, ok=None)
        return asked.out if asked.status == 0 else ""

    def routes() -> str:
        return shown("red", "rt.table")

    router.start(file)
    until(lambda: "10.0.0.0/8" in routes() and int(shown("alone", "c.count") or 0) > 0, "both", 20)
    router.cli("set", "--router", "red", "rt.add", "192.0.2.0/24 0")
    said = router.cli("save", "--router", "red")
    saved = lab.folder / "red.red.saved"
    assert str(saved) in said and saved.exists(), said
    inside = RUN / lab.name / "red.saved"
    until(lambda: inside.exists() and inside.read_text() == saved.read_text(), "what was saved, inside")
    for kind in ("run", "confine"):
        [before] = processes(lab, "red")["run"]
        os.kill(processes(lab, "red")[kind][0], signal.SIGKILL)
        until(lambda gone=before: gone not in processes(lab, "red")["run"] and "192.0.2.0/24" in routes(), "its table", 20)
    folder = folder_of(lab, router, "red")
    with pytest.raises(OSError, match="No space left"):
        for n in range(3):
            (folder / f"large{n}").write_bytes(bytes(8 << 20))
    for large in folder.glob("large*"):
        large.unlink()
    with pytest.raises(OSError, match="No space left"):
        for n in range(2000):
            (folder / f"many{n}").touch()
    assert router.stop() == 0
    assert not list(RUN.glob(f"{lab.name}*")) and f"{RUN / lab.name}/" not in Path("/proc/mounts").read_text()
    router.start(file)
    until(lambda: "192.0.2.0/24" in routes(), "its table", 20)
    # Without the added route, the state is as the graph says, and the saved files are removed.
    router.cli("set", "--router", "red", "rt.remove", "192.0.2.0/24")
    router.cli("save", "--router", "red")
    until(lambda: not saved.exists() and not inside.exists(), "nothing that is saved")
    assert router.stop() == 0


def test_a_part_of_the_traffic_goes_through_an_isolated_router_and_comes_back(lab):
    """conf/hybrid: DNS from the client to the server and back."""
    network = Network(lab, workers=1)
    for here, there in ((network.client, network.server), (network.server, network.client)):
        here.ip(f"neigh replace {network.side(here).router[4]} lladdr {mac_of(there, 'eth0')} dev eth0 nud permanent")
    for name in ("common.click", "dns.click"):
        (lab.folder / name).write_text((ROOT / "conf/hybrid" / name).read_text())
    file = lab.folder / f"{lab.name}.toml"
    file.write_text((ROOT / "conf/hybrid/routers.toml").read_text().replace('user = "dns"', f'user = "{USER}"'))
    network.router.definitions = lambda: ["DEV0=eth0", "DEV1=eth1"]
    network.router.start(file, "DEV0=eth0", "DEV1=eth1")
    answered(network.client, SERVER.host[4])
    client, server = (space.socket(socket.AF_INET, socket.SOCK_DGRAM) for space in (network.client, network.server))
    server.bind(("", 53))
    for end in (client, server):
        end.settimeout(1)

    def asked() -> bool:
        client.sendto(b"a question", (SERVER.host[4], 53))
        with contextlib.suppress(TimeoutError):
            question, sender = server.recvfrom(100)
            server.sendto(b"an answer", sender)
            return client.recv(100) == b"an answer"
        return False

    until(asked, "an answer through the isolated router", 20)
    count = [int(network.router.cli("show", "--router", "dns", f"{name}.count")) for name in ("requests", "answers")]
    assert min(count) > 0
    # Everything else continues while the process of the router is stopped.
    os.kill(processes(lab)["run"][0], signal.SIGSTOP)
    answered(network.client, SERVER.host[4], count=20)
    assert network.router.stop() == 0


TRIES = """
import ctypes, mmap, os, resource, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
plane, folder, other = int(sys.argv[1]), sys.argv[2], sys.argv[3]

def call(number, *words):
    if libc.syscall(number, *words) < 0:
        raise OSError(ctypes.get_errno(), "")

def packets():
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3)

def unix(path, kind=socket.SOCK_STREAM):
    socket.socket(socket.AF_UNIX, kind).connect(path)

def memory():
    kept = []
    while True:
        kept.append(mmap.mmap(-1, 16 << 20))
        kept[-1].write(bytes(16 << 20))
        if len(kept) > 100:
            return

def files():
    kept = [open("/dev/null") for _ in range(5000)]

def processor():
    os.sched_setaffinity(0, {1})
    if os.sched_getaffinity(0) == {0}:
        raise OSError("the call succeeds without an effect")

def large():
    with open("large", "wb") as file:
        file.truncate(2 << 30)

tries = {
    "a file of its own": lambda: open("mine", "w").write("x"),
    "read the folder of another": lambda: os.listdir(other),
    "read the graph of another": lambda: open(other + ".click").read(),
    "connect to another's memory": lambda: unix(other + "/wan.sock", socket.SOCK_SEQPACKET),
    "connect to the process": lambda: unix(sys.argv[4]),
    "see the process": lambda: os.listdir(f"/proc/{plane}"),
    "signal the process": lambda: os.kill(plane, 0),
    "write elsewhere": lambda: open("/tmp/of-a-tenant", "w"),
    "write to its own program": lambda: open("program", "r+b"),
    "hear packets": packets,
    "be root": lambda: os.setuid(0),
    "have another network": lambda: call(272, 0x40000000),
    "have a user namespace": lambda: call(272, 0x10000000),
    "enter a network": lambda: call(308, os.open("/proc/self/ns/net", os.O_RDONLY), 0),
    "mount": lambda: call(165, b"none", b"/mnt", b"tmpfs", 0, None),
    "trace": lambda: call(101, 16, plane, 0, 0),
    "read memory of the process": lambda: call(310, plane, None, 0, None, 0, 0),
    "load a program into the kernel": lambda: call(321, 0, None, 0),
    "have memory that nobody counts": lambda: call(319, b"x", 0),
    "run on another processor": processor,
    "have more memory": memory,
    "have more files": files,
    "have a large file": large,
    "have a greater bound": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096)),
}
for name, attempt in tries.items():
    try:
        attempt()
        print(name, "= done")
    except (OSError, ValueError, MemoryError) as error:
        print(name, "=", type(error).__name__)
"""


def test_forbidden_actions_of_an_isolated_router_fail(lab):
    """A program with the rights of such a router tries all forbidden actions."""
    lab.folder.chmod(0o755)
    own, other = lab.folder / "own", lab.folder / "other"
    for folder, user in ((own, USER), (other, OTHER)):
        folder.mkdir(mode=0o700)
        os.chown(folder, number_of(user), -1)
    graph = lab.folder / "other.click"
    graph.touch(mode=0o640)
    listeners = []
    for path, kind in ((other / "wan.sock", socket.SOCK_SEQPACKET), (lab.folder / "plane.sock", socket.SOCK_STREAM)):
        listener = socket.socket(socket.AF_UNIX, kind)
        listeners.append(listener)
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen()
    script = lab.folder / "tries.py"
    script.write_text(TRIES)
    words = ["--user", USER, "--folder", str(own), "--memory", str(256 << 20), "--program", ASHLAR, "--cores", "0"]
    tries = ["/usr/bin/python3", str(script), str(os.getpid()), str(own), str(other), str(lab.folder / "plane.sock")]
    done = lab.run(ASHLAR, "confine", *words, "--", *tries)
    said = dict(line.split(" = ") for line in done.out.splitlines())
    assert said.pop("a file of its own") == "done", done
    assert len(said) == 23, done
    assert "done" not in said.values(), said
    for listener in listeners:
        listener.close()


def test_mistakes_in_sections_of_isolated_routers_are_reported(lab):
    (lab.folder / "a.click").write_text("FromDevice(wan) -> Discard;\n")
    link = '[[link]]\nname = "wan"\nrouters = ["red", "blue"]\n'
    blue = '[[router]]\nname = "blue"\ngraph = "a.click"\n'

    def checked(section: str) -> str:
        file = lab.folder / "routers.toml"
        file.write_text(f'[[router]]\nname = "red"\ngraph = "a.click"\n{section}\n{blue}{link}')
        return lab.run(ASHLAR, "check", str(file), ok=None).out

    assert checked(ISOLATED) == ""
    for section, why in (
        ('isolation = "process"', "needs a user"),
        ('isolation = "process"\nuser = "no-such-user"', "useradd --system no-such-user"),
        ('isolation = "process"\nuser = "root"', "cannot be root"),
        ('isolation = "cage"\nuser = "games"', "there is no isolation `cage`"),
        ('memory = 512', "a process of its own"),
        (f"{ISOLATED}\nmemory = 1", "`memory` is out of range"),
        (f"{ISOLATED}\nworkers = 100", "`workers` is out of range"),
    ):
        assert why in checked(section), (section, checked(section))


def test_an_isolated_router_opens_dpdk_devices_of_its_own_and_a_card_must_be_given_to_its_user(lab):
    (lab.folder / "red.click").write_text("FromDevice(net_null0) -> c :: Counter -> ToDevice(net_null1);\n")
    file = lab.folder / "direct.toml"
    file.write_text(f'[[router]]\nname = "red"\ngraph = "red.click"\n{ISOLATED}\n')
    assert lab.run(ASHLAR, "check", str(file)).out == ""
    router = AshlarRouter(lab.namespace("ports"), workers=1)
    router.definitions = list

    def packets() -> int:
        asked = lab.run(ASHLAR, "show", "--socket", str(router.socket), "--router", "red", "c.count", ok=None)
        return int(asked.out) if asked.status == 0 else 0

    router.start(file)
    until(packets, "packets of a device in the router's own process", 60)
    assert router.stop() == 0
    (lab.folder / "red.click").write_text("FromDevice(0000:ff:1f.7) -> Discard;\n")
    checked = lab.run(ASHLAR, "check", str(file), ok=None)
    assert "there is no card 0000:ff:1f.7" in checked.out, checked
