//! Makes packets as fast as it can, all with the same data.
//!
//! ```click
//! InfiniteSource(DATA \<00 01 02>, LIMIT 10, BURST 5) -> Discard;
//! ```
//!
//! Packets are pushed as fast as the graph takes them; while every Queue they lead to is full,
//! InfiniteSource sleeps. With a pull output it makes packets when it is asked.
//!
//! Arguments:
//!
//! - `DATA`: bytes of each packet. Default is a text of 69 bytes.
//! - `LIMIT`: number of packets; negative = no limit, the default.
//! - `BURST`: packets made at a time. Default 1.
//! - `ACTIVE`: if false, makes none. Default true.
//!
//! Keyword arguments:
//!
//! - `LENGTH`: if given, packets are this long; `DATA` is repeated or cut.
//! - `TIMESTAMP`: whether packets get the time at which they are made as their timestamp. Default true.
//! - `STOP`: whether to stop the router when `LIMIT` is reached. Default false.
//! - `END_CALL`: handler that is written when `LIMIT` is reached, in place of `STOP`.
//! - `CORES`: the workers on which it runs. Default 0.

use super::end::End;
use super::template::{Template, left};
use crate::prelude::*;
use engine::units::{self, Cores};
use std::marker::PhantomData;

/// The most packets of one run.
const BURST_MAX: usize = 4096;

/// A class that makes packets whenever it may.
pub(crate) trait Kind: 'static {
    /// The class name.
    const CLASS: &'static str;
    /// The manual page.
    const MANUAL: &'static str;
    /// Whether every packet has other, random bytes.
    const RANDOM: bool;
}

/// The same packet again and again.
pub(crate) struct Same;

impl Kind for Same {
    const CLASS: &'static str = "InfiniteSource";
    const MANUAL: &'static str = manual!();
    const RANDOM: bool = false;
}

#[derive(Clone)]
pub(crate) struct Settings {
    template: Template,
    limit: i64,
    burst: usize,
    active: bool,
}

pub(crate) struct Config {
    settings: Settings,
    end: End,
    timestamp: bool,
    cores: Option<Cores>,
}

pub(crate) struct InfiniteSource<K = Same> {
    kind: PhantomData<K>,
    config: Arc<Config>,
    settings: Settings,
    count: u64,
    /// Whether the end of the packets has been told; those who pull may come again.
    ended: bool,
}

impl<K: Kind> InfiniteSource<K> {
    /// Makes up to `n` packets; returns how many.
    fn make(&mut self, n: usize, into: &mut Batch, cx: &mut Cx) -> usize {
        for made in 0..n {
            let Some(mut packet) = self.settings.template.packet() else {
                return made;
            };
            if K::RANDOM {
                for chunk in packet.data_mut().chunks_mut(4) {
                    chunk.copy_from_slice(&cx.random().to_ne_bytes()[..chunk.len()]);
                }
            }
            if self.config.timestamp {
                packet.cold_mut().timestamp = cx.timestamp();
            }
            self.count += 1;
            into.push(packet);
        }
        n
    }

    fn left(&self) -> usize {
        left(self.settings.limit, self.count)
    }

    /// What happens when the limit is reached.
    fn over(&mut self, cx: &mut Cx) {
        if !self.ended {
            self.ended = true;
            self.config.end.reached(cx);
        }
    }

    /// A setting has changed: there may be packets to make.
    fn changed(&mut self, cx: &mut Cx) {
        self.ended = false;
        cx.wake_self();
        if self.settings.active && self.left() > 0 {
            cx.wake_pullers();
        }
    }
}

impl<K: Kind> Element for InfiniteSource<K> {
    const CLASS: &'static str = K::CLASS;
    const MANUAL: &'static str = K::MANUAL;
    const PORTS: Ports = Ports::coded(&[], &["out"], "/a");
    const RUNS: Runs = Runs::AsTaskIfPush;
    const NOTIFIES: bool = true;

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let data = if K::RANDOM {
            vec![
                0;
                args.required::<u16>("LENGTH", "length of each packet")
                    .into()
            ]
        } else {
            Template::data(args)
        };
        let limit = args.optional("LIMIT", -1, "number of packets; negative = no limit");
        let burst = args.optional("BURST", 1, "packets made at a time");
        let active = args.optional("ACTIVE", true, "if false, makes none");
        let template = if K::RANDOM {
            Template::whole(args, data)
        } else {
            Template::parse(args, data)
        };
        Config {
            settings: Settings {
                template,
                limit,
                burst,
                active,
            },
            end: End::parse(args),
            timestamp: args.key("TIMESTAMP", true, "whether packets get a timestamp"),
            cores: args.key_maybe("CORES", "workers on which it runs"),
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> InfiniteSource<K> {
        InfiniteSource {
            kind: PhantomData,
            settings: config.settings.clone(),
            config: Arc::clone(config),
            count: 0,
            ended: false,
        }
    }

    fn start(&mut self, cx: &mut Cx) {
        if self.settings.active && self.left() > 0 {
            cx.wake_pullers();
        }
    }

    fn task(&mut self, cx: &mut Cx) -> Did {
        if !self.settings.active || !cx.has_room(0) {
            return Did::Sleep;
        }
        let n = self.settings.burst.clamp(1, BURST_MAX).min(self.left());
        if n == 0 {
            self.over(cx);
            return Did::End;
        }
        let mut batch = cx.spare();
        let made = self.make(n, &mut batch, cx);
        cx.emit_batch(0, &mut batch);
        cx.keep_spare(batch);
        if made > 0 { Did::Work } else { Did::Nothing }
    }

    fn pull(&mut self, _: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        if !self.settings.active || self.left() == 0 {
            cx.note_empty();
            if self.settings.active {
                self.over(cx);
            }
            return;
        }
        let n = max.min(self.left());
        self.make(n, into, cx);
    }

    fn take(&mut self, old: InfiniteSource<K>) {
        self.count = old.count;
    }

    fn placement(config: &Config) -> Placement {
        Placement {
            workers: config.cores.as_ref().map(|c| c.0.clone()),
            ..Placement::default()
        }
    }

    const HANDLERS: &'static [Handler<InfiniteSource<K>>] = &[
        Handler::sum("count", "packets made", |e| e.count),
        Handler::set(
            "reset",
            "counts from zero again, up to LIMIT",
            |e, _, cx| {
                e.count = 0;
                e.changed(cx);
                Ok(())
            },
        ),
        Handler::text("data", "see DATA", |e, _| {
            Ok(e.settings.template.show_data())
        }),
        Handler::set("data", "see DATA", |e, value, _| {
            e.settings.template.set_data(value)
        }),
        Handler::text("length", "see LENGTH", |e, _| {
            Ok(e.settings.template.show_length())
        }),
        Handler::set("length", "see LENGTH", |e, value, _| {
            e.settings.template.set_length(value)
        }),
        Handler::text("limit", "see LIMIT", |e, _| {
            Ok(e.settings.limit.to_string())
        }),
        Handler::set("limit", "see LIMIT", |e, value, cx| {
            e.settings.limit = units::parse(value)?;
            e.changed(cx);
            Ok(())
        }),
        Handler::text("burst", "see BURST", |e, _| {
            Ok(e.settings.burst.to_string())
        }),
        Handler::set("burst", "see BURST", |e, value, cx| {
            e.settings.burst = units::parse(value)?;
            e.changed(cx);
            Ok(())
        }),
        Handler::text("active", "see ACTIVE", |e, _| {
            Ok(e.settings.active.to_string())
        }),
        Handler::set("active", "see ACTIVE", |e, value, cx| {
            e.settings.active = units::parse(value)?;
            e.changed(cx);
            Ok(())
        }),
    ];
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn the_limit_and_the_length_hold() {
        let mut bench = Bench::new(
            crate::CLASSES,
            "s :: InfiniteSource(DATA ab, LIMIT 5, BURST 2, LENGTH 3) -> out :: Collect",
        );
        bench.run();
        assert_eq!(bench.take("out"), [b"aba"; 5]);
        assert_eq!(bench.read("s.count"), "5");
    }

    #[test]
    fn settings_change_at_run_time() {
        let mut bench = Bench::new(
            crate::CLASSES,
            "s :: InfiniteSource(DATA ab, LIMIT 2, ACTIVE false) -> out :: Collect",
        );
        bench.run();
        assert!(bench.take("out").is_empty());
        bench.write("s.active", "true");
        bench.run();
        assert_eq!(bench.take("out"), [b"ab"; 2]);
        bench.write("s.data", "xyz");
        bench.write("s.length", "2");
        bench.write("s.reset", "");
        bench.run();
        assert_eq!(bench.take("out"), [b"xy"; 2]);
        bench.write("s.limit", "3");
        bench.run();
        assert_eq!(bench.take("out").len(), 1);
        assert_eq!(
            (bench.read("s.data"), bench.read("s.length")),
            ("xyz".into(), "2".into())
        );
        assert!(bench.try_write("s.length", "100000").is_err());
    }

    #[test]
    fn asked_for_packets_it_gives_them_up_to_the_limit() {
        let text = "s :: InfiniteSource(LIMIT 4, STOP true) -> d :: Discard(BURST 1);
            Idle -> q :: Queue -> d2 :: Discard";
        for make in [Bench::new, Bench::strict] {
            let mut bench = make(
                crate::CLASSES,
                &text.replace("-> d ::", "-> Null -> u :: Unqueue -> d ::"),
            );
            bench.run();
            assert_eq!(bench.read("d.count"), "4");
            assert!(bench.graph().stopped());
        }
    }

    #[test]
    fn the_handler_of_the_end_is_written_once() {
        let text = "s :: InfiniteSource(LIMIT 4, END_CALL more.limit 6) -> VIA -> out :: Collect;
            more :: InfiniteSource(LIMIT 2) -> Discard";
        for make in [Bench::new, Bench::strict] {
            for via in ["Null", "Unqueue"] {
                let mut bench = make(crate::CLASSES, &text.replace("VIA", via));
                bench.run();
                assert_eq!(bench.take("out").len(), 4);
                assert_eq!(bench.read("more.count"), "6");
                bench.write("more.limit", "7");
                bench.run();
                assert_eq!(bench.read("more.limit"), "7", "not written again");
                bench.write("s.reset", "");
                bench.run();
                assert_eq!(bench.read("more.limit"), "6", "the limit is reached anew");
            }
        }
    }

    #[test]
    fn the_end_stops_or_calls_but_not_both() {
        for class in [
            "InfiniteSource(",
            "RandomSource(9, ",
            "RatedSource(",
            "TimedSource(",
        ] {
            let text = format!("s :: {class}LIMIT 1, STOP true, END_CALL s.reset) -> Discard");
            let wrong = testkit::errors(crate::CLASSES, &text);
            assert!(
                wrong.contains("END_CALL and STOP are mutually exclusive"),
                "{wrong}"
            );
        }
    }

    #[test]
    fn random_packets_differ() {
        let mut bench = Bench::new(
            crate::CLASSES,
            "s :: RandomSource(10, LIMIT 2) -> out :: Collect",
        );
        bench.run();
        let packets = bench.take("out");
        assert!(packets.len() == 2 && packets[0] != packets[1]);
        assert!(packets.iter().all(|p| p.len() == 10));
    }
}
