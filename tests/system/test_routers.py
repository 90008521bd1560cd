"""Two routers in one process (conf/routers.toml), each controlled by the kernel of its own namespace.

    client-red  eth0 --- p0 |ports| p1 --- eth0 server-red       All addresses are those of topology.py, in both
    client-blue eth0 --- p2 |     | p3 --- eth0 server-blue      halves. Ashlar runs in `ports`; the TAP interfaces
                             |   |                               eth0 and eth1 of each router are in its namespace,
                     routing-red routing-blue                    where a test is the operator.

Shows: routes in one namespace affect only that router's packets; reloading, removing and adding a router does not
affect the other one's traffic; a bound of routes holds; all mistakes of the file are reported at once.
"""

import json
import re
from collections.abc import Iterator

import pytest
from net import Lab, until
from topology import ASHLAR, BITS, CLIENT, ROOT, SERVER, AshlarRouter
from traffic import Pings, answered

pytestmark = pytest.mark.ashlar

NAMES = ("red", "blue")
BEYOND, FAR = "198.51.100.0/24", "198.51.100.7"


class Half:
    """A client, a server and the namespace that controls the router between them."""

    def __init__(self, lab: Lab, ports, name: str, first: int):
        self.name, self.devices = name, (f"p{first}", f"p{first + 1}")
        self.client, self.server, self.routing = (lab.namespace(f"{kind}-{name}")
                                                  for kind in ("client", "server", "routing"))
        sides = zip((self.client, self.server), (CLIENT, SERVER), self.devices, strict=True)
        for host, side, device in sides:
            lab.link(host, "eth0", ports, device)
            ports.sysctl(**{f"net__ipv6__conf__{device}__disable_ipv6": 1})
            for version in (4, 6):
                host.ip(f"address add {side.host[version]}/{BITS[version]} dev eth0" + " nodad" * (version == 6))
                host.ip(f"-{version} route add default via {side.router[version]}")

    def section(self, extra: str = "", graph: str = "conf/linux-router.click") -> str:
        """The router's section of conf/routers.toml, with the test's devices and namespace."""
        definitions = ", ".join(f'DEV{n} = "{device}"' for n, device in enumerate(self.devices))
        return (f'[[router]]\nname = "{self.name}"\ngraph = "{ROOT / graph}"\nnetns = "{self.routing}"\n'
                f"definitions = {{ {definitions} }}\n{extra}\n")

    def steer(self) -> None:
        """Gives the router its addresses, as an operator does."""
        self.routing.sysctl(net__ipv4__ip_forward=1, net__ipv6__conf__all__forwarding=1)
        for side in (CLIENT, SERVER):
            self.routing.ip(f"link set {side.interface} up")
            for version in (4, 6):
                nodad = " nodad" if version == 6 else ""
                self.routing.ip(f"address add {side.router[version]}/{BITS[version]} dev {side.interface}{nodad}")

    def crosses(self, target: str, wait: float = 1) -> bool:
        return self.client.run("ping", "-c1", f"-W{wait}", target, ok=None).status == 0

    def works(self) -> None:
        for version in (4, 6):
            until(lambda: self.crosses(SERVER.host[version]), f"packets of {self.name} that cross", timeout=10)


class Bed:
    """Both halves, and the process."""

    def __init__(self, lab: Lab):
        self.lab = lab
        self.ports = lab.namespace("ports")
        self.red, self.blue = self.halves = [Half(lab, self.ports, name, 2 * n) for n, name in enumerate(NAMES)]
        self.file = lab.folder / "routers.toml"
        self.write(self.red.section(), self.blue.section("share = 3"))
        self.router = AshlarRouter(self.ports, workers=2)
        self.router.definitions = list
        self.router.start(self.file)
        for half in self.halves:
            half.steer()
            half.works()

    def write(self, *sections: str) -> None:
        self.file.write_text("".join(sections))

    def of(self, half: Half, *words: str) -> str:
        """Arguments that address a command to one router."""
        return self.router.cli(*words, "--router", half.name)

    def names(self) -> list[str]:
        return [router["name"] for router in json.loads(self.router.get("/v1/routers"))]


@pytest.fixture
def bed(lab: Lab) -> Iterator[Bed]:
    yield Bed(lab)


def test_each_router_follows_its_own_kernel(bed):
    red, blue = bed.halves
    for half in bed.halves:
        half.server.ip(f"address add {FAR}/32 dev lo")
    red.routing.ip(f"route add {BEYOND} via {SERVER.host[4]}")
    until(lambda: red.crosses(FAR), "packets by the route")
    assert not blue.crosses(FAR), "the other router has no such route"
    assert BEYOND in bed.of(red, "show", "rt4.table")
    assert BEYOND not in bed.of(blue, "show", "rt4.table")
    # The same addresses in both, and each server hears its own client only.
    for half in bed.halves:
        for version in (4, 6):
            answered(half.client, f"-{version}", SERVER.host[version])
    blue.routing.ip("link set eth1 down")
    until(lambda: not blue.crosses(SERVER.host[4], 0.2), "the end of blue's way")
    answered(red.client, SERVER.host[4])
    assert bed.router.stop() == 0


def test_commands_and_metrics_tell_routers_apart(bed):
    listed = bed.router.cli("show")
    assert re.findall(r"^(\w+) ", listed, re.MULTILINE) == list(NAMES), listed
    assert "share 3" in listed and f"in {bed.blue.routing}" in listed, listed
    refused = bed.lab.run(ASHLAR, "show", "netlink", "--socket", str(bed.router.socket), ok=None)
    assert refused.status and "say which router (--router): red, blue" in refused.err, refused.err
    before = int(bed.of(bed.blue, "show", "port0/in.packets"))
    answered(bed.red.client, SERVER.host[4])
    assert int(bed.of(bed.blue, "show", "port0/in.packets")) - before < 3, "not what red has received"
    assert int(bed.of(bed.red, "show", "port0/in.packets")) >= 3
    top = bed.router.cli("top", "--once", "--interval", "0.1")
    assert re.search(r"^blue +\d+ +3 +0 ", top, re.MULTILINE), top
    top = bed.of(bed.red, "top", "--once", "--interval", "0.1")
    assert top.startswith("red (") and "\np0 " in top and "\np2 " not in top, top
    metrics = bed.router.get("/metrics").decode()
    for name in NAMES:
        assert re.search(rf'^ashlar_element_packets_total{{element="port0/in".*router="{name}"}} \d+$', metrics,
                         re.MULTILINE), metrics
        assert re.search(rf'^ashlar_router_busy_seconds_total{{worker="0",router="{name}"}} ', metrics, re.MULTILINE)
        assert re.search(rf'^ashlar_netlink_links{{router="{name}"}} ', metrics, re.MULTILINE)
    series = [line.rsplit(" ", 1)[0] for line in metrics.splitlines() if not line.startswith("#")]
    assert len(series) == len(set(series)), "no series comes twice"
    bed.of(bed.red, "set", "port0/punt.rate", "icmp 77")
    assert "77" in bed.of(bed.red, "show", "port0/punt.rates")
    assert "77" not in bed.of(bed.blue, "show", "port0/punt.rates")


def test_a_router_is_reloaded_removed_and_added_and_the_other_loses_nothing(bed):
    red, blue = bed.halves
    pings = Pings(red.client, SERVER.host[4])
    until(lambda: len(pings.answered()) > 10, "answers")
    changed = bed.lab.folder / "changed.click"
    text = (ROOT / "conf/linux-router.click").read_text()
    extra = "Idle -> added :: Counter -> Discard;\n"
    for round_ in range(5):
        changed.write_text(text + extra * (round_ % 2 == 0))
        bed.of(blue, "reload", str(changed))
        assert ("added" in bed.of(blue, "show", "list")) == (round_ % 2 == 0)
        answered(blue.client, SERVER.host[4])
    for _ in range(3):
        # Out of the file, and in again.
        bed.write(red.section())
        assert bed.router.cli("reload", "--dry-run") == "remove router blue\nkeep router red\n"
        bed.router.cli("reload")
        assert bed.names() == ["red"]
        assert not blue.crosses(SERVER.host[4], 0.2)
        bed.write(red.section(), blue.section("share = 3"))
        assert bed.router.cli("reload", "--dry-run") == "keep router red\nadd router blue\n"
        bed.router.cli("reload")
        assert bed.names() == ["red", "blue"]
        # Blue's TAP interfaces existed all the time, with their addresses.
        blue.works()
        # A router that was stopped by a command starts again when the file is reloaded.
        bed.of(blue, "stop")
        assert bed.names() == ["red"]
        bed.router.process.signal(1)
        until(lambda: bed.names() == ["red", "blue"], "the router's return", timeout=10)
        blue.works()
    # Only the share changes.
    bed.write(red.section(), blue.section("priority = 1"))
    assert bed.router.cli("reload", "--dry-run") == (
        "keep router red\nchange router blue\n  keep " + kept(bed, blue) + " elements\n")
    bed.router.cli("reload")
    # A file with a mistake changes nothing.
    bed.write(red.section("shares = 1"), blue.section(graph="conf/none.click"))
    refused = bed.lab.run(ASHLAR, "reload", "--socket", str(bed.router.socket), ok=None)
    assert refused.status and "no field `shares`" in refused.err and "none.click" in refused.err, refused.err
    assert bed.names() == ["red", "blue"]
    sent, lost = pings.lost()
    assert lost == 0, f"{lost} of {sent} lost"
    assert bed.router.stop() == 0


def kept(bed, half) -> str:
    return str(len(json.loads(bed.router.get(f"/v1/routers/{half.name}/elements"))))


def test_a_router_has_no_more_routes_than_it_may_and_the_other_notices_nothing(bed):
    red, blue = bed.halves

    def known(half, which: str = "routes4") -> int:
        metrics = bed.router.get("/metrics").decode()
        return int(re.search(rf'^ashlar_netlink_{which}{{router="{half.name}"}} (\d+)$', metrics, re.MULTILINE)[1])

    def add(half, numbers) -> None:
        half.routing.run("sh", "-ec", "".join(f"ip route add 203.0.{n}.0/24 via {SERVER.host[4]}\n" for n in numbers))

    for half in bed.halves:
        half.server.ip("address add 203.0.99.1/32 dev lo")
    own = known(red)
    until(lambda: known(blue) == own, "blue's own routes")
    most = own + 20
    bed.write(red.section(f"routes = {most}"), blue.section("share = 3"))
    assert "change router red" in bed.router.cli("reload", "--dry-run")
    bed.router.cli("reload")
    add(red, range(100))
    add(blue, range(100))
    until(lambda: known(blue) == own + 100, "blue's routes")
    until(lambda: known(red, "left_out_total") >= 80 and known(red) == most, "red's bound")
    for half, has in (red, False), (blue, True):
        assert ("203.0.99.0/24" in bed.of(half, "show", "rt4.table")) == has
        until(lambda half=half: half.crosses("203.0.99.1"), "a packet; red's goes by the kernel")
    # When a route is removed, a route that was left out takes its place.
    for n in range(20):
        red.routing.ip(f"route del 203.0.{n}.0/24")
    until(lambda: known(red) == most, "others in their place", timeout=10)
    # More may come, and do so.
    bed.write(red.section(), blue.section("share = 3"))
    bed.router.cli("reload")
    until(lambda: known(red) == own + 80, "all of red's routes", timeout=10)
    assert "203.0.99.0/24" in bed.of(red, "show", "rt4.table")
    assert bed.router.stop() == 0


def test_all_mistakes_of_a_file_are_told_before_it_runs(lab):
    ports = lab.namespace("ports")
    red, blue = (Half(lab, ports, name, 2 * n) for n, name in enumerate(NAMES))
    file = lab.folder / "routers.toml"
    text = red.section() + blue.section("colour = 7").replace("p2", "p0").replace(str(blue.routing), "no-such-ns")
    file.write_text(text)
    checked = lab.run(ASHLAR, "check", str(file), ok=None)
    assert "2 errors" in checked.err, str(checked)
    for what in ("[[router]] has no field `colour`", "router `blue` uses the port p0, and so does router `red`"):
        assert what in checked.out, checked.out
    run = ports.run(ASHLAR, "run", str(file), "--no-socket", ok=None)
    for what in ("colour", "there is no network namespace no-such-ns", "ip netns add"):
        assert what in run.err, run.err
    file.write_text(red.section() + blue.section())
    plan = lab.run(ASHLAR, "plan", str(file)).out
    assert re.findall(r"^router (\w+): ", plan, re.MULTILINE) == list(NAMES), plan
