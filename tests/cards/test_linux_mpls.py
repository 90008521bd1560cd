"""A label-switching router that Linux controls, in a guest, because its kernel has MPLS and the test machine's may not.

    left eth0 --- p0 |ports| p1 --- eth0 right       Ashlar runs in `ports`; its TAP interfaces lan and wan are in `routing`, and
                    |     |                          so are `ip -f mpls route` and FRR. `left` and `right` have the kernel's MPLS.
                   lan   wan  routing

Shows: labels are swapped, and popped for the next router or here, according to the kernel's routes, whoever sets
them; Ashlar treats packets as the kernel would; a change, a lost link and another `input` take effect; labelled
packets are accepted only where the kernel accepts them.
"""

import json
import re
from collections.abc import Iterator

import pytest
from frr import Frr
from guest import ASHLAR, MODELS, PROGRAM, ROOT, Guest
from net import Lab, until

MODULES = "mpls_router mpls_iptunnel mpls_gso af_packet veth tun"
SETUP = """
for n in left ports routing right; do ip netns add $n; ip -n $n link set lo up; done
for n in left routing right; do ip netns exec $n sysctl -qw net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.all.accept_dad=0; done
ip netns exec ports sysctl -qw net.ipv6.conf.default.disable_ipv6=1 net.ipv6.conf.all.disable_ipv6=1
ip -n left link add eth0 type veth peer name p0 netns ports; ip -n right link add eth0 type veth peer name p1 netns ports
for n in left right; do ip -n $n link set eth0 up; done
for i in p0 p1; do ip -n ports link set $i up; done
for n in left right; do
    ip netns exec $n sysctl -qw net.mpls.platform_labels=100000 net.mpls.conf.eth0.input=1 net.mpls.conf.lo.input=1 net.ipv4.ip_forward=1
done
ip -n left address add 10.0.1.2/24 dev eth0; ip -n left address add 10.1.0.1/24 dev lo
ip -n left address add 2001:db8:1::2/64 dev eth0; ip -n left address add 2001:db8:f1::1/64 dev lo
ip -n right address add 10.0.2.2/24 dev eth0; ip -n right address add 10.2.0.1/24 dev lo
ip -n right address add 2001:db8:2::2/64 dev eth0; ip -n right address add 2001:db8:f2::1/64 dev lo
"""
ROUTER = """
ip -n routing link set lan up; ip -n routing link set wan up
ip -n routing address add 10.0.1.1/24 dev lan; ip -n routing address add 10.0.2.1/24 dev wan
ip -n routing address add 2001:db8:1::1/64 dev lan; ip -n routing address add 2001:db8:2::1/64 dev wan
ip netns exec routing sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.mpls.platform_labels=100000
"""
# FRR: OSPF finds the paths to the loopback addresses, and LDP agrees on labels for them.
LOOPBACKS = {"left": "10.255.0.1", "routing": "10.255.0.2", "right": "10.255.0.3"}
INTERFACES = {"left": ("eth0",), "routing": ("lan", "wan"), "right": ("eth0",)}
OSPF = """router ospf
 ospf router-id {address}
 network 10.0.0.0/8 area 0
"""
SEGMENTS = """ capability opaque
 mpls-te on
 mpls-te router-address {address}
 router-info area 0.0.0.0
 segment-routing on
 segment-routing global-block 16000 23999
 segment-routing node-msd 8
 segment-routing prefix {address}/32 index {index} no-php-flag
"""
OSPF_INTERFACE = """interface {name}
 ip ospf network point-to-point
 ip ospf hello-interval 1
 ip ospf dead-interval 20
"""
LDP = """mpls ldp
 router-id {address}
 address-family ipv4
  discovery transport-address {address}
  discovery hello interval 1
  discovery hello holdtime 20
  {label}
  {interfaces}
"""
LAN, WAN = "ip netns exec routing sysctl -qw net.mpls.conf.lan.input", "ip netns exec routing sysctl -qw net.mpls.conf.wan.input"


class Router:
    """The router, and commands in the guest."""

    def __init__(self, guest: Guest):
        self.guest, self.run = guest, guest.run
        self.frr: dict[str, Frr] = {}
        self.run(f"cp {ASHLAR} {PROGRAM}; for m in {MODULES}; do modprobe $m; done{SETUP}")
        self.start()

    def start(self, options: str = "") -> None:
        """Starts the router, and waits until it responds."""
        self.guest.keep(f"{ROOT}/conf/linux-mpls.click DEV0=p0 IF0=lan DEV1=p1 IF1=wan {options} --netns routing --workers 1")
        self.run(ROUTER)
        until(lambda: self.ping("10.0.1.1") == 1, "the router's own answer", timeout=60)

    def restart(self) -> None:
        """Has `ashlar keep` restart the router. Its interfaces stay, with their settings."""
        def pid():
            said = self.guest.get("/v1/info")
            return json.loads(said)["pid"] if said else None
        before = pid()
        self.run("kill -USR2 $(cat /run/keep.pid)")
        until(lambda: pid() not in (before, None), "the new router's answer", timeout=120)

    def stop(self) -> None:
        """Stops the router."""
        self.run("kill $(cat /run/keep.pid); timeout 60 tail --pid=$(cat /run/keep.pid) -f /dev/null")

    def end_frr(self) -> None:
        """Stops all FRR daemons: LDP would wait long before it tries a neighbour again."""
        while self.frr:
            self.frr.popitem()[1].end()

    def show(self, handler: str) -> list[str]:
        return self.guest.get(f"/v1/handlers/{handler}").splitlines()

    def route(self, words: str, space: str = "routing") -> None:
        self.run(f"ip -n {space} -f mpls route {words}")

    def labels(self, *wanted: str) -> None:
        """Waits until the label table has these lines, besides explicit null."""
        lines = ["0 pop - local", "2 pop - local", *wanted]
        until(lambda: self.show("mpls.table") == lines, f"the table {lines}", timeout=30)

    def routes(self, table: str, hop: str) -> None:
        """Waits until a route has this next hop."""
        until(lambda: any(line.endswith(f"\t{hop}") for line in self.show(f"{table}.table")), f"a route by {hop}", timeout=30)

    def ping(self, to: str, count: int = 1, source: str = "", space: str = "left") -> int:
        source = f"-I {source}" if source else ""
        said = self.run(f"ip netns exec {space} ping -q -c {count} -i 0.2 -W 5 {source} {to}", ok=False, timeout=60 + 6 * count)
        return int(re.search(r"(\d+) received", said)[1])

    def by_kernel(self) -> int:
        """Number of labelled packets that the kernel of `routing` has received from the ports."""
        return sum(self.mpls_of("routing", interface) for interface in ("lan", "wan"))

    def pushed(self) -> int:
        """Number of labelled frames that the router has sent through its right port."""
        return self.mpls_of("right", "eth0")

    def mpls_of(self, space: str, interface: str) -> int:
        """Number of labelled packets that a kernel has received on an interface."""
        said = self.run(f"ip -n {space} -j stats show dev {interface} group afstats subgroup mpls")
        return sum(one["mpls_stats"]["rx"]["packets"] for one in json.loads(said))

    def crosses(self, source: str, to: str, count: int = 10) -> None:
        """Checks that labelled packets cross without reaching the kernel."""
        until(lambda: self.ping(to, source=source) == 1, f"a packet to {to}", timeout=60)
        before = self.by_kernel()
        assert self.ping(to, count, source) == count, self.show("mpls.table")
        assert self.by_kernel() == before


@pytest.fixture(scope="module")
def router() -> Iterator[Router]:
    with Lab() as lab:
        yield Router(Guest(lab, MODELS["e1000e"]))


def test_labels_are_taken_where_the_kernel_takes_them(router):
    router.labels()
    assert router.show("port0/labelled.allowed") == ["false"]
    for words in (LAN, WAN):
        router.run(f"{words}=1")
    for port in (0, 1):
        until(lambda port=port: router.show(f"port{port}/labelled.allowed") == ["true"], "the setting", timeout=30)
    router.run(f"{LAN}=0")
    until(lambda: router.show("port0/labelled.allowed") == ["false"], "the setting", timeout=30)
    router.run(f"{LAN}=1")
    until(lambda: router.show("port0/labelled.allowed") == ["true"], "the setting", timeout=30)


def test_labels_are_swapped_and_popped_for_the_next_router(router):
    router.run("ip -n left route replace 10.2.0.0/24 encap mpls 100 via 10.0.1.1 src 10.1.0.1; "
               "ip -n right route replace 10.1.0.0/24 encap mpls 300 via 10.0.2.1 src 10.2.0.1; ip -n right -f mpls route add 200 dev lo")
    router.route("add 100 as 200 via inet 10.0.2.2 dev wan")
    router.route("add 300 via inet 10.0.1.2 dev lan")
    router.labels("100 swap 200 10.0.2.2 wan", "300 pop 10.0.1.2 lan")
    router.crosses("10.1.0.1", "10.2.0.1")
    # A new path replaces the first at once; the removed path is gone.
    router.run("ip -n right -f mpls route add 16 dev lo; ip -n right -f mpls route add 17 dev lo")
    router.route("replace 100 as 17/16 via inet 10.0.2.2 dev wan")
    router.labels("100 swap 17/16 10.0.2.2 wan", "300 pop 10.0.1.2 lan")
    router.crosses("10.1.0.1", "10.2.0.1")
    router.route("del 100")
    router.labels("300 pop 10.0.1.2 lan")
    assert router.ping("10.2.0.1", source="10.1.0.1") == 0
    router.route("add 100 as 200 via inet 10.0.2.2 dev wan")
    router.labels("100 swap 200 10.0.2.2 wan", "300 pop 10.0.1.2 lan")
    router.crosses("10.1.0.1", "10.2.0.1")


def test_packets_of_ipv6_and_next_hops_of_ipv6(router):
    router.run("ip -n left -6 route replace 2001:db8:f2::/64 encap mpls 101 via 2001:db8:1::1 src 2001:db8:f1::1; "
               "ip -n right -6 route replace 2001:db8:f1::/64 encap mpls 301 via 2001:db8:2::1 src 2001:db8:f2::1; "
               "ip -n right -f mpls route add 201 dev lo")
    router.route("add 101 as 201 via inet6 2001:db8:2::2 dev wan")
    router.route("add 301 via inet6 2001:db8:1::2 dev lan")
    router.labels("100 swap 200 10.0.2.2 wan", "101 swap 201 2001:db8:2::2 wan", "300 pop 10.0.1.2 lan", "301 pop 2001:db8:1::2 lan")
    router.crosses("2001:db8:f1::1", "2001:db8:f2::1")


def test_labels_of_the_router_itself_are_popped_and_the_packet_is_routed(router):
    router.route("add 102 dev lo")
    router.run("ip -n left route replace 10.2.0.0/24 encap mpls 102 via 10.0.1.1 src 10.1.0.1; "
               "ip -n left route replace 10.0.2.1 encap mpls 102 via 10.0.1.1 src 10.1.0.1; "
               "ip -n routing route add 10.2.0.0/24 via 10.0.2.2; ip -n routing route add 10.1.0.0/24 via 10.0.1.2")
    until(lambda: "102 pop - local" in router.show("mpls.table"), "the label", timeout=30)
    router.crosses("10.1.0.1", "10.2.0.1")
    # The router's own address: its kernel answers, though it sees no label.
    router.crosses("10.1.0.1", "10.0.2.1")


def test_packets_get_labels_where_a_route_says_so(router):
    """One label between routers without further labels, and two labels towards the other end."""
    router.run("ip -n left route replace 10.2.0.0/24 via 10.0.1.1 src 10.1.0.1; ip -n right -f mpls route replace 210 dev lo; "
               "ip -n left -6 route replace 2001:db8:f2::/64 via 2001:db8:1::1 src 2001:db8:f1::1; "
               "ip -n routing route replace 10.2.0.0/24 encap mpls 210/200 via 10.0.2.2; "
               "ip -n routing -6 route replace 2001:db8:f2::/64 encap mpls 200 via 2001:db8:2::2 dev wan")
    router.routes("rt4", "10.0.2.2\twan MPLS 210/200")
    router.routes("rt6", "2001:db8:2::2\twan MPLS 200")
    before = router.pushed()
    router.crosses("10.1.0.1", "10.2.0.1")
    router.crosses("2001:db8:f1::1", "2001:db8:f2::1")
    assert router.pushed() >= before + 20
    # By a next-hop object, and by two paths, of which one has a label.
    router.run("ip -n routing nexthop add id 7 encap mpls 200 via 10.0.2.2 dev wan; ip -n routing route replace 10.2.0.0/24 nhid 7")
    router.routes("rt4", "10.0.2.2\twan MPLS 200")
    router.crosses("10.1.0.1", "10.2.0.1")
    # A packet too long with its labels: the kernel tells the sender, as it would without Ashlar.
    said = router.run("ip netns exec left ping -M do -s 1472 -c 2 -W 5 -I 10.1.0.1 10.2.0.1", ok=False)
    assert "mtu = 1496" in said or "mtu=1496" in said, said
    # The last router of traceroute's first hop answers.
    said = router.run("ip netns exec left ping -t 1 -c 1 -W 5 -I 10.1.0.1 10.2.0.1", ok=False)
    assert "Time to live exceeded" in said, said


def test_the_kernel_does_the_work_that_only_it_can_do(router):
    router.run("ip -n routing link add x type veth peer name y netns right; ip -n routing link set x up; ip -n right link set y up; "
               "ip -n routing address add 10.0.3.1/24 dev x; ip -n right address add 10.0.3.2/24 dev y; "
               "ip netns exec right sysctl -qw net.mpls.conf.y.input=1; "
               "ip -n left route replace 10.2.0.0/24 encap mpls 103 via 10.0.1.1 src 10.1.0.1")
    router.route("add 103 as 200 via inet 10.0.3.2 dev x")
    until(lambda: "103 pop - kernel" in router.show("mpls.table"), "the label", timeout=30)
    until(lambda: router.ping("10.2.0.1", source="10.1.0.1") == 1, "a packet by the kernel's way", timeout=60)
    before = router.by_kernel()
    assert router.ping("10.2.0.1", 10, "10.1.0.1") == 10
    assert router.by_kernel() == before + 10
    router.run("ip -n routing link del x")
    until(lambda: not any(line.startswith("103 ") for line in router.show("mpls.table")), "the end of the label", timeout=30)


def test_a_link_that_goes_and_comes_back(router):
    router.run("ip -n left route replace 10.2.0.0/24 encap mpls 100 via 10.0.1.1 src 10.1.0.1")
    router.crosses("10.1.0.1", "10.2.0.1")
    router.run("ip -n routing link set wan down")
    until(lambda: "100 pop - kernel" in router.show("mpls.table"), "the lost link", timeout=30)
    router.run("ip -n routing link set wan up")
    until(lambda: "100 swap 200 10.0.2.2 wan" in router.show("mpls.table"), "the link", timeout=30)
    router.crosses("10.1.0.1", "10.2.0.1")


def test_a_router_that_starts_finds_the_existing_state(router):
    """The routes, and the interfaces that accept labels."""
    before = router.show("mpls.table")
    assert "102 pop - local" in before and "100 swap 200 10.0.2.2 wan" in before
    router.restart()
    until(lambda: router.show("mpls.table") == before, "the table of before", timeout=30)
    assert router.show("port0/labelled.allowed") == ["true"]
    router.crosses("10.1.0.1", "10.2.0.1")


def ospf_of(router: Router, space: str) -> str:
    """OSPF configuration of a namespace, which also gets a loopback address."""
    router.run(f"ip -n {space} address replace {LOOPBACKS[space]}/32 dev lo")
    return "".join(OSPF_INTERFACE.format(name=name) for name in INTERFACES[space]) + OSPF.format(address=LOOPBACKS[space])


def routed(router: Router, space: str, zebra: str = "") -> None:
    """Runs OSPF and LDP in a namespace. The last router requests a label on all packets: explicit null."""
    address, interfaces = LOOPBACKS[space], INTERFACES[space]
    ospf = ospf_of(router, space)
    label = "label local advertise explicit-null" if space == "right" else ""
    each = "\n  ".join(f"interface {name}\n  exit" for name in interfaces)
    router.frr[space] = Frr(router.guest, space, zebra, ospfd=ospf, ldpd=LDP.format(address=address, label=label, interfaces=each))


def ldp_works(router: Router) -> None:
    """Checks that the label for the far end is swapped for its explicit null, and the label for the near end is popped.
    """
    for pattern in (r"\d+ swap 0 10\.0\.2\.2 wan", r"\d+ pop 10\.0\.1\.2 lan"):
        def is_there(pattern=pattern):
            return any(re.fullmatch(pattern, line) and int(line.split()[0]) not in (100, 300) for line in router.show("mpls.table"))
        until(is_there, f"a label with {pattern}", timeout=120)
    router.routes("rt4", "10.0.2.2\twan MPLS 0")
    until(lambda: "encap mpls" in router.run("ip -n left route show 10.255.0.3"), "a label at the other end", timeout=120)
    router.crosses("10.255.0.1", "10.255.0.3")


def test_ldp_of_frr_sets_the_labels(router):
    for space in LOOPBACKS:
        routed(router, space)
    ldp_works(router)
    # A label-switched path that zebra's configuration has.
    router.frr["routing"].vtysh("configure terminal", "mpls lsp 500 10.0.2.2 200")
    until(lambda: "500 swap 200 10.0.2.2 wan" in router.show("mpls.table"), "the static label", timeout=30)
    router.end_frr()


def test_segment_routing_of_ospf_sets_the_labels(router):
    for index, space in enumerate(LOOPBACKS, 1):
        segments = SEGMENTS.format(address=LOOPBACKS[space], index=index)
        router.frr[space] = Frr(router.guest, space, ospfd=ospf_of(router, space) + segments)
    for line in ("16003 swap 16003 10.0.2.2 wan", "16001 swap 16001 10.0.1.2 lan", "16002 pop - local"):
        until(lambda line=line: line in router.show("mpls.table"), line, timeout=120)
    router.routes("rt4", "10.0.2.2\twan MPLS 16003")
    until(lambda: "16003" in router.run("ip -n left route show 10.255.0.3"), "a label at the other end", timeout=120)
    router.crosses("10.255.0.1", "10.255.0.3")
    router.end_frr()


def test_labels_come_by_fpm_as_well(router):
    """The kernel has routes of its own, which are ignored then."""
    router.stop()
    router.start("--fpm")
    for words in (LAN, WAN):
        router.run(f"{words}=1")
    router.route("replace 990 dev lo")
    for space in LOOPBACKS:
        routed(router, space, "-M dplane_fpm_nl" if space == "routing" else "")
    ldp_works(router)
    assert "ashlar_netlink_fpm_connected 1" in router.guest.get("/metrics")
    assert not any(line.startswith("990 ") for line in router.show("mpls.table"))
