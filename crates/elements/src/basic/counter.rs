//! Counts the packets and bytes that pass, and measures their rates.
//!
//! ```click
//! InfiniteSource(LIMIT 10) -> c :: Counter(COUNT_CALL 5 s.switch 1) -> s :: Switch -> Discard;
//! s[1] -> Discard;
//! ```
//!
//! Keyword arguments:
//!
//! - `COUNT_CALL`: a number, a handler and a value. When that many packets have passed, the value is written to the
//!   handler, before the packet with that number leaves.
//! - `BYTE_COUNT_CALL`: the same when at least that many bytes have passed. It acts once, until the handlers `reset`
//!   or `byte_count_call` are written.
//!
//! Rates are moving averages in which the latest packets have the most weight. Each worker has its own counts:
//! handlers give the sum, and a call is made when one worker's count reaches the number. Where packets move in
//! batches, packets of the same batch with lower numbers may leave after the call.

use super::rate::Rate;
use crate::prelude::*;
use engine::fused::{Counts, CountsOfClass};
use lang::args::{unquote, words};

pub(crate) struct Config {
    count: Call,
    bytes: Call,
}

/// Handler call that is made when a count is reached.
#[derive(Clone, Default)]
pub struct Call {
    at: Option<u64>,
    handler: HandlerCall,
}

impl Call {
    /// Parses `N HANDLER VALUE`. The handler is optional, and an empty text means no call.
    pub fn parse(text: &str) -> Result<Call, String> {
        let Some(first) = words(text).into_iter().next() else {
            return Ok(Call::default());
        };
        let at: u64 = arguments::units::parse(&unquote(&text[first.clone()]))?;
        let rest = text[first.end..].trim();
        let handler = match rest {
            "" => HandlerCall::default(),
            _ => arguments::units::parse(rest)?,
        };
        Ok(Call {
            at: Some(at),
            handler,
        })
    }

    /// Parses a keyword with a call.
    pub fn argument(args: &mut Args, name: &'static str, doc: &'static str) -> Call {
        let Some(text) = args.key_maybe::<Raw>(name, doc) else {
            return Call::default();
        };
        let call = Call::parse(&text.0);
        match &call {
            Ok(Call {
                at: Some(_),
                handler,
            }) if handler.path.is_empty() => args.error_in_whole(
                format!("{name}: syntax error"),
                "write a number, a handler and a value",
            ),
            Ok(Call { handler, .. }) if !handler.path.is_empty() => args.will_write(&handler.path),
            _ => {}
        }
        call.unwrap_or_else(|wrong| {
            args.error_in_whole(
                format!("{name}: {wrong}"),
                "write a number, a handler and a value",
            );
            Call::default()
        })
    }

    /// Text form of the call, as in configurations; empty without a call.
    pub fn show(&self) -> String {
        let at = self.at.map(|at| at.to_string()).unwrap_or_default();
        let text = format!("{at} {} {}", self.handler.path, self.handler.value);
        text.trim().to_owned()
    }

    /// The number of the call; `None` if there is no call.
    pub fn mark(&self) -> Option<u64> {
        self.at
    }

    /// Writes the handler.
    pub fn call(&self, cx: &mut Cx) {
        if !self.handler.path.is_empty() {
            cx.defer_write(&self.handler);
        }
    }

    /// Makes the call if the count has reached its threshold between `before` and `now`.
    #[inline]
    pub fn check(&self, before: u64, now: u64, cx: &mut Cx) {
        if self.at.is_some_and(|at| before < at && at <= now) {
            self.call(cx);
        }
    }
}

/// Argument text with its quotes.
struct Raw(String);

impl arguments::units::FromArg for Raw {
    const KIND: &'static str = "a number, a handler and a value";
    const QUOTED: bool = true;

    fn from_arg(raw: &str, _: &arguments::Names) -> Result<Raw, String> {
        Ok(Raw(raw.to_owned()))
    }

    fn stand_in() -> Raw {
        Raw(String::new())
    }

    fn unparse(&self) -> String {
        self.0.clone()
    }
}

pub(crate) struct Counter {
    packets: u64,
    bytes: u64,
    packet_rate: Rate,
    byte_rate: Rate,
    count_call: Call,
    byte_count_call: Call,
    /// True if `byte_count_call` has been made.
    bytes_told: bool,
}

impl Element for Counter {
    const CONTRACT: Contract = Contract::new("Counter", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .extensions(&[&CountsOfClass::of::<Self>()])
        .ignores_annotations();

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        Config {
            count: Call::argument(
                args,
                "COUNT_CALL",
                "handler that is written at a count of packets",
            ),
            bytes: Call::argument(
                args,
                "BYTE_COUNT_CALL",
                "handler that is written at a count of bytes",
            ),
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> Counter {
        Counter {
            packets: 0,
            bytes: 0,
            packet_rate: Rate::default(),
            byte_rate: Rate::default(),
            count_call: config.count.clone(),
            byte_count_call: config.bytes.clone(),
            bytes_told: false,
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        self.count(batch.len() as u64, batch.bytes(), cx);
    }

    fn take(&mut self, old: Counter) {
        self.bytes_told = old.bytes_told;
        self.packet_rate = old.packet_rate;
        self.byte_rate = old.byte_rate;
    }

    const HANDLERS: &'static [Handler<Counter>] = &[
        counter!("count", "packets passed", packets),
        counter!("byte_count", "bytes passed", bytes),
        Handler::ask("rate", "packets per second, of late", |e, _| {
            e.packet_rate.read(1.0)
        }),
        Handler::ask("bit_rate", "bits per second, of late", |e, _| {
            e.byte_rate.read(8.0)
        }),
        Handler::ask("byte_rate", "bytes per second, of late", |e, _| {
            e.byte_rate.read(1.0)
        }),
        Handler::set("reset", "counts from zero again", reset),
        Handler::set("reset_counts", "counts from zero again", reset),
        Handler::set("count_call", "see COUNT_CALL", |e, value, _| {
            e.count_call = Call::parse(value)?;
            Ok(())
        }),
        Handler::set("byte_count_call", "see BYTE_COUNT_CALL", |e, value, _| {
            e.byte_count_call = Call::parse(value)?;
            e.bytes_told = false;
            Ok(())
        }),
    ];
}

impl Counts for Counter {
    fn count(&mut self, packets: u64, bytes: u64, cx: &mut Cx) {
        let before = (self.packets, self.bytes);
        self.packets += packets;
        self.bytes += bytes;
        let now = cx.now();
        self.packet_rate.add(self.packets - before.0, now);
        self.byte_rate.add(self.bytes - before.1, now);
        self.count_call.check(before.0, self.packets, cx);
        let reached = |at| at <= self.bytes;
        if !self.bytes_told && self.byte_count_call.mark().is_some_and(reached) {
            self.bytes_told = true;
            self.byte_count_call.call(cx);
        }
    }

    // A call must precede the forwarding of the counted packets.
    fn counts_later(&self) -> bool {
        self.count_call.at.is_none() && self.byte_count_call.at.is_none()
    }
}

fn reset(counter: &mut Counter, _: &str, _: &mut Cx) -> Result<(), String> {
    (counter.packets, counter.bytes) = (0, 0);
    counter.bytes_told = false;
    (counter.packet_rate, counter.byte_rate) = Default::default();
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use testkit::Bench;

    #[test]
    fn packets_and_bytes_are_counted_until_reset() {
        let mut bench = Bench::new(crate::CLASSES, "c :: Counter -> Discard");
        bench.push("c", &[&b"four"[..], b"sixsix"]);
        assert_eq!(
            (bench.read("c.count"), bench.read("c.byte_count")),
            ("2".into(), "10".into())
        );
        bench.write("c.reset", "");
        assert_eq!(bench.read("c.count"), "0");
    }

    #[test]
    fn a_batch_counts_as_its_packets_do() {
        let counts = |mut bench: Bench, c: &str| {
            bench.push("first", &[&[0; 60][..], &[0; 99], &[0; 7]]);
            bench.push("first", &[[0; 8]]);
            ["count", "byte_count"].map(|count| bench.read(&format!("{c}.{count}")))
        };
        let bench = |text| Bench::new(crate::CLASSES, text);
        let alone = counts(bench("first :: Counter -> Discard"), "first");
        assert_eq!(alone, ["4", "174"]);
        // An element before it has changed the lengths.
        let cut = "first :: Strip(7) -> c :: Counter -> Discard";
        assert_eq!(counts(bench(cut), "c"), ["4", "146"]);
    }

    #[test]
    fn a_count_calls_before_its_packet_moves_on() {
        let text = "InfiniteSource(LIMIT 100, STOP true)
              -> Counter(COUNT_CALL 5 s.switch 1)
              -> s :: Switch -> c :: Counter -> d :: Discard;
            s[1] -> d";
        let mut bench = Bench::strict(crate::CLASSES, text);
        bench.run();
        assert_eq!(
            (bench.read("c.count").as_str(), bench.messages()),
            ("4", String::new())
        );
        assert!(bench.graph().stopped());
    }

    #[test]
    fn a_count_of_bytes_calls_once_until_reset() {
        // The calls set a handler of a source, which shows the value.
        let text = "c :: Counter(BYTE_COUNT_CALL 5 t.data \"a b\") -> Discard;
            t :: RatedSource(ACTIVE false) -> Discard";
        let mut bench = Bench::strict(crate::CLASSES, text);
        bench.run();
        let called = |bench: &mut Bench| {
            bench.write("t.data", "");
            bench.push("c", &[b"xyz", b"xyz", b"xyz"]);
            bench.read("t.data")
        };
        assert_eq!(called(&mut bench), "a b");
        assert_eq!(called(&mut bench), "");
        bench.write("c.reset_counts", "");
        assert_eq!(called(&mut bench), "a b");
        bench.write("c.count_call", "5 t.data late");
        assert_eq!(called(&mut bench), "late");
        bench.write("c.count_call", "");
        bench.write("c.reset", "");
        bench.write("c.byte_count_call", "1");
        assert_eq!(called(&mut bench), "");
        bench.write("c.byte_count_call", "1 t.data now");
        assert_eq!(called(&mut bench), "now");
        assert!(bench.try_write("c.count_call", "x t.data").is_err());
    }

    #[test]
    fn a_call_without_an_element_means_the_counter_itself() {
        let text = "c :: Counter(COUNT_CALL 2 reset) -> Discard";
        let mut bench = Bench::strict(crate::CLASSES, text);
        bench.push("c", &[b"x", b"x", b"x"]);
        assert_eq!(bench.read("c.count"), "1");
    }

    #[test]
    fn a_call_that_is_none_is_refused() {
        let errors = testkit::errors(
            crate::CLASSES,
            "Idle -> Counter(COUNT_CALL s.run) -> Discard",
        );
        assert!(errors.contains("COUNT_CALL"), "{errors}");
        let errors = testkit::errors(crate::CLASSES, "Idle -> Counter(COUNT_CALL 5) -> Discard");
        assert!(errors.contains("COUNT_CALL: syntax error"), "{errors}");
    }

    #[test]
    fn rates_follow_what_comes_and_fade() {
        let mut bench = Bench::new(crate::CLASSES, "c :: Counter -> Discard");
        for _ in 0..3000 {
            bench.push("c", &[[0u8; 10], [0; 10]]);
            bench.advance(Duration::from_millis(1));
        }
        let rate =
            |bench: &mut Bench, name: &str| -> f64 { bench.read(name).parse().expect("a number") };
        assert!((1900.0..2100.0).contains(&rate(&mut bench, "c.rate")));
        assert!((19_000.0..21_000.0).contains(&rate(&mut bench, "c.byte_rate")));
        assert!((152_000.0..168_000.0).contains(&rate(&mut bench, "c.bit_rate")));
        bench.advance(Duration::from_secs(10));
        assert!(rate(&mut bench, "c.rate") < 1.0);
    }
}
