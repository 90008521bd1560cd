"""All servers of a cluster from any of them: rates, diagnosis, metrics, captures and traces, over the cluster's certificates."""

import http.client
import json
import re
import signal
import socket
import ssl
from contextlib import ExitStack, contextmanager, suppress

import pytest
from agreed import Agreed, available, control
from net import Lab, until
from rb4 import NAMES, host
from streams import Streams
from topology import ASHLAR, ROOT

pytestmark = [pytest.mark.skipif(not available(), reason="needs etcd-server"), pytest.mark.ashlar, pytest.mark.long]
PORT = 2383


@pytest.fixture(scope="module")
def bed():
    with Lab() as lab:
        made = Agreed(lab)
        inviting = made.found()
        for name in NAMES[1:]:
            made.type(name, "join")
        assert inviting.wait() == 0, inviting.said()
        made.bring_up()
        made.meet((4,))
        yield made
        made.stop()


def ask(bed: Agreed, method: str, target: str, of: str = "a") -> tuple[int, bytes]:
    """Sends a request to a server with the certificate of server d; the status and the body."""
    with bed.servers["d"].entered():
        line = http.client.HTTPSConnection(control(of), PORT, context=bed.tls("d"), timeout=10)
        line.connect()
    line.request(method, target)
    reply = line.getresponse()
    found = reply.status, reply.read()
    line.close()
    return found


def doctor(bed: Agreed, at: str = "d") -> list[tuple[str | None, str, str]]:
    """Server, subject and text of each finding of `ashlar cluster doctor`."""
    found = json.loads(bed.cluster(at, "doctor", "--json", ok=(0, 1, 2)).out)
    return [(one["server"], one["about"], one["what"]) for one in found]


def names(bed: Agreed, server: str | None, about: str, what: str, at: str = "d") -> bool:
    """True if the doctor has such a finding; `what` is a part of its text."""
    return any(found[:2] == (server, about) and what in found[2] for found in doctor(bed, at))


def events(bed: Agreed, at: str) -> list[tuple[str, str]]:
    """Server and text of each event of all servers, as one of them shows them."""
    shown = json.loads(bed.cluster(at, "events", "-n", "10000", "--json", ok=(0, 1)).out)["events"]
    assert [event["time_ms"] for event in shown] == sorted(event["time_ms"] for event in shown)
    assert all(event["epoch"] > 0 for event in shown if event["what"] == "leads")
    return [(event["server"], event["what"]) for event in shown]


def rates(bed: Agreed, at: str) -> dict[str, dict]:
    """Rates of all servers, by name, as one of them shows them."""
    done = bed.cluster(at, "top", "--once", "--json", ok=(0, 1))
    return {server["server"]: server for server in json.loads(done.out)["servers"]}


@contextmanager
def crossing(bed: Agreed, a: str, b: str):
    """Packets that cross from a host to another one from `with` to its end; none of them may be lost."""
    streams = Streams(rate=200, size=200)
    stream = streams.add(f"{a}{b}", bed.hosts[a], bed.hosts[b], 4, host(b, 4))
    with streams:
        streams.warm()
        yield
    assert stream.lost == 0


def passes(bed: Agreed, at: str) -> bool:
    """True if a server sees packets that come in by server a's port and leave by server b's."""
    seen = rates(bed, at)
    if any("error" in seen.get(name, {"error": ""}) for name in NAMES):
        return False
    port = {name: seen[name]["ports"][0] for name in NAMES}
    assert all(port[name]["port"] == "lan" and port[name]["up"] for name in NAMES), port
    sends = [link for link in seen["a"]["ports"] if link["peer"] and link["out"]["packets"] > 0]
    return port["a"]["in"]["packets"] > 0 and port["b"]["out"]["bits"] > 0 and bool(sends)


def test_top_shows_rates_of_all_servers_from_any_of_them(bed):
    with crossing(bed, "a", "b"):
        for at in ("a", "d"):
            until(lambda at=at: passes(bed, at), "rates of all servers", 40)
        text = until(lambda: (done := bed.cluster("c", "top", "--once", ok=(0, 1))).status == 0 and done.out, "all servers", 40)
    assert re.search(r"^cluster rb4: leader [a-d], epoch \d+", text), text
    assert re.search(r"^b +lan +up ", text, re.MULTILINE) and re.search(r"^d +to a +up ", text, re.MULTILINE), text
    assert re.search(r"^server +workers +busy", text, re.MULTILINE), text


def test_members_read_and_change_nothing(bed):
    assert ask(bed, "GET", "/v1/info")[0] == 200
    member = json.loads(ask(bed, "GET", "/v1/member", "b")[1])
    assert (member["server"], member["ports"], len(member["links"])) == ("b", ["lan"], 3)
    for method, target in (
        ("POST", "/v1/stop"), ("POST", "/v1/reload"), ("POST", "/v1/turns"), ("PUT", "/v1/handlers/d0/kind.x"),
        ("GET", "/v1/handlers/beat.links"), ("GET", "/v1/saved"), ("GET", "/v1/elements"), ("GET", "/v1/plan"),
    ):
        status, body = ask(bed, method, target)
        assert status == 403 and b"change nothing" in body, (method, target, body)
    assert bed.processes["a"].running


def test_strangers_learn_nothing(bed):
    tls = ssl.create_default_context(cafile=str(bed.home("a") / "ca.pem"))
    with bed.servers["d"].entered():
        line = socket.create_connection((control("a"), PORT), timeout=10)
    with pytest.raises(ssl.SSLError, match="(?i)alert.*certificate"), tls.wrap_socket(line, server_hostname=control("a")) as secured:
        secured.recv(1)
    # Without TLS.
    with bed.servers["d"].entered():
        line = socket.create_connection((control("a"), PORT), timeout=10)
    with line, suppress(ConnectionResetError):
        line.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"HTTP" not in line.recv(100)


def shown_certificate(bed: Agreed, name: str, port: int = PORT) -> bytes:
    """Certificate that a server, or its member of etcd, shows to server d."""
    with bed.servers["d"].entered():
        line = socket.create_connection((control(name), port), timeout=10)
    with bed.tls("d").wrap_socket(line, server_hostname=control(name)) as secured:
        return secured.getpeercert(binary_form=True)


def test_a_certificate_is_renewed_while_its_server_runs(bed):
    old = shown_certificate(bed, "b")
    about = (bed.home("b") / "server.json").read_text()
    inviting = bed.spawn("a", ASHLAR, "cluster", "invite", f"b={control('b')}", "--home", str(bed.home("a")))
    token = inviting.wait_for(r"on server b:\n +ashlar cluster join (\S+)\n")[1]
    with crossing(bed, "a", "b"):
        assert "new certificate" in bed.cluster("b", "join", "--renew", token).out
        assert inviting.wait() == 0, inviting.said()
        new = shown_certificate(bed, "b")
        assert new != old
        # Debian's etcd reads the files at each connection, too.
        assert shown_certificate(bed, "b", 2379) == new
        assert bed.cluster("b", "show").status == 0
        until(lambda: "error" not in rates(bed, "b")["d"], "d's rates at b", 40)
    assert (bed.home("b") / "server.json").read_text() == about
    again = bed.cluster("b", "join", "--renew", token, ok=(1,))
    assert "cannot" in again.err, str(again)


def test_members_that_hang_stop_neither_packets_nor_changes(bed):
    path = bed.lab.folder / "changed.toml"
    path.write_text(bed.file.read_text() + '\n[[route]]\nprefix = "198.51.100.0/24"\nvia = "10.0.1.254"\n')
    tls = bed.tls("d")
    with ExitStack() as stack:
        stack.enter_context(crossing(bed, "a", "c"))
        # More than there are places, at each server; some speak TLS and half of a request.
        for name in NAMES:
            for number in range(40):
                with bed.servers["d"].entered():
                    line = socket.create_connection((control(name), PORT), timeout=10)
                stack.callback(line.close)
                if number < 4:
                    line = tls.wrap_socket(line, server_hostname=control(name))
                    stack.callback(line.close)
                    line.sendall(b"GET /v1/stats HTTP/1.1\r\n")
        done = bed.cluster("a", "apply", str(path))
        assert done.out.count("uses it") == len(NAMES), str(done)
        # Clients that hang are abandoned, although they are still there.
        until(lambda: all("error" not in server for server in rates(bed, "b").values()), "answers of all servers", 60)


def test_metrics_of_each_server_have_all_that_alerts_name(bed):
    rules = (ROOT / "conf/alerts.yml").read_text()
    wanted = set(re.findall(r"ashlar_[a-z_]+", rules)) - {"ashlar_cluster_namespace_there"}
    for name in NAMES:
        status, body = ask(bed, "GET", "/metrics", name)
        assert status == 200
        there = set(re.findall(r"^# TYPE (\S+)", body.decode(), re.MULTILINE))
        assert wanted <= there, wanted - there
        assert f'ashlar_cluster_info{{cluster="rb4",server="{name}"' in body.decode()


def test_packets_of_another_server_are_captured_and_traced(bed):
    with crossing(bed, "b", "c"):
        done = bed.cluster("d", "capture", "b:lan", "-n", "3", "-f", f"udp and dst host {host('c', 4)}")
        assert len(re.findall(rf"{host('b', 4)}.*{host('c', 4)}", done.out)) == 3, str(done)
        # Longer than other requests may take.
        done = bed.cluster("d", "capture", "b:lan", "-n", "2500", "-f", f"udp and dst host {host('c', 4)}", "-w", "/dev/null")
        assert "2500 packets captured" in done.err, str(done)
        traced = [json.loads(bed.cluster("a", "trace", spot, "2", "--json").out) for spot in ("b:lan", "b")]
    # Heartbeats come in by links.
    starts = [packet["steps"][0]["element"] for packets in traced for packet in packets]
    assert all(traced) and all(start.startswith("d0/FromDevice") for start in starts), traced
    refused = bed.cluster("d", "capture", "b:wan", ok=(1,))
    assert "server b has no external port `wan`; it has: lan" in refused.err, str(refused)
    refused = bed.cluster("d", "trace", "x", ok=(1,))
    assert "`x` is no member of the cluster; members are: a, b, c, d" in refused.err, str(refused)


def test_doctor_finds_nothing_between_servers_that_are_well(bed):
    about = {"etcd", "leader", "routes", "programs", "descriptions", "away", "answers", "links", "clock", "certificate", "authority"}
    until(lambda: not [one for one in doctor(bed) if one[1] in about], "no finding", 60)


def test_doctor_names_links_and_etcd_members_that_are_down(bed):
    bed.servers["b"].ip("link set to-c down")
    bed.etcd["c"].signal(signal.SIGKILL)
    bed.etcd["c"].wait()
    until(lambda: names(bed, "b", "links", "to c") and names(bed, "c", "links", "to b"), "the link", 40)
    down = {("b", "link to c is down"), ("c", "link to b is down")}
    until(lambda: down <= set(events(bed, "a")), "events of the link", 40)
    until(lambda: names(bed, "c", "etcd", "its member does not work"), "the member", 40)
    bed.servers["b"].ip("link set to-c up")
    bed.start_etcd("c")
    until(lambda: not names(bed, "b", "links", "to c"), "the link to be up", 40)
    until(lambda: not names(bed, "c", "etcd", ""), "the member to work", 40)


def test_a_server_that_was_paused_is_named_and_so_is_the_mixture_of_descriptions(bed):
    bed.processes["d"].signal(signal.SIGSTOP)
    try:
        until(lambda: names(bed, "d", "away", "away for", "a"), "who is away", 40)
        assert names(bed, "d", "answers", "", "a")
        until(lambda: "error" in rates(bed, "a")["d"] and "error" not in rates(bed, "a")["b"], "rates of the others", 40)
        done = bed.cluster("a", "apply", str(bed.file), ok=(0, 1))
        assert "server a uses it" in done.out, str(done)
        shown = bed.cluster("a", "show", ok=(0, 1)).out
        assert re.search(r"a mixture of descriptions: version \d+ on (d|a, b, c); version \d+ on (d|a, b, c)$", shown, re.MULTILINE), shown
        assert names(bed, None, "descriptions", "they differ", "a")
    finally:
        bed.processes["d"].signal(signal.SIGCONT)
    until(lambda: "mixture" not in bed.cluster("a", "show", ok=(0, 1)).out, "equal descriptions", 60)


def test_events_of_all_servers_are_in_one_list(bed):
    link = {("b", "link to c is down"), ("b", "link to c is up"), ("c", "link to b is down")}

    def complete(at: str) -> bool:
        seen = set(events(bed, at))
        whats = {what for _, what in seen}
        took = {name for name, what in seen if what.startswith("runs version")}
        return {"leads", "server d is away", "server d is back"} <= whats and link <= seen and took == set(NAMES)
    for at in ("a", "c"):
        until(lambda at=at: complete(at), "all events", 40)
    text = bed.cluster("c", "events", ok=(0, 1)).out
    assert re.search(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}  epoch \d+  [a-d]: leads$", text, re.MULTILINE), text


def test_a_mixture_of_programs_names_the_servers(bed):
    # A member that once ran an older program.
    bed.write("a", "member/x", json.dumps({"identity": "x"}))
    bed.write("a", "state/x", json.dumps({
        "epoch": 1, "version": 1, "since": 0, "program": "0.0.1", "checked": None, "error": None}))
    shown = bed.shown()
    assert "0.0.1 on x" in shown["mixture"]["programs"], shown
    assert names(bed, None, "programs", "0.0.1 on x") and names(bed, "x", "answers", "its program is older")
    bed.cluster("a", "leave", "x")
    assert bed.shown()["mixture"]["programs"] is None


def test_a_missing_namespace_is_found_before_its_server_leads(bed):
    path = bed.lab.folder / "routes.toml"
    path.write_text(bed.file.read_text() + '\n[cluster.routes]\nnamespace = "nowhere"\n')
    bed.cluster("a", "apply", str(path))
    until(lambda: all(names(bed, name, "namespace", "nowhere") for name in NAMES), "the missing namespace", 40)
    body = ask(bed, "GET", "/metrics", "b")[1].decode()
    assert 'ashlar_cluster_namespace_there{netns="nowhere"} 0' in body
    bed.cluster("a", "apply", str(bed.file))


def test_without_etcd_all_servers_are_still_seen(bed):
    for member in bed.etcd.values():
        member.signal(signal.SIGKILL)
        member.wait()
    until(lambda: names(bed, None, "etcd", "it does not answer"), "the failure", 40)
    seen = until(lambda: (seen := rates(bed, "d")) and all("error" not in server for server in seen.values()) and seen, "rates", 40)
    assert set(seen) == set(NAMES)
    for name in bed.etcd:
        bed.start_etcd(name)
    until(lambda: bed.leader(), "a leader", 60)
