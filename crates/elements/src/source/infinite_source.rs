//! Makes packets as fast as it can, all with the same data.
//!
//! ```click
//! InfiniteSource(DATA \<00 01 02>, LIMIT 10, BURST 5) -> Discard;
//! ```
//!
//! Packets are pushed as fast as the graph takes them; while every Queue they lead to is full, InfiniteSource
//! sleeps. With a pull output it makes packets when they are pulled.
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
//! - `TIMESTAMP`: true if packets get the time at which they are made as their timestamp. Default true.
//! - `STOP`: true to stop the router when `LIMIT` is reached. Default false.
//! - `END_CALL`: handler that is written when `LIMIT` is reached, instead of `STOP`.
//! - `CORES`: the workers on which it runs. Default 0.

use super::source_state::{self, Source, Supply};
use super::template::Template;
use crate::prelude::*;
use arguments::units::Cores;
use engine::notify::Notifies;
use std::marker::PhantomData;

/// Maximum number of packets per run.
const BURST_MAX: usize = 4096;

/// A class that makes packets as fast as possible.
pub(crate) trait Kind: Sized + 'static {
    /// The class name.
    const CLASS: &'static str;
    /// The manual page.
    const MANUAL: &'static str;
    /// The handlers.
    const HANDLERS: &'static [Handler<InfiniteSource<Self>>];

    /// Parses the first argument, and further arguments about the packets' content.
    fn template(args: &mut Args) -> SourceArgs;

    /// Writes the content of a packet, for classes whose packets differ.
    fn fill(_: &mut Packet, _: &mut Cx) {}
}

/// Values of an element's arguments.
pub(crate) struct SourceArgs {
    pub(super) template: Template,
    pub(super) limit: i64,
    pub(super) burst: usize,
    pub(super) active: bool,
}

impl SourceArgs {
    /// Parses the arguments after the first one.
    pub(super) fn rest(
        args: &mut Args,
        template: impl FnOnce(&mut Args) -> Template,
    ) -> SourceArgs {
        let limit = args.optional("LIMIT", -1, "number of packets; negative = no limit");
        let burst = args.optional("BURST", 1, "packets made at a time");
        if burst == 0 {
            args.error_in_whole("burst size must be >= 1", "raise BURST");
        }
        let active = args.optional("ACTIVE", true, "if false, makes none");
        SourceArgs {
            template: template(args),
            limit,
            burst,
            active,
        }
    }
}

/// Kind whose packets are all equal.
pub(crate) struct Same;

impl Kind for Same {
    const CLASS: &'static str = "InfiniteSource";
    const MANUAL: &'static str = manual!();
    const HANDLERS: &'static [Handler<InfiniteSource>] = &[
        source_state::count(),
        source_state::reset(),
        source_state::data(),
        source_state::set_data(),
        source_state::length(),
        source_state::set_length(),
        source_state::limit(),
        source_state::set_limit(),
        burst(),
        set_burst(),
        source_state::active(),
        source_state::set_active(),
    ];

    fn template(args: &mut Args) -> SourceArgs {
        let data = Template::data(args);
        SourceArgs::rest(args, |args| Template::parse(args, data))
    }
}

pub(crate) struct Config {
    supply: Supply,
    burst: usize,
    timestamp: bool,
    cores: Option<Cores>,
}

pub(crate) struct InfiniteSource<K = Same> {
    kind: PhantomData<K>,
    supply: Supply,
    burst: usize,
    timestamp: bool,
}

impl<K: Kind> InfiniteSource<K> {
    fn make(&mut self, n: usize, into: &mut Batch, cx: &mut Cx) -> usize {
        let stamp = if self.timestamp { cx.timestamp() } else { 0 };
        self.supply
            .create(n, stamp, into, |packet| K::fill(packet, cx))
    }
}

impl<K: Kind> Source for InfiniteSource<K> {
    fn supply(&self) -> &Supply {
        &self.supply
    }

    fn supply_mut(&mut self) -> &mut Supply {
        &mut self.supply
    }

    fn changed(&mut self, cx: &mut Cx) {
        cx.wake_self();
        if self.supply.active && self.supply.remaining() > 0 {
            cx.wake_pullers();
        }
    }
}

/// Handler of the number of packets per burst.
pub(super) const fn burst<K: Kind>() -> Handler<InfiniteSource<K>> {
    Handler::show("burst", "see BURST", |e| &e.burst)
}

/// Handler that sets the number of packets per burst.
pub(super) const fn set_burst<K: Kind>() -> Handler<InfiniteSource<K>> {
    Handler::set("burst", "see BURST", |e, value, cx| {
        source_state::set(e, value, cx, |e, burst| e.burst = burst)
    })
}

impl<K: Kind> Element for InfiniteSource<K> {
    const CONTRACT: Contract = Contract::new(K::CLASS, K::MANUAL)
        .ports(Ports::coded(&[], &["out"], "/a"))
        .runs(Runs::AsTaskIfPush)
        .extensions(&[&resources::of::<Self>(), &Notifies::PACKETS]);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let given = K::template(args);
        Config {
            supply: Supply::new(args, given.template, given.limit, given.active),
            burst: given.burst,
            timestamp: args.key("TIMESTAMP", true, "true if packets get a timestamp"),
            cores: args.key_maybe("CORES", "workers on which it runs"),
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> InfiniteSource<K> {
        InfiniteSource {
            kind: PhantomData,
            supply: config.supply.clone(),
            burst: config.burst,
            timestamp: config.timestamp,
        }
    }

    fn start(&mut self, cx: &mut Cx) {
        if self.supply.active && self.supply.remaining() > 0 {
            cx.wake_pullers();
        }
    }

    fn task(&mut self, cx: &mut Cx) -> Did {
        if !self.supply.active || !cx.has_room(0) {
            return Did::Sleep;
        }
        if self.supply.limit_reached(cx) {
            return Did::End;
        }
        let n = self.burst.clamp(1, BURST_MAX).min(self.supply.remaining());
        let mut batch = cx.spare();
        let made = self.make(n, &mut batch, cx);
        cx.emit_batch(0, &mut batch);
        cx.keep_spare(batch);
        if made > 0 { Did::Work } else { Did::Nothing }
    }

    fn pull(&mut self, _: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        if !self.supply.active || self.supply.limit_reached(cx) {
            return cx.note_empty();
        }
        let n = max.min(self.supply.remaining());
        self.make(n, into, cx);
    }

    fn take(&mut self, old: InfiniteSource<K>) {
        self.supply.count = old.supply.count;
    }

    const HANDLERS: &'static [Handler<InfiniteSource<K>>] = K::HANDLERS;
}

impl<K: Kind> Resources for InfiniteSource<K> {
    fn placement(config: &Config) -> Placement {
        Placement {
            workers: config.cores.as_ref().map(|c| c.0.clone()),
            ..Placement::default()
        }
    }
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
                wrong.contains("'END_CALL' and 'STOP' are mutually exclusive"),
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
        assert_eq!(bench.read("s.length"), "10");
        bench.write("s.length", "7");
        bench.write("s.reset", "");
        bench.run();
        assert!(bench.take("out").iter().all(|p| p.len() == 7));
    }
}
