"""IPsec with scapy as the peer: each suite, mode and address family, with ESN and UDP, in both directions.

The packets come from a file and go to files, so nothing here depends on time.
"""

import re
import subprocess

import pytest
from topology import ASHLAR

from scapy.config import conf
conf.ipv6_enabled = True
from scapy.layers.inet import IP, UDP  # noqa: E402
from scapy.layers.inet6 import IPv6  # noqa: E402
from scapy.layers.ipsec import ESP, SecurityAssociation  # noqa: E402
from scapy.layers.l2 import Ether  # noqa: E402
from scapy.packet import Packet, Raw  # noqa: E402
from scapy.utils import rdpcap, wrpcap  # noqa: E402

pytestmark = pytest.mark.ashlar

SALT = "01020304"
# GMAC is not one of scapy's. Of each suite: scapy's names, the cipher's key, the code's key.
SUITES = {
    "aes128gcm16": ("AES-GCM", None, 16, 0),
    "aes192gcm16": ("AES-GCM", None, 24, 0),
    "aes256gcm16": ("AES-GCM", None, 32, 0),
    "chacha20poly1305": ("CHACHA20-POLY1305", None, 32, 0),
    "aes128-sha1": ("AES-CBC", "HMAC-SHA1-96", 16, 20),
    "aes192-sha1": ("AES-CBC", "HMAC-SHA1-96", 24, 20),
    "aes128-sha256": ("AES-CBC", "SHA2-256-128", 16, 32),
    "aes256-sha256": ("AES-CBC", "SHA2-256-128", 32, 32),
    "aes256-sha512": ("AES-CBC", "SHA2-512-256", 32, 64),
    "null-sha1": ("NULL", "HMAC-SHA1-96", 0, 20),
    "null-sha256": ("NULL", "SHA2-256-128", 0, 32),
    "null-sha512": ("NULL", "SHA2-512-256", 0, 64),
}
MODES = ["transport", "tunnel4", "tunnel6"]
ENDS = {"tunnel4": ("192.0.2.1", "192.0.2.2"), "tunnel6": ("2001:db8::1", "2001:db8::2")}
LENGTHS = [0, 1, 15, 16, 1300]

# Frames to 02:... are sealed and to be opened, those to 04:... are to be sealed.
GRAPH = """
FromDevice(pcap:in.pcap) -> in :: Classifier(12/0800 0/02, 12/86dd 0/02, 12/0800, 12/86dd);
open :: IPsecDecap(TABLE ipsec);
seal :: IPsecEncap(TABLE ipsec);
in[0] -> Strip(14) -> CheckIPHeader -> open -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> plain :: ToDevice(pcap:plain.pcap);
in[1] -> Strip(14) -> CheckIP6Header -> [1] open; open[1] -> EtherEncap(0x86dd, 2:0:0:0:0:1, 2:0:0:0:0:2) -> plain;
in[2] -> Strip(14) -> CheckIPHeader -> seal -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> sealed :: ToDevice(pcap:sealed.pcap);
in[3] -> Strip(14) -> CheckIP6Header -> [1] seal; seal[1] -> EtherEncap(0x86dd, 2:0:0:0:0:1, 2:0:0:0:0:2) -> sealed;
"""


def cipher_key(spi: int, length: int) -> bytes:
    """A key for each association: the router requires distinct keys where initialisation vectors are counters."""
    return (spi.to_bytes(4, "big") + bytes(range(1, length + 1)))[:length]


def scapy_end(name: str, spi: int, mode: str, esn: bool, udp: bool) -> SecurityAssociation:
    crypt, auth, key, auth_key = SUITES[name]
    key = cipher_key(spi, key)
    if auth is None:
        key += bytes.fromhex(SALT)
    kwargs = {}
    if mode in ENDS:
        src, dst = ENDS[mode]
        kwargs["tunnel_header"] = (IP if mode == "tunnel4" else IPv6)(src=src, dst=dst)
    if udp:
        kwargs["nat_t_header"] = UDP(sport=4500, dport=4500)
    return SecurityAssociation(ESP, spi=spi, seq_num=1, crypt_algo=crypt, crypt_key=key or None, auth_algo=auth,
                               auth_key=bytes(range(1, auth_key + 1)) or None, esn_en=esn, esn=0, **kwargs)


def line(way: str, name: str, spi: int, mode: str, esn: bool, udp: bool) -> str:
    _, auth, key, auth_key = SUITES[name]
    text = f"sa {way} spi {spi} reqid {spi} suite {name} window 64"
    if mode in ENDS:
        text += " tunnel {} {}".format(*ENDS[mode])
    if key:
        text += " ENC_KEY " + cipher_key(spi, key).hex() + ("" if auth else SALT)
    if auth_key:
        text += " AUTH_KEY " + bytes(range(1, auth_key + 1)).hex()
    return text + (" esn" if esn else "") + (" udp 4500 4500" if udp else "")


def inner(version: int, case: int, length: int) -> Packet:
    payload = Raw(bytes(n % 251 for n in range(length)))
    if version == 4:
        return IP(src=f"10.{case >> 8}.{case & 255}.1", dst="10.255.0.1", ttl=9) / UDP(sport=1, dport=2) / payload
    return IPv6(src=f"fd00:{case:x}::1", dst="fd01::1", hlim=9) / UDP(sport=1, dport=2) / payload


def cases() -> list[tuple[str, str, int, bool, bool]]:
    """Suite, mode, IP version, ESN, UDP. Scapy has no UDP encapsulation over IPv6, and no ESN in authentication codes.
    """
    made = []
    for name in SUITES:
        for mode in MODES:
            for version in (4, 6):
                outer = {"transport": version, "tunnel4": 4, "tunnel6": 6}[mode]
                for esn in (False, True):
                    for udp in (False, True):
                        if (udp and outer == 6) or (esn and SUITES[name][1]):
                            continue
                        made.append((name, mode, version, esn, udp))
    return made


def run(folder: str, text: str) -> str:
    path = f"{folder}/ipsec.click"
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
    done = subprocess.run([ASHLAR, "run", path, "--report"], cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def router(lines: list[str]) -> str:
    return "ipsec :: IPsecTable(\n" + ",\n".join(lines) + ");\n" + GRAPH


def test_scapy_decrypts_and_encrypts_compatibly(tmp_path):
    lines, frames, opened, sealed = [], [], [], []
    for case, (name, mode, version, esn, udp) in enumerate(cases()):
        spi = 1000 + case
        lines += [line("in", name, spi, mode, esn, udp), line("out", name, spi, mode, esn, udp)]
        net = f"10.{case >> 8}.{case & 255}.0/24" if version == 4 else f"fd00:{case:x}::/32"
        every = "0.0.0.0/0" if version == 4 else "::/0"
        lines += [f"policy {way} src {net} dst {every} protect {spi}" for way in ("in", "out")]
        ours = scapy_end(name, spi, mode, esn, udp)
        for length in LENGTHS:
            packet = inner(version, case, length)
            # Converting to bytes fills in all lengths and checksums.
            packet = packet.__class__(bytes(packet))
            frames.append(Ether(dst="04:00:00:00:00:01") / packet)
            sealed.append((case, bytes(packet)))
            frames.append(Ether(dst="02:00:00:00:00:01") / ours.encrypt(packet))
            opened.append(bytes(packet))
    wrpcap(f"{tmp_path}/in.pcap", [Ether(bytes(frame)) for frame in frames])
    report = run(str(tmp_path), router(lines))
    plain = [bytes(frame)[14:] for frame in rdpcap(f"{tmp_path}/plain.pcap")]
    missing = [n for n, packet in enumerate(opened) if packet not in set(plain)]
    assert not missing, (len(missing), [cases()[n // len(LENGTHS)] for n in missing][:9], report[-2000:])
    assert sorted(plain) == sorted(opened)
    # Packets that the router has sealed.
    theirs = [scapy_end(name, 1000 + n, mode, esn, udp) for n, (name, mode, _, esn, udp) in enumerate(cases())]
    seen = []
    for frame in rdpcap(f"{tmp_path}/sealed.pcap"):
        packet = frame.payload
        esp = packet[ESP] if ESP in packet else ESP(bytes(packet[UDP].payload))
        case = esp.spi - 1000
        if ESP not in packet:
            packet[UDP].remove_payload()
            packet = packet / esp
        clear = theirs[case].decrypt(packet)
        seen.append((case, bytes(clear.__class__(bytes(clear)))))
    assert sorted(seen) == sorted(sealed)


def test_wrong_packets_are_dropped_by_name(tmp_path):
    name, spi = "aes128-sha256", 1000
    ours = scapy_end(name, spi, "tunnel4", False, False)
    packets = [ours.encrypt(IP(bytes(inner(4, 0, 40)))) for _ in range(200)]
    good = packets[:100]
    wrong = scapy_end("aes128-sha256", spi, "tunnel4", False, False)
    wrong.auth_key = b"x" * 32
    forged = [wrong.encrypt(IP(bytes(inner(4, 0, 40))), seq_num=150 + n) for n in range(10)]
    stranger = scapy_end(name, 999_999, "tunnel4", False, False)
    unknown = [stranger.encrypt(IP(bytes(inner(4, 0, 40)))) for _ in range(20)]
    # The good packets, reordered within the window; the last packet, one to the left of its window, and the good ones again.
    order = [*good[:50][::-1], *good[50:], packets[199], packets[120], *good]
    sent = [*order, *forged, *unknown]
    wrpcap(f"{tmp_path}/in.pcap", [Ether(bytes(Ether(dst="02:00:00:00:00:01") / packet)) for packet in sent])
    report = run(str(tmp_path), router([
        line("in", name, spi, "tunnel4", False, False), f"policy in src 10.0.0.0/8 dst 0.0.0.0/0 protect {spi}"]))
    assert len(rdpcap(f"{tmp_path}/plain.pcap")) == 101
    line_of_open = re.search(r"^ *open +IPsecDecap +\d+ +\d+ +\d+ +(.*)$", report, re.M)
    drops = dict(re.findall(r"(\w+) (\d+)", line_of_open[1] if line_of_open else ""))
    assert drops == {"replayed": "101", "forged": "10", "no_sa": "20"}, report

