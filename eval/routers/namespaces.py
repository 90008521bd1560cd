"""Virtual routers on one pair of interfaces: Linux namespaces with macvlan interfaces, and routers of one process that
share AF_XDP ports. A frame's destination address selects the router; each router has 100 routes; one core does their
work, but for the beginning of the kernel's receive work.
"""

import pathlib
import random
import statistics
import struct
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "bench")]

from lib import lab, machine, ratios, spread  # noqa: E402
import links  # noqa: E402
import peers  # noqa: E402

COUNTS = [1, 10]
ROUTES = 100
FRAMES = 32_768


def mac(number):
    return f"02:00:00:01:{number >> 8:02x}:{number & 255:02x}"


def prefixes(number):
    return [f"10.{10 + number}.{n}.0/24" for n in range(ROUTES)]


def write_frames(path, count):
    """A capture of IPv4 packets for the routers in turn."""
    rng = random.Random(1)
    with open(path, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for k in range(FRAMES):
            number = k % count
            head = bytearray(struct.pack(">BBHHHBBH4s4s", 0x45, 0, 46, 0, 0, 64, 17, 0, bytes([192, 0, 2, 1]),
                                         bytes([10, 10 + number, rng.randrange(ROUTES), rng.randrange(256)])))
            total = sum(struct.unpack(">10H", head))
            total = (total & 0xFFFF) + (total >> 16)
            struct.pack_into(">H", head, 10, ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF)
            frame = bytes.fromhex(mac(number).replace(":", "")) + bytes([2, 0, 0, 0, 0, 9, 8, 0]) + head + bytes(26)
            out.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)


class Namespaces(links.Veth):
    """One namespace per router; the kernel distributes and routes frames."""

    def start_router(self, folder, core, log):
        host = self.spaces["router"]
        host.run("sh", "-c", f"echo {1 << core:x} > /sys/class/net/r0/queues/rx-0/rps_cpus")
        for number in range(self.COUNT):
            space = self.lab.namespace(f"v{number}")
            host.ip(f"link add name a{number} link r0 address {mac(number)} netns {space.name} type macvlan mode bridge")
            host.ip(f"link add name b{number} link r1 netns {space.name} type macvlan mode bridge")
            for name in ("a", "b"):
                space.ip(f"link set {name}{number} up")
            space.sysctl(net__ipv4__ip_forward=1, net__ipv4__conf__all__rp_filter=0, **{f"net__ipv4__conf__a{number}__rp_filter": 0})
            space.ip(f"address add 10.0.2.{2 + number}/24 dev b{number}")
            space.ip(f"neigh add 10.0.2.254 lladdr {self.MACS['d0']} dev b{number}")
            batch = self.lab.folder / f"routes{number}"
            batch.write_text("".join(f"route add {prefix} via 10.0.2.254 dev b{number}\n" for prefix in prefixes(number)))
            space.run("ip", "-batch", str(batch))


class Shares(links.Veth):
    """One process with a router for each, which share two AF_XDP ports."""

    def start_router(self, folder, core, log):
        text = ""
        shares = {"in": "", "out": ""}
        for number in range(self.COUNT):
            routes = ", ".join(f"{prefix} 0" for prefix in prefixes(number))
            (folder / f"v{number}.click").write_text(
                f"FromDevice(in) -> Strip(14) -> CheckIPHeader -> rt :: RadixIPLookup({routes}) -> ttl :: DecIPTTL\n"
                f"    -> EtherEncap(0x0800, {self.MACS['r1']}, {self.MACS['d0']}) -> ToDevice(out);\nttl[1] -> Discard;\n")
            text += f'[[router]]\nname = "v{number}"\ngraph = "v{number}.click"\n\n'
            shares["in"] += f'[[port.share]]\nrouter = "v{number}"\nmac = "{mac(number)}"\n\n'
            shares["out"] += f'[[port.share]]\nrouter = "v{number}"\nmac = "{mac(256 + number)}"\n\n'
        for name, device in (("in", "r0"), ("out", "r1")):
            text += f'[[port]]\nname = "{name}"\ndevice = "af_xdp:{device}"\n{shares[name]}'
        (folder / "routers.toml").write_text(text)
        self.router = peers.Ashlar(
            lab.ASHLAR, core, folder / "routers.toml", ["--workers", "1"], log, "none", (), buffers=65_535,
            before=["ip", "netns", "exec", self.spaces["router"].name])


def of(kind, count):
    return type(kind.__name__, (kind,), {"COUNT": count})


def measure(folder, words):
    """Packets a second of both kinds of routers, measured in turns."""
    raw = {}
    with machine.Hugepages():
        for _ in range(words.rounds):
            for count in COUNTS:
                own = folder / f"on{count}"
                own.mkdir(exist_ok=True)
                write_frames(own / "in4.pcap", count)
                for name, kind in (("namespaces", Namespaces), ("shares", Shares)):
                    bed = of(kind, count)(own, lab.MEASURED, own / f"{name}.log")
                    try:
                        bed.wait_running()
                        time.sleep(1)
                        raw.setdefault(f"{name} {count}", []).append(bed.rate(2 * words.seconds))
                        raw.setdefault(f"{name} {count} lost", []).append(1 - bed.all_sent / max(bed.all_offered, 1))
                    finally:
                        bed.close()
    return raw


def results(raw):
    for count in COUNTS:
        linux, ours = raw[f"namespaces {count}"], raw[f"shares {count}"]
        lost = {name: 100 * statistics.median(raw[f"{name} {count} lost"]) for name in ("namespaces", "shares")}
        parts = ratios(ours, linux)
        yield f"namespaces-{count}-mpps", f"{statistics.median(linux) / 1e6:.3f}", \
            f"{spread([rate / 1e6 for rate in linux], 3)}; {lost['namespaces']:.0f} % of what was offered was lost"
        yield f"xdp-{count}-mpps", f"{statistics.median(ours) / 1e6:.3f}", \
            f"{spread([rate / 1e6 for rate in ours], 3)}; {lost['shares']:.0f} % of what was offered was lost"
        yield f"xdp/namespaces-{count}", f"{statistics.median(parts):.2f}", f"{spread(parts, 2)}"
