"""Cards with Linux's own drivers, by AF_XDP: virtio, whose driver runs XDP programs, and e1000e, for which the kernel
runs them.

Shows for each: frames of all sizes cross both ways unchanged, in order, with their VLAN tags; what is for the guest's own
address goes to its kernel, and the guest stays reachable while the router runs; a cable that is pulled out (virtio); a card that is unplugged
under traffic works again when it has come back. A bare name takes AF_XDP on virtio, and AF_PACKET on e1000e, and says why.
"""

from collections.abc import Iterator

import pytest
from guest import Guest, Router, mac
from net import Lab, until
from scapy.layers.inet import ICMP, IP
from scapy.layers.l2 import ARP, Ether
from test_cards import FORWARD, crosses, frame, ready

OWN, FRIEND = "192.0.2.77", "192.0.2.1"
FRIEND_MAC = "02:00:00:00:99:02"
MODULES = {"virtio-net-pci": "virtio_net", "e1000e": "e1000e"}


@pytest.fixture(scope="module", params=MODULES)
def router(request: pytest.FixtureRequest) -> Iterator[Router]:
    """A guest whose cards are eth0 and eth1."""
    with Lab() as lab:
        made = Router(Guest(lab, request.param))
        made.guest.run(f"modprobe {MODULES[request.param]}; modprobe af_packet")
        made.addresses = ["af_xdp:eth0", "af_xdp:eth1"]
        up(made)
        made.write("forward", FORWARD)
        yield made


def up(router: Router) -> None:
    """Waits until both interfaces exist, and sets them up."""
    for name in ("eth0", "eth1"):
        until(lambda n=name: not router.guest.run(f"ip link set {n} up 2>&1", ok=False), name, timeout=120)


@pytest.fixture
def forwarding(router: Router) -> Iterator[Router]:
    with router.running("forward"):
        ready(router)
        yield router


def test_frames_cross_both_ways_in_order_with_their_tags(forwarding):
    sizes = [64, 65, 127, 128, 256, 512, 1024, 1500, 1514]
    for way in ((0, 1), (1, 0)):
        crosses(forwarding, [frame(n, sizes[n % len(sizes)]) for n in range(180)], way)
    crosses(forwarding, [frame(n, 68, vlan=100 + n) for n in range(32)])
    for number in (0, 1):
        port = forwarding.port(number)
        assert (port["driver"], port["up"]) == ("af_xdp", True)


def test_the_guest_stays_reachable_by_its_own_address(forwarding):
    guest = forwarding.guest
    here, there = guest.cables
    guest.run(f"ip addr replace {OWN}/24 dev eth0")
    ask = bytes(Ether(dst="ff:ff:ff:ff:ff:ff", src=FRIEND_MAC) / ARP(op=1, hwsrc=FRIEND_MAC, psrc=FRIEND, pdst=OWN))
    seen: list[Ether] = []

    def answer(frame: bytes, is_it) -> bool:
        here.offer(frame)
        seen.extend(Ether(one) for one in here.take())
        return any(is_it(one) for one in seen)

    until(lambda: answer(ask, lambda one: ARP in one and one[ARP].op == 2 and one[ARP].psrc == OWN), "an answer to ARP", timeout=180)
    there.take()
    # The kernel sends an ARP request for its neighbour, too, and gets the reply.
    tell = bytes(Ether(dst=mac(1), src=FRIEND_MAC) / ARP(op=2, hwsrc=FRIEND_MAC, psrc=FRIEND, hwdst=mac(1), pdst=OWN))
    here.offer(tell)
    ping = bytes(Ether(dst=mac(1), src=FRIEND_MAC) / IP(src=FRIEND, dst=OWN) / ICMP(seq=7) / b"hello")
    until(lambda: answer(ping, lambda one: ICMP in one and one[ICMP].type == 0 and one[ICMP].seq == 7), "a ping's answer", timeout=180)
    crosses(forwarding, [frame(n) for n in range(64)])
    assert not [one for one in there.take() if OWN.encode() in one or Ether(one).haslayer(ARP)]
    guest.run(f"ip addr del {OWN}/24 dev eth0")


def test_a_cable_that_is_pulled_out_comes_back(forwarding):
    if forwarding.guest.model == "e1000e":
        pytest.skip("QEMU's e1000e does not tell Linux's driver of its cable: the kernel's carrier stays, too")
    forwarding.guest.link(0, False)
    until(lambda: not forwarding.port(0)["up"], "the link to be down", timeout=180)
    assert forwarding.port(1)["up"]
    forwarding.guest.link(0, True)
    until(lambda: forwarding.port(0)["up"], "the link to be up", timeout=180)
    ready(forwarding)
    crosses(forwarding, [frame(n) for n in range(64)])


def test_a_card_that_is_unplugged_works_again_when_it_is_back(forwarding):
    guest = forwarding.guest
    guest.unplug(0)
    for n in range(50):
        guest.cables[1].offer(frame(n))
    until(lambda: not guest.has_card(0), "the card to be let go", timeout=180)
    until(lambda: not forwarding.port(0)["up"], "the link to be down", timeout=180)
    guest.plug(0)
    up(forwarding)
    ready(forwarding)
    crosses(forwarding, [frame(n) for n in range(64)])
    crosses(forwarding, [frame(n) for n in range(64)], (1, 0))


def test_a_bare_name_selects_the_best_kind_of_port(router):
    addresses, router.addresses = router.addresses, ["eth0", "eth1"]
    try:
        with router.running("forward"):
            ready(router)
            crosses(router, [frame(n) for n in range(64)])
            driver, log = router.port(0)["driver"], router.log()
    finally:
        router.addresses = addresses
    if router.guest.model.startswith("virtio"):
        assert driver == "af_xdp" and "eth0 is opened by AF_XDP, since its driver runs XDP programs" in log, log
    else:
        assert driver == "af_packet" and "eth0 is opened by AF_PACKET, since e1000e runs no XDP programs" in log, log
