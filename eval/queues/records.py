"""Records of paced.rs: which packets were due, and which of them left when, by which worker. All results are computed
from these, not from counters of the router.
"""

import pathlib
import sys

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from lib import machine  # noqa: E402

RECORD = numpy.dtype([("flow", "<u2"), ("worker", "<u2"), ("number", "<u4"), ("due", "<u8"), ("left", "<u8"),
                      ("address", "<u4"), ("port", "<u2"), ("", "<u2")])


class Records:
    """A file of records, in the order in which packets left."""

    def __init__(self, path):
        data = pathlib.Path(path).read_bytes()
        queues, self.flows, self.start, windows, window = map(int, numpy.frombuffer(data, "<u8", 5))
        # For every receive queue: packets that were due, those for which its ring had no room, and most that waited in it.
        self.offered = numpy.frombuffer(data, "<u8", 3 * queues, 40).reshape(queues, 3).astype("i8")
        # For every receive queue, and every so many seconds of the profile: polls, the longest time between two that ended
        # then (us), most packets that waited, and those for which there was no room.
        self.window = window / 1e9
        at = 40 + 24 * queues
        self.polled = numpy.frombuffer(data, "<u4", 4 * queues * windows, at).reshape(queues, windows, 4).astype("i8")
        packets = numpy.frombuffer(data, RECORD, -1, at + self.polled.size * 4)
        self.packets = packets[numpy.argsort(packets["left"], kind="stable")]
        if len(self.packets) == 0:
            raise machine.Failed(f"{path}: no packet came out")

    def due_of_flows(self):
        """Number of due packets of each flow. Flow f arrives at queue f modulo the number of queues; the flows of a
        queue take turns.
        """
        due, queues = [0] * self.flows, len(self.offered)
        for queue in range(queues):
            flows = range(queue, self.flows, queues)
            for place, flow in enumerate(flows):
                due[flow] = (int(self.offered[queue][0]) - place + len(flows) - 1) // len(flows)
        return due

    def lost(self):
        """Number of due packets that never came out, including those that found a ring full; and number of packets that
        came out twice.
        """
        key = self.packets["flow"].astype("u8") << 32 | self.packets["number"]
        distinct = len(numpy.unique(key))
        return sum(self.due_of_flows()) - distinct, len(key) - distinct

    def missed(self):
        """Number of packets lost because the ring of the receiving port was full."""
        return int(self.offered[:, 1].sum())

    def deepest(self):
        """Maximum number of packets that waited in the ring of a receive queue."""
        return int(self.offered[:, 2].max())

    def unpolled(self):
        """Longest time without a poll of a receive queue, the time at which it ended (both in seconds), and the queue.
        """
        worst = (0.0, 0.0, 0)
        for queue, windows in enumerate(self.polled):
            at = int(windows[:, 1].argmax())
            polled = numpy.flatnonzero(windows[:, 0])
            after = (len(windows) - 1 - int(polled[-1]) if len(polled) else len(windows)) * self.window
            end = len(windows) * self.window
            worst = max(worst, (windows[at, 1] / 1e6, (at + 1) * self.window, queue), (after, end, queue))
        return worst

    def spans(self):
        """Intervals in which packets found a ring full: queue, start and end (seconds), number of packets, and number of
        polls.
        """
        found = []
        for queue, windows in enumerate(self.polled):
            at = numpy.flatnonzero(windows[:, 3])
            for part in numpy.split(at, numpy.flatnonzero(numpy.diff(at) > 5) + 1) if len(at) else []:
                first, end = int(part[0]), int(part[-1]) + 1
                polls, missed = (int(windows[first:end, column].sum()) for column in (0, 3))
                found.append([queue, round(first * self.window, 2), round(end * self.window, 2), missed, polls])
        return found

    def reordered(self):
        """Number of packets that left after a later packet of their flow. Packets of one burst leave at the same time,
        in its order. Packets of two workers with equal times are compared in the order of the file.
        """
        late = 0
        by_flow = numpy.argsort(self.packets["flow"], kind="stable")
        flow, number = self.packets["flow"][by_flow], self.packets["number"][by_flow].astype("i8")
        for part in numpy.split(number, numpy.flatnonzero(numpy.diff(flow)) + 1):
            late += int((part < numpy.maximum.accumulate(part)).sum())
        return late

    def seconds(self):
        """Seconds from the start of the profile until each packet left."""
        return (self.packets["left"].astype("i8") - self.start) / 1e9

    def latency_us(self):
        """Microseconds from each packet's due time until it left."""
        return (self.packets["left"].astype("i8") - self.packets["due"].astype("i8")) / 1e3

    def busy(self):
        """Load of the first worker before a second one sent anything: the share of that time, from the first packet on,
        in which some due packet had not left. It is exact for a worker that never pauses while a packet waits.
        """
        worker = self.packets["worker"]
        others = numpy.flatnonzero(worker != worker[0])
        part = self.packets[:others[0]] if len(others) else self.packets
        part = part[numpy.argsort(part["due"], kind="stable")]
        due, left = part["due"].astype("i8"), numpy.maximum.accumulate(part["left"].astype("i8"))
        idle = int(numpy.maximum(due[1:] - left[:-1], 0).sum())
        time = int(left[-1] - due[0])
        return 1 - idle / time if time > 0 else 0.0

    def shares(self, window):
        """For every window of `seconds`: the number of packets due in it that each worker sent."""
        at = ((self.packets["due"].astype("i8") - self.start) / 1e9 / window).astype("i8")
        workers = int(self.packets["worker"].max()) + 1
        counts = numpy.zeros((max(int(at.max()) + 1, 1), workers), "i8")
        numpy.add.at(counts, (at, self.packets["worker"]), 1)
        return counts

    def wrong_sources(self):
        """Flows whose source address or port changed after the first packet, or equals that of another flow: all flows
        have one destination, so no two may have the same.
        """
        source = self.packets["address"].astype("u8") << 16 | self.packets["port"]
        pairs = numpy.unique(numpy.stack([self.packets["flow"].astype("u8"), source]), axis=1)
        each = [numpy.unique(one, return_counts=True) for one in pairs]
        several, shared = (values[counts > 1] for values, counts in each)
        return len(set(several.tolist()) | set(pairs[0][numpy.isin(pairs[1], shared)].tolist()))

    def wrong_counts(self, counted):
        """Flows for which the counter `counted` differs from the number of packets that came out."""
        came = numpy.bincount(self.packets["flow"], minlength=self.flows)
        return sum(int(came[flow]) != counted.get(flow, 0) for flow in range(self.flows)) + len(set(counted) - set(range(self.flows)))

    def moves(self):
        """Number of times that the next packet of a flow left through another worker than the previous one."""
        by_flow = numpy.argsort(self.packets["flow"], kind="stable")
        flow, worker = self.packets["flow"][by_flow], self.packets["worker"][by_flow]
        return int(((flow[1:] == flow[:-1]) & (worker[1:] != worker[:-1])).sum())
