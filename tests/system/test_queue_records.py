"""Results that eval/queues computes from generated records with known answers."""

import pathlib
import struct
import sys

import numpy
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "eval" / "queues"))

import capacity  # noqa: E402
import moves  # noqa: E402
from records import Records  # noqa: E402

MS = 1_000_000


def records(tmp_path, packets, due, missed=(0, 0), flows=4, polls=([(1, 0, 0, 0)], [(1, 0, 0, 0)])):
    """Records of two receive queues. A packet is (flow, worker, number, due, left) in nanoseconds, optionally with its
    source port, which by default is the flow's number. `polls` has for each queue and every 10 ms: number of polls,
    longest time between two (us), maximum number of waiting packets, and packets without room.
    """
    path = tmp_path / "records"
    head = struct.pack("<QQQQQ", 2, flows, 0, len(polls[0]), 10 * MS) + b"".join(struct.pack("<QQQ", d, m, 3 * m) for d, m in zip(due, missed))
    head += b"".join(struct.pack("<IIII", *window) for queue in polls for window in queue)
    whole = [(*packet[:5], 0xC0000201, packet[5] if len(packet) > 5 else packet[0], 0) for packet in packets]
    path.write_bytes(head + b"".join(struct.pack("<HHIQQIHH", *packet) for packet in whole))
    return Records(path)


def test_due_packets_are_compared_with_received_ones(tmp_path):
    # Flows 0 and 2 by the first queue, in turn; 1 and 3 by the second.
    found = records(tmp_path, [(0, 0, 0, 5, 10), (2, 0, 0, 6, 11), (0, 0, 1, 7, 12), (1, 1, 0, 5, 9), (1, 1, 0, 5, 13)], due=(3, 2))
    assert found.due_of_flows() == [2, 1, 1, 1]
    assert found.lost() == (1, 1), "flow 3's packet never came, flow 1's came twice"
    assert found.reordered() == 0
    overflown = records(tmp_path, [(0, 0, 0, 5, 10)], due=(3, 2), missed=(1, 2))
    assert (overflown.missed(), overflown.deepest()) == (3, 6)


def test_a_flow_whose_translation_changes_or_is_anothers_is_wrong(tmp_path):
    keep = [(flow, 0, n, n, 10 * n, 5000 + flow) for flow in (0, 1, 2) for n in range(3)]
    assert records(tmp_path, keep, due=(6, 3)).wrong_sources() == 0
    changed = [*keep, (1, 1, 3, 3, 40, 6000)]
    assert records(tmp_path, changed, due=(6, 4)).wrong_sources() == 1
    shared = [*keep, (3, 1, 0, 3, 40, 5002)]
    assert records(tmp_path, shared, due=(6, 4)).wrong_sources() == 2, "flow 3 has the port of flow 2"


def test_counts_of_flows_are_compared_with_received_packets(tmp_path):
    found = records(tmp_path, [(0, 0, 0, 5, 10), (0, 0, 1, 5, 11), (2, 1, 0, 5, 9)], due=(4, 0))
    assert found.wrong_counts({0: 2, 2: 1}) == 0
    assert found.wrong_counts({0: 1, 2: 1}) == 1
    assert found.wrong_counts({0: 2, 1: 1, 2: 2}) == 2
    assert found.wrong_counts({0: 2, 2: 1, 77: 1}) == 1, "a flow that there is not"


def test_a_packet_behind_a_later_one_of_its_flow_is_reordered_by_whichever_worker_it_came(tmp_path):
    packets = [(0, 0, 0, 0, 10), (0, 1, 2, 0, 20), (0, 0, 1, 0, 30), (2, 0, 0, 0, 40), (0, 1, 3, 0, 50)]
    found = records(tmp_path, packets, due=(8, 0))
    assert found.reordered() == 1
    assert found.moves() == 3, "flow 0 changes worker twice, and back again"
    assert found.lost()[0] == 3


def test_a_load_is_balanced_once_workers_stay_within_a_tenth_of_the_mean_for_a_while(tmp_path):
    def balanced(shares):
        packets = [(0, worker, 0, at + k, at + k) for n, share in enumerate(shares)
                   for at in [int(n * moves.WINDOW * 1e9) + MS] for worker, count in enumerate(share) for k in range(count)]
        return moves.balanced_after(records(tmp_path, packets, due=(200, 0)))

    holds = round(moves.HOLDS / moves.WINDOW)
    cut = (1, 0)  # the last window is not whole, and not looked at
    chance = [(20, 0), *[(10, 10)] * (holds - 1), (15, 5)]
    even = [(11, 9), *[(10, 10)] * (holds - 2), (9, 11)]
    later = [(12, 8), (10, 10), (0, 20)]
    assert balanced([*chance, *even, cut]) == pytest.approx((len(chance) * moves.WINDOW, 0))
    assert balanced([*chance, *even, *later, cut]) == pytest.approx((len(chance) * moves.WINDOW, 2 * moves.WINDOW))
    assert balanced([*chance, *even[1:], cut]) == (None, None), "not for long enough"
    assert balanced([*[(20, 0)] * (2 * holds), cut]) == (None, None), "one worker has all"


def test_windows_have_as_many_packets_of_all_flows():
    for rate in (10_000, 47_018, 96_000, 300_000):
        window = moves.window_of(rate)
        turns = window * rate / moves.FLOWS
        assert window >= moves.WINDOW and turns == pytest.approx(round(turns)), rate
        assert (round(turns) - 1) * moves.FLOWS / rate < moves.WINDOW, rate


def test_how_long_a_queue_was_not_polled_and_when_it_was_full_is_known(tmp_path):
    first = [(9, 100, 5, 0), (9, 2500, 8, 3), (0, 0, 0, 0), (4, 14_000, 8, 90), (9, 0, 0, 0)]
    found = records(tmp_path, [(0, 0, 0, 5, 10)], due=(1, 0), polls=(first, [(9, 0, 0, 0)] * 5))
    assert found.unpolled() == pytest.approx((0.014, 0.04, 0))
    assert found.spans() == [[0, 0.01, 0.04, 93, 13]]
    gone = records(tmp_path, [(0, 0, 0, 5, 10)], due=(1, 0), polls=(first, [(9, 0, 0, 0), *[(0, 0, 0, 0)] * 4]))
    assert gone.unpolled() == pytest.approx((0.04, 0.05, 1)), "it is not polled any more"


def test_a_round_compares_both_cores_with_each_alone():
    rates = {"testpmd 0": [80, 60], "testpmd 1": [120, 60], "testpmd 0 1": [200, 90], "route 0": [20, 20], "route 1": [20, 20], "route 0 1": [38, 30]}
    assert capacity.gains(rates, "testpmd") == [2, 1.5]
    assert capacity.of_ceiling(rates) == pytest.approx([0.95, 1])


def test_how_busy_the_first_worker_was_before_another_helped_is_told_by_when_packets_waited(tmp_path):
    # A packet waits for a quarter of every millisecond. From 10 ms on a packet waits all the time, until another worker sends.
    idle = [(0, 0, n, n * MS, n * MS + MS // 4) for n in range(10)]
    found = records(tmp_path, idle, due=(40, 1))
    assert found.busy() == pytest.approx(0.25, abs=0.03)
    full = [(0, 0, n, n * MS, n * MS + 2 * MS) for n in range(10, 30)]
    assert records(tmp_path, [*full, (1, 1, 0, 0, 40 * MS)], due=(40, 1)).busy() == 1
    half = [*idle, *full[:9], (1, 1, 0, 0, 20 * MS), (0, 0, 30, 35 * MS, 36 * MS)]
    assert records(tmp_path, half, due=(40, 1)).busy() == pytest.approx((2.5 + 10) / 20, abs=0.03)
