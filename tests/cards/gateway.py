"""An IPsec gateway in a guest, on virtual cables, and machines around it.

    site eth0 --- p0 |ports| p1 --- net, a switch --- eth0 peer            Ashlar runs in `ports`; its TAP interfaces lan
                      |   |                 |                              and wan are in `gw`, and so are `ip xfrm` and
                     lan wan  gw            '--- out nat in --- eth0 home  strongSwan. `peer` and `home` have Debian's kernel
                                                                           as the other end, `home` behind a NAT.
"""

import re

from guest import ASHLAR, PROGRAM, ROOT, Guest
from net import until

MODULES = ("xfrm_user esp4 esp6 drbg seqiv echainiv gcm ghash_generic ctr cbc hmac sha256_generic authenc authencesn af_packet "
           "veth tun bridge nft_masq nft_chain_nat nf_conntrack_netlink")
SETUP = """
for n in site ports gw net peer nat home; do ip netns add $n; ip -n $n link set lo up; done
for n in site gw peer; do ip netns exec $n sysctl -qw net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.all.accept_dad=0; done
for n in ports net nat home; do ip netns exec $n sysctl -qw net.ipv6.conf.default.disable_ipv6=1 net.ipv6.conf.all.disable_ipv6=1; done
ip -n net link add switch type bridge; ip -n net link set switch up
ip -n site link add eth0 type veth peer name p0 netns ports
ip -n net link add gw type veth peer name p1 netns ports
ip -n net link add peer type veth peer name eth0 netns peer
ip -n net link add nat type veth peer name out netns nat
ip -n nat link add in type veth peer name eth0 netns home
for i in gw peer nat; do ip -n net link set $i master switch up; done
for n in site peer home; do ip -n $n link set eth0 up; done
for i in p0 p1; do ip -n ports link set $i up; done
for i in out in; do ip -n nat link set $i up; done
ip -n site address add 10.1.0.2/24 dev eth0; ip -n site route add default via 10.1.0.1
ip -n site address add 2001:db8:1::2/64 dev eth0; ip -n site route add default via 2001:db8:1::1
ip -n peer address add 192.0.2.2/24 dev eth0; ip -n peer address add 10.2.0.1/24 dev lo
ip -n peer address add 2001:db8::2/64 dev eth0; ip -n peer address add 2001:db8:2::1/64 dev lo
ip -n peer route add 10.1.0.0/24 via 192.0.2.1 src 10.2.0.1
ip -n peer route add 2001:db8:1::/64 via 2001:db8::1 src 2001:db8:2::1
ip -n nat address add 192.0.2.3/24 dev out; ip -n nat address add 10.9.0.1/24 dev in
ip netns exec nat sysctl -qw net.ipv4.ip_forward=1
ip -n home address add 10.9.0.2/24 dev eth0; ip -n home address add 10.3.0.1/24 dev lo
ip -n home route add default via 10.9.0.1; ip -n home route add 10.1.0.0/24 via 10.9.0.1 src 10.3.0.1
"""
GATEWAY = """
ip netns exec gw sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.disable_xfrm=1 net.ipv4.conf.all.disable_policy=1
ip netns exec gw sysctl -qw net.ipv6.conf.all.forwarding=1
ip -n gw link set lan up; ip -n gw link set wan up
ip -n gw address add 10.1.0.1/24 dev lan; ip -n gw address add 192.0.2.1/24 dev wan
ip -n gw address add 2001:db8:1::1/64 dev lan; ip -n gw address add 2001:db8::1/64 dev wan
ip -n gw route add 10.2.0.0/24 via 192.0.2.2; ip -n gw route add 10.3.0.0/24 via 192.0.2.3
ip -n gw route add 2001:db8:2::/64 via 2001:db8::2
"""


class Gateway:
    """The router, commands in the guest, and strongSwan in its namespaces."""

    def __init__(self, guest: Guest):
        self.guest, self.run = guest, guest.run
        self.run(f"cp {ASHLAR} {PROGRAM}; for m in {MODULES}; do modprobe $m; done{SETUP}")
        self.start()
        self.run(GATEWAY)
        until(lambda: self.ping("192.0.2.2") == 1, "a packet that crosses in plain", timeout=60)

    def start(self) -> None:
        self.guest.keep(f"{ROOT}/conf/ipsec-linux.click DEV0=p0 IF0=lan DEV1=p1 IF1=wan --netns gw --workers 1")

    def ping(self, to: str, count: int = 1, every: float = 0.2, source: str = "site", options: str = "") -> int:
        """Number of answered echo requests, out of `count`."""
        said = self.run(f"ip netns exec {source} ping -q -c {count} -i {every} -W 5 {options} {to}", ok=False,
                        timeout=60 + 2 * count * every)
        return int(re.search(r"(\d+) received", said)[1])

    def show(self, handler: str) -> list[str]:
        return self.guest.get(f"/v1/handlers/{handler}").splitlines()

    def sa(self, way: str) -> dict[str, str]:
        """Words of the newest association of a direction, each keyed by the word before it."""
        lines = [line for line in self.show("ipsec.sas") if line.startswith(way)]
        words = lines[-1].split()
        return {word: words[at + 1] for at, word in enumerate(words[:-1])}

    def drops(self, element: str) -> dict[str, int]:
        return {name: int(n) for name, n in (line.split() for line in self.show(f"{element}.named_drops"))}

    def lost(self) -> dict[str, int]:
        """Packets that the router dropped during encryption and decryption, by name."""
        named = {f"{e} {name}": n for e in ("seal", "own", "open") for name, n in self.drops(e).items()}
        return {name: n for name, n in named.items() if n and not name.endswith("keepalive")}

    def charon(self, space: str) -> None:
        """Runs strongSwan in a namespace."""
        # Some plugins are left out: they would encrypt packets themselves, or set policies of their own.
        unloaded = "\n  ".join(f"{name} {{ load = no\n  }}" for name in ("kernel-libipsec", "bypass-lan", "forecast", "farp", "dhcp"))
        self.run(f"""mkdir -p /tmp/{space}/x509 /tmp/{space}/x509ca /tmp/{space}/private
cat > /tmp/{space}/strongswan.conf <<'END'
charon {{ install_routes = no
  interfaces_use = {"wan" if space == "gw" else "eth0"}
  routing_table = 0
  plugins {{ {unloaded}
  vici {{ socket = unix:///tmp/{space}/vici
  }} }}
  filelog {{ f {{ path = /tmp/{space}/log
    flush_line = yes
  }} }} }}
END
ip netns exec {space} bash -c 'mkdir -p /tmp/{space}/run; mount --bind /tmp/{space}/run /run
  STRONGSWAN_CONF=/tmp/{space}/strongswan.conf exec setsid /usr/lib/ipsec/charon' > /tmp/{space}/out 2>&1 &
""")
        until(lambda: "uptime" in self.swanctl(space, "--stats"), f"strongSwan in {space}", timeout=120)

    def load(self, space: str, text: str) -> None:
        """Replaces strongSwan's whole configuration."""
        self.run(f"cat > /tmp/{space}/swanctl.conf <<'END'\n{text}\nEND")
        for line in self.swanctl(space, "--list-sas --raw").splitlines():
            if name := re.match(r"list-sa event \{(\S+) \{", line):
                self.swanctl(space, f"--terminate --force --ike {name[1]}")
        said = self.swanctl(space, "--load-all --clear")
        assert "successfully loaded" in said, said

    def swanctl(self, space: str, words: str) -> str:
        return self.run(f"SWANCTL_DIR=/tmp/{space} swanctl {words} --uri unix:///tmp/{space}/vici 2>/dev/null", ok=False, timeout=120)

    def said(self, space: str) -> str:
        """The end of strongSwan's log."""
        return self.run(f"tail -n 60 /tmp/{space}/log")


def connection(here: tuple[str, str], there: tuple[str, str], child: str = "", more: str = "", auth: tuple[str, str] | None = None,
               proposal: str = "aes128gcm16-esn-noesn") -> str:
    """Text of a connection `t` with a child `c`: addresses and networks of both ends. `auth` says how each end
    authenticates.
    """
    ours, theirs = auth or (f"auth = psk\n id = {here[0]}", f"auth = psk\n id = {there[0]}")
    secret = "" if auth else 'secrets { ike { secret = "a secret of both"\n } }'
    return f"""connections {{ t {{ version = 2
  local_addrs = {here[0]}
  remote_addrs = {there[0]}
  {more}
  local {{ {ours}
  }}
  remote {{ {theirs}
  }}
  children {{ c {{ local_ts = {here[1]}
    remote_ts = {there[1]}
    esp_proposals = {proposal}
    {child}
  }} }} }} }}
{secret}"""
