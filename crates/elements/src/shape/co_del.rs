//! Drops packets when their delay in the queue is too long: Controlled Delay (RFC 8289).
//!
//! ```click
//! InfiniteSource(LIMIT 30) -> SetTimestamp(FIRST true) -> Queue(200) -> CoDel(5, 100) -> Discard;
//! ```
//!
//! Put CoDel after a queue. It measures the waiting time of each packet in the queue, by the FIRST_TIMESTAMP
//! annotation. If all packets of an `INTERVAL` have waited longer than `TARGET`, it drops one packet, and then others
//! at decreasing intervals, until a packet has waited less. Nothing is dropped while the queue is empty. The
//! annotation is replaced by the waiting time. Dropped packets are counted as `delay`.
//!
//! Arguments:
//!
//! - `TARGET`: milliseconds that packets may wait. Default 5.
//! - `INTERVAL`: milliseconds. Default 100.
//!
//! Keyword arguments:
//!
//! - `QUEUES`: names of queues to measure, instead of the nearest ones upstream.

use super::queues::Queues;
use crate::prelude::*;
use arguments::units;
use tables::codel::{Aim, Codel};

const DELAY: usize = 0;
const NS_PER_MS: u64 = 1_000_000;

#[derive(Clone, Copy)]
struct Settings {
    /// Target delay, in milliseconds.
    target: u64,
    /// Measurement interval, in milliseconds.
    interval: u64,
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
        let aim = Aim {
            target: self.settings.target * NS_PER_MS,
            interval: self.settings.interval * NS_PER_MS,
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
    const CLASS: &'static str = "CoDel";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::coded(&["in"], &["out"], "l/l");
    const DROPS: &'static [&'static str] = &["delay"];
    const READS_ANNOTATIONS: bool = true;
    const COPIES: Copies = Copies::One;

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let target: u32 = args.optional("TARGET", 5, "milliseconds that packets may wait");
        let interval: u32 = args.optional("INTERVAL", 100, "milliseconds");
        let queues: String = args.key("QUEUES", String::new(), "queues to measure");
        Config {
            settings: Settings {
                target: target.into(),
                interval: interval.into(),
            },
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
        (self.dropped, self.state) = (old.dropped, old.state);
    }

    const HANDLERS: &'static [Handler<CoDel>] = &[
        Handler::show("target", "see TARGET", |e| &e.settings.target),
        Handler::set("target", "see TARGET", |e, value, _| {
            e.settings.target = units::parse::<u32>(value)?.into();
            Ok(())
        }),
        Handler::show("interval", "see INTERVAL", |e| &e.settings.interval),
        Handler::set("interval", "see INTERVAL", |e, value, _| {
            e.settings.interval = units::parse::<u32>(value)?.into();
            Ok(())
        }),
        Handler::text("queues", "queues that are measured, one a line", |e, _| {
            Ok(e.queues.names())
        }),
        Handler::sum("drops", "packets dropped", |e| e.dropped),
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
    fn a_queue_that_stays_long_loses_packets_and_a_short_one_none() {
        assert_eq!(run(90).1, 0);
        let (length, drops) = run(102);
        assert!(drops > 5 && length < 20, "{length} {drops}");
    }
}
