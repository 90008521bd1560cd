"""IPsec that the kernel of the router's namespace says, with a Linux kernel at the other end.

    site eth0 --- p0 |ports| p1 --- eth0 peer       All in one guest, for Debian's kernel has ESP. Ashlar runs in `ports`;
                      |   |                         its TAP interfaces lan and wan are in `gw`, and so are `ip xfrm` and
                     lan wan  gw                    strongSwan.

Shows: associations set by `ip xfrm` seal and open, both ways, and the kernel is told what passes; what is removed is not used;
strongSwan on both ends: a trap has the tunnel negotiated, keys change under traffic without a loss at the router, a limit of
packets has strongSwan rekey, and both ends count the same; a router that is killed goes on with the same associations.
"""

import re
from collections.abc import Iterator

import pytest
from guest import ASHLAR, MODELS, PROGRAM, ROOT, Guest
from net import Lab, until

MODULES = ("xfrm_user esp4 drbg seqiv echainiv gcm ghash_generic ctr cbc hmac sha256_generic authenc authencesn af_packet "
           "veth tun")
SETUP = """
for n in site ports gw peer; do ip netns add $n; ip -n $n link set lo up; done
ip netns exec ports sysctl -qw net.ipv6.conf.default.disable_ipv6=1
ip -n site link add eth0 type veth peer name p0 netns ports
ip -n peer link add eth0 type veth peer name p1 netns ports
for n in site peer; do ip -n $n link set eth0 up; done
ip -n ports link set p0 up; ip -n ports link set p1 up
ip -n site address add 10.1.0.2/24 dev eth0; ip -n site route add default via 10.1.0.1
ip -n peer address add 192.0.2.2/24 dev eth0; ip -n peer address add 10.2.0.1/24 dev lo
ip -n peer route add 10.1.0.0/24 via 192.0.2.1 src 10.2.0.1
"""
GATEWAY = """
ip netns exec gw sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.disable_xfrm=1 net.ipv4.conf.all.disable_policy=1
ip -n gw link set lan up; ip -n gw link set wan up
ip -n gw address add 10.1.0.1/24 dev lan; ip -n gw address add 192.0.2.1/24 dev wan
ip -n gw route add 10.2.0.0/24 via 192.0.2.2
"""
KEYS = ["0x000102030405060708090a0b0c0d0e0f10111213", "0x202122232425262728292a2b2c2d2e2f30313233"]
OURS, THEIRS = ("192.0.2.1", "10.1.0.0/24"), ("192.0.2.2", "10.2.0.0/24")


class Gateway:
    """The router, and commands in the guest."""

    def __init__(self, guest: Guest):
        self.guest, self.run = guest, guest.run
        self.run(f"cp {ASHLAR} {PROGRAM}; for m in {MODULES}; do modprobe $m; done{SETUP}")
        self.start()
        self.run(GATEWAY)
        until(lambda: self.ping("192.0.2.2") == 1, "a packet that crosses in plain", timeout=60)

    def start(self) -> None:
        self.run(f"ip netns exec ports setsid {PROGRAM} keep -- {PROGRAM} run {ROOT}/conf/ipsec-linux.click DEV0=p0 IF0=lan "
                 "DEV1=p1 IF1=wan --netns gw --workers 1 --socket /run/router.sock > /run/log 2>&1 &")
        until(lambda: self.guest.get("/v1/info"), "the router's answer", timeout=120)

    def ping(self, to: str, count: int = 1, every: float = 0.2) -> int:
        """How many of so many packets are answered."""
        said = self.run(f"ip netns exec site ping -q -c {count} -i {every} -W 5 {to}", ok=False, timeout=60 + 2 * count * every)
        return int(re.search(r"(\d+) received", said)[1])

    def show(self, handler: str) -> list[str]:
        return self.guest.get(f"/v1/handlers/{handler}").splitlines()

    def sa(self, way: str) -> dict[str, str]:
        """Words of the youngest association of a direction, by the word before."""
        lines = [line for line in self.show("ipsec.sas") if line.startswith(way)]
        words = lines[-1].split()
        return {word: words[at + 1] for at, word in enumerate(words[:-1])}

    def drops(self, element: str) -> dict[str, int]:
        return {name: int(n) for name, n in (line.split() for line in self.show(f"{element}.named_drops"))}


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with Lab() as lab:
        yield Gateway(Guest(lab, MODELS["e1000e"]))


def test_static_associations_seal_and_open_and_the_kernel_is_told(gateway):
    run = gateway.run
    for space in ("gw", "peer"):
        for number, (src, dst) in enumerate(((OURS, THEIRS), (THEIRS, OURS))):
            ends = f"src {src[0]} dst {dst[0]}"
            run(f"ip -n {space} xfrm state add {ends} proto esp spi {0x1001 + number} reqid 1 mode tunnel replay-window 32 "
                f"aead 'rfc4106(gcm(aes))' {KEYS[number]} 128")
            sends = (space == "gw") == (number == 0)
            for way in ["out"] if sends else ["in", "fwd"]:
                run(f"ip -n {space} xfrm policy add src {src[1]} dst {dst[1]} dir {way} tmpl {ends} proto esp reqid 1 mode tunnel")
    until(lambda: len(gateway.show("ipsec.policies")) == 4 and len(gateway.show("ipsec.sas")) == 2, "the table", timeout=30)
    assert gateway.ping("10.2.0.1", 20) == 20
    # The router's own packets, which its kernel sends.
    assert " 0% packet loss" in run("ip netns exec gw ping -q -c 3 -i 0.2 -I 10.1.0.1 10.2.0.1")
    assert (gateway.sa("out")["packets"], gateway.sa("in")["packets"]) == ("23", "23")
    told = "ip -n {} -s xfrm state get src 192.0.2.1 dst 192.0.2.2 proto esp spi 0x1001"
    until(lambda: re.search(r"oseq 0x17\b", run(told.format("gw"))), "the kernel to know the number", timeout=30)
    ours, theirs = (re.search(r"(\d+)\(bytes\), (\d+)\(packets\)", run(told.format(space))) for space in ("gw", "peer"))
    assert ours[0] == theirs[0] and ours[2] == "23"


def test_what_is_removed_is_not_used(gateway):
    run = gateway.run
    run("ip -n gw xfrm state delete src 192.0.2.2 dst 192.0.2.1 proto esp spi 0x1002")
    until(lambda: len(gateway.show("ipsec.sas")) == 1, "the table", timeout=30)
    before = gateway.drops("open").get("no_sa", 0)
    assert gateway.ping("10.2.0.1", 2) == 0
    assert gateway.drops("open")["no_sa"] == before + 2
    for space in ("gw", "peer"):
        run(f"ip -n {space} xfrm state flush; ip -n {space} xfrm policy flush")
    until(lambda: gateway.show("ipsec.sas") == [] and len(gateway.show("ipsec.policies")) == 2, "an empty table", timeout=30)
    assert gateway.ping("192.0.2.2", 2) == 2


def charon(gateway: Gateway, space: str, here: tuple[str, str], there: tuple[str, str], child: str) -> None:
    """Runs strongSwan in a namespace, with a connection `t` and its child `c`."""
    gateway.run(f"""mkdir -p /tmp/{space}
cat > /tmp/{space}/strongswan.conf <<'END'
charon {{ install_routes = no
  plugins {{ vici {{ socket = unix:///tmp/{space}/vici
  }} }}
  filelog {{ f {{ path = /tmp/{space}/log
  }} }} }}
END
cat > /tmp/{space}/conf <<'END'
connections {{ t {{ version = 2
  local_addrs = {here[0]}
  remote_addrs = {there[0]}
  local {{ auth = psk
    id = {here[0]}
  }}
  remote {{ auth = psk
    id = {there[0]}
  }}
  children {{ c {{ local_ts = {here[1]}
    remote_ts = {there[1]}
    esp_proposals = aes128gcm16-esn-noesn
    {child}
  }} }} }} }}
secrets {{ ike {{ secret = "a secret of both" }} }}
END
ip netns exec {space} bash -c 'mkdir /tmp/{space}/run; mount --bind /tmp/{space}/run /run
  STRONGSWAN_CONF=/tmp/{space}/strongswan.conf exec setsid /usr/lib/ipsec/charon' > /tmp/{space}/out 2>&1 &
""")
    load = f"swanctl --load-all --file /tmp/{space}/conf --uri unix:///tmp/{space}/vici"
    until(lambda: "loaded connection" in gateway.run(load, ok=False), f"strongSwan in {space}", timeout=120)


def swanctl(gateway: Gateway, space: str, words: str) -> str:
    return gateway.run(f"swanctl {words} --uri unix:///tmp/{space}/vici 2>/dev/null", timeout=60)


def test_strongswan_negotiates_when_a_packet_asks_and_rekeys_without_loss(gateway):
    charon(gateway, "peer", THEIRS, OURS, "start_action = none")
    charon(gateway, "gw", OURS, THEIRS, "start_action = trap")
    until(lambda: any("protect" in line for line in gateway.show("ipsec.policies")), "the trap", timeout=30)
    until(lambda: gateway.ping("10.2.0.1") == 1, "the tunnel", timeout=120)
    missing, spis = gateway.drops("seal").get("no_sa", 0), {gateway.sa("out")["spi"]}
    gateway.run("ip netns exec site ping -q -c 600 -i 0.05 -W 5 10.2.0.1 > /run/ping 2>&1 & echo $! > /run/ping.pid")
    for space in ("peer", "gw", "peer", "gw"):
        assert "success" in swanctl(gateway, space, "--rekey --child c")
        until(lambda: gateway.sa("out")["spi"] not in spis, "a new association", timeout=60)
        spis.add(gateway.sa("out")["spi"])
        # It is there for some packets.
        until(lambda: int(gateway.sa("out")["packets"]) > 20, "packets", timeout=60)
    until(lambda: "received" in gateway.run("cat /run/ping"), "the end of the packets", timeout=180)
    received = int(re.search(r"(\d+) received", gateway.run("cat /run/ping"))[1])
    # What a Linux kernel loses between the deletion of its old association and the new one is its own.
    theirs = sum(int(n) for n in re.findall(r"XfrmAcquireError\s+(\d+)", gateway.run("ip netns exec peer cat /proc/net/xfrm_stat")))
    assert (gateway.drops("seal").get("no_sa", 0), 600 - received) == (missing, theirs), gateway.show("open.named_drops")
    # Both ends, and both daemons, have counted the same.
    ours, peers = (re.search(r"in  \S+ +(\d+) bytes.*\n +out \S+ +(\d+) bytes", swanctl(gateway, space, "--list-sas"))
                   for space in ("gw", "peer"))
    assert (ours[1], ours[2]) == (peers[2], peers[1])


def test_a_killed_router_goes_on_with_the_same_associations(gateway):
    before = gateway.sa("out")
    gateway.run("kill -9 $(pgrep -xf '/run/ashlar run .*' | head -n1)")
    until(lambda: gateway.ping("10.2.0.1") == 1, "the tunnel", timeout=120)
    after = gateway.sa("out")
    assert after["spi"] == before["spi"] and int(after["number"]) > int(before["number"]) + (1 << 25)


def test_a_limit_of_packets_has_strongswan_rekey(gateway):
    gateway.run("sed -i 's/start_action = trap/rekey_packets = 30\\n rand_packets = 0\\n life_packets = 100000/' /tmp/gw/conf")
    swanctl(gateway, "gw", "--load-all --file /tmp/gw/conf")
    swanctl(gateway, "gw", "--terminate --ike t")
    swanctl(gateway, "gw", "--initiate --child c")
    until(lambda: gateway.show("ipsec.sas") and gateway.ping("10.2.0.1") == 1, "the tunnel", timeout=60)
    first = gateway.sa("out")["spi"]
    gateway.ping("10.2.0.1", 60, 0.05)
    until(lambda: gateway.sa("out")["spi"] != first, "new keys", timeout=60)
