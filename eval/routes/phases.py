"""The phases of a measurement, one function each."""

import random
import socket
import time

import bed
import bgp
import birds
import netlink
import probe
from lib import machine
from tables import BITS, FAMILY, HOPS, text

OBJECTS = {4: 4000, 6: 6000}  # numbers of next-hop objects begin here
# Prefixes for benchmarks (RFC 2544, RFC 5180): no table has them, so probes to them never change their way.
STATIC = {4: "198.18.0.0/15", 6: "2001:2::/48"}
LONG = 150  # seconds that no phase takes, unless it hangs
FORMS = ("gateway", "object")


def hop_maker(router, form, version):
    if form == "object":
        return netlink.by_object(OBJECTS[version])
    return netlink.by_gateway(version, bed.gateway(version), router.bed.index("r1"))


def make_objects(router):
    sender, index = netlink.Sender(router.space), router.bed.index("r1")
    for version in (4, 6):
        sender.send(netlink.objects(version, range(1, HOPS + 1), OBJECTS[version], bed.gateway(version), index))


def burst(router, feed, form, version):
    """Adds all routes of a family, then removes them. Returns the seconds until the kernel had accepted them, and until
    all were in effect.
    """
    sender, hop, routes = netlink.Sender(router.space), hop_maker(router, form, version), feed.routes[version]
    result = {"routes": len(routes)}
    for name, kind, flags, wanted in (
            ("add", netlink.NEWROUTE, netlink.CREATE | netlink.REPLACE, len(routes)), ("delete", netlink.DELROUTE, 0, 0)):
        chunks = netlink.messages(version, routes, hop, kind, flags)
        start, own, control = time.monotonic(), time.process_time(), router.control_seconds()
        result[f"{name} kernel"] = sender.send(chunks)
        result[f"{name} kernel cpu"] = time.process_time() - own
        result[name] = router.wait_count({version: wanted}, LONG) - start
        result[f"{name} control cpu"] = router.control_seconds() - control
    return result


def rate(bursts, name):
    """Routes per second over several bursts."""
    return sum(b["routes"] for b in bursts) / sum(b[name] for b in bursts)


def replace_object(router, feed):
    """Seconds until another next hop is in effect for all routes of a next-hop object, for the object with most routes.
    """
    version, index = 4, router.bed.index("r1")
    count = [0] * (HOPS + 1)
    for _, _, hop in feed.routes[version]:
        count[hop] += 1
    most = count.index(max(count))
    routes = [r for r in feed.routes[version] if r[2] == most]
    sender = netlink.Sender(router.space)
    sender.send(netlink.messages(version, routes, hop_maker(router, "object", version)))
    router.wait_count({version: len(routes)}, LONG)
    address = socket.inet_ntop(FAMILY[version], routes[-1][0].to_bytes(4))
    before, start = router.hop_of(address), time.monotonic()
    other = netlink.objects(version, [most], OBJECTS[version], lambda hop: bed.gateway(version)(hop % HOPS + 1), index)
    sender.send(other)
    while router.hop_of(address) == before:
        if time.monotonic() > start + LONG:
            raise machine.Failed(f"{router.name}: {address} still goes to {before}")
    seconds = time.monotonic() - start
    sender.send(netlink.objects(version, [most], OBJECTS[version], bed.gateway(version), index))
    sender.send(netlink.messages(version, routes, hop_maker(router, "object", version), netlink.DELROUTE, 0))
    router.wait_count({version: 0}, LONG)
    return {"routes": len(routes), "seconds": seconds}


def frames_to(addresses):
    """Probe frames to destinations (version, address)."""
    return [
        probe.frame(version, (bed.MACS["r0"], bed.MACS["s0"]), int.from_bytes(socket.inet_pton(FAMILY[version], bed.SOURCE[version])), address)
        for version, address in addresses]


def static_addresses(count=256):
    """Addresses in the prefixes that do not change."""
    draw = random.Random(5)
    base = {4: int.from_bytes(socket.inet_aton("198.18.0.0")), 6: int.from_bytes(socket.inet_pton(socket.AF_INET6, "2001:2::"))}
    return [(v, base[v] + draw.getrandbits(17)) for v in (4, 6) for _ in range(count // 2)]


def add_static(router):
    for version, prefix in STATIC.items():
        router.space.ip(f"-{version} route add {prefix} via {bed.gateway_text(version, 1)}")


class Window:
    """Results of probes, and times of the worker, during an action."""

    def __init__(self, router, addresses, rate, seconds):
        self.router = router
        self.probe = probe.Probe(router.bed.source, router.bed.peer, frames_to(addresses), rate, seconds)
        router.worker_times()

    def result(self):
        found = self.probe.result(LONG)
        latency = found.pop("latency_us")
        if not latency:
            raise machine.Failed(f"{self.router.name}: no probe came through")
        found["worker us"] = self.router.worker_times()
        for name, share in (("median us", 0.5), ("99.9 % us", 0.999), ("longest us", 1)):
            found[name] = latency[min(int(share * len(latency)), len(latency) - 1)]
        return found


def quiet(router, addresses, rate, seconds):
    """Results of probes while nothing changes."""
    return Window(router, addresses, rate, seconds).result()


def probed(router, addresses, rate, action):
    """Results of probes during an action, and the action's own result."""
    window = Window(router, addresses, rate, LONG)
    time.sleep(0.5)
    value = action()
    time.sleep(0.5)
    window.probe.stop()
    return window.result(), value


class Daemons:
    """The two BIRD daemons of a router."""

    def __init__(self, router, feed, core):
        folder = router.bed.lab.folder
        pinned = ["taskset", "-c", str(core)]
        self.router = router
        self.table = birds.Bird(router.bed.peer, birds.feeder_conf(folder, feed.routes), pinned)
        self.learner = birds.Bird(router.space, birds.router_conf(folder), pinned)
        self.table.wait_running()
        self.learner.wait_running()

    def learn(self, feed):
        """Seconds from the start of both sessions until all routes are in effect."""
        start = time.monotonic()
        for version in (4, 6):
            self.learner.ask(f"enable table{version}")
        return self.router.wait_count({v: len(r) for v, r in feed.routes.items()}, LONG) - start


def churn(router, feed, speed):
    """Replays the events through a third speaker, which is preferred over the table's; returns the greatest lateness.
    """
    speaker = bgp.Speaker(router.bed.peer)
    late = speaker.replay(feed.events, speed)
    return {"speaker": speaker, "late": late}


def moving(feed, most=400):
    """Addresses that have a route at every moment of the replay: (those in changing prefixes, those elsewhere). BIRD
    replaces a route in one step.
    """
    draw = random.Random(6)
    table = {v: {} for v in feed.routes}
    for version, routes in feed.routes.items():
        for address, length, _ in routes:
            table[version].setdefault(length, set()).add(address)
    changing = {(e.version, e.address, e.length) for e in feed.events}
    lengths = {v: sorted({n for w, _, n in changing if w == v}) for v in BITS}

    def within(version, address, length):
        bits = BITS[version] - length
        return address >> bits << bits

    def covered(version, address, longest):
        return any(n <= longest and within(version, address, n) in known for n, known in table[version].items())

    def changes(version, address):
        return any((version, within(version, address, n), n) in changing for n in lengths[version])

    def inside(version, address, length):
        return address + draw.getrandbits(BITS[version] - length) if length < BITS[version] else address

    moved = sorted(p for p in changing if covered(*p))
    moved = [(v, inside(v, a, n)) for v, a, n in draw.sample(moved, min(most, len(moved)))]
    still = []
    for version, routes in feed.routes.items():
        chosen = [(version, inside(version, a, n)) for a, n, _ in draw.sample(routes, min(most, len(routes)))]
        still += [p for p in chosen if not changes(*p)]
    return moved, still


def differences(router, feed, count=300):
    """Addresses in the table, and changing prefixes, for which the router's next hop differs from its kernel's."""
    draw = random.Random(7)
    chosen = [(v, r[0]) for v, all in feed.routes.items() for r in draw.sample(all, min(count, len(all)))]
    chosen += [(e.version, e.address) for e in draw.sample(feed.events, min(count, len(feed.events)))]
    return router.differences(chosen)
