"""IPsec controlled by the kernel of the router's namespace, with a Linux kernel at the other end (gateway.py).

Shows: associations set by `ip xfrm` encrypt and decrypt both ways, and their counters are reported to the kernel;
removed ones are not used; an association whose addresses the kernel changes (MIGRATE) continues. With strongSwan at
both ends, a trap policy starts the negotiation of a tunnel, keys change under traffic without a loss at the router, a
limit of packets causes a rekey, and both ends count the same. A router that is killed continues with the same
associations.
"""

import re
from collections.abc import Iterator

import pytest
from gateway import Gateway, connection
from guest import MODELS, Guest
from net import Lab, until

KEYS = ["0x000102030405060708090a0b0c0d0e0f10111213", "0x202122232425262728292a2b2c2d2e2f30313233"]
OURS, THEIRS = ("192.0.2.1", "10.1.0.0/24"), ("192.0.2.2", "10.2.0.0/24")


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


# Written to XFRM's netlink socket: a policy, and its template's old and new ends (struct xfrm_userpolicy_id, xfrm_user_migrate).
MIGRATE = """
import ipaddress, socket, struct, sys
def address(text): return ipaddress.ip_address(text).packed
def net(text):
    net = ipaddress.ip_network(text)
    return net.network_address.packed.ljust(16, bytes(1)), net.prefixlen
src, dst, way, *ends = sys.argv[1:]
(src, src_bits), (dst, dst_bits) = net(src), net(dst)
selector = dst + src + struct.pack("=4H H BBB 3x iI", 0, 0, 0, 0, socket.AF_INET, dst_bits, src_bits, 0, 0, 0)
policy = selector + struct.pack("=IB3x", 0, {"in": 0, "out": 1, "fwd": 2}[way])
old_src, old_dst, new_src, new_dst = (address(end).ljust(16, bytes(1)) for end in ends)
moves = old_dst + old_src + new_dst + new_src + struct.pack("=BBHIHH", 50, 1, 0, 1, socket.AF_INET, socket.AF_INET)
body = policy + struct.pack("=HH", 4 + len(moves), 17) + moves
kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 6)
kernel.send(struct.pack("=IHHII", 16 + len(body), 0x21, 5, 1, 0) + body)
error = struct.unpack("=i", kernel.recv(4096)[16:20])[0]
sys.exit(f"the kernel's answer is {error}" if error else 0)
"""


def test_the_kernel_gives_associations_other_addresses(gateway):
    """One end of the tunnel moves: both kernels are notified, and the router uses the new address."""
    run, new = gateway.run, "192.0.2.51"
    run(f"cat > /run/migrate.py <<'END'{MIGRATE}END")
    before = gateway.sa("out"), gateway.sa("in"), gateway.lost()
    run(f"ip -n gw address add {new}/24 dev wan")
    for space in ("gw", "peer"):
        sends = OURS, THEIRS, "out" if space == "gw" else "fwd in", [OURS[0], THEIRS[0], new, THEIRS[0]]
        comes = THEIRS, OURS, "fwd in" if space == "gw" else "out", [THEIRS[0], OURS[0], THEIRS[0], new]
        for (_, src), (_, dst), ways, ends in (sends, comes):
            for way in ways.split():
                run(f"ip netns exec {space} python3 /run/migrate.py {src} {dst} {way} {' '.join(ends)}")
    ends = f"tunnel 192.0.2.2 {new}", f"tunnel {new} 192.0.2.2"
    # The old associations still decrypt for a while, so that packets in flight are not lost.
    until(lambda: [end for line in gateway.show("ipsec.sas") for end in ends if end in line] == list(ends), "the new address", timeout=30)
    until(lambda: len(gateway.show("ipsec.sas")) == 2, "the old ones to be gone", timeout=30)
    assert gateway.ping("10.2.0.1", 20) == 20
    # The same associations keep their counters and sequence numbers.
    for way, was in zip(("out", "in"), before[:2]):
        now = gateway.sa(way)
        assert (now["spi"], int(now["packets"])) == (was["spi"], int(was["packets"]) + 20), (was, now)
    assert gateway.lost() == before[2]
    told = "ip -n gw -s xfrm state get src {} dst 192.0.2.2 proto esp spi 0x1001"
    until(lambda: re.search(r"oseq 0x[1-9a-f]", run(told.format(new))), "the kernel to know the number", timeout=30)


def test_removed_associations_are_not_used(gateway):
    run = gateway.run
    run("ip -n gw xfrm state delete src 192.0.2.2 dst 192.0.2.51 proto esp spi 0x1002")
    until(lambda: len(gateway.show("ipsec.sas")) == 1, "the table", timeout=30)
    before = gateway.drops("open").get("no_sa", 0)
    assert gateway.ping("10.2.0.1", 2) == 0
    assert gateway.drops("open")["no_sa"] == before + 2
    for space in ("gw", "peer"):
        run(f"ip -n {space} xfrm state flush; ip -n {space} xfrm policy flush")
    run("ip -n gw address delete 192.0.2.51/24 dev wan")
    until(lambda: gateway.show("ipsec.sas") == [] and len(gateway.show("ipsec.policies")) == 2, "an empty table", timeout=30)
    assert gateway.ping("192.0.2.2", 2) == 2


def test_strongswan_negotiates_when_a_packet_asks_and_rekeys_without_loss(gateway):
    gateway.charon("peer")
    gateway.charon("gw")
    gateway.load("peer", connection(THEIRS, OURS))
    gateway.load("gw", connection(OURS, THEIRS, "start_action = trap"))
    until(lambda: any("protect" in line for line in gateway.show("ipsec.policies")), "the trap", timeout=30)
    until(lambda: gateway.ping("10.2.0.1") == 1, "the tunnel", timeout=120)
    missing, spis = gateway.drops("seal").get("no_sa", 0), {gateway.sa("out")["spi"]}
    gateway.run("ip netns exec site ping -q -c 600 -i 0.05 -W 5 10.2.0.1 > /run/ping 2>&1 & echo $! > /run/ping.pid")
    for space in ("peer", "gw", "peer", "gw"):
        assert "success" in gateway.swanctl(space, "--rekey --child c")
        until(lambda: gateway.sa("out")["spi"] not in spis, "a new association", timeout=60)
        spis.add(gateway.sa("out")["spi"])
        # Each association carries some packets before it is replaced.
        until(lambda: int(gateway.sa("out")["packets"]) > 20, "packets", timeout=60)
    until(lambda: "received" in gateway.run("cat /run/ping"), "the end of the packets", timeout=180)
    received = int(re.search(r"(\d+) received", gateway.run("cat /run/ping"))[1])
    # Packets lost between the deletion of the old association and the new one are the Linux kernel's loss.
    theirs = sum(int(n) for n in re.findall(r"XfrmAcquireError\s+(\d+)", gateway.run("ip netns exec peer cat /proc/net/xfrm_stat")))
    assert (gateway.drops("seal").get("no_sa", 0), 600 - received) == (missing, theirs), gateway.show("open.named_drops")
    # Both ends, and both daemons, have counted the same.
    ours, peers = (re.search(r"in  \S+ +(\d+) bytes.*\n +out \S+ +(\d+) bytes", gateway.swanctl(space, "--list-sas"))
                   for space in ("gw", "peer"))
    assert (ours[1], ours[2]) == (peers[2], peers[1])


def test_a_killed_router_goes_on_with_the_same_associations(gateway):
    before = gateway.sa("out")
    gateway.run("kill -9 $(pgrep -xf '/run/ashlar run .*' | head -n1)")
    until(lambda: gateway.ping("10.2.0.1") == 1, "the tunnel", timeout=120)
    after = gateway.sa("out")
    assert after["spi"] == before["spi"] and int(after["number"]) > int(before["number"]) + (1 << 25)


def test_a_limit_of_packets_has_strongswan_rekey(gateway):
    gateway.load("gw", connection(OURS, THEIRS, "rekey_packets = 30\n rand_packets = 0\n life_packets = 100000"))
    gateway.swanctl("gw", "--initiate --child c")
    until(lambda: gateway.show("ipsec.sas") and gateway.ping("10.2.0.1") == 1, "the tunnel", timeout=60)
    first = gateway.sa("out")["spi"]
    gateway.ping("10.2.0.1", 60, 0.05)
    until(lambda: gateway.sa("out")["spi"] != first, "new keys", timeout=60)
