"""Routes of the leader's kernel on all servers of a cluster: changes, servers cut off, the leader's death, other descriptions."""

import re
import signal
import socket
import ssl
from contextlib import contextmanager

import pytest
from agreed import available, control
from net import Lab, until
from rb4 import NAMES, host, number
from routed import Routed
from streams import Streams
from topology import ASHLAR

pytestmark = [pytest.mark.skipif(not available(), reason="needs etcd-server"), pytest.mark.ashlar, pytest.mark.long]


def far(name: str, version: int) -> str:
    """Address of a host beside that of its link; only routes of a kernel lead there."""
    return f"198.51.100.{number(name)}" if version == 4 else f"2001:db8:100::{number(name)}"


def bring_up(lab: Lab) -> Routed:
    """Servers that agree and forward, each host with the addresses of `far`."""
    made = Routed(lab)
    inviting = made.found()
    for name in NAMES[1:]:
        made.type(name, "join")
    assert inviting.wait() == 0, inviting.said()
    for name in NAMES:
        made.hosts[name].ip(f"address add {far(name, 4)}/32 dev lo")
        made.hosts[name].ip(f"address add {far(name, 6)}/128 dev lo nodad")
        made.hosts[name].ip("link set lo up")
    made.bring_up()
    made.meet()
    until(lambda: whole(made), "all servers to have the routes", 30)
    return made


@pytest.fixture(scope="module")
def bed():
    with Lab() as lab:
        made = bring_up(lab)
        yield made
        made.stop()


def whole(bed: Routed, names: tuple[str, ...] = NAMES) -> dict | None:
    """The leader's account, if these servers have all that it has."""
    routes = bed.routes(names[0])
    states = [routes.get("servers", {}).get(name, {}) for name in names]
    good = bool(routes) and routes["error"] is None and all(
        state.get("version") == routes["version"] and state["behind"] is None and not state["missing"] for state in states)
    return routes if good else None


def led(bed: Routed, at: str = "a") -> str:
    return until(lambda: bed.shown(at).get("leader"), "a leader", 40)


def reach(bed: Routed, prefix: str, address: str, names: tuple[str, ...] = NAMES) -> None:
    """Waits until the look-ups of these servers have a prefix for an address (`no`: none)."""
    for name in names:
        until(lambda name=name: bed.looked_up(name, address) == prefix, f"{prefix} for {address} on {name}", 40)


@contextmanager
def crossing(bed: Routed, source: str, sink: str, *addresses: str):
    """Packets to each address that cross from `with` to its end; none of them may be lost."""
    streams = Streams(rate=200, size=200)
    each = [streams.add(address, bed.hosts[source], bed.hosts[sink], 6 if ":" in address else 4, address) for address in addresses]
    with streams:
        streams.warm(20)

        def more(seconds: float) -> None:
            ends = [len(stream.sent) + int(seconds * streams.rate) for stream in each]
            until(lambda: all(len(stream.sent) >= end for stream, end in zip(each, ends, strict=True)), "packets", 20 + 4 * seconds)
        yield more
    assert not any(stream.lost for stream in each), streams.report() + bed.drops()


def test_a_route_in_the_leaders_namespace_reaches_the_look_ups_of_all_servers(bed):
    leader = led(bed)
    bed.route(leader, f"add 198.51.100.0/24 via {host('b', 4)}")
    bed.route(leader, f"add 2001:db8:100::/48 via {host('c', 6)}")
    reach(bed, "198.51.100.0/24", far("b", 4))
    reach(bed, "2001:db8:100::/48", far("c", 6))
    for name in ("a", "d"):
        until(lambda name=name: bed.ping(name, far("b", 4), 4) and bed.ping(name, far("c", 6), 6), f"packets from {name}", 20)
    # Routes of others reach nobody, nor do those that no gateway of the cluster has: they are named.
    follower = next(name for name in NAMES if name != leader)
    bed.route(follower, f"add 100.100.100.0/24 via {host('b', 4)}")
    bed.route(leader, "add 192.0.2.128/25 via 10.0.2.77")
    account = until(lambda: (seen := whole(bed)) and seen["left_out"] and seen, "the route that is left out", 20)
    assert account["examples"] == ["192.0.2.128/25: no port has the gateway 10.0.2.77"] and account["left_out"] == 1
    text = bed.type("d", "show").out
    assert f"2 routes of {leader}'s kernel" in text and "no port has the gateway 10.0.2.77" in text, text
    assert all(bed.looked_up(name, "100.100.100.1") == "no" for name in NAMES)
    bed.route(follower, "del 100.100.100.0/24")
    bed.route(leader, "del 192.0.2.128/25")
    # The file's route wins over the kernel's route to the same prefix.
    before = [bed.way(name, "203.0.113.1") for name in NAMES]
    bed.route(leader, f"add 203.0.113.0/24 via {host('b', 4)}")
    bed.route(leader, "add blackhole 198.51.100.128/25")
    reach(bed, "198.51.100.128/25", "198.51.100.200")
    until(lambda: (seen := whole(bed)) and seen["routes"] == 4, "all routes", 20)
    assert [bed.way(name, "203.0.113.1") for name in NAMES] == before
    bed.route(leader, "del 203.0.113.0/24")
    bed.route(leader, "del blackhole 198.51.100.128/25")
    reach(bed, "198.51.100.0/24", "198.51.100.200")
    until(lambda: (seen := whole(bed)) and seen["routes"] == 2, "all routes", 20)
    assert [bed.way(name, "203.0.113.1") for name in NAMES] == before


def test_packets_go_on_while_other_routes_change_and_a_gateway_is_replaced(bed):
    leader = led(bed)
    bed.route(leader, f"replace 198.51.100.0/24 via {host('b', 4)}")
    reach(bed, "198.51.100.0/24", far("b", 4))
    with crossing(bed, "d", "b", far("b", 4)) as more:
        for round_ in range(3):
            batch = bed.lab.folder / "batch"
            word = "del" if round_ == 1 else "add"
            batch.write_text("".join(f"route {word} 100.64.{n}.0/24 via {host(NAMES[n % 4], 4)}\n" for n in range(250)))
            bed.kernels[leader].run("ip", "-batch", str(batch))
            more(0.5)
        reach(bed, "100.64.249.0/24", "100.64.249.1")
        more(0.5)
    until(lambda: whole(bed), "all to have all routes", 30)


def test_another_description_keeps_the_ways_of_routes_while_packets_cross(bed):
    leader = led(bed)
    # Ports and gateways are appended at the first server, so that all outputs for later ones get other numbers.
    more_of = f'gateways = ["{host("a", 4)}", "{host("a", 6)}", "10.0.1.77", "10.0.1.78"]'
    text = bed.file.read_text().replace(f'gateways = ["{host("a", 4)}", "{host("a", 6)}"]', more_of)
    assert "10.0.1.77" in text
    with crossing(bed, "d", "b", far("b", 4)) as more:
        bed.file.write_text(text)
        bed.type("d", "apply")
        more(1)
        bed.route(leader, "add 100.100.100.0/24 via 10.0.1.78 dev a-lan")
        reach(bed, "100.100.100.0/24", "100.100.100.1")
        more(0.5)
    # A gateway goes from the file, and with it the routes that need it.
    bed.file.write_text(text.replace(', "10.0.1.78"]', "]"))
    bed.type("d", "apply")
    reach(bed, "no", "100.100.100.1")
    until(lambda: (seen := whole(bed)) and seen["left_out"] == 1, "the route to be named", 20)
    bed.route(leader, "del 100.100.100.0/24")
    reach(bed, "198.51.100.0/24", far("b", 4))
    # The kernel's routes end with the namespace, and come back with it.
    text = bed.file.read_text()
    bed.file.write_text(text[:text.index("[cluster.routes]")] + text[text.index("[[server]]"):])
    bed.type("d", "apply")
    reach(bed, "no", far("b", 4))
    assert bed.looked_up("c", "203.0.113.1") == "203.0.113.0/24"
    bed.file.write_text(text)
    bed.type("d", "apply")
    reach(bed, "198.51.100.0/24", far("b", 4))
    until(lambda: whole(bed), "all to have all routes", 30)


def test_a_server_that_is_cut_off_is_named_and_catches_up(bed):
    leader = led(bed)
    cut = next(name for name in ("d", "c") if name != leader)
    at = next(name for name in NAMES if name not in (cut, leader))
    before = until(lambda: whole(bed, (at,)), "all to have all routes", 30)
    bed.servers[cut].ip("link set control down")
    try:
        bed.route(leader, f"add 100.100.100.0/24 via {host('b', 4)}")
        others = tuple(name for name in NAMES if name != cut)
        reach(bed, "100.100.100.0/24", "100.100.100.1", others)

        def named() -> dict | None:
            return next((state for name, state in bed.routes(at).get("servers", {}).items() if name == cut and state["behind"]), None)
        state = until(named, "the server to be named", 20)
        assert state["version"] == before["version"] and state["since"] > 0, state
        assert bed.looked_up(cut, "100.100.100.1") == "no"
        # The server forwards by the routes that it has.
        assert bed.looked_up(cut, far("b", 4)) == "198.51.100.0/24"
        until(lambda: bed.ping(cut, far("b", 4), 4), "packets by the routes that it has")
    finally:
        bed.servers[cut].ip("link set control up")
    reach(bed, "100.100.100.0/24", "100.100.100.1")
    until(lambda: whole(bed), "the server to have caught up", 30)
    bed.route(led(bed), "del 100.100.100.0/24")


def test_the_next_leaders_routes_take_the_place_of_a_killed_ones_and_equal_ones_stay(bed):
    old = led(bed)
    others = tuple(name for name in NAMES if name != old)
    source, sink, third = others
    for name in NAMES:
        bed.route(name, f"replace 198.51.100.0/24 via {host(sink, 4)}")
        bed.route(name, f"replace 2001:db8:100::/48 via {host(sink, 6)}")
    bed.route(old, f"add 100.100.100.0/24 via {host(sink, 4)}")
    for name in others:
        bed.route(name, f"add 192.0.2.128/25 via {host(third, 4)}")
    reach(bed, "100.100.100.0/24", "100.100.100.1")
    until(lambda: bed.ping(source, far(sink, 4), 4) and bed.ping(source, far(sink, 6), 6), "packets by routes", 20)
    epoch = until(lambda: whole(bed), "all to have all routes", 30)["epoch"]
    with crossing(bed, source, sink, far(sink, 4), far(sink, 6)) as more:
        bed.processes[old].signal(signal.SIGKILL)
        # `drops` asks those that are there.
        bed.processes.pop(old).wait()
        reach(bed, "192.0.2.128/25", "192.0.2.129", others)
        # A route that the new leader's kernel does not have stays for the time of `hold`.
        until(lambda: bed.routes(others[0]).get("held"), "routes that are held", 15)
        reach(bed, "no", "100.100.100.1", others)
        more(1)
    account = until(lambda: whole(bed, others), "all others to have all routes", 30)
    assert account["epoch"] > epoch
    # The killed one begins without routes, and gets them all.
    bed.processes[old] = bed.type(old, "up")
    bed.processes[old].wait_for(" start ", timeout=30)
    reach(bed, "192.0.2.128/25", "192.0.2.129")
    until(lambda: whole(bed), "all to have all routes", 30)


def test_save_keeps_the_operators_routes_and_none_of_the_leaders(bed):
    leader = led(bed)
    name = next(name for name in NAMES if name != leader)
    bed.route(leader, f"replace 198.51.100.0/24 via {host('b', 4)}")
    bed.route(leader, f"replace 2001:db8:100::/48 via {host('c', 6)}")
    reach(bed, "198.51.100.0/24", far("b", 4))
    reach(bed, "2001:db8:100::/48", far("c", 6))
    way = bed.way(name, far("b", 4)).split(maxsplit=1)[1].strip()

    def ashlar(*words: str) -> str:
        return bed.lab.run(ASHLAR, *words, "--socket", bed.socket(name)).out
    ashlar("set", "rt4.add", f"100.100.101.0/24 {way}")
    try:
        assert bed.looked_up(name, "100.100.101.1") == "100.100.101.0/24"
        saved = ashlar("save", "--to", "-")
        assert re.findall(r"^rt\d\.ctrl .*", saved, re.MULTILINE) == [f"rt4.ctrl set 100.100.101.0/24 {way}"], saved
        # A reload that takes outputs away throws nothing of the leader's away either.
        text = bed.file.read_text()
        gateways = f'gateways = ["{host("c", 4)}", "{host("c", 6)}"'
        assert gateways in text
        bed.file.write_text(text.replace(gateways, f'gateways = ["{host("c", 4)}"'))
        bed.type("d", "apply")
        reach(bed, "no", far("c", 6))
        bed.file.write_text(text)
        bed.type("d", "apply")
        reach(bed, "2001:db8:100::/48", far("c", 6))
        assert "thrown away" not in bed.processes[name].said(), bed.processes[name].said()
    finally:
        ashlar("set", "rt4.remove", "100.100.101.0/24")


def test_strangers_get_no_routes(bed):
    leader = led(bed)
    tls = ssl.create_default_context(cafile=str(bed.home("a") / "ca.pem"))
    with bed.servers["d"].entered():
        line = socket.create_connection((control(leader), 2382), timeout=10)
    with pytest.raises(ssl.SSLError, match="(?i)alert.*certificate"):
        with tls.wrap_socket(line, server_hostname=control(leader)) as secured:
            secured.recv(1)
    until(lambda: "refused a connection for routes" in bed.said(), "the refusal", 20)
