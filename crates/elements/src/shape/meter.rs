//! Sends packets to outputs by the current packet rate.
//!
//! ```click
//! InfiniteSource(LIMIT 30) -> m :: Meter(10000) -> Discard;
//! m[1] -> Discard;
//! ```
//!
//! With rates R1 < R2 < ... a packet leaves by output 0 while packets come at less than R1 a second, by output
//! 1 while they come at R1 or more but less than R2, and so on. At any moment all packets go to the same
//! output; use RatedSplitter to split them. The rate is an exponentially weighted moving average over
//! milliseconds, each of which has the weight 1/16.
//!
//! Arguments:
//!
//! - `RATES`: packets per second, one or more, in increasing order.

use super::rate::{Packets, Unit};
use super::rated_unqueue::Kind;
use crate::prelude::*;
use arguments::units::Bandwidth;
use std::marker::PhantomData;

/// Weight of a tick.
const WEIGHT: f64 = 1.0 / 16.0;
const NS_PER_TICK: u64 = 1_000_000;
const TICKS_PER_SECOND: f64 = 1000.0;

/// Rates in packets.
pub(crate) struct ByPackets;

impl Kind for ByPackets {
    const CLASS: &'static str = "Meter";
    const MANUAL: &'static str = manual!();
    type Unit = Packets;
}

pub(crate) struct Meter<K: Kind = ByPackets> {
    kind: PhantomData<K>,
    rates: Arc<Vec<u64>>,
    /// Units per tick, on average.
    average: f64,
    /// Units in this tick.
    count: u64,
    tick: u64,
}

impl<K: Kind> Meter<K> {
    /// Updates the average to `now`.
    fn advance(&mut self, now: Time) {
        let tick = now.0 / NS_PER_TICK;
        if tick <= self.tick {
            return;
        }
        self.average += (self.count as f64 - self.average) * WEIGHT;
        let empty = i32::try_from(tick - self.tick - 1).unwrap_or(i32::MAX);
        self.average *= (1.0 - WEIGHT).powi(empty);
        (self.tick, self.count) = (tick, 0);
    }

    fn output(&self) -> usize {
        let rate = self.average * TICKS_PER_SECOND;
        self.rates.partition_point(|&r| rate >= r as f64)
    }
}

impl<K: Kind> Element for Meter<K> {
    const CONTRACT: Contract = Contract::new(K::CLASS, K::MANUAL)
        .ports(Ports::coded(&["in"], &["rate+"], "h/h"))
        .copies(Copies::One)
        .extensions(&[&resources::of::<Self>()]);

    type Config = Vec<u64>;

    fn configure(args: &mut Args) -> Vec<u64> {
        let kind = if K::Unit::BYTES {
            "bandwidths"
        } else {
            "numbers"
        };
        let words = args.rest(
            "RATES",
            kind,
            "rates in increasing order, one fewer than outputs",
        );
        let mut rates: Vec<u64> = Vec::new();
        for word in words {
            let rate = if K::Unit::BYTES {
                args.value::<Bandwidth>("RATE", &word.raw, &word)
                    .map(|b| b.0)
            } else {
                args.value::<u32>("RATE", &word.raw, &word).map(u64::from)
            };
            let Some(rate) = rate else { continue };
            if rates.last().is_some_and(|&last| last >= rate) {
                args.error(&word, "rates must be given in rising order");
            }
            rates.push(rate);
        }
        if rates.is_empty() {
            args.error_in_whole("no RATE is given", "give at least one rate");
        }
        rates
    }

    fn new(rates: &Arc<Vec<u64>>, _: &Init) -> Meter<K> {
        Meter {
            kind: PhantomData,
            rates: Arc::clone(rates),
            average: 0.0,
            count: 0,
            tick: 0,
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        self.advance(cx.now());
        self.count += if K::Unit::BYTES {
            packet.len() as u64
        } else {
            1
        };
        Verdict::out(self.output().min(usize::from(u8::MAX - 1)) as u8)
    }

    fn take(&mut self, old: Meter<K>) {
        (self.average, self.count, self.tick) = (old.average, old.count, old.tick);
    }

    const HANDLERS: &'static [Handler<Meter<K>>] =
        &[Handler::text("rate", "current rate, per second", |e, _| {
            Ok(format!("{:.0}", e.average * TICKS_PER_SECOND))
        })];
}

impl<K: Kind> Resources for Meter<K> {
    fn port_count(rates: &Vec<u64>) -> (Option<usize>, Option<usize>) {
        (None, Some(rates.len() + 1))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use testkit::Bench;

    fn come(bench: &mut Bench, per_ms: usize, ms: u64) {
        for _ in 0..ms {
            bench.push("m", &vec![[0u8; 100]; per_ms]);
            bench.advance(Duration::from_millis(1));
        }
    }

    #[test]
    fn packets_go_by_the_rate_at_which_they_come() {
        for (config, scale) in [
            ("Meter(1500, 3500)", 1),
            ("BandwidthMeter(150kBps, 350kBps)", 1),
        ] {
            let text = format!(
                "m :: {config} -> a :: Counter -> Discard; m[1] -> b :: Counter -> Discard;
                m[2] -> c :: Counter -> Discard"
            );
            let mut bench = Bench::new(crate::CLASSES, &text);
            let read = |bench: &mut Bench| -> Vec<u64> {
                ["a", "b", "c"]
                    .map(|e| {
                        let n = bench.read(&format!("{e}.count")).parse().unwrap();
                        bench.write(&format!("{e}.reset"), "");
                        n
                    })
                    .to_vec()
            };
            come(&mut bench, scale, 200);
            assert_eq!(read(&mut bench), [200, 0, 0], "{config}");
            come(&mut bench, 2, 100);
            read(&mut bench);
            come(&mut bench, 2, 100);
            assert_eq!(read(&mut bench), [0, 200, 0]);
            come(&mut bench, 10, 100);
            read(&mut bench);
            come(&mut bench, 10, 10);
            assert_eq!(read(&mut bench), [0, 0, 100]);
            bench.advance(Duration::from_secs(1));
            come(&mut bench, 1, 10);
            assert_eq!(read(&mut bench), [10, 0, 0], "a pause is forgotten");
        }
    }

    #[test]
    fn rates_must_rise() {
        let text = "Idle -> m :: Meter(5, 5) -> Discard; m[1] -> Discard; m[2] -> Discard";
        assert!(testkit::errors(crate::CLASSES, text).contains("rising"));
    }
}
