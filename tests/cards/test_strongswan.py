"""strongSwan at both ends of the gateway's tunnels, in all its modes (gateway.py).

Shows: certificates, and refusal of one from another authority; transport mode; all four pairs of address families;
UDP encapsulation, on request and through a NAT whose port changes (MAPPING); a change of address at either end
(MOBIKE). Under traffic, encrypted and decrypted packets are counted, and the router loses none.
"""

import re
from collections.abc import Iterator

import pytest
from gateway import Gateway, connection
from guest import MODELS, Guest
from net import Failed, Lab, until

OURS, THEIRS = ("192.0.2.1", "10.1.0.0/24"), ("192.0.2.2", "10.2.0.0/24")
OURS6, THEIRS6 = ("2001:db8::1", "2001:db8:1::/64"), ("2001:db8::2", "2001:db8:2::/64")
HOME = ("192.0.2.3", "10.3.0.0/24")


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with Lab() as lab:
        made = Gateway(Guest(lab, MODELS["e1000e"]))
        for space in ("gw", "peer", "home"):
            made.charon(space)
        yield made


def initiated(gateway: Gateway, space: str) -> None:
    said = gateway.swanctl(space, "--initiate --child c --timeout 60")
    assert "completed successfully" in said, f"{said}\n{gateway.said('gw')}"
    until(lambda: {line.split()[0] for line in gateway.show("ipsec.sas")} == {"in", "out"}, "both associations", timeout=30)
    until(lambda: len(gateway.show("ipsec.policies")) > 2, "the policies", timeout=30)


def both_count(gateway: Gateway, packets: int) -> None:
    """Waits until both associations have counted this many packets; checks that nothing was lost."""
    assert (gateway.sa("out")["packets"], gateway.sa("in")["packets"]) == (str(packets), str(packets)), gateway.show("ipsec.sas")


class Pings:
    """Continuous pings in both directions, until `end`."""

    def __init__(self, gateway: Gateway, to: str, every: float = 0.05, source: str = "site", options: str = ""):
        self.gateway = gateway
        gateway.run(f"rm -f /run/ping; ip netns exec {source} ping -i {every} {options} {to} > /run/ping 2>&1 & echo $! > /run/ping.pid")

    def answered(self) -> set[int]:
        """Numbers of the answered requests."""
        return {int(n) for n in re.findall(r" bytes from .* icmp_seq=(\d+)", self.gateway.run("cat /run/ping"))}

    def go_on(self, more: int = 10, what: str = "packets") -> None:
        """Waits until this many more requests are answered."""
        wanted = len(self.answered()) + more
        try:
            until(lambda: len(self.answered()) >= wanted, what, timeout=120)
        except Failed as late:
            said = self.gateway.run("tail -n 5 /run/ping"), *self.gateway.show("ipsec.sas"), str(self.gateway.lost())
            raise Failed("\n".join([str(late), *said])) from None

    def end(self) -> int:
        """Ends the pings; returns how many were not answered, up to the last answered one."""
        self.gateway.run("kill -INT $(cat /run/ping.pid)")
        answered = self.answered()
        return max(answered) - len(answered)


# ---- Certificates


def certificates(gateway: Gateway, authority: str, *spaces: str) -> None:
    """Makes a certificate authority, and a key and a certificate in each namespace. All trust the authority."""
    gateway.run(f"mkdir -p /tmp/ca; cd /tmp/ca; pki --gen --type ecdsa --size 256 --outform pem > {authority}.key; "
                f"pki --self --ca --lifetime 10 --in {authority}.key --type ecdsa --dn 'CN={authority}' --outform pem > {authority}.pem")
    for space in spaces:
        gateway.run(f"cd /tmp/ca; pki --gen --type ecdsa --size 256 --outform pem > /tmp/{space}/private/{space}.key; "
                    f"pki --pub --in /tmp/{space}/private/{space}.key --type ecdsa | pki --issue --lifetime 9 --cacert {authority}.pem "
                    f"--cakey {authority}.key --dn 'CN={space}' --san {space}.example --outform pem > /tmp/{space}/x509/{space}.pem; "
                    f"cp {authority}.pem /tmp/{space}/x509ca/")


def by_certificate(here: str, there: str) -> tuple[str, str]:
    return (f"auth = pubkey\n certs = {here}.pem\n id = {here}.example", f"auth = pubkey\n id = {there}.example")


def test_certificates_prove_the_identity_of_the_ends(gateway):
    certificates(gateway, "authority", "gw", "peer")
    gateway.load("gw", connection(OURS, THEIRS, auth=by_certificate("gw", "peer")))
    gateway.load("peer", connection(THEIRS, OURS, auth=by_certificate("peer", "gw")))
    initiated(gateway, "gw")
    assert gateway.ping("10.2.0.1", 10) == 10
    both_count(gateway, 10)
    assert "authentication of 'peer.example' with ECDSA" in gateway.run("cat /tmp/gw/log")

    # A certificate of another authority for the same name.
    certificates(gateway, "impostor", "peer")
    gateway.load("peer", connection(THEIRS, OURS, auth=by_certificate("peer", "gw")))
    until(lambda: gateway.show("ipsec.sas") == [], "the end of the tunnel", timeout=30)
    said = gateway.swanctl("peer", "--initiate --child c --timeout 60")
    assert "AUTH_FAILED" in said or "AUTHENTICATION_FAILED" in said, said
    assert gateway.show("ipsec.sas") == []
    gateway.run("rm /tmp/*/x509/* /tmp/*/x509ca/* /tmp/*/private/*")


# ---- Modes and families


def carries(gateway: Gateway, source: str) -> None:
    """Sends a byte stream, larger than a packet, from a namespace to the router's own address."""
    gateway.run("head -c 100000 /dev/urandom > /tmp/stream; cd /tmp; "
                "ip netns exec gw timeout 60 nc -l 192.0.2.1 5001 > /tmp/got & sleep 0.1; "
                f"for i in $(seq 100); do ip netns exec {source} nc -N 192.0.2.1 5001 < /tmp/stream && break; done; wait; cmp /tmp/stream /tmp/got")


def test_transport_mode_protects_packets_between_the_ends_themselves(gateway):
    child, ends = "mode = transport", (("192.0.2.1", "dynamic"), ("192.0.2.2", "dynamic"))
    gateway.load("gw", connection(*ends, child))
    gateway.load("peer", connection(*reversed(ends), child))
    before = gateway.lost()
    initiated(gateway, "gw")
    assert "tunnel" not in "".join(gateway.show("ipsec.sas"))
    assert gateway.ping("192.0.2.2", 10, source="gw") == 10
    both_count(gateway, 10)
    carries(gateway, "peer")
    assert gateway.lost() == before


@pytest.mark.parametrize(("outer", "inner"), [("6", "6"), ("6", "4"), ("4", "6")], ids=lambda family: f"IPv{family}")
def test_each_family_goes_through_the_other(gateway, outer, inner):
    here, there = (OURS6, THEIRS6) if outer == "6" else (OURS, THEIRS)
    ours, theirs = (OURS6, THEIRS6) if inner == "6" else (OURS, THEIRS)
    ends = (here[0], ours[1]), (there[0], theirs[1])
    gateway.load("gw", connection(*ends))
    gateway.load("peer", connection(*reversed(ends)))
    before = gateway.lost()
    initiated(gateway, "peer")
    to = "2001:db8:2::1" if inner == "6" else "10.2.0.1"
    pings = Pings(gateway, to)
    pings.go_on(20)
    assert f"tunnel {there[0]} {here[0]}" in gateway.show("ipsec.sas")[0]
    spi = gateway.sa("out")["spi"]
    # The initiator has both associations before the responder has, so nothing is lost on the way there.
    assert "success" in gateway.swanctl("gw", "--rekey --child c")
    until(lambda: gateway.sa("out")["spi"] != spi, "new keys", timeout=60)
    pings.go_on(20)
    pings.end()
    assert gateway.lost() == before


@pytest.mark.parametrize("family", ["4", "6"], ids=lambda family: f"IPv{family}")
def test_both_ask_for_encapsulation_in_udp(gateway, family):
    here, there = (OURS6, THEIRS6) if family == "6" else (OURS, THEIRS)
    gateway.load("gw", connection(here, there, more="encap = yes"))
    gateway.load("peer", connection(there, here, more="encap = yes"))
    before = gateway.lost()
    initiated(gateway, "gw")
    assert all("udp 4500 4500" in line for line in gateway.show("ipsec.sas"))
    assert gateway.ping("2001:db8:2::1" if family == "6" else "10.2.0.1", 10) == 10
    both_count(gateway, 10)
    assert gateway.lost() == before


# ---- On the way


def masquerade(gateway: Gateway, ports: str) -> None:
    """Makes the NAT use another port range for the home's packets, and forget its flows."""
    gateway.run(f"""ip netns exec nat nft -f - <<'END'
table ip nat
delete table ip nat
table ip nat {{ chain post {{ type nat hook postrouting priority 100
 oifname out ip protocol udp masquerade to :{ports}
 oifname out masquerade
 }}
}}
END
[ $? = 0 ] && ip netns exec nat conntrack -F""")


def by_will(now: dict[str, int], before: dict[str, int]) -> int:
    """Number of packets dropped by policy since `before`: while strongSwan changes addresses, there is no policy in
    either direction.
    """
    more = {name: n - before.get(name, 0) for name, n in now.items() if n != before.get(name, 0)}
    assert set(more) <= {f"{element} {name}" for element in ("seal", "own") for name in ("policy", "no_sa")} | {"open policy"}, more
    return sum(more.values())


def udp(gateway: Gateway) -> tuple[int, int]:
    """The peer's UDP port in both associations; zeros while one is being changed."""
    words = {line.split()[0]: line.split() for line in gateway.show("ipsec.sas")}
    if set(words) != {"in", "out"}:
        return 0, 0
    inward, out = words["in"], words["out"]
    return int(inward[inward.index("udp") + 1]), int(out[out.index("udp") + 2])


def behind_the_nat(gateway: Gateway, child: str = "", nets: tuple[str, str] = (OURS[1], HOME[1])) -> None:
    auth = "auth = psk\n id = gw", "auth = psk\n id = home"
    secret = 'secrets { ike { secret = "of both"\n } }'
    gateway.load("gw", connection((OURS[0], nets[0]), ("%any", nets[1]), child, auth=auth) + secret)
    gateway.load("home", connection(("10.9.0.2", nets[1]), (OURS[0], nets[0]), child, auth=auth[::-1]) + secret)


def test_a_nat_is_in_between_and_changes_its_port(gateway):
    masquerade(gateway, "6000-6099")
    behind_the_nat(gateway)
    before = gateway.lost()
    initiated(gateway, "home")
    first = udp(gateway)
    assert first[0] == first[1] and 6000 <= first[0] < 6100, first
    assert gateway.ping("10.3.0.1", 10) == 10
    # The NAT forgets. Only a packet of the home shows where it is now; IKE has nothing to say for a while.
    pings = Pings(gateway, "10.1.0.2", source="home", options="-I 10.3.0.1")
    pings.go_on(20)
    masquerade(gateway, "7000-7099")
    until(lambda: udp(gateway)[0] >= 7000, "the new port", timeout=60)
    pings.go_on(40, "packets by the new port")
    second = udp(gateway)
    assert second[0] == second[1] and 7000 <= second[0] < 7100, second
    # And by the tunnel's first path, too.
    assert gateway.ping("10.3.0.1", 10) == 10
    lost = pings.end()
    assert by_will(gateway.lost(), before) <= 3, f"{lost} pings were lost; before: {before}, after: {gateway.lost()}"
    # Replies to the old port are lost in the NAT until the kernel has told strongSwan the new one.
    assert lost < 200, gateway.said("gw")


def test_transport_mode_through_a_nat(gateway):
    masquerade(gateway, "6000-6099")
    behind_the_nat(gateway, "mode = transport", ("dynamic", "dynamic"))
    before = gateway.lost()
    initiated(gateway, "home")
    assert "tunnel" not in "".join(gateway.show("ipsec.sas")) and 6000 <= udp(gateway)[0] < 6100, gateway.show("ipsec.sas")
    assert gateway.ping("192.0.2.1", 10, source="home") == 10
    # The home has summed up its TCP with the address that the NAT has changed. The router's kernel checks the sums.
    carries(gateway, "home")
    assert gateway.lost() == before


def moves(gateway: Gateway, space: str, device: str, old: str, new: str, more: str = "") -> None:
    """Gives an interface another address."""
    gateway.run(f"ip netns exec {space} sysctl -qw net.ipv4.conf.{device}.promote_secondaries=1; "
                f"ip -n {space} address add {new}/24 dev {device}; ip -n {space} address delete {old}/24 dev {device}; {more}")


@pytest.mark.parametrize("space", ["peer", "gw"])
def test_an_end_moves_to_another_address(gateway, space):
    auth = "auth = psk\n id = gw", "auth = psk\n id = peer"
    secret = 'secrets { ike { secret = "of both"\n } }'
    ends = ("192.0.2.1" if space == "peer" else "%any", OURS[1]), ("192.0.2.2" if space == "gw" else "%any", THEIRS[1])
    gateway.load("gw", connection(*ends, auth=auth) + secret)
    gateway.load("peer", connection(*reversed(ends), auth=auth[::-1]) + secret)
    # strongSwan would move to IPv6, which is there already.
    gateway.run("ip netns exec peer sysctl -qw net.ipv6.conf.all.disable_ipv6=1")
    before = gateway.lost()
    initiated(gateway, space)
    pings = Pings(gateway, "10.2.0.1")
    pings.go_on(20)
    old, new = ("192.0.2.2", "192.0.2.52") if space == "peer" else ("192.0.2.1", "192.0.2.51")
    # Routes by the interface's addresses are as before; that of the other end's network goes by the new one.
    more = {"peer": f"ip -n peer route replace 10.1.0.0/24 via 192.0.2.1 src 10.2.0.1; ip -n gw route replace 10.2.0.0/24 via {new}",
            "gw": f"ip -n gw route replace 10.2.0.0/24 via 192.0.2.2; ip -n peer route replace 10.1.0.0/24 via {new} src 10.2.0.1"}[space]
    try:
        moves(gateway, space, "eth0" if space == "peer" else "wan", old, new, more)
        ends_are = (f"tunnel {new} 192.0.2.1", f"tunnel 192.0.2.1 {new}") if space == "peer" else (f"tunnel 192.0.2.2 {new}", f"tunnel {new} 192.0.2.2")
        # The old associations remain for a while, so there may be more.
        until(lambda: [end for line in gateway.show("ipsec.sas") for end in ends_are if end in line] == list(ends_are), "the new address",
              timeout=90)
        pings.go_on(20, "packets by the new address")
        pings.end()
        assert by_will(gateway.lost(), before) <= 20, f"before: {before}, after: {gateway.lost()}"
    finally:
        more = {"peer": "ip -n peer route replace 10.1.0.0/24 via 192.0.2.1 src 10.2.0.1; ip -n gw route replace 10.2.0.0/24 via 192.0.2.2",
                "gw": "ip -n gw route replace 10.2.0.0/24 via 192.0.2.2; ip -n peer route replace 10.1.0.0/24 via 192.0.2.1 src 10.2.0.1"}[space]
        moves(gateway, space, "eth0" if space == "peer" else "wan", new, old, more)
