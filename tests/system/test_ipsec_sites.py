"""Two sites connected by a tunnel; each gateway is described by a file with a section [ipsec].

    client eth0 --- lan |gate-a| wan --- wan |gate-b| lan --- eth0 server
    10.1.0.2             192.0.2.1          192.0.2.2         10.2.0.2

Shows: packets between sites are encrypted; keys are changed by reloads, in the order of docs/ipsec.md, without packet
loss; a mistake in the section is reported and does not affect traffic.
"""

import os
import secrets
from pathlib import Path

import pytest
from net import Lab, Namespace, until
from taps import mac_of
from topology import ASHLAR, AshlarRouter
from traffic import Pings, answered

pytestmark = pytest.mark.ashlar

GRAPH = """
ipsec :: IPsecTable($IPSEC);
FromDevice(lan) -> Classifier(12/0800) -> Strip(14) -> CheckIPHeader -> seal :: IPsecEncap(TABLE ipsec)
    -> EtherEncap(0x0800, wan:eth, $PEER) -> ToDevice(wan);
FromDevice(wan) -> Classifier(12/0800) -> Strip(14) -> CheckIPHeader -> open :: IPsecDecap(TABLE ipsec)
    -> EtherEncap(0x0800, lan:eth, $HOST) -> ToDevice(lan);
"""
TO_B, TO_A = 0x1000, 0x2000  # the first numbers of associations: n is added for each change of keys


class Site:
    """A gateway, and the host behind it."""

    def __init__(self, lab: Lab, name: str, number: int, gate: Namespace, host: Namespace):
        self.lab, self.name, self.number, self.gate, self.host = lab, name, number, gate, host
        self.net, self.end = f"10.{number}.0.0/24", f"192.0.2.{number}"
        self.address = f"10.{number}.0.2"
        self.file = lab.folder / f"{name}.toml"
        self.router = AshlarRouter(gate, workers=1)
        self.router.definitions = list
        self.router.socket = lab.folder / f"{name}.sock"

    def describe(self, other: "Site", out: list[int], into: list[int], keys: dict[int, Path]) -> None:
        """Writes the file with associations of these numbers."""
        sas = [("out", spi, self.end, other.end) for spi in out] + [("in", spi, other.end, self.end) for spi in into]
        text = [f'[[router]]\nname = "{self.name}"\ngraph = "{self.lab.folder / "site.click"}"\n'
                f'definitions = {{ PEER = "{mac_of(other.gate, "wan")}", HOST = "{mac_of(self.host, "eth0")}" }}\n[ipsec]\n']
        text += [f'[[ipsec.sa]]\ndirection = "{way}"\nspi = {spi}\nreqid = 1\nsuite = "aes128gcm16"\n'
                 f'tunnel = ["{src}", "{dst}"]\nkey_file = "{keys[spi]}"\n' for way, spi, src, dst in sas]
        text += [f'[[ipsec.policy]]\ndirection = "{way}"\nsrc = "{src}"\ndst = "{dst}"\nprotect = 1\n'
                 for way, src, dst in (("out", self.net, other.net), ("in", other.net, self.net))]
        self.file.write_text("\n".join(text))

    def numbers(self) -> set[int]:
        """Numbers of the router's associations."""
        return {int(word, 16) for word in self.router.cli("show", "ipsec.sas").split() if word.startswith("0x")}


@pytest.fixture
def sites(lab: Lab) -> tuple[Site, Site]:
    client, gate_a, gate_b, server = (lab.namespace(name) for name in ("client", "gate-a", "gate-b", "server"))
    lab.link(client, "eth0", gate_a, "lan")
    lab.link(gate_a, "wan", gate_b, "wan")
    lab.link(gate_b, "lan", server, "eth0")
    (lab.folder / "site.click").write_text(GRAPH)
    a, b = Site(lab, "a", 1, gate_a, client), Site(lab, "b", 2, gate_b, server)
    for site in (a, b):
        router = f"10.{site.number}.0.1"
        site.host.ip(f"address add {site.address}/24 dev eth0")
        site.host.ip(f"neigh add {router} lladdr {mac_of(site.gate, 'lan')} dev eth0 nud permanent")
        site.host.ip(f"route add default via {router}")
        site.gate.sysctl(net__ipv4__ip_forward=0)
    return a, b


def key(folder: Path, spi: int) -> Path:
    path = folder / f"{spi:x}.key"
    path.touch(mode=0o600)
    path.write_text(secrets.token_hex(20) + "\n")
    return path


def test_keys_are_changed_by_reloads_and_no_packet_is_lost(lab, sites):
    a, b = sites
    keys = {first + n: key(lab.folder, first + n) for first in (TO_B, TO_A) for n in range(3)}

    def write(to_b: tuple[list[int], list[int]], to_a: tuple[list[int], list[int]]) -> None:
        """Writes, for each direction, the associations by which each end encrypts and decrypts."""
        (a_seals, b_opens), (b_seals, a_opens) = ([[first + n for n in ends] for ends in way]
                                                  for first, way in ((TO_B, to_b), (TO_A, to_a)))
        a.describe(b, a_seals, a_opens, keys)
        b.describe(a, b_seals, b_opens, keys)

    write(([0], [0]), ([0], [0]))
    for site in sites:
        site.router.start(site.file)
    until(lambda: a.host.run("ping", "-c1", "-W1", b.address, ok=None).status == 0, "the tunnel", timeout=20)
    answered(a.host, b.address)
    pings = Pings(a.host, b.address)
    # First both ends decrypt by the new keys, too; then they encrypt by the new keys; then the old keys are removed.
    for n in range(2):
        for seals, opens in (([n], [n, n + 1]), ([n, n + 1], [n, n + 1]), ([n + 1], [n + 1])):
            write((seals, opens), (seals, opens))
            for site in sites:
                said = site.router.cli("reload")
                before = len(pings.answered())
                until(lambda: len(pings.answered()) > before + 5, f"answers after the reload of {site.name}: {said}", timeout=20)
        assert a.numbers() == b.numbers() == {TO_B + n + 1, TO_A + n + 1}
    # Mistakes are told (a key that others can read, and of the wrong length), and nothing has changed.
    os.chmod(keys[TO_B + 2], 0o644)
    a.file.write_text(a.file.read_text().replace('suite = "aes128gcm16"', 'suite = "aes128-sha1"', 1))
    refused = lab.run(ASHLAR, "reload", "--socket", str(a.router.socket), ok=None)
    assert refused.status == 1 and "a.toml" in refused.err, str(refused)
    assert a.numbers() == {TO_B + 2, TO_A + 2}
    count, lost = pings.lost()
    assert lost == 0, f"{lost} of {count}"
    for site in sites:
        told = lab.run(ASHLAR, "ipsec", "show", "--socket", str(site.router.socket)).out
        assert "seal: nothing dropped" in told and "open: nothing dropped" in told, told
        assert site.router.stop() == 0
