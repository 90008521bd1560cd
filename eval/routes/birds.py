"""Two BIRD daemons: one has the table as static routes and announces it by BGP; the other learns it and exports it to
its kernel.
"""

import re

import bed
from tables import HOPS, text

ROUTER_AS, FEEDER_AS, SPEAKER_AS = 65001, 65002, 65003
NEVER = 100_000  # seconds: a scan of a million kernel routes holds BIRD up for seconds


def feeder_conf(folder, routes):
    """Configuration of the announcing daemon; the table's text is written to `folder`."""
    for version, all in routes.items():
        hops = {hop: bed.gateway_text(version, hop) for hop in range(1, HOPS + 1)}
        with open(folder / f"static{version}", "w") as out:
            for address, length, hop in all:
                out.write(f"route {text(version, address, length)} blackhole {{ bgp_next_hop = {hops[hop]}; }};\n")
    parts = [f"log stderr all;\nrouter id {bed.FEEDER[4]};\nprotocol device {{ scan time {NEVER}; }}\n"]
    for version in routes:
        parts.append(f"""
protocol static static{version} {{
    ipv{version};
include "{folder}/static{version}";
}}
protocol bgp table{version} {{
    local {bed.FEEDER[version]} as {FEEDER_AS};
    neighbor {bed.ROUTER[version]} as {ROUTER_AS};
    ipv{version} {{ import none; export where proto = "static{version}"; next hop keep; }};
}}
""")
    path = folder / "feeder.conf"
    path.write_text("".join(parts))
    return path


def router_conf(folder):
    """Configuration of the learning daemon; its sessions start when they are enabled."""
    parts = [f"log stderr all;\nrouter id {bed.ROUTER[4]};\nprotocol device {{ scan time {NEVER}; }}\nprotocol direct {{ ipv4; ipv6; }}\n"]
    for version in (4, 6):
        parts.append(f"""
protocol kernel kernel{version} {{ scan time {NEVER}; ipv{version} {{ import none; export where source = RTS_BGP; }}; }}
protocol bgp table{version} {{
    disabled yes;
    connect delay time 1;
    local {bed.ROUTER[version]} as {ROUTER_AS};
    neighbor {bed.FEEDER[version]} as {FEEDER_AS};
    ipv{version} {{ import all; export none; }};
}}
""")
    parts.append(f"""
protocol bgp churn {{
    local {bed.ROUTER[4]} as {ROUTER_AS};
    neighbor {bed.SPEAKER} as {SPEAKER_AS};
    passive yes;
    ipv4 {{ import filter {{ bgp_local_pref = 200; accept; }}; export none; }};
    ipv6 {{ import filter {{ bgp_local_pref = 200; accept; }}; export none; }};
}}
""")
    path = folder / "router.conf"
    path.write_text("".join(parts))
    return path


class Bird:
    """A running BIRD."""

    def __init__(self, space, conf, before=()):
        self.space, self.socket = space, conf.with_suffix(".ctl")
        self.process = space.spawn(*before, "bird", "-f", "-c", str(conf), "-s", str(self.socket))

    def wait_running(self, timeout=120):
        self.process.wait_for("Started", timeout)

    def ask(self, words):
        return self.space.lab.run("birdc", "-s", str(self.socket), *words.split(), timeout=120).out

    def routes(self):
        """Number of routes over all tables."""
        return sum(map(int, re.findall(r"(\d+) of \d+ routes", self.ask("show route count"))))

    def resident_kb(self):
        return resident_kb(self.process.pid)

    def stop(self):
        self.process.stop(30)


def resident_kb(pid):
    """Resident memory without hugepages."""
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read())[1])
