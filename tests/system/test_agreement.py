"""Servers of a cluster that agree by etcd: one `apply` changes all, loss of etcd stops changes only, strangers are refused."""

import json
import signal
import socket
import ssl
from contextlib import contextmanager
from pathlib import Path

import pytest
from agreed import MEMBERS, Agreed, available, control, version
from net import Done, Lab, until
from rb4 import NAMES, host
from streams import Streams
from topology import ASHLAR

pytestmark = [pytest.mark.skipif(not available(), reason="needs etcd-server"), pytest.mark.ashlar, pytest.mark.long]
# A route that each new description adds.
ROUTE = '\n[[route]]\nprefix = "198.51.{}.0/24"\nvia = "10.0.1.254"\n'


@pytest.fixture(scope="module")
def bed():
    with Lab() as lab:
        made = Agreed(lab)
        inviting = made.found()
        try_to_join(made)
        assert inviting.wait() == 0, inviting.said()
        made.bring_up()
        made.meet((4,))
        yield made
        made.stop()


def try_to_join(bed: Agreed) -> None:
    """Three servers join, and everybody else is refused while they do."""
    bed.type("b", "join")
    # Each token admits one server, once; a guess, or a token for another authority, none.
    secret, rest = bed.tokens["c"].split("-")
    pin, at = rest.split("@")
    for token, why in {
        bed.tokens["b"]: "the token of server b was used already",
        f"{'0' * 32}-{rest}": "this token is not known here",
        f"{secret}-{pin[::-1]}@{at}": "its authority is another one",
        secret: "this is no token",
    }.items():
        elsewhere = str(bed.lab.folder / "elsewhere")
        refused = bed.servers["d"].run(ASHLAR, "cluster", "join", token, "--home", elsewhere, ok=(1,))
        assert why in refused.err, str(refused)
        assert not Path(elsewhere).exists()
    for name in ("c", "d"):
        done = bed.type(name, "join")
        assert f"server {name} has joined cluster rb4" in done.out, str(done)


@contextmanager
def crossing(bed: Agreed, *pairs: tuple[str, str]):
    """Packets that cross between hosts from `with` to its end; none of them may be lost."""
    streams = Streams(rate=200, size=200)
    for a, b in pairs:
        streams.add(f"{a}{b}", bed.hosts[a], bed.hosts[b], 4, host(b, 4))
    with streams:
        streams.warm()
        yield lambda seconds: more(streams, seconds)
    assert {stream.name: stream.lost for stream in streams.streams} == {f"{a}{b}": 0 for a, b in pairs}


def more(streams: Streams, seconds: float) -> None:
    """Waits until every stream has sent for some seconds more."""
    ends = [len(stream.sent) + int(seconds * streams.rate) for stream in streams.streams]
    until(lambda: all(len(stream.sent) >= end for stream, end in zip(streams.streams, ends, strict=True)), "packets", 20 + 4 * seconds)


def changed(bed: Agreed, subnet: int) -> str:
    """A file with another route; returns its path."""
    path = bed.lab.folder / f"changed-{subnet}.toml"
    path.write_text(bed.file.read_text() + ROUTE.format(subnet))
    return str(path)


def used_by(bed: Agreed, done: Done, names: tuple[str, ...] = NAMES) -> int:
    """Waits until servers use the version of an `apply`. Its own output lacks a server whose lease has lapsed for a moment."""
    wanted = version(done.out)
    until(lambda: {server["server"]: server["version"] for server in bed.shown().get("servers", [])} == dict.fromkeys(names, wanted),
          f"the servers to use version {wanted}", 60)
    return wanted


def is_whole(seen: dict) -> bool:
    """True if there is a leader, all servers are there, and all links are up."""
    servers = seen.get("servers", [])
    return seen.get("leader") in NAMES and all(server["there"] and server["links"] == {"all": 3, "down": []} for server in servers)


def test_one_apply_changes_all_servers_while_packets_cross(bed):
    with crossing(bed, ("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")) as more_of:
        bed.file.write_text(Path(changed(bed, 1)).read_text())
        done = bed.type("d", "apply")
        more_of(1)
    assert "uses it" in done.out, str(done)
    wanted = used_by(bed, done)
    for name in NAMES:
        # Leases, and links, may lapse for a moment on a machine under load.
        seen = until(lambda name=name: (seen := bed.shown(name)) and is_whole(seen) and all(server["version"] == wanted for server in seen["servers"])
                     and seen, "all servers to be there", 30)
        assert seen["version"] == wanted and all(server["error"] is None for server in seen["servers"]), seen
        assert "198.51.1.0/24" in (bed.home(name) / "cluster.toml").read_text()
    text = bed.type("d", "show").out
    assert f"version {wanted} is wanted" in text and "3 of 3 links up" in text, text
    assert "behind" not in text and "differ" not in text, text


def test_a_file_that_one_server_refuses_is_used_by_none(bed):
    before = bed.shown()["version"]
    done = bed.cluster("b", "apply", "--dry-run", changed(bed, 2))
    assert "all servers that are there could use it" in done.out
    # Numbers of servers in frames would change.
    text = bed.file.read_text().replace('name = "a"', 'name = "x"').replace('name = "b"', 'name = "a"').replace('name = "x"', 'name = "b"')
    other = bed.lab.folder / "other.toml"
    other.write_text(text)
    refused = bed.cluster("b", "apply", str(other), ok=(1,))
    assert "refuses it" in refused.err, str(refused)
    assert bed.shown()["version"] == before
    assert all("198.51.2.0/24" not in (bed.home(name) / "cluster.toml").read_text() for name in NAMES)


def test_a_server_is_not_reloaded_past_the_others(bed):
    refused = bed.lab.run(ASHLAR, "cluster", "reload", "--server", "a", changed(bed, 3), ok=(1,))
    assert "ashlar cluster apply" in refused.err, str(refused)


def test_one_member_of_etcd_may_fail(bed):
    bed.etcd["a"].signal(signal.SIGKILL)
    bed.etcd["a"].wait()
    # etcd itself may have to choose another leader first.
    done = until(lambda: (tried := bed.cluster("a", "apply", changed(bed, 7), ok=(0, 1))).status == 0 and tried, "a change", 40)
    used_by(bed, done)
    bed.start_etcd("a")


def test_without_etcd_packets_go_on_and_show_says_that_changes_are_impossible(bed):
    with crossing(bed, ("a", "c"), ("b", "d")) as more_of:
        for name in MEMBERS:
            bed.etcd[name].signal(signal.SIGKILL)
            bed.etcd[name].wait()
        away = bed.cluster("d", "show", ok=(1,))
        assert "nothing can be changed until a majority of its members answers" in away.out, str(away)
        assert "this server, d, took version" in away.out, str(away)
        refused = bed.cluster("d", "apply", changed(bed, 4), ok=(1,))
        assert "nothing was proposed, as etcd does not answer" in refused.err and "majority" in refused.err, str(refused)
        assert "etcd at 192.0.2." in refused.err, str(refused)
        # Longer than a lease.
        more_of(7)
        for name in MEMBERS:
            bed.start_etcd(name)
        until(lambda: (seen := bed.shown()).get("leader") and all(server["there"] for server in seen["servers"]), "all servers to be there", 60)
        done = bed.cluster("d", "apply", changed(bed, 4))
        more_of(1)
    used_by(bed, done)


def test_a_leader_that_was_paused_leads_no_more_and_its_writes_are_refused(bed):
    before = bed.shown()
    old = before["leader"]
    other = next(name for name in NAMES if name != old)
    bed.processes[old].signal(signal.SIGSTOP)
    try:
        def followed():
            seen = bed.shown(other)
            gone = next((server for server in seen.get("servers", []) if server["server"] == old), {})
            return seen.get("leader") not in (None, old) and gone.get("away_since") and seen
        seen = until(followed, "another leader, which says who is away", 40)
    finally:
        bed.processes[old].signal(signal.SIGCONT)
    assert seen["epoch"] > before["epoch"]
    until(lambda: (now := bed.shown(other).get("servers")) and all(server["epoch"] >= seen["epoch"] for server in now), "all to know the epoch", 40)
    # The guard at etcd would refuse this write. Servers refuse it as well.
    bed.write(old, "wanted", json.dumps({
        "version": 99, "epoch": before["epoch"], "leader": old, "proposal": "stale", "by": "nobody", "at": 0,
        "text": bed.file.read_text() + ROUTE.format(99)}))
    refusal = f"refused version 99 of epoch {before['epoch']}, which is over"
    until(lambda: refusal in bed.said(), "the refusal", 20)
    # The leader repeats what its own epoch wants.
    until(lambda: (now := bed.shown(other)).get("version") == before["version"]
          and all(server["version"] == before["version"] for server in now["servers"]), "the right description", 40)
    assert all("198.51.99.0/24" not in (bed.home(name) / "cluster.toml").read_text() for name in NAMES)


def test_strangers_neither_read_nor_write(bed):
    # Without a certificate.
    tls = ssl.create_default_context(cafile=str(bed.home("a") / "ca.pem"))
    with bed.servers["d"].entered():
        line = socket.create_connection((control("a"), 2379), timeout=10)
    with pytest.raises(ssl.SSLError, match="(?i)alert.*certificate"):
        with tls.wrap_socket(line, server_hostname=control("a")) as secured:
            secured.recv(1)
    # With a certificate of another cluster of the same name and addresses.
    stranger = bed.lab.folder / "stranger"
    bed.servers["a"].run(ASHLAR, "cluster", "init", str(bed.file), "--server", "a", "--address", control("a"), "--home", str(stranger))
    for words in (("show",), ("apply", changed(bed, 5)), ("leave", "b")):
        refused = bed.servers["d"].run(ASHLAR, "cluster", *words, "--home", str(stranger), ok=(1,))
        assert "its certificate is not of this cluster" in refused.err + refused.out, str(refused)
    # A client that trusts this cluster, whose certificate the cluster refuses.
    (stranger / "ca.pem").write_text((bed.home("a") / "ca.pem").read_text())
    refused = bed.servers["d"].run(ASHLAR, "cluster", "show", "--home", str(stranger), ok=(1,))
    assert "it refuses the certificate" in refused.out, str(refused)


def test_private_files_are_private_and_their_content_is_never_printed(bed):
    said = bed.said()
    for name in NAMES:
        home = bed.home(name)
        modes = {path.name: path.stat().st_mode & 0o777 for path in home.iterdir()}
        assert {mode for path, mode in modes.items() if path != "etcd"} == {0o600}, modes
        key = (home / "server.key").read_text().splitlines()[1]
        assert key not in said
    assert (bed.home("a") / "ca.key").exists() and not (bed.home("b") / "ca.key").exists()
    assert not any(token.split("-")[0] in said for token in bed.tokens.values())


def test_a_server_that_leaves_is_not_waited_for(bed):
    done = bed.cluster("d", "leave")
    assert "server d has left cluster rb4" in done.out
    bed.processes["d"].wait_for("this server has left its cluster", timeout=20)
    until(lambda: bed.ping("a", host("d", 4), 4), "an answer of d's host")
    done = bed.cluster("a", "apply", changed(bed, 6))
    used_by(bed, done, ("a", "b", "c"))
    refused = bed.cluster("d", "show", ok=(1,))
    assert "holds no server of a cluster" in refused.err, str(refused)
