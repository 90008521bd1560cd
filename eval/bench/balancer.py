"""Configurations of a balancer's packet path in both directions, as `ashlar balance text` prints them, without control.
They measure the cost of a packet to a back end, and of a packet back to a front port.
"""

import workload

FRONT = workload.PCAP_MAC.hex(":")
# Stations outside to which frames go back: as many as a neighbour's addresses on a link.
STATIONS = 64
FRAMES = 1 << 16


def station(n):
    return bytes([2, 0, 0, 0, 3, n])


def capture(folder, name, frames):
    """The capture file with this name, made if it is missing."""
    path = folder / name
    if not path.exists():
        workload.write_pcap(path, frames)
    return path


def back_frames():
    """Packets to many destinations, in broadcast frames."""
    for n, dst in enumerate(workload.destinations(workload.routes4(), 32, FRAMES, 3)):
        yield station(n * 7919 % 101 % STATIONS) + workload.frame4(dst, 60)[6:]


def heard_frames():
    """One frame from each station."""
    for n in range(STATIONS):
        yield workload.PCAP_MAC + station(n) + workload.frame4(n, 60)[12:]


def pool(backends, algorithm):
    boxes = ", ".join(f"r{n} 02:00:00:00:01:{n:02x} 10.255.{n // 200}.{n % 200 + 10}" for n in range(backends))
    return f"lb :: BalancePool({boxes}, OWN 10.0.1.1 10.0.2.1, INSIDE 10.255.0.0/16, ALGORITHM {algorithm});\n"


def way_in(backends, algorithm, backs=1):
    """Configuration from a front port to a back port, or to several back ports that share one output here."""
    outputs = "".join(f" in[{back}] -> out;" for back in range(1, backs))
    return pool(backends, algorithm) + f"""
    way :: BalanceOut(FRONT {FRONT}, BACK 02:00:00:00:02:01); Idle -> way; way[0] -> Discard; way[1] -> Discard;
    FromDevice($IN) -> in :: BalanceIn(lb, {FRONT}, OUT way) -> out :: ToDevice($OUT);{outputs} in[{backs}] -> Discard;
    """


def way_back():
    """Configuration from the back port to the front port at which the stations were heard."""
    return pool(2, "flows") + f"""
    way :: BalanceOut(FRONT {FRONT}, BACK 02:00:00:00:02:01);
    FromDevice(net_pcap2) -> in :: BalanceIn(lb, OUT way) -> Discard; in[1] -> Discard;
    FromDevice($IN) -> way; way[0] -> out :: ToDevice($OUT); way[1] -> Discard;
    """


def configurations(folder):
    """Configurations to measure, in the format of `instructions`."""
    plain = ["IN=net_pcap0", "OUT=net_null1"]

    heard = capture(folder, "balance-heard.pcap", heard_frames())
    two = [*plain, "--vdev", f"net_pcap2,rx_pcap={heard}"]

    def enters(*way):
        return (way_in(*way), plain, "in4.pcap", "out", "")

    return {
        "balance-rr": enters(2, "round-robin"),
        "balance-rr-3-ports": enters(2, "round-robin", 3),
        "balance-flows": enters(2, "flows"),
        "balance-flows-256": enters(256, "flows"),
        "balance-back": (way_back(), two, lambda: capture(folder, "balance-back.pcap", back_frames()).name, "out", ""),
    }
