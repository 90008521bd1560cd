//! Counts packets or bytes for each value of the AGGREGATE annotation.
//!
//! ```click
//! FromIPSummaryDump(-, STOP true) -> AggregateIPFlows -> ac :: AggregateCounter -> Discard;
//! DriverManager(pause, write ac.write_text_file -);
//! ```
//!
//! While it is frozen, it counts only known aggregates. It always treats packets of the second input like this. If
//! output 1 is connected, packets that are not counted leave there.
//!
//! Keyword arguments:
//!
//! - `BYTES`: true if bytes are counted. Default false.
//! - `IP_BYTES`: true to count bytes only from the network header on. Default false.
//! - `MULTIPACKET`: true if a packet that stands for several (EXTRA_PACKETS annotation) counts that many times.
//!   Default true.
//! - `EXTRA_LENGTH`: true to count bytes that were not captured (EXTRA_LENGTH annotation). Default true.
//! - `AGGREGATE_STOP`, `AGGREGATE_FREEZE`, `AGGREGATE_CALL`: action when there are N aggregates and a packet of
//!   another one arrives: stop counting and the router, freeze, or write a handler (`N HANDLER VALUE`). Only one of
//!   them may be given. The action happens once; then the packet is counted, unless counting has stopped.
//! - `COUNT_STOP`, `COUNT_FREEZE`, `COUNT_CALL`: the same as soon as the sum of all counts has reached a number.
//! - `CAPACITY`: maximum number of aggregates. Default 1048576; with `ashlar click` 16777216. Packets of further
//!   aggregates are not counted; the handler `uncounted` returns their number.
//! - `BANNER`: first line of written files.

use crate::dump::file::Output;
use crate::prelude::*;
use arguments::show::reason;
use elements::basic::counter::Call;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;

/// Action at a threshold, which is done once.
#[derive(Clone, Default)]
enum Mark {
    #[default]
    None,
    Stop(u64),
    Freeze(u64),
    Call(Call),
}

pub(super) struct Config {
    bytes: bool,
    ip_bytes: bool,
    multipacket: bool,
    extra_length: bool,
    aggregates: Mark,
    count: Mark,
    banner: String,
    capacity: Option<Capacity>,
}

pub(super) struct AggregateCounter {
    config: Arc<Config>,
    counts: HashMap<u32, u64>,
    capacity: usize,
    uncounted: u64,
    total: u64,
    frozen: bool,
    active: bool,
    banner: String,
    aggregates: Mark,
    count: Mark,
}

/// Format of aggregates in a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Binary,
    Text,
    Ip,
}

impl Mark {
    fn configure(args: &mut Args, names: [&'static str; 3]) -> Mark {
        let [stop, freeze, call] = names;
        let stop_at = args.key_maybe(stop, "number at which the router stops");
        let freeze_at = args.key_maybe(freeze, "number at which it freezes");
        let calls = Call::argument(args, call, "handler that is written at a number");
        match (stop_at, freeze_at, calls.mark()) {
            (None, None, None) => Mark::None,
            (Some(at), None, None) => Mark::Stop(at),
            (None, Some(at), None) => Mark::Freeze(at),
            (None, None, Some(_)) => Mark::Call(calls),
            _ => {
                args.error_in_whole(
                    format!("'{stop}', '{freeze}' and '{call}' are mutually exclusive"),
                    "give one of them",
                );
                Mark::None
            }
        }
    }

    fn parse(text: &str) -> Result<Mark, String> {
        let call = Call::parse(text)?;
        Ok(match call.mark() {
            Some(_) => Mark::Call(call),
            None => Mark::None,
        })
    }

    /// Takes the action out if `number` has reached its threshold.
    fn take_due(&mut self, number: u64) -> Mark {
        let at = match self {
            Mark::None => None,
            Mark::Stop(at) | Mark::Freeze(at) => Some(*at),
            Mark::Call(call) => call.mark(),
        };
        match at {
            Some(at) if at <= number => std::mem::take(self),
            _ => Mark::None,
        }
    }

    /// The call as it is written in configurations; empty if there is none.
    fn show(&self) -> String {
        match self {
            Mark::Call(call) => call.show(),
            _ => String::new(),
        }
    }
}

impl AggregateCounter {
    /// Weight of a packet in the count.
    fn weight(&self, packet: &Packet) -> u64 {
        let cold = packet.cold();
        if !self.config.bytes {
            let extra = if self.config.multipacket {
                cold.extra_packets()
            } else {
                0
            };
            return 1 + u64::from(extra);
        }
        let len = if self.config.ip_bytes {
            packet.network().len()
        } else {
            packet.len()
        };
        let extra = if self.config.extra_length {
            cold.extra_length()
        } else {
            0
        };
        len as u64 + u64::from(extra)
    }

    /// Performs the action of a threshold.
    fn act(&mut self, mark: &Mark, cx: &mut Cx) {
        match mark {
            Mark::None => {}
            Mark::Stop(_) => {
                self.active = false;
                cx.stop();
            }
            Mark::Freeze(_) => self.frozen = true,
            Mark::Call(call) => call.call(cx),
        }
    }

    /// Counts a packet; returns true if it was counted.
    fn count(&mut self, packet: &Packet, frozen: bool, cx: &mut Cx) -> bool {
        if !self.active {
            return false;
        }
        let aggregate = packet.cold().aggregate();
        let weight = self.weight(packet);
        let seen = self.counts.len();
        if !self.counts.contains_key(&aggregate) {
            if frozen || self.frozen {
                return false;
            }
            let due = self.aggregates.take_due(seen as u64);
            self.act(&due, cx);
            if self.frozen || !self.active {
                return false;
            }
            if seen >= self.capacity {
                self.uncounted += 1;
                return false;
            }
        }
        *self.counts.entry(aggregate).or_insert(0) += weight;
        self.total += weight;
        let due = self.count.take_due(self.total);
        self.act(&due, cx);
        true
    }

    fn write_file(&self, name: &str, format: Format) -> Result<(), String> {
        let mut counts: Vec<(u32, u64)> = self.counts.iter().map(|(a, c)| (*a, *c)).collect();
        counts.sort_unstable();
        let mut head = "!IPAggregate 1.0\n".to_owned();
        if !self.banner.is_empty() {
            head.push_str(&self.banner);
            head.push('\n');
        }
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(head, "!num_nonzero {}", counts.len());
        let mut out = head.into_bytes();
        if format == Format::Binary {
            out.extend(b"!packed_le\n");
            for (aggregate, count) in counts {
                out.extend(aggregate.to_le_bytes());
                out.extend((count as u32).to_le_bytes());
            }
        } else {
            let mut text = String::new();
            if format == Format::Ip {
                text.push_str("!ip\n");
            }
            for (aggregate, count) in counts {
                let _ = match format {
                    Format::Ip => writeln!(text, "{} {count}", Ipv4Addr::from(aggregate)),
                    _ => writeln!(text, "{aggregate} {count}"),
                };
            }
            out.extend(text.into_bytes());
        }
        let name = name.trim();
        let mut file = Output::create(name)?;
        let written = file.write(&out).and_then(|()| file.flush());
        written.map_err(|e| format!("{name}: {}", reason(&e)))
    }

    /// Replaces each aggregate by its count: the new counts say how often each former count occurred.
    fn fold(&mut self) {
        let mut folded = HashMap::new();
        for count in self.counts.values() {
            *folded.entry(*count as u32).or_insert(0) += 1;
        }
        self.total = self.counts.len() as u64;
        self.counts = folded;
    }
}

impl Element for AggregateCounter {
    const CONTRACT: Contract = Contract::new("AggregateCounter", manual!())
        .ports(Ports::coded(&["in", "frozen?"], &["out", "other?"], "a/ah"))
        .copies(Copies::One);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        Config {
            bytes: args.key("BYTES", false, "true if bytes are counted"),
            ip_bytes: args.key("IP_BYTES", false, "true if link headers do not count"),
            multipacket: args.key("MULTIPACKET", true, "true if a packet counts as several"),
            extra_length: args.key("EXTRA_LENGTH", true, "true to count missing bytes"),
            aggregates: Mark::configure(
                args,
                ["AGGREGATE_STOP", "AGGREGATE_FREEZE", "AGGREGATE_CALL"],
            ),
            count: Mark::configure(args, ["COUNT_STOP", "COUNT_FREEZE", "COUNT_CALL"]),
            banner: args.key("BANNER", String::new(), "first line of files"),
            capacity: super::capacity(args),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> AggregateCounter {
        AggregateCounter {
            counts: HashMap::new(),
            capacity: super::bound(config.capacity, init),
            uncounted: 0,
            total: 0,
            frozen: false,
            active: true,
            banner: config.banner.clone(),
            aggregates: config.aggregates.clone(),
            count: config.count.clone(),
            config: Arc::clone(config),
        }
    }

    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        // Pulled packets all leave by output 0, as in Click.
        let aside = cx.connected(1) && !cx.is_pulled(0);
        batch.split(
            cx,
            |packet, cx| match self.count(packet, input == 1, cx) {
                false if aside => Verdict::out(1),
                _ => Verdict::ON,
            },
            |packet, verdict, cx| cx.send(packet, verdict),
        );
    }

    fn take(&mut self, old: AggregateCounter) {
        (self.counts, self.total) = (old.counts, old.total);
        (self.frozen, self.active) = (old.frozen, old.active);
        if Arc::ptr_eq(&self.config, &old.config) {
            (self.aggregates, self.count) = (old.aggregates, old.count);
        }
    }

    const HANDLERS: &'static [Handler<AggregateCounter>] = &[
        Handler::set(
            "write_file",
            "writes aggregates and counts, packed",
            |e, name, _| e.write_file(name, Format::Binary),
        ),
        Handler::set(
            "write_text_file",
            "writes aggregates and counts as text",
            |e, name, _| e.write_file(name, Format::Text),
        ),
        Handler::set(
            "write_ip_file",
            "the same, aggregates as addresses",
            |e, name, _| e.write_file(name, Format::Ip),
        ),
        Handler::text("freeze", "true if it is frozen", |e, _| {
            Ok(e.frozen.to_string())
        }),
        Handler::set("freeze", "freezes or unfreezes it", |e, value, _| {
            assign(&mut e.frozen, value)
        }),
        Handler::text("active", "true if it counts", |e, _| {
            Ok(e.active.to_string())
        }),
        Handler::set("active", "counts, or not", |e, value, _| {
            assign(&mut e.active, value)
        }),
        Handler::set(
            "stop",
            "stops counting, and stops the router",
            |e, _, cx| {
                e.active = false;
                cx.stop();
                Ok(())
            },
        ),
        Handler::set("reset", "forgets all counts", |e, _, _| {
            e.counts.clear();
            (e.total, e.uncounted) = (0, 0);
            Ok(())
        }),
        Handler::set(
            "counts_pdf",
            "counts how many aggregates have each count",
            |e, _, _| {
                e.fold();
                Ok(())
            },
        ),
        Handler::text("banner", "first line of files", |e, _| Ok(e.banner.clone())),
        Handler::set("banner", "see BANNER", |e, value, _| {
            assign(&mut e.banner, value)
        }),
        Handler::text("aggregate_call", "see AGGREGATE_CALL", |e, _| {
            Ok(e.aggregates.show())
        }),
        Handler::set("aggregate_call", "see AGGREGATE_CALL", |e, value, _| {
            e.aggregates = Mark::parse(value)?;
            Ok(())
        }),
        Handler::text("count_call", "see COUNT_CALL", |e, _| Ok(e.count.show())),
        Handler::set("count_call", "see COUNT_CALL", |e, value, _| {
            e.count = Mark::parse(value)?;
            Ok(())
        }),
        Handler::text("nagg", "aggregates seen", |e, _| {
            Ok(e.counts.len().to_string())
        }),
        Handler::text("count", "sum of all counts", |e, _| Ok(e.total.to_string())),
        counter!(
            "uncounted",
            "packets for whose aggregate there was no room",
            uncounted
        ),
    ];
}

#[cfg(test)]
mod tests {
    use engine::packet::{Batch, Packet};
    use testkit::Bench;

    #[test]
    fn aggregates_beyond_the_capacity_are_told_and_not_counted() {
        let text = "c :: AggregateCounter(CAPACITY 2) -> out :: Collect; c[1] -> other :: Collect";
        let mut bench = Bench::new(crate::with_basics(), text);
        bench.push_packets("c", 0, packets(&[1, 2, 3, 1, 4]));
        let counts = ["nagg", "count", "uncounted"].map(|name| bench.read(&format!("c.{name}")));
        assert_eq!(counts, ["2", "3", "2"]);
        assert_eq!((bench.take("out").len(), bench.take("other").len()), (3, 2));
    }

    fn packets(aggregates: &[u32]) -> Batch {
        let made = aggregates.iter().map(|aggregate| {
            let mut packet = Packet::from_bytes(b"four").expect("it fits");
            packet.cold_mut().set_aggregate(*aggregate);
            packet
        });
        made.collect()
    }

    fn written(bench: &mut Bench, handler: &str) -> String {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("test").replace("::", "-");
        let name = format!("ashlar-{}-{test}", std::process::id());
        let file = std::env::temp_dir().join(name);
        bench.write(&format!("a.{handler}"), &file.display().to_string());
        let text = std::fs::read_to_string(&file).expect("the file was written");
        let _ = std::fs::remove_file(file);
        text
    }

    #[test]
    fn every_aggregate_has_its_count() {
        let mut bench = Bench::new(crate::with_basics(), "a :: AggregateCounter -> Discard");
        bench.push_packets("a", 0, packets(&[1, 1, 0, 0, 0, 2, 3, 2]));
        let text = written(&mut bench, "write_text_file");
        assert_eq!(
            text,
            "!IPAggregate 1.0\n!num_nonzero 4\n0 3\n1 2\n2 2\n3 1\n"
        );
        bench.write("a.counts_pdf", "");
        let text = written(&mut bench, "write_ip_file");
        assert_eq!(
            text,
            "!IPAggregate 1.0\n!num_nonzero 3\n!ip\n0.0.0.1 1\n0.0.0.2 2\n0.0.0.3 1\n"
        );
    }

    #[test]
    fn a_frozen_counter_learns_no_more() {
        let mut bench = Bench::new(
            crate::with_basics(),
            "a :: AggregateCounter(BYTES true, AGGREGATE_FREEZE 2) -> out :: Collect; a[1] -> o :: Collect",
        );
        bench.push_packets("a", 0, packets(&[1, 2, 3, 1]));
        assert_eq!((bench.take("out").len(), bench.take("o").len()), (3, 1));
        assert_eq!(bench.read("a.nagg"), "2");
        assert_eq!(bench.read("a.freeze"), "true");
        bench.write("a.freeze", "false");
        bench.push_packets("a", 0, packets(&[3]));
        assert_eq!(bench.read("a.count"), "16");
    }

    #[test]
    fn a_frozen_counter_passes_all_packets_on_that_are_pulled() {
        let mut bench = Bench::strict(
            crate::with_basics(),
            "q :: Queue -> a :: AggregateCounter -> Unqueue -> out :: Collect; a[1] -> o :: Collect",
        );
        bench.write("a.freeze", "true");
        bench.push_packets("q", 0, packets(&[1]));
        bench.run();
        let taken = (bench.take("out").len(), bench.take("o").len());
        assert_eq!(taken, (1, 0), "as in Click");
    }

    #[test]
    fn a_count_may_stop_the_router() {
        let mut bench = Bench::strict(
            crate::with_basics(),
            "a :: AggregateCounter(COUNT_STOP 3, AGGREGATE_CALL 2 a.banner two) -> Discard",
        );
        assert_eq!(bench.read("a.aggregate_call"), "2 a.banner two");
        assert_eq!(bench.read("a.count_call"), "");
        bench.push_packets("a", 0, packets(&[1, 2]));
        assert_eq!(bench.read("a.banner"), "");
        assert!(!bench.graph().stopped());
        bench.push_packets("a", 0, packets(&[3, 4]));
        assert_eq!(bench.read("a.banner"), "two");
        assert_eq!(bench.read("a.aggregate_call"), "", "it is done once");
        // Packets after the stop are not counted.
        assert_eq!(
            ["count", "active"].map(|name| bench.read(&format!("a.{name}"))),
            ["3", "false"]
        );
        bench.run();
        assert!(bench.graph().stopped());
        let text = "Idle -> AggregateCounter(COUNT_STOP 3, COUNT_CALL 3 x.y) -> Discard";
        let errors = testkit::errors(crate::with_basics(), text);
        assert!(errors.contains("mutually exclusive"), "{errors}");
    }

    #[test]
    fn the_packet_of_one_aggregate_more_freezes_or_stops() {
        for (mark, counted) in [
            ("AGGREGATE_FREEZE 1", ["2", "true", "true"]),
            ("AGGREGATE_STOP 1", ["1", "false", "false"]),
            ("AGGREGATE_STOP 0", ["0", "false", "false"]),
        ] {
            let text = format!("a :: AggregateCounter({mark}) -> Discard");
            let mut bench = Bench::new(crate::with_basics(), &text);
            bench.push_packets("a", 0, packets(&[1, 2, 1]));
            let is = ["count", "freeze", "active"].map(|name| bench.read(&format!("a.{name}")));
            assert_eq!(is, counted, "{mark}");
        }
    }
}
