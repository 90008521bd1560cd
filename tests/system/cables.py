"""Cables of a given rate between namespaces, as bottlenecks: veth links alone have none on a fast machine.

A cable is a bridge of two ports in a namespace of its own. Each port has a token bucket and a queue of fixed length,
so neither end can send faster, whatever way its frames take to the interface.
"""

import json

from net import Lab, Namespace

# Bytes of a cable's queue: 64 of the longest frames, as in `ashlar cluster simulate`.
QUEUE = 64 * 1518
# A stalled timer is made up for at once.
BURST = 0.002
LEAST_BURST = 4096


class Cables:
    """The namespace that contains all cables of a lab."""

    def __init__(self, lab: Lab):
        self.lab, self.space, self._count = lab, lab.namespace("cables"), 0
        self.space.sysctl(net__ipv6__conf__default__disable_ipv6=1)

    def connect(self, a: Namespace, a_name: str, b: Namespace, b_name: str, rate: float, mtu: int = 1500) -> None:
        """Makes two interfaces and connects them by a cable that carries `rate` bit/s of frames in each direction."""
        number, bridge = self._count, f"c{self._count}"
        self._count += 1
        burst = max(LEAST_BURST, int(rate / 8 * BURST))
        links, queues = [f"link add {bridge} mtu {mtu} type bridge stp_state 0 mcast_snooping 0"], []
        for end, (space, name) in zip("ab", ((a, a_name), (b, b_name)), strict=True):
            port = f"{bridge}{end}"
            self.lab.link(space, name, self.space, port)
            space.ip(f"link set {name} mtu {mtu}")
            # Addresses of internal frames are no stations to be learnt: what comes in leaves at the other end.
            links += [f"link set {port} mtu {mtu} master {bridge}", f"link set {port} type bridge_slave learning off"]
            queues.append(f"qdisc replace dev {port} root tbf rate {rate:.0f}bit burst {burst} limit {QUEUE}")
            # A token bucket's timer runs on any processor: frames that two of them hand over could overtake each other.
            files = f"/sys/class/net/{name}/queues/rx-*/rps_cpus"
            space.run("sh", "-c", f"for file in {files}; do echo {1 << number % 2:x} > $file; done")
        self._batch("ip", [*links, f"link set {bridge} up"])
        self._batch("tc", queues)

    def dropped(self) -> int:
        """Number of frames dropped because a queue was full, including heartbeats."""
        queues = json.loads(self.space.run("tc", "-s", "-j", "qdisc", "show").out)
        return sum(queue["drops"] for queue in queues if queue["kind"] == "tbf")

    def _batch(self, program: str, lines: list[str]) -> None:
        path = self.lab.folder / f"{program}.batch"
        path.write_text("".join(f"{line}\n" for line in lines))
        self.lab.run(program, "-n", self.space.name, "-batch", str(path))
