//! Merges streams of packets in the order of their timestamps.
//!
//! ```click
//! tss :: TimeSortedSched(STOP true) -> ToDump(merged.pcap);
//! FromDump(a.pcap) -> [0]tss;
//! FromDump(b.pcap) -> [1]tss;
//! ```
//!
//! Each input should give packets in the order of their timestamps. Packets with equal timestamps leave in
//! the order of their inputs.
//!
//! Keyword arguments:
//!
//! - `STOP`: true to stop the router when there are no packets and no input can get more. Default false.
//! - `BUFFER`: packets of each input that are held, and from which the earliest is chosen. Default 1.

use crate::prelude::*;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

pub(super) struct Config {
    stop: bool,
    buffer_packets: usize,
}

/// A packet that waits, ordered so that the earliest is the greatest, as a heap wants it.
struct Waiting {
    stamp: i64,
    input: usize,
    /// Number of the packet within its input.
    number: u64,
    packet: Packet,
}

impl Waiting {
    fn key(&self) -> (i64, usize, u64) {
        (self.stamp, self.input, self.number)
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Waiting) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Waiting) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Waiting) -> Ordering {
        other.key().cmp(&self.key())
    }
}

pub(super) struct TimeSortedSched {
    stop: bool,
    buffer_packets: usize,
    heap: BinaryHeap<Waiting>,
    /// Number of waiting packets of each input.
    waiting: Vec<usize>,
    number: u64,
    /// Timestamp of the last packet that left.
    last_left: Option<i64>,
    well_ordered: bool,
}

impl TimeSortedSched {
    /// Fills each input's share of the buffer.
    fn fill(&mut self, cx: &mut Cx) {
        let mut batch = cx.spare();
        for input in 0..self.waiting.len() {
            let room = self.buffer_packets - self.waiting[input];
            if room == 0 || !cx.input_active(input) {
                continue;
            }
            self.waiting[input] += cx.pull(input, room, &mut batch);
            for packet in batch.drain() {
                self.number += 1;
                self.heap.push(Waiting {
                    stamp: super::get(&packet, false),
                    input,
                    number: self.number,
                    packet,
                });
            }
        }
        cx.keep_spare(batch);
    }
}

impl Element for TimeSortedSched {
    const CONTRACT: Contract = Contract::new("TimeSortedSched", manual!())
        .ports(Ports::coded(&["in*"], &["out"], "l/l"))
        .copies(Copies::One);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let stop = args.key("STOP", false, "true if the router stops at the end of all");
        let doc = "packets of an input that may wait here";
        let Capacity(buffer_packets) =
            args.key_in("BUFFER", Capacity(1), Capacity(1)..=Capacity::MAX, doc);
        Config {
            stop,
            buffer_packets,
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> TimeSortedSched {
        TimeSortedSched {
            stop: config.stop,
            buffer_packets: config.buffer_packets,
            heap: BinaryHeap::new(),
            waiting: vec![0; init.inputs],
            number: 0,
            last_left: None,
            well_ordered: true,
        }
    }

    fn pull(&mut self, _: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        for _ in 0..max {
            self.fill(cx);
            let Some(first) = self.heap.pop() else {
                let more = (0..self.waiting.len()).any(|input| cx.input_active(input));
                if self.stop && into.is_empty() && !more {
                    cx.stop();
                }
                return;
            };
            self.waiting[first.input] -= 1;
            self.well_ordered &= self.last_left.is_none_or(|last| last <= first.stamp);
            self.last_left = Some(first.stamp);
            into.push(first.packet);
        }
    }

    fn held(&self) -> usize {
        self.heap.len()
    }

    fn take(&mut self, old: TimeSortedSched) {
        (self.last_left, self.well_ordered) = (old.last_left, old.well_ordered);
        self.number = old.number;
        // Packets of removed inputs leave with those of the last remaining one.
        let Some(last) = self.waiting.len().checked_sub(1) else {
            return;
        };
        for mut waiting in old.heap {
            waiting.input = waiting.input.min(last);
            self.waiting[waiting.input] += 1;
            self.heap.push(waiting);
        }
    }

    const HANDLERS: &'static [Handler<TimeSortedSched>] = &[Handler::show(
        "well_ordered",
        "true if packets have left in the order of their timestamps",
        |e| &e.well_ordered,
    )];
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    /// Merges two dumps; returns the timestamps, and whether they are in order.
    fn merge(options: &str, a: &str, b: &str) -> (Vec<u64>, String) {
        let dump = |times: &str| format!("!data timestamp\n{}\n", times.replace(' ', "\n"));
        let text = format!(
            "t :: TimeSortedSched({options}) -> SetTimestampDelta(TYPE RANGE) -> StoreTimestamp(OFFSET 0)
                -> out :: Collect;
             FromIPSummaryDump(DATA \"{}\") -> [0]t; FromIPSummaryDump(DATA \"{}\") -> [1]t",
            dump(a),
            dump(b)
        );
        let mut bench = Bench::strict(crate::with_basics(), &text);
        bench.run();
        assert_eq!(bench.graph().stopped(), options.contains("STOP true"));
        let second = |bytes: &Vec<u8>| {
            let stamp: [u8; 8] = bytes[..8].try_into().expect("eight bytes");
            u64::from_ne_bytes(stamp) / 1_000_000_000 + 1
        };
        let out = bench.take("out").iter().map(second).collect();
        (out, bench.read("t.well_ordered"))
    }

    #[test]
    fn streams_are_merged_by_time() {
        let (times, ordered) = merge("STOP true", "1 2 10 12 55", "3 8 9 14");
        assert_eq!(times, [1, 2, 3, 8, 9, 10, 12, 14, 55]);
        assert_eq!(ordered, "true");
    }

    #[test]
    fn a_dump_without_outputs_pulls_by_itself() {
        let mut bench = Bench::strict(
            crate::with_basics(),
            "FromIPSummaryDump(DATA \"!data timestamp\n1\n2\n\") -> t :: TimeSortedSched(STOP true)
                -> ToIPSummaryDump(/dev/null)",
        );
        bench.run();
        assert!(bench.graph().stopped());
    }

    #[test]
    fn disorder_is_told_and_a_buffer_mends_a_little_of_it() {
        let (times, ordered) = merge("", "1 10 2 12", "3 8 9 14");
        assert_eq!(times, [1, 3, 8, 9, 10, 2, 12, 14]);
        assert_eq!(ordered, "false");
        let (times, ordered) = merge("BUFFER 2", "1 10 2 12", "3 8 9 14");
        assert_eq!(times, [1, 2, 3, 8, 9, 10, 12, 14]);
        assert_eq!(ordered, "true");
    }
}
