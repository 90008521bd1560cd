"""Boxes behind a balancer with a VLAN for each front port.

The boxes are stock Linux. Some kernels have no VLAN interfaces: so `tags`, an Ashlar between the switch and the
boxes, removes the tags. A box then has a cable for each VLAN, with the name and Ethernet address of a sub-interface.
"""

from multistage import Bed, text
from net import Lab, Namespace
from topology import ASHLAR

# A box's port to the switch and its sub-interfaces, one for each front port.
PORTS = ("eth0", "eth0.101", "eth0.102")


# A busy machine must not look like a failed box: `tags` may be late, and the balancer cannot know.
CALM = 'interval = "100ms"\n'


class VlanBed(Bed):
    """A bed with `inside = "vlan"`."""

    def __init__(self, lab: Lab, names: list[str], **more: str):
        self.tags = lab.namespace("tags")
        self.linux: list[str] = []
        super().__init__(lab, names, **more)
        self.start_tags()

    def start_tags(self) -> None:
        file = self.lab.folder / "tags.click"
        file.write_text("".join(map(self.tagged, self.linux)))
        # A switch takes tags off in no time, whatever else this machine does.
        self.tags.spawn("nice", "-n", "-20", ASHLAR, "run", str(file), "--no-socket", "--workers", "1").wait_for("start", timeout=20)

    def describe(self, **more: str) -> str:
        inside = 'inside = "vlan"\n' + more.pop("more", "")
        return text(self.names, more=inside, lan="vlan = 101", wan="vlan = 102", **more)

    def backend(self, name: str) -> None:
        box = self.boxes[name] = self.lab.namespace(name)
        self.linux.append(name)
        self.cable(self.tags, name, f"to-{name}")
        self.tags.sysctl(**{f"net__ipv6__conf__{name}__disable_ipv6": 1})
        for port in PORTS:
            self.lab.link(box, port, self.tags, f"{name}-{port}")
            box.ip(f"link set {port} address 02:00:00:00:00:0{name[1:]}")
            self.tags.sysctl(**{f"net/ipv6/conf/{name}-{port}/disable_ipv6": 1})
        self.set_up(name, box)

    def tagged(self, name: str) -> str:
        """Configuration that removes and adds tags for a box."""
        return "".join(f"FromDevice({a}, PROMISC true) -> ToDevice({b});\n" for port in PORTS
                       for trunk, access in [(port.replace("eth0", name), f"{name}-{port}")]
                       for a, b in ((trunk, access), (access, trunk)))
