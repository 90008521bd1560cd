"""Two tenants on the same two physical ports, distinguished by VLAN, with the same addresses and a BGP session each.

    peer-red  eth0 (VLAN 100) -+- wan --- p0 |ports| p1 --- lan -+- eth0 (VLAN 100) host-red
    peer-blue eth0 (VLAN 200) -+             |     |             +- eth0 (VLAN 200) host-blue
                                   routing-red routing-blue

Ashlar runs in `ports`; red and blue are routers with shares of the ports `wan` and `lan`, each steered by an FRR of its
own. In `wan` and `lan` another Ashlar puts VLANs together and apart, as a switch does: not every kernel has VLANs.

Shows: docs/routers.md as one follows it; one FRR is killed, one router is reloaded, ended and added, and the other's BGP
session and traffic notice nothing; fifty routers with FRR and BGP each; routers are linked inside the server, and chosen routes leak.
"""

import json
from collections.abc import Iterator

import pytest
from daemons import Bird, Frr, available, wait_for
from net import Lab, until
from topology import ASHLAR, CLIENT, ROOT, SERVER, AshlarRouter
from traffic import Pings, answered

pytestmark = [pytest.mark.ashlar, pytest.mark.skipif(not available(), reason="needs frr and bird2"), pytest.mark.long]

VLANS = {"red": 100, "blue": 200}
# Number of routers with a BGP daemon each.
MANY = 50
BEYOND, FAR = "198.51.100.0/24", "198.51.100.7"
FRR_BGP = f"""
router bgp 65001
 bgp router-id {CLIENT.router[4]}
 no bgp ebgp-requires-policy
 neighbor {CLIENT.host[4]} remote-as 65002
 address-family ipv4 unicast
  network {SERVER.net[4]}
 exit-address-family
"""
BIRD_BGP = f"""
router id {CLIENT.host[4]};
protocol device {{ }}
protocol kernel {{ ipv4 {{ export all; }}; }}
protocol static {{ ipv4; route {BEYOND} blackhole; }}
protocol bgp up {{
  local as 65002;
  neighbor {CLIENT.router[4]} as 65001;
  connect retry time 1;
  connect delay time 1;
  ipv4 {{ import all; export where source = RTS_STATIC; }};
}}
"""


class Switch:
    """A switch: a trunk to the router, and for each VLAN a cable with untagged frames."""

    def __init__(self, lab: Lab, name: str, ports, device: str):
        self.lab, self.space = lab, lab.namespace(name)
        self.cables: dict[str, int] = {}
        lab.link(self.space, "eth0", ports, device)

    def connect(self, space, vlan: int) -> None:
        name = f"v{vlan}"
        self.lab.link(space, "eth0", self.space, name)
        self.cables[name] = vlan

    def start(self) -> None:
        for name in ("eth0", *self.cables):
            self.space.sysctl(**{f"net__ipv6__conf__{name}__disable_ipv6": 1})
        vlans = ", ".join(map(str, self.cables.values()))
        text = f"FromDevice(eth0, PROMISC true) -> v :: VLANSplit({vlans});\nv[0] -> Discard;\nout :: ToDevice(eth0);\n"
        for number, (name, vlan) in enumerate(self.cables.items()):
            text += (f"v[{number + 1}] -> ToDevice({name});\n"
                     f"FromDevice({name}, PROMISC true) -> VLANEncap(VLAN_ID {vlan}) -> out;\n")
        file = self.lab.folder / f"{self.space.name}.click"
        file.write_text(text)
        self.space.spawn(ASHLAR, "run", str(file), "--no-socket", "--workers", "1")


class Tenant:
    """A tenant's hosts, the namespace that controls its router, and the daemons."""

    def __init__(self, lab: Lab, name: str, vlan: int, wan: Switch, lan: Switch, user: str | None = None):
        self.name, self.vlan = name, vlan
        self.more = ""
        self.peer, self.host = (lab.namespace(f"{kind}-{name}") for kind in ("peer", "host"))
        add = (ASHLAR, "netns", "--user", user) if user else ("ip", "netns", "add")
        self.routing = lab.namespace(f"routing-{name}", add=add)
        for space, side, switch in ((self.peer, CLIENT, wan), (self.host, SERVER, lan)):
            switch.connect(space, self.vlan)
            space.ip("link set lo up")
            space.ip(f"address add {side.host[4]}/24 dev eth0")
        self.host.ip(f"route add default via {SERVER.router[4]}")
        self.peer.ip(f"address add {FAR}/32 dev lo")

    def section(self) -> str:
        return (f'[[router]]\nname = "{self.name}"\ngraph = "{ROOT / "conf/linux-router.click"}"\n'
                f'netns = "{self.routing}"\ndefinitions = {{ DEV0 = "wan", DEV1 = "lan" }}\n{self.more}\n')

    def steer(self) -> None:
        self.routing.ip("link set lo up")
        self.routing.sysctl(net__ipv4__ip_forward=1)
        for side in (CLIENT, SERVER):
            self.routing.ip(f"link set {side.interface} up")
            self.routing.ip(f"address add {side.router[4]}/24 dev {side.interface}")

    def begin(self) -> None:
        self.frr = Frr(self.routing, {"bgpd": FRR_BGP})
        self.frr.start()
        self.bird = Bird(self.peer, BIRD_BGP)
        self.bird.start()

    def works(self) -> None:
        def crosses():
            return self.host.run("ping", "-c1", "-W1", FAR, ok=None).status == 0
        wait_for(crosses, f"packets of {self.name} by BGP's route", lambda: self.frr.said() + self.bird.said(), 60)


class Bed:
    """All tenants, and the process."""

    def __init__(self, lab: Lab, more: dict[str, str] | None = None, vlans: dict[str, int] = VLANS,
                 users: dict[str, str] | None = None):
        self.lab = lab
        self.ports = lab.namespace("ports")
        self.wan, self.lan = (Switch(lab, name, self.ports, f"p{n}") for n, name in enumerate(("wan", "lan")))
        for number in range(2):
            self.ports.sysctl(**{f"net__ipv6__conf__p{number}__disable_ipv6": 1})
        self.tenants = [Tenant(lab, name, vlan, self.wan, self.lan, (users or {}).get(name)) for name, vlan in vlans.items()]
        self.nobody = lab.namespace("nobody")
        self.lan.connect(self.nobody, 300)
        for switch in (self.wan, self.lan):
            switch.start()
        for tenant in self.tenants:
            tenant.more = (more or {}).get(tenant.name, "")
        self.file = lab.folder / f"{lab.name}.toml"
        self.write(*self.tenants)
        self.router = AshlarRouter(self.ports, workers=2)
        self.router.definitions = list
        self.router.start(self.file)

    def write(self, *tenants: Tenant) -> None:
        def port(name: str, device: str) -> str:
            shares = "".join(f'[[port.share]]\nrouter = "{t.name}"\nvlan = {t.vlan}\n' for t in tenants)
            return f'[[port]]\nname = "{name}"\ndevice = "{device}"\n{shares}\n'
        sections = [tenant.section() for tenant in tenants]
        self.file.write_text("".join([*sections, port("wan", "p0"), port("lan", "p1")]))

    def names(self) -> list[str]:
        return [router["name"] for router in json.loads(self.router.get("/v1/routers"))]


@pytest.fixture
def bed(lab: Lab) -> Iterator[Bed]:
    yield Bed(lab)


def test_a_neighbour_that_is_killed_reloaded_removed_and_added_is_not_noticed(bed):
    red, blue = bed.tenants
    for tenant in bed.tenants:
        tenant.steer()
        tenant.begin()
    for tenant in bed.tenants:
        tenant.works()
    assert sorted(bed.names()) == ["blue", "lan", "red", "wan"]
    sessions = red.bird.established()
    assert list(sessions) == ["up"]
    pings = Pings(red.host, FAR)
    until(lambda: len(pings.answered()) > 10, "answers")
    # Blue's routing daemons are killed and started again.
    blue.frr.kill()
    blue.frr.start()
    blue.works()
    for _ in range(3):
        bed.router.cli("reload", "--router", "blue", str(ROOT / "conf/linux-router.click"), "DEV0=wan", "DEV1=lan")
    blue.works()
    for _ in range(3):
        bed.router.cli("router", "remove", "blue")
        assert "blue" not in bed.names()
        bed.router.cli("router", "add", "blue")
        blue.works()
    # Out of the file, and in again.
    bed.write(red)
    bed.router.cli("reload")
    assert sorted(bed.names()) == ["lan", "red", "wan"]
    assert blue.host.run("ping", "-c1", "-W0.2", FAR, ok=None).status
    bed.write(*bed.tenants)
    bed.router.cli("reload")
    blue.works()
    # Removed and added within one reload: blue gets another namespace, and then its old one again.
    text = bed.file.read_text()
    bed.file.write_text(text.replace(str(blue.routing), str(bed.lab.namespace("elsewhere"))))
    bed.router.cli("reload")
    bed.file.write_text(text)
    bed.router.cli("reload")
    blue.works()
    sent, lost = pings.lost()
    assert lost == 0, f"{lost} of {sent} lost"
    assert red.bird.established() == sessions, "the session has stood all the time"
    # Each router has interfaces of its own, which go down with the port.
    bed.wan.space.ip("link set eth0 down")
    for tenant in bed.tenants:
        until(lambda t=tenant: "NO-CARRIER" in t.routing.ip("link show eth0").out, "the interface's loss of carrier")
        assert "NO-CARRIER" not in tenant.routing.ip("link show eth1").out
    assert bed.router.stop() == 0


def test_many_routers_live_each_with_its_own_bgp(lab):
    bed = Bed(lab, vlans={f"t{number}": 100 + number for number in range(MANY)})
    for tenant in bed.tenants:
        tenant.steer()
        tenant.begin()
    for tenant in bed.tenants:
        tenant.works()
    killed, reloaded, removed, *others = bed.tenants
    sessions = {tenant.name: tenant.bird.established() for tenant in others}
    pings = [Pings(tenant.host, FAR) for tenant in others[:5]]
    for row in pings:
        until(lambda row=row: len(row.answered()) > 10, "answers", 10)
    killed.frr.kill()
    bed.router.cli("reload", "--router", reloaded.name, str(ROOT / "conf/linux-router.click"), "DEV0=wan", "DEV1=lan")
    bed.router.cli("router", "remove", removed.name)
    bed.router.cli("router", "add", removed.name)
    removed.works()
    killed.frr.start()
    killed.works()
    assert [row.lost()[1] for row in pings] == [0] * len(pings)
    assert {tenant.name: tenant.bird.established() for tenant in others} == sessions
    assert bed.router.stop() == 0


def test_packets_for_no_router_are_dropped_by_name(bed):
    for tenant in bed.tenants:
        tenant.steer()
        until(lambda t=tenant: t.host.run("ping", "-c1", "-W1", SERVER.router[4], ok=None).status == 0, "answers", 10)
        answered(tenant.host, SERVER.router[4])
    bed.nobody.ip("address add 192.0.2.1/24 dev eth0")

    def unknown() -> int:
        lines = bed.router.get("/metrics").decode().splitlines()
        return sum(int(line.split()[-1]) for line in lines if '"unknown"' in line and 'router="lan"' in line)

    def heard() -> bool:
        bed.nobody.run("ping", "-c1", "-W0.1", "192.0.2.2", ok=None)
        return unknown() > 0

    until(heard, "a count of frames for nobody", 10)
    refused = bed.lab.run(ASHLAR, "router", "add", "--socket", str(bed.router.socket), "green", ok=None)
    assert refused.status and "describes no router `green`" in refused.err, refused.err
    refused = bed.lab.run(ASHLAR, "router", "add", "--socket", str(bed.router.socket), "red", ok=None)
    assert refused.status and "runs already" in refused.err, refused.err
    assert bed.router.stop() == 0


def linked(lab: Lab, devices: dict[str, str]) -> tuple[AshlarRouter, dict, dict]:
    """Routers controlled by Linux, linked by `between` (10.9.0.1 and 10.9.0.2), each with one port; returns their
    namespaces, and those of hosts.
    """
    ports, hosts = lab.namespace("ports"), {}
    spaces = {name: lab.namespace(f"routing-{name}") for name in devices}
    for name, device in devices.items():
        if device.startswith("p"):
            hosts[name] = lab.namespace(f"host-{name}")
            lab.link(hosts[name], "eth0", ports, device)
            ports.sysctl(**{f"net__ipv6__conf__{device}__disable_ipv6": 1})
    graph = ROOT / "conf/linux-router.click"
    text = f'[[link]]\nname = "between"\nrouters = {json.dumps(list(devices))}\n'
    for name, device in devices.items():
        text += (f'[[router]]\nname = "{name}"\ngraph = "{graph}"\nnetns = "{spaces[name]}"\n'
                 f'definitions = {{ DEV0 = "{device}", DEV1 = "between" }}\n')
    file = lab.folder / "routers.toml"
    file.write_text(text)
    router = AshlarRouter(ports, workers=2)
    router.definitions = list
    router.start(file)
    for number, space in enumerate(spaces.values()):
        space.sysctl(net__ipv4__ip_forward=1, net__ipv4__conf__all__rp_filter=0)
        for interface in ("lo", "eth0", "eth1"):
            space.ip(f"link set {interface} up")
        space.ip(f"address add 10.9.0.{number + 1}/24 dev eth1")
    return router, spaces, hosts


def test_routers_are_linked_and_a_loop_between_them_ends_by_the_time_to_live(lab):
    """Both routers forward packets without a route to each other, by default routes of Linux."""
    router, tenant, hosts = linked(lab, {"red": "p0", "blue": "null:"})
    host = hosts["red"]
    for number, space in enumerate(tenant.values()):
        space.ip(f"route add default via 10.9.0.{2 - number}")
    tenant["red"].ip("address add 10.0.1.1/24 dev eth0")
    tenant["blue"].ip("route add 10.0.1.0/24 via 10.9.0.1")
    host.ip("address add 10.0.1.2/24 dev eth0")
    host.ip("route add default via 10.0.1.1")
    until(lambda: host.run("ping", "-c1", "-W1", "10.9.0.2", ok=None).status == 0, "answers by the link", 10)
    answered(host, "10.9.0.2")
    said = host.run("ping", "-c3", "-W2", "203.0.113.1", ok=None).out
    assert "Time to live exceeded" in said, said
    assert router.stop() == 0


def test_chosen_routes_leak_from_one_router_into_another(lab):
    """docs/routers.md, "Leaking routes": BGP on the link, with a list of the routes that the other router may know."""
    router, tenant, hosts = linked(lab, {"red": "p0", "blue": "p1"})
    daemons = []
    for number, (name, space) in enumerate(tenant.items(), 1):
        host, other = hosts[name], 3 - number
        space.ip(f"address add 10.0.{number}.1/24 dev eth0")
        # Both tenants use this network, each with a route of its own.
        space.ip(f"route add 10.66.0.0/24 via 10.0.{number}.2")
        host.ip(f"address add 10.0.{number}.2/24 dev eth0")
        host.ip("link set lo up")
        host.ip("address add 10.66.0.1/24 dev lo")
        host.ip(f"route add default via 10.0.{number}.1")
        daemons.append(Frr(space, {"bgpd": f"""
            ip prefix-list leaked permit 10.0.{number}.0/24
            router bgp 6500{number}
             no bgp ebgp-requires-policy
             neighbor 10.9.0.{other} remote-as 6500{other}
             neighbor 10.9.0.{other} timers connect 1
             address-family ipv4 unicast
              network 10.0.{number}.0/24
              network 10.66.0.0/24
              neighbor 10.9.0.{other} prefix-list leaked out
             exit-address-family
            """}))
    for daemon in daemons:
        daemon.start()
    red, blue = hosts["red"], hosts["blue"]

    def crosses() -> bool:
        return red.run("ping", "-c1", "-W1", "10.0.2.2", ok=None).status == 0
    wait_for(crosses, "packets by the route that leaked", lambda: "".join(daemon.said() for daemon in daemons), 60)
    answered(blue, "10.0.1.2")
    # Each tenant still has its own route to 10.66.0.0/24, and no other one.
    for number, (name, space) in enumerate(tenant.items(), 1):
        kept = space.ip("route show 10.66.0.0/24").out
        assert f"via 10.0.{number}.2" in kept and kept.count("10.66.0.0/24") == 1, kept
        table = router.get(f"/v1/routers/{name}/handlers/rt4.table").decode()
        assert table.count("10.66.0.0/24") == 1 and f"10.0.{3 - number}.0/24" in table, table
    # The end of a BGP session removes its route.
    daemons[1].stop("bgpd")
    until(lambda: "10.0.2.0/24" not in tenant["red"].ip("route show").out, "the route to go", 30)
    assert router.stop() == 0
