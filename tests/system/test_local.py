"""Packets of any length to the router itself: reassembled, answered and fragmented.

Shows: ping of up to 64 KiB, IPv4 and IPv6, to both of the router's addresses; a UDP datagram of 60,000
bytes is refused like a short one; the router holds nothing afterwards.
"""

import errno
import socket

import pytest
from net import Failed
from topology import CLIENT, SERVER
from traffic import ping

pytestmark = pytest.mark.ashlar

# IPv4 holds 65,535 bytes with its header, IPv6 here too.
LONGEST = {4: 65_507, 6: 65_487}


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("side", [CLIENT, SERVER], ids=["near", "far"])
def test_pings_of_every_size_are_answered(network, version, side):
    for size in (56, 1472, 2000, 8000, 30_000, 65_000, LONGEST[version]):
        ping(network, version, side.router[version], size)
    held = {e["name"]: c["held"] for e in network.router.stats()["elements"] for c in e["copies"] if c["held"]}
    assert not held, held
    assert network.router.stop() == 0


@pytest.mark.parametrize("version", [4, 6])
def test_a_long_datagram_is_refused_like_a_short_one(network, version):
    family = socket.AF_INET if version == 4 else socket.AF_INET6
    for size in (8, 8000, 60_000):
        asking = network.client.socket(family, socket.SOCK_DGRAM)
        asking.settimeout(30)
        asking.connect((CLIENT.router[version], 4242))
        asking.send(bytes(size))
        try:
            asking.recv(1)
        except OSError as error:
            assert error.errno == errno.ECONNREFUSED, f"{size} bytes: {error!r}"
        else:
            raise Failed("somebody answered")
