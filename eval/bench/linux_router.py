"""The router that Linux controls, between the same devices as all others. Its kernel has the routes and the neighbour.
"""

import sys

import peers
from lib import lab, machine

sys.path.insert(0, str(machine.ROOT / "tests" / "system"))
import net  # noqa: E402

ADDRESSES = {"eth0": "10.0.1.1/24", "eth1": "10.0.2.1/24"}
GATEWAY, MAC = "10.0.2.254", "02:00:00:00:00:02"


class LinuxRouter(peers.Ashlar):
    """conf/linux-router.click with its TAP interfaces in a namespace of their own."""

    def __init__(self, folder, core, log):
        self.lab = net.Lab()
        try:
            self.space = self.lab.namespace("router")
            self.prefixes = [line.split()[0] for line in (folder / "routes4").read_text().splitlines()]
            devices = lab.vdevs(folder / "in4.pcap")
            values = ["DEV0=net_pcap0", "DEV1=net_null1", "--netns", self.space]
            conf = machine.ROOT / "conf" / "linux-router.click"
            super().__init__(lab.ASHLAR, core, conf, [*peers.as_eal(devices), *values], log, "port1/out", ())
        except (net.Failed, OSError) as failed:
            self.lab.close()
            raise machine.Absent(f"no namespace for the TAP interfaces: {failed}") from failed
        except BaseException:
            self.lab.close()
            raise

    def wait_running(self):
        lab.until(lambda: "synced 1" in (self.handler("netlink") or ""), self, "the kernel being followed")
        commands = [f"address add {address} dev {name}\nlink set {name} up\n" for name, address in ADDRESSES.items()]
        commands.append(f"neighbour add {GATEWAY} lladdr {MAC} dev eth1\n")
        # Random prefixes: a few that the TAP interfaces have are refused.
        commands += [f"route add {prefix} via {GATEWAY}\n" for prefix in self.prefixes]
        batch = self.lab.folder / "batch"
        batch.write_text("".join(commands))
        self.space.run("ip", "-force", "-batch", str(batch), timeout=lab.STARTUP, ok=None)
        known = len(self.prefixes) * 0.99
        lab.until(lambda: int(self.handler("rt4.length") or 0) > known, self, "the routes")
        super().wait_running()

    def close(self):
        try:
            super().close()
        finally:
            self.lab.close()


PEERS = {"linux-router": LinuxRouter}
RATIOS = [("linux-router", "router")]
