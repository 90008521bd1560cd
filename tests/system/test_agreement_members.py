"""All servers of a cluster from any of them: rates, diagnosis, metrics, captures and traces, over the cluster's certificates."""

import http.client
import json
import re
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


def identity(bed: Agreed, name: str) -> ssl.SSLContext:
    """TLS with a server's certificate."""
    home = bed.home(name)
    tls = ssl.create_default_context(cafile=str(home / "ca.pem"))
    tls.load_cert_chain(home / "server.pem", home / "server.key")
    return tls


def ask(bed: Agreed, method: str, target: str, of: str = "a") -> tuple[int, bytes]:
    """Sends a request to a server with the certificate of server d; the status and the body."""
    with bed.servers["d"].entered():
        line = http.client.HTTPSConnection(control(of), PORT, context=identity(bed, "d"), timeout=10)
        line.connect()
    line.request(method, target)
    reply = line.getresponse()
    found = reply.status, reply.read()
    line.close()
    return found


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
        secured.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
        secured.recv(1)
    # Without TLS.
    with bed.servers["d"].entered():
        line = socket.create_connection((control("a"), PORT), timeout=10)
    with line, suppress(ConnectionResetError):
        line.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"HTTP" not in line.recv(100)


def test_members_that_hang_stop_neither_packets_nor_changes(bed):
    path = bed.lab.folder / "changed.toml"
    path.write_text(bed.file.read_text() + '\n[[route]]\nprefix = "198.51.100.0/24"\nvia = "10.0.1.254"\n')
    tls = identity(bed, "d")
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
        traced = json.loads(bed.cluster("a", "trace", "b:lan", "2", "--json").out)
    assert traced and all(packet["steps"][0]["element"].startswith("d0/FromDevice") for packet in traced), traced
    refused = bed.cluster("d", "capture", "b:wan", ok=(1,))
    assert "server b has no external port `wan`; it has: lan" in refused.err, str(refused)
    refused = bed.cluster("d", "trace", "x", ok=(1,))
    assert "`x` is no member of the cluster; members are: a, b, c, d" in refused.err, str(refused)
