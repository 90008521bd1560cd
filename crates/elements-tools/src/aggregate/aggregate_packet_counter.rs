//! Counts packets for each value of the AGGREGATE annotation and each packet number.
//!
//! ```click
//! FromDump(a.pcap, STOP true) -> c :: AggregatePacketCounter(ANNO NONE) -> Discard;
//! FromDump(b.pcap, STOP true) -> [1] c [1] -> Discard;
//! DriverManager(pause, pause, print c.count);
//! ```
//!
//! Packets of an input leave by the output of the same number; each input has its own counts.
//!
//! Keyword arguments:
//!
//! - `ANNO`: annotation with the packet number: `PACKET_NUMBER`, `SEQUENCE_NUMBER`, the number of another
//!   annotation's first byte, or `NONE`, with which all packets have number 0. Default PACKET_NUMBER.
//! - `CAPACITY`: pairs of aggregate and number that are kept of an input. Default 1048576; with `ashlar click`
//!   16777216. Further packets are not counted; the handler `uncounted` says how many they are.

use crate::prelude::*;
use arguments::Names;
use arguments::units::FromArg;
use elements::anno::Anno;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// Annotation with the packet number; `None` without one.
#[derive(Clone, Copy)]
pub(super) struct Number(Option<Anno<4>>);

impl FromArg for Number {
    const KIND: &'static str = "NONE, or an annotation of four bytes by name or first byte";

    fn from_arg(raw: &str, names: &Names) -> Result<Number, String> {
        match raw {
            "NONE" => Ok(Number(None)),
            _ => Anno::from_arg(raw, names).map(|anno| Number(Some(anno))),
        }
    }

    fn stand_in() -> Number {
        Number(None)
    }

    fn unparse(&self) -> String {
        self.0.map_or("NONE".to_owned(), |anno| anno.unparse())
    }
}

impl Number {
    fn get(self, packet: &Packet) -> u32 {
        self.0
            .map_or(0, |anno| u32::from_ne_bytes(anno.get(packet)))
    }
}

/// Number of packets, by aggregate and packet number.
type Counts = BTreeMap<(u32, u32), u64>;

pub(super) struct Config {
    anno: Number,
    capacity: Option<Capacity>,
}

pub(super) struct AggregatePacketCounter {
    anno: Number,
    /// Maximum number of pairs of aggregate and packet number per input.
    capacity: usize,
    uncounted: u64,
    /// Counts by input.
    counts: Vec<Counts>,
    total: u64,
}

impl AggregatePacketCounter {
    fn count(&mut self, input: usize, batch: &Batch) {
        self.total += batch.len() as u64;
        for packet in batch.iter() {
            let key = (packet.cold().aggregate(), self.anno.get(packet));
            let counts = &mut self.counts[input];
            let full = counts.len() >= self.capacity;
            match counts.entry(key) {
                Entry::Vacant(_) if full => self.uncounted += 1,
                entry => *entry.or_insert(0) += 1,
            }
        }
    }

    /// Packet numbers of an aggregate that have arrived at an input, each with the number of its packets.
    fn numbers(&self, input: usize, aggregate: u32) -> impl Iterator<Item = (u32, u64)> {
        let all = (aggregate, 0)..=(aggregate, u32::MAX);
        let counts = self.counts.get(input).into_iter();
        counts.flat_map(move |c| c.range(all.clone()).map(|(key, &count)| (key.1, count)))
    }
}

/// Text form of packet numbers, one per line.
fn lines(numbers: impl IntoIterator<Item = u32>) -> String {
    numbers.into_iter().map(|n| format!("{n}\n")).collect()
}

impl Element for AggregatePacketCounter {
    const CONTRACT: Contract = Contract::new("AggregatePacketCounter", manual!())
        .ports(Ports::coded(&["in+"], &["out+"], "a/a"))
        .copies(Copies::One);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        if args.inputs() != args.outputs() {
            args.error_in_whole(
                format!("{} inputs and {} outputs", args.inputs(), args.outputs()),
                "connect as many outputs as inputs",
            );
        }
        Config {
            anno: args.key(
                "ANNO",
                Number(Some(Anno::PACKET_NUMBER)),
                "annotation that holds the packet number",
            ),
            capacity: super::capacity(args),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> AggregatePacketCounter {
        AggregatePacketCounter {
            anno: config.anno,
            capacity: super::bound(config.capacity, init),
            uncounted: 0,
            counts: vec![Counts::new(); init.inputs],
            total: 0,
        }
    }

    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        self.count(input, batch);
        if input > 0 {
            cx.emit_batch(input, batch);
        }
    }

    fn pull(&mut self, output: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        let mut batch = cx.spare();
        cx.pull(output, max, &mut batch);
        self.count(output, &batch);
        into.append(&mut batch);
        cx.keep_spare(batch);
    }

    fn take(&mut self, old: AggregatePacketCounter) {
        if self.counts.len() == old.counts.len() {
            (self.counts, self.total) = (old.counts, old.total);
            self.uncounted = old.uncounted;
        }
    }

    const HANDLERS: &'static [Handler<AggregatePacketCounter>] = &[
        Handler::sum("count", "packets that came", |e| e.total),
        Handler::sum("uncounted", "packets for which there was no room", |e| {
            e.uncounted
        }),
        Handler::text(
            "received",
            "numbers of an aggregate's packets that came",
            |e, value| {
                let aggregate = arguments::units::parse(value)?;
                let inputs = 0..e.counts.len();
                let numbers = inputs.flat_map(|i| e.numbers(i, aggregate));
                Ok(lines(
                    numbers.map(|(number, _)| number).collect::<BTreeSet<_>>(),
                ))
            },
        ),
        Handler::text(
            "undelivered",
            "numbers of those of which more came by input 0 than by input 1",
            |e, value| {
                let aggregate = arguments::units::parse(value)?;
                if e.counts.len() < 2 {
                    return Ok(String::new());
                }
                let arrived: BTreeMap<u32, u64> = e.numbers(1, aggregate).collect();
                let missing = e.numbers(0, aggregate).filter(|(number, sent)| {
                    let count = arrived.get(number).copied().unwrap_or(0);
                    *sent > count
                });
                Ok(lines(missing.map(|(number, _)| number)))
            },
        ),
        Handler::set("clear", "counts from zero again", |e, _, _| {
            e.counts.iter_mut().for_each(Counts::clear);
            e.total = 0;
            Ok(())
        }),
    ];
}

#[cfg(test)]
mod tests {
    use engine::packet::{Batch, Packet};
    use testkit::Bench;

    fn packets(numbers: &[u32]) -> Batch {
        let made = numbers.iter().map(|number| {
            let mut packet = Packet::from_bytes(b"four").expect("it fits");
            packet.cold_mut().set_aggregate(7);
            packet.cold_mut().user[32..36].copy_from_slice(&number.to_ne_bytes());
            packet
        });
        made.collect()
    }

    #[test]
    fn undelivered_packets_are_known() {
        let text = "c :: AggregatePacketCounter -> a :: Collect; Idle -> [1] c [1] -> b :: Collect";
        let mut bench = Bench::new(crate::with_basics(), text);
        bench.push_packets("c", 0, packets(&[1, 2, 3, 3]));
        // One of the two packets with number 3 is missing: Click names it, too.
        bench.push_packets("c", 1, packets(&[2, 9, 3]));
        assert_eq!((bench.take("a").len(), bench.take("b").len()), (4, 3));
        assert_eq!(bench.read("c.count"), "7");
        let mut read = |handler: &str, value: &str| bench.try_read(&format!("c.{handler}"), value);
        assert_eq!(read("received", "7"), Ok("1\n2\n3\n9\n".into()));
        assert_eq!(read("undelivered", "7"), Ok("1\n3\n".into()));
        assert_eq!(read("undelivered", "8"), Ok(String::new()));
        bench.write("c.clear", "");
        assert_eq!(bench.read("c.count"), "0");
    }
}
