//! Drops packets when their delay in the queue is too long: Controlled Delay (RFC 8289).
//!
//! ```click
//! InfiniteSource(LIMIT 30) -> SetTimestamp(FIRST true) -> Queue(200) -> CoDel(5ms, 100ms) -> Discard;
//! ```
//!
//! Put CoDel after a queue. It measures the waiting time of each packet in the queue, by the FIRST_TIMESTAMP
//! annotation. If all packets of an `INTERVAL` have waited longer than `TARGET`, it drops one packet, and then others
//! at decreasing intervals, until a packet has waited less. Nothing is dropped while the queue is empty. The
//! annotation is replaced by the waiting time. Dropped packets are counted as `delay`.
//!
//! Arguments:
//!
//! - `TARGET`: time that packets may wait, such as `5ms`. A number without a unit is milliseconds. Default 5ms.
//! - `INTERVAL`: a time, as for `TARGET`. Default 100ms.
//!
//! Keyword arguments:
//!
//! - `QUEUES`: names of queues to measure, instead of the nearest ones upstream.

use super::queues::Queues;
use crate::prelude::*;
use arguments::Names;
use arguments::units::{FromArg, assign};
use std::time::Duration;
use tables::codel::{Codel, CodelParameters};

drops! {
    DELAY = "delay",
}

const NS_PER_MS: u64 = 1_000_000;

/// A time in nanoseconds; written without a unit, in milliseconds.
#[derive(Clone, Copy)]
struct Delay(u64);

impl FromArg for Delay {
    const KIND: &'static str = "a time, or a number of milliseconds";

    fn from_arg(raw: &str, names: &Names) -> Result<Delay, String> {
        let time = match raw.parse::<f64>() {
            Ok(ms) => Duration::try_from_secs_f64(ms / 1000.0).ok(),
            Err(_) => Some(Duration::from_arg(raw, names)?),
        };
        let ns = time.and_then(|time| u64::try_from(time.as_nanos()).ok());
        ns.map(Delay)
            .ok_or_else(|| format!("must be {}, not `{raw}`", Self::KIND))
    }

    fn stand_in() -> Delay {
        Delay(0)
    }

    fn unparse(&self) -> String {
        (self.0 as f64 / NS_PER_MS as f64).to_string()
    }
}

#[derive(Clone, Copy)]
struct Settings {
    target: Delay,
    interval: Delay,
}

pub(crate) struct Config {
    settings: Settings,
    queues: Vec<String>,
}

pub(crate) struct CoDel {
    config: Arc<Config>,
    settings: Settings,
    queues: Queues,
    state: Codel,
    dropped: u64,
}

impl CoDel {
    fn next(cx: &mut Cx) -> Option<Packet> {
        let mut batch = cx.spare();
        cx.pull(0, 1, &mut batch);
        let packet = batch.drain().next();
        cx.keep_spare(batch);
        packet
    }

    /// The next packet that is not dropped.
    fn dequeue(&mut self, cx: &mut Cx) -> Option<Packet> {
        let now = cx.timestamp();
        let aim = CodelParameters {
            target: self.settings.target.0,
            interval: self.settings.interval.0,
        };
        while let Some(mut packet) = CoDel::next(cx) {
            let sojourn = match packet.cold().first_timestamp() {
                0 => 0,
                first => now.saturating_sub(first),
            };
            packet.cold_mut().set_first_timestamp(sojourn);
            let last = self.queues.length(cx) == 0;
            if !self.state.drops(&aim, now, sojourn, last) {
                return Some(packet);
            }
            self.dropped += 1;
            cx.drop(packet, DELAY);
        }
        self.state.empty();
        None
    }
}

impl Element for CoDel {
    const CONTRACT: Contract = Contract::new("CoDel", manual!())
        .ports(Ports::coded(&["in"], &["out"], "l/l"))
        .drops(DROPS)
        .copies(Copies::One);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let [target, interval] = [5, 100].map(|ms| Delay(ms * NS_PER_MS));
        let settings = Settings {
            target: args.optional("TARGET", target, "time that packets may wait"),
            interval: args.optional(
                "INTERVAL",
                interval,
                "time in which all packets wait longer",
            ),
        };
        let queues: String = args.key("QUEUES", String::new(), "queues to measure");
        Config {
            settings,
            queues: queues.split_whitespace().map(str::to_owned).collect(),
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> CoDel {
        CoDel {
            settings: config.settings,
            config: Arc::clone(config),
            queues: Queues::default(),
            state: Codel::default(),
            dropped: 0,
        }
    }

    fn start(&mut self, cx: &mut Cx) {
        self.queues = Queues::find(&self.config.queues, cx);
    }

    fn pull(&mut self, _: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        for _ in 0..max {
            match self.dequeue(cx) {
                Some(packet) => into.push(packet),
                None => return,
            }
        }
    }

    fn take(&mut self, old: CoDel) {
        self.state = old.state;
    }

    const HANDLERS: &'static [Handler<CoDel>] = &[
        Handler::text("target", "see TARGET, in milliseconds", |e, _| {
            Ok(e.settings.target.unparse())
        }),
        Handler::set("target", "see TARGET", |e, value, _| {
            assign(&mut e.settings.target, value)
        }),
        Handler::text("interval", "see INTERVAL, in milliseconds", |e, _| {
            Ok(e.settings.interval.unparse())
        }),
        Handler::set("interval", "see INTERVAL", |e, value, _| {
            assign(&mut e.settings.interval, value)
        }),
        Handler::text("queues", "queues that are measured, one a line", |e, _| {
            Ok(e.queues.names())
        }),
        counter!("drops", "packets dropped", dropped),
        Handler::text("stats", "all of this as text", |e, _| {
            Ok(format!("{} drops\n", e.dropped))
        }),
    ];
}

#[cfg(test)]
mod tests {
    use engine::packet::Packet;
    use std::time::Duration;
    use testkit::Bench;

    /// Loads a queue with `load` packets a ms, emptied by one a ms, for a second; the queue's length at
    /// the end and the number of drops.
    fn run(load: usize) -> (usize, usize) {
        let text =
            "q :: Queue(100000) -> c :: CoDel(5, 100) -> TimedUnqueue(0.001) -> out :: Collect";
        let mut bench = Bench::strict(crate::CLASSES, text);
        let (mut sent, mut due) = (0, 0);
        for _ in 0..1000 {
            due += load;
            while due >= 100 {
                due -= 100;
                let mut packet = Packet::from_bytes(b"a").unwrap();
                let now = bench.graph().now().0;
                packet.cold_mut().set_first_timestamp(now);
                bench.push_packets("q", 0, [packet].into_iter().collect());
                sent += 1;
            }
            bench.advance(Duration::from_millis(1));
        }
        let length: usize = bench.read("q.length").parse().unwrap();
        let drops: usize = bench.read("c.drops").parse().unwrap();
        assert_eq!(bench.take("out").len() + length + drops, sent);
        assert_eq!(bench.read("c.queues").trim(), "q");
        (length, drops)
    }

    #[test]
    fn times_may_have_units() {
        for (written, read) in [
            ("5ms", "5"),
            ("0.5", "0.5"),
            ("1s", "1000"),
            ("1e-2 s", "10"),
        ] {
            let text = format!("Idle -> Queue -> c :: CoDel({written}) -> Discard");
            assert_eq!(Bench::new(crate::CLASSES, &text).read("c.target"), read);
        }
        for wrong in ["-1", "x", "1 x", "1e20"] {
            let text = format!("Idle -> Queue -> CoDel({wrong}) -> Discard");
            testkit::errors(crate::CLASSES, &text);
        }
    }

    #[test]
    fn a_queue_that_stays_long_loses_packets_and_a_short_one_none() {
        assert_eq!(run(90).1, 0);
        let (length, drops) = run(102);
        assert!(drops > 5 && length < 20, "{length} {drops}");
    }
}
