"""What eval/queues computes from records of packets: made-up records of which the truth is known."""

import pathlib
import struct
import sys

import pytest

numpy = pytest.importorskip("numpy", reason="skipped: test_queue_records needs python3-numpy (scripts/deps eval)")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "eval" / "queues"))

import moves  # noqa: E402
from records import Records  # noqa: E402

MS = 1_000_000


def records(tmp_path, packets, due, missed=(0, 0), flows=4):
    """Records of two receive queues; a packet is (flow, worker, number, due, left), in nanoseconds."""
    path = tmp_path / "records"
    head = struct.pack("<QQQ", 2, flows, 0) + b"".join(struct.pack("<QQ", d, m) for d, m in zip(due, missed))
    path.write_bytes(head + b"".join(struct.pack("<HHIQQ", *packet) for packet in packets))
    return Records(path)


def test_what_was_due_is_compared_with_what_came(tmp_path):
    # Flows 0 and 2 by the first queue, in turn; 1 and 3 by the second.
    found = records(tmp_path, [(0, 0, 0, 5, 10), (2, 0, 0, 6, 11), (0, 0, 1, 7, 12), (1, 1, 0, 5, 9), (1, 1, 0, 5, 13)], due=(3, 2))
    assert found.due_of_flows() == [2, 1, 1, 1]
    assert found.lost() == (1, 1), "flow 3's packet never came, flow 1's came twice"
    assert found.reordered() == 0


def test_a_packet_behind_a_later_one_of_its_flow_is_reordered_by_whichever_worker_it_came(tmp_path):
    packets = [(0, 0, 0, 0, 10), (0, 1, 2, 0, 20), (0, 0, 1, 0, 30), (2, 0, 0, 0, 40), (0, 1, 3, 0, 50)]
    found = records(tmp_path, packets, due=(8, 0))
    assert found.reordered() == 1
    assert found.moves() == 3, "flow 0 changes worker twice, and back again"
    assert found.lost()[0] == 3


def test_a_load_is_balanced_once_workers_stay_within_a_tenth_of_the_mean(tmp_path):
    def window(n, first, second):
        at = int(n * moves.WINDOW * 1e9) + MS
        return [(0, worker, 0, at + k, at + k) for worker, count in ((0, first), (1, second)) for k in range(count)]

    shares = [(20, 0), (10, 10), (15, 5), (11, 9), (10, 10), (9, 11), (10, 10), (1, 0)]
    packets = [packet for n, (a, b) in enumerate(shares) for packet in window(n, a, b)]
    assert moves.balanced_after(records(tmp_path, packets, due=(200, 0))) == pytest.approx(3 * moves.WINDOW)
    never = [packet for n in range(5) for packet in window(n, 20, 0)]
    assert moves.balanced_after(records(tmp_path, never, due=(200, 0))) is None
