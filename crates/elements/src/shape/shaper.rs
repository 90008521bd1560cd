//! Limits the rate at which packets are pulled.
//!
//! ```click
//! InfiniteSource(LIMIT 30) -> Queue -> Shaper(1000) -> Discard;
//! ```
//!
//! Packets are spaced evenly, on the same grid of times as in Click, but exactly at any rate. If packets are pulled
//! too late, Shaper catches up with those that it missed in the last 20 ms. A task that pulls from Shaper sleeps
//! until the next packet may pass.
//!
//! If output 1 is connected, packets can be pulled from it only while output 0 may not send; its rate is not limited.
//!
//! Arguments:
//!
//! - `RATE`: packets per second.

use super::gap_rate::RateLimiter;
use super::rate::{self, Packets, PerSecond, Unit, parse_rate, show_rate};
use super::rated_unqueue::Kind;
use crate::prelude::*;
use engine::notify::Notifies;
use std::marker::PhantomData;
use std::time::Duration;

/// Rates in packets.
pub(crate) struct ByPackets;

impl Kind for ByPackets {
    const CLASS: &'static str = "Shaper";
    const MANUAL: &'static str = manual!();
    type Unit = Packets;
}

pub(crate) struct Shaper<K: Kind = ByPackets> {
    kind: PhantomData<K>,
    rate: PerSecond,
    gap: RateLimiter,
    /// True if more packets were requested than may pass.
    excess: bool,
}

impl<K: Kind> Shaper<K> {
    /// Schedules the next pull of pulling elements.
    fn schedule_pull(&self, cx: &mut Cx) {
        if self.excess {
            return;
        }
        cx.note_empty();
        if self.gap.rate() > 0 {
            let wait = Duration::from_nanos(self.gap.wait_ns(cx.timestamp()));
            cx.set_timer(cx.now() + wait);
        }
    }
}

impl<K: Kind> Element for Shaper<K> {
    const CONTRACT: Contract = Contract::new(K::CLASS, K::MANUAL)
        .ports(Ports::coded(&["in"], &["out", "excess?"], "l/l"))
        .copies(Copies::One)
        .extensions(&[&Notifies::PACKETS]);

    type Config = PerSecond;

    fn configure(args: &mut Args) -> PerSecond {
        rate::rate::<K::Unit>(args)
    }

    fn new(rate: &Arc<PerSecond>, _: &Init) -> Shaper<K> {
        Shaper {
            kind: PhantomData,
            rate: **rate,
            gap: RateLimiter::new(rate.0),
            excess: false,
        }
    }

    fn start(&mut self, cx: &mut Cx) {
        self.excess = cx.is_pulled(1);
        cx.wake_pullers();
    }

    fn pull(&mut self, output: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        let now = cx.timestamp();
        let mut left = max;
        while left > 0 {
            if (output == 0) != self.gap.may_pass(now) {
                return self.schedule_pull(cx);
            }
            let most = match output {
                0 => self.gap.at_once(K::Unit::UNITS_MAX).min(left),
                _ => 1,
            };
            let had = into.len();
            let got = cx.pull(0, most, into);
            if got == 0 {
                if !cx.input_active(0) {
                    cx.note_empty();
                }
                return;
            }
            if output == 0 {
                let units = |p: &Packet| if K::Unit::BYTES { p.len() } else { 1 };
                self.gap.consume(into.iter().skip(had).map(units).sum());
            }
            left -= got;
        }
    }

    fn timer(&mut self, cx: &mut Cx) {
        cx.wake_pullers();
    }

    fn take(&mut self, old: Shaper<K>) {
        self.gap.take(&old.gap);
    }

    const HANDLERS: &'static [Handler<Shaper<K>>] = &[
        Handler::text("rate", "see RATE", |e, _| Ok(show_rate::<K::Unit>(e.rate))),
        Handler::set("rate", "see RATE", |e, value, cx| {
            e.rate = parse_rate::<K::Unit>(value)?;
            e.gap.set_rate(e.rate.0, cx.timestamp());
            cx.wake_pullers();
            Ok(())
        }),
        Handler::set("reset", "counts the rate from now on", |e, _, cx| {
            e.gap = RateLimiter::new(e.gap.rate());
            cx.wake_pullers();
            Ok(())
        }),
    ];
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use testkit::{Bench, Rng};

    #[test]
    fn no_window_sees_more_than_the_rate_and_what_was_missed() {
        let text = "q :: Queue(100000) -> Shaper(1000) -> u :: Unqueue -> c :: Counter -> Discard";
        for make in [Bench::new, Bench::strict] {
            let mut bench = make(crate::CLASSES, text);
            let mut rng = Rng::seed(1);
            let (mut sent, mut last) = (0u64, 0u64);
            for _ in 0..200 {
                let n = rng.below(30);
                bench.push("q", &vec![b"a"; n]);
                sent += n as u64;
                let us = rng.below(30_000) as u64;
                bench.advance(Duration::from_micros(us));
                let count: u64 = bench.read("c.count").parse().unwrap();
                assert!(
                    count - last <= us / 1000 + 22,
                    "{} in {us} us",
                    count - last
                );
                last = count;
            }
            bench.advance(Duration::from_secs(10));
            assert_eq!(bench.read("c.count"), sent.to_string(), "nothing is lost");
        }
    }

    #[test]
    fn packets_are_spaced_evenly() {
        let text = "InfiniteSource -> q :: Queue(10) -> s :: Shaper(100) -> Unqueue -> c :: Counter
            -> Discard";
        let mut bench = Bench::strict(crate::CLASSES, text);
        bench.run();
        for n in 1..50 {
            assert_eq!(bench.read("c.count"), n.to_string());
            bench.advance(Duration::from_micros(10_001));
        }
        bench.write("s.rate", "0");
        bench.advance(Duration::from_secs(1));
        assert_eq!(bench.read("c.count"), "50");
    }

    #[test]
    fn the_second_output_gives_what_may_not_pass() {
        let text = "q :: Queue -> s :: Shaper(10) -> u :: Unqueue -> out :: Collect;
            s[1] -> v :: Unqueue -> over :: Collect";
        let mut bench = Bench::strict(crate::CLASSES, text);
        bench.push("q", &[b"a"; 5]);
        bench.run();
        assert_eq!((bench.take("out").len(), bench.take("over").len()), (1, 4));
    }

    #[test]
    fn bandwidth_counts_bytes() {
        let text =
            "InfiniteSource(LENGTH 100) -> Queue(10) -> s :: BandwidthShaper(8kbps) -> Unqueue
            -> c :: Counter -> Discard";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.run();
        bench.advance(Duration::from_secs(10));
        let n: u64 = bench.read("c.count").parse().unwrap();
        assert!((100..=101).contains(&n), "{n}");
        assert_eq!(bench.read("s.rate"), "8kbps");
        for written in ["10kBps", "80bps", "10Bps", "1Mbps", "10 kBps"] {
            bench.write("s.rate", written);
            assert_eq!(bench.read("s.rate"), written.replace(' ', ""));
        }
    }
}
