"""Moves of buckets under traffic: a load on one worker is spread over two, and workers follow a load that falls and
rises. Results are computed only from the records of paced.rs.
"""

import json
import math
import pathlib
import re
import subprocess
import sys
import threading
import time

import numpy

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from lib import lab, machine  # noqa: E402
from records import Records  # noqa: E402

PROGRAM = machine.ROOT / "target" / "release" / "examples" / "paced"
CONF = HERE / "moves.click"
STEER = "in@steer"
FLOWS, SIZE = 1024, 1518
RING = 8192  # packets, of each receive queue and from worker to worker: as many descriptors as common cards have
FIRST_PORT = 1024  # of flow 0
BUSY = 1.0  # of what one worker carries: what it is offered before buckets move
HIGH = 0.95  # of the same: the load that falls and rises, more than the balancer leaves to one worker
RAMP = 2  # seconds in which the load falls to a tenth, or rises
WINDOW = 0.02  # seconds over which workers' packets are compared, at least
WITHIN = 0.10  # of the mean
HOLDS = 0.2  # seconds in which all windows must be so, or it was chance
EVENT = re.compile(r"^ *(\d+\.\d{3}s .*)$", re.MULTILINE)  # of what the balancer says


class Paced(lab.Router):
    """The router of paced.rs, queried like any other."""

    def __init__(self, here, records, profile, workers=2, conf=CONF, flows=FLOWS, values=()):
        self.socket = str(here.folder / f"{here.number()}.socket")
        self.seconds = sum(seconds for seconds, _ in profile)
        rates = ",".join(f"{seconds}:{rate:.0f}" for seconds, rate in profile)
        command = [PROGRAM, conf, self.socket, records, workers, SIZE, flows, rates, RING, f"RING={RING}", *values]
        lab.Process.__init__(self, command, here.folder / f"{here.number()}.log", stdin=subprocess.PIPE)

    def play(self):
        """Runs the profile. Returns observations of machine and router every tenth of a second, and the balancer's
        actions.
        """
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        start, seen, events = time.monotonic(), [], {}
        self.turns()
        while "written" not in self.output():
            if self.poll() is not None or time.monotonic() - start > self.seconds + lab.STARTUP:
                raise machine.Failed(f"the records were not written\n{self.command}\n{self.output()[-2000:]}")
            seen.append({"s": time.monotonic() - start, "used": self.used(), "stolen": stolen(), "turns": self.turns()})
            # The handler has only the last events.
            for event in EVENT.findall(self.ask("GET", "/v1/handlers/balance") or ""):
                events.setdefault(event, round(seen[-1]["s"], 2))
            time.sleep(0.1)
        return {"seen": seen, "events": [[at, event] for event, at in events.items()], "used": [[one["s"], one["used"]] for one in seen]}

    def turns(self):
        """Milliseconds of each worker's longest turn since the last call, and the longest part of a turn in which other
        programs had its core.
        """
        each = json.loads(self.ask("POST", "/v1/turns") or "[]")
        return [[round(one[f"longest_{name}_ns"] / 1e6, 2) for name in ("turn", "wait")] for one in each]

    def used(self):
        """Processor time in seconds of all threads."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / 100


def stolen():
    """Stolen time: seconds that the hypervisor has taken from each processor, as it reports."""
    lines = pathlib.Path("/proc/stat").read_text().splitlines()
    return [int(line.split()[8]) / 100 for line in lines if re.match(r"cpu\d", line)]


def capacity(here, folder):
    """Packets a second that one of two workers carries when it is offered more than it can carry, half of it through the
    other worker. This is the mean of one and a half seconds, so that interruptions by the machine are deducted.
    """
    path = folder / "capacity.records"
    router = here.keep(Paced(here, path, [(2, 3e5)]))
    router.wait_running()
    all_on_one(router)
    router.play()
    here.end_all()
    seconds = Records(path).seconds()
    return int(((seconds > 0.4) & (seconds < 1.9)).sum() / 1.5)


def measure(here, folder, say, seconds=3):
    """Makes both runs; returns values that are not in the records."""
    if not PROGRAM.exists():
        raise machine.Failed(f"{PROGRAM} is missing: run `cargo build --release --locked -p ashlar --example paced`")
    carried = [capacity(here, folder)]
    say(f"one worker carries {carried[0] / 1e3:.0f} kpps; a ring of {RING} holds {held_ms(BUSY * carried[0] / 2):.0f} ms of a queue's share")
    result = {"carried": carried, "ring": RING, "rebalance": rebalance(here, folder, carried[0], say, seconds)}
    carried.append(capacity(here, folder))
    result["scale"] = scale(here, folder, carried[1], say, seconds)
    carried.append(capacity(here, folder))
    say(f"one worker carried {', '.join(f'{rate / 1e3:.0f}' for rate in carried)} kpps before, between and after these")
    return result


def held_ms(rate):
    """Milliseconds until a ring that is not read is full, at a rate in packets a second."""
    return RING / rate * 1e3


def counted(router):
    """Number of packets of each flow, as FlowCounter counts them."""
    text = router.ask("GET", "/v1/handlers/flows.flows")
    if text is None:
        raise machine.Failed(f"flows were not counted\n{router.output()[-2000:]}")
    found = {}
    for line in filter(None, text.splitlines()):
        _, port, _, _, _, packets, _ = line.split()
        found[int(port) - FIRST_PORT] = found.get(int(port) - FIRST_PORT, 0) + int(packets)
    return found


def all_on_one(router):
    """Assigns all buckets permanently to worker 0; returns true if there is a balancer that would change this."""
    balancer = tell(router, "balance", "off")
    buckets = int(router.ask("GET", f"/v1/handlers/{STEER}.buckets"))
    if not tell(router, "move", f"0-{buckets - 1} 0"):
        raise machine.Failed(f"buckets did not move\n{router.output()[-2000:]}")
    return balancer


def rebalance(here, folder, rate, say, seconds):
    """Profile in which all buckets first belong to worker 0, which is fully loaded; the balancer must notice."""
    offered = BUSY * rate
    router = here.keep(Paced(here, folder / "rebalance.records", [(seconds, offered)]))
    router.wait_running()
    if all_on_one(router):
        tell(router, "balance", "even")
        by = "the balancer"
    else:
        by = "hand, after a third of the time"
        buckets = int(router.ask("GET", f"/v1/handlers/{STEER}.buckets"))
        threading.Timer(seconds / 3, tell, (router, "move", f"0-{buckets // 2 - 1} 1")).start()
    seen = router.play()
    table = router.ask("GET", f"/v1/handlers/{STEER}.table")
    flows = counted(router)
    here.end_all()
    say(f"rebalance: {seconds} s at {offered / 1e3:.0f} kpps")
    return {"profile": [[seconds, offered]], "offered": offered, "table": table, "flows": flows, "by": by, **seen}


def tell(router, handler, value):
    """Writes a handler. Returns true if the router accepted the value."""
    return router.ask("PUT", f"/v1/handlers/{STEER}.{handler}", value) is not None


def scale(here, folder, rate, say, seconds):
    """Profile in which a load on two workers falls to a tenth and rises again, in steps of about a fifth. A single step
    to ten times the load would fill any ring before the balancer could react.
    """
    high = HIGH * rate
    down = [(RAMP / 10, high * 10 ** (-n / 10)) for n in range(1, 10)]
    profile = [(seconds, high), *down, (seconds, high / 10), *reversed(down), (seconds, high)]
    router = here.keep(Paced(here, folder / "scale.records", profile))
    router.wait_running()
    # Without a load one worker would be enough, and the profile begins with one for two.
    tell(router, "balance", "even")
    threading.Timer(1, tell, (router, "balance", "on")).start()
    seen = router.play()
    flows = counted(router)
    here.end_all()
    say(f"scale: {high / 1e3:.0f} kpps, a tenth of it, and again, {seconds} s each, with {RAMP} s between")
    return {"profile": profile, "flows": flows, **seen}


def window_of(rate):
    """Seconds in which all flows send the same number of packets: they take turns."""
    return math.ceil(WINDOW * rate / FLOWS) * FLOWS / rate


def balanced_after(records, window=WINDOW):
    """Seconds from the first packet until the workers' shares stay within 10 % of the mean for at least HOLDS; and the
    seconds after that in which they do not. None for both if they never do.
    """
    counts = records.shares(window)
    counts = counts[:-1]  # the last window is not whole
    if counts.shape[1] < 2:
        return None, None
    mean = counts.sum(axis=1) / counts.shape[1]
    even = numpy.abs(counts - mean[:, None]).max(axis=1) <= WITHIN * mean
    holds = math.ceil(HOLDS / window)
    first = next((n for n in range(len(even) - holds + 1) if even[n:n + holds].all()), None)
    return (None, None) if first is None else (first * window, float((~even[first:]).sum() * window))


def say_seconds(value):
    return "never" if value is None else f"{value:.2f}"


def phases(records, raw):
    """For each part of the profile: number of workers that sent packets in its second half, latency, and processor time.
    """
    seconds, latency, start, found = records.seconds(), records.latency_us(), 0, []
    for length, rate in raw["profile"]:
        if length < 1:  # on the way to another load
            start += length
            continue
        inside = (seconds >= start + length / 2) & (seconds < start + length)
        workers, counts = numpy.unique(records.packets["worker"][inside], return_counts=True)
        used = [u for t, u in raw["used"] if start + length / 2 <= t < start + length]
        times = [t for t, _ in raw["used"] if start + length / 2 <= t < start + length]
        busy = (used[-1] - used[0]) / (times[-1] - times[0]) if len(used) > 1 else float("nan")
        p50, p99, worst = numpy.percentile(latency[inside], [50, 99, 100]) if inside.any() else (float("nan"),) * 3
        share = {int(w): round(float(c / counts.sum()), 3) for w, c in zip(workers, counts)}
        found.append({"rate": rate, "shares": share, "cores": round(busy, 2), "p50 us": round(float(p50), 1),
                      "p99 us": round(float(p99), 1), "longest us": round(float(worst), 1)})
        start += length
    return found


def curve(records, step=0.1):
    """For every tenth of a second with due packets: packets, number of workers that sent more than a hundredth of them,
    and latency.
    """
    at = ((records.packets["due"].astype("i8") - records.start) / 1e9 / step).astype("i8")
    latency, found = records.latency_us(), []
    for n, counts in enumerate(records.shares(step)):
        mine = latency[at == n]
        p50, p99 = numpy.percentile(mine, [50, 99]) if len(mine) else (0, 0)
        found.append({"s": round((n + 1) * step, 1), "packets": int(counts.sum()), "workers": int((counts > counts.sum() / 100).sum()),
                      "p50 us": round(float(p50), 1), "p99 us": round(float(p99), 1)})
    return found


def machine_seen(records, raw):
    """Time taken by the machine: longest time without a poll of a queue; part of a worker's turn in which others had its
    core; seconds of stolen time; and the times at which packets found a ring full.
    """
    unpolled, at, queue = records.unpolled()
    seen = [one for one in raw["seen"] if one["s"] <= sum(seconds for seconds, _ in raw["profile"])]
    turns = [[max(column) for column in zip(*worker)] for worker in zip(*(one["turns"] for one in seen))]
    return {"unpolled ms": round(unpolled * 1e3, 1), "unpolled at": round(at, 2), "unpolled queue": queue, "turns ms": turns,
            "stolen s": [round(b - a, 2) for a, b in zip(seen[0]["stolen"], seen[-1]["stolen"])], "spans": records.spans()}


def summary(records, raw):
    lost, twice = records.lost()
    flows = {int(flow): count for flow, count in raw["flows"].items()}  # JSON has made text of the numbers
    return {"wrong sources": records.wrong_sources(), "wrong counts": records.wrong_counts(flows),
            "packets": sum(records.due_of_flows()), "lost": lost, "missed": records.missed(), "deepest": records.deepest(), "twice": twice,
            "machine": machine_seen(records, raw) if "seen" in raw else None,
            "reordered": records.reordered(), "moves": records.moves(), "longest us": round(float(records.latency_us().max()), 1)}


def results(folder, raw):
    """Results of raw records, as lines of the figure."""
    found = {}
    for name in ("rebalance", "scale"):
        path = folder / f"{name}.records"
        if name in raw:
            if not path.exists():
                raise machine.Failed(f"{path} is missing")
            records = Records(path)
            found[name] = summary(records, raw[name])
            if name == "rebalance":
                found[name]["busy"] = records.busy()
                window = found[name]["window"] = window_of(raw[name]["offered"])
                found[name]["seconds"], found[name]["uneven"] = balanced_after(records, window)
                found[name]["shares"] = records.shares(window).tolist()
            else:
                found[name] |= {"phases": phases(records, raw[name]), "curve": curve(records)}
    return found


if __name__ == "__main__":
    print(json.dumps(results(pathlib.Path(sys.argv[1]), json.loads((pathlib.Path(sys.argv[1]) / "results.json").read_text())["moves"]), indent=1))
