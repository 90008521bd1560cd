"""Two balancers that replace each other: by VRRP, or as two next hops."""

import time

import pytest
from balancer_pairs import NAMES, EcmpBed, VrrpBed
from daemons import available
from multistage import LAN, WAN, Connection, ping
from net import until

pytestmark = [pytest.mark.ashlar, pytest.mark.long]


def strict(bed) -> None:
    """Makes boxes pass only packets of connections whose beginning they have seen: so both directions must meet at a
    box.
    """
    for box in bed.boxes.values():
        box.sysctl(net__netfilter__nf_conntrack_tcp_loose=0)
        box.run("nft", "add table ip f; add chain ip f forward { type filter hook forward priority 0; policy drop; }; "
                       "add rule ip f forward ip protocol { icmp, udp } accept; "
                       "add rule ip f forward ct state established accept; add rule ip f forward tcp flags syn ct state new accept")


def all_work(connections: list[Connection]) -> bool:
    return all(connection.works() for connection in connections)


@pytest.mark.skipif(not available(), reason="needs frr")
def test_a_pair_shares_front_ports_by_vrrp(lab):
    bed = VrrpBed(lab, ["r1", "r2"])
    bed.start()
    left = {"lan": ["left"], "wan": ["left"]}
    until(lambda: bed.masters() == left, "the left balancer to have the ports", timeout=30)
    until(lambda: ping(bed.lan, WAN) and ping(bed.wan, LAN), "packets to cross", timeout=30)
    assert "lladdr 00:00:5e:00:01:01" in bed.lan.ip("neigh show 10.0.1.1").out
    strict(bed)
    connections = [Connection(bed, 5000 + n) for n in range(8)]
    assert all_work(connections)
    until(lambda: (outcome := bed.load(1000, 1.0)).lost == outcome.twice == 0, "a second in which each frame is passed once", timeout=60)

    # A cable is unplugged: the other balancer takes this port.
    side = bed.sides["lan"]
    side.ip("link set left down")
    until(lambda: bed.masters() == {"lan": ["right"], "wan": ["left"]}, "the right balancer to have the port", timeout=30)
    assert all_work(connections)
    side.ip("link set left up")
    until(lambda: bed.masters() == left, "the left balancer to have the port again", timeout=30)
    assert all_work(connections)

    # The balancer is gone.
    load = bed.begin(1000, 6.0)
    time.sleep(max(load.begins - time.time(), 0) + 1)
    bed.lose("left")
    outcome = load.end()
    until(lambda: bed.masters() == {"lan": ["right"], "wan": ["right"]}, "the right balancer to have both", timeout=30)
    print(f"\nVRRP: out for {outcome.longest_gap_ms:.0f} ms, {outcome.lost} packets of 1,000/s lost")
    assert outcome.twice == 0
    until(lambda: bed.load(1000, 1.0).lost == 0, "packets by the right balancer", timeout=60)
    assert all_work(connections)


def test_a_pair_behind_two_next_hops(lab):
    bed = EcmpBed(lab, ["r1", "r2"])
    bed.start()
    until(lambda: all(ping(bed.lan, WAN) and ping(bed.wan, LAN) for _ in range(4)), "packets to cross", timeout=30)
    until(bed.tables_are_equal, "equal tables")
    strict(bed)
    before = {name: bed.came_in(name) for name in NAMES}
    connections = [Connection(bed, 5000 + n) for n in range(32)]
    assert all_work(connections) and all_work(connections)
    # Each direction came in by both balancers, and both directions of each connection met at one box.
    for name in NAMES:
        assert all(now - then > 32 for now, then in zip(bed.came_in(name), before[name]))
    load = bed.begin(1000, 8.0)
    time.sleep(max(load.begins - time.time(), 0) + 1)
    bed.lose("right")
    assert all_work(connections)
    outcome = load.end()
    assert outcome.twice == 0
    # Boxes ask for their next hops again.
    until(lambda: bed.load(1000, 1.0).lost == 0, "flows to cross by the other one", timeout=20)
    print(f"\ntwo next hops: {outcome.lost} packets of 1,000/s lost")
    assert all_work(connections)
