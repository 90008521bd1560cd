//! Pulls packets at a steady rate and pushes them on.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> Queue -> RatedUnqueue(100) -> Discard;
//! ```
//!
//! A token bucket sets the times: it starts full, gains `RATE` tokens a second, and each packet takes one
//! token. The bucket is filled once a millisecond, as in Click. RatedUnqueue sleeps while no packets wait
//! upstream.
//!
//! Arguments:
//!
//! - `RATE`: packets per second.
//!
//! Keyword arguments:
//!
//! - `BURST_DURATION`: depth of the bucket, as the time in which it fills. Default 20ms.
//! - `BURST_SIZE`: depth of the bucket in packets.

use super::rate::{Bucket, Packets, RateConfig, Unit, parse_rate, show_rate};
use crate::prelude::*;
use std::marker::PhantomData;

/// A class that pulls at a rate.
pub(crate) trait Kind: 'static {
    /// The class name.
    const CLASS: &'static str;
    /// The manual page.
    const MANUAL: &'static str;
    /// Unit of counting.
    type Unit: Unit;
}

/// Rates in packets.
pub(crate) struct ByPackets;

impl Kind for ByPackets {
    const CLASS: &'static str = "RatedUnqueue";
    const MANUAL: &'static str = manual!();
    type Unit = Packets;
}

pub(crate) struct RatedUnqueue<K: Kind = ByPackets> {
    kind: PhantomData<K>,
    bucket: Bucket<K::Unit>,
}

impl<K: Kind> Element for RatedUnqueue<K> {
    const CONTRACT: Contract = Contract::new(K::CLASS, K::MANUAL)
        .ports(Ports::coded(&["in"], &["out"], "l/h"))
        .copies(Copies::One)
        .runs(Runs::AsTask);

    type Config = RateConfig;

    fn configure(args: &mut Args) -> RateConfig {
        RateConfig::parse::<K::Unit>(args)
    }

    fn new(config: &Arc<RateConfig>, _: &Init) -> RatedUnqueue<K> {
        RatedUnqueue {
            kind: PhantomData,
            bucket: Bucket::new(**config),
        }
    }

    fn task(&mut self, cx: &mut Cx) -> Did {
        self.bucket.refill(cx.now());
        let mut batch = cx.spare();
        let mut did = Did::Work;
        while batch.len() < cx.burst() {
            let most = self.bucket.allows(cx.burst() - batch.len());
            if most == 0 {
                did = Did::Sleep;
                break;
            }
            let had = batch.len();
            if cx.pull(0, most, &mut batch) == 0 {
                did = cx.idle_result(0);
                break;
            }
            batch.iter().skip(had).for_each(|p| self.bucket.consume(p));
        }
        let moved = !batch.is_empty();
        cx.emit_batch(0, &mut batch);
        cx.keep_spare(batch);
        if moved {
            return Did::Work;
        }
        if self.bucket.allows(1) == 0
            && let Some(at) = self.bucket.next(cx.now())
        {
            cx.set_timer(at);
        }
        did
    }

    fn timer(&mut self, cx: &mut Cx) {
        cx.wake_self();
    }

    fn take(&mut self, old: RatedUnqueue<K>) {
        self.bucket.take(old.bucket);
    }

    const HANDLERS: &'static [Handler<RatedUnqueue<K>>] = &[
        Handler::text("rate", "see RATE", |e, _| {
            Ok(show_rate::<K::Unit>(e.bucket.rate()))
        }),
        Handler::set("rate", "see RATE", |e, value, cx| {
            e.bucket.set_rate(parse_rate::<K::Unit>(value)?);
            cx.cancel_timer();
            cx.wake_self();
            Ok(())
        }),
    ];
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use testkit::Bench;

    /// Packets that pass in ten seconds, less their last moment.
    fn passed(config: &str) -> usize {
        let mut bench = Bench::strict(
            crate::CLASSES,
            &format!("InfiniteSource -> Queue(10) -> {config} -> c :: Counter -> Discard"),
        );
        bench.run();
        bench.advance(Duration::from_micros(9_999_999));
        bench.read("c.count").parse().unwrap()
    }

    #[test]
    fn the_rate_holds_after_the_first_burst() {
        assert_eq!(passed("RatedUnqueue(RATE 2)"), 20);
        assert_eq!(passed("RatedUnqueue(RATE 2, BURST_SIZE 50)"), 69);
        assert_eq!(passed("RatedUnqueue(2, BURST_DURATION 25)"), 69);
        assert_eq!(passed("RatedUnqueue(100, BURST_SIZE 1)"), 910);
    }

    #[test]
    fn bytes_are_paid_for_after_the_packet() {
        // The first packet of 69 bytes is free; then one a second and, over ten of them, the remainder.
        let n = passed("BandwidthRatedUnqueue(69Bps, BURST_BYTES 1)");
        assert!((10..=12).contains(&n), "{n}");
    }

    #[test]
    fn a_new_rate_counts_at_once() {
        let text = "InfiniteSource -> Queue(10) -> u :: RatedUnqueue(1) -> c :: Counter -> Discard";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.run();
        bench.write("u.rate", "100");
        bench.run();
        assert_eq!(bench.read("u.rate"), "100");
        bench.advance(Duration::from_secs(1));
        let n: u64 = bench.read("c.count").parse().unwrap();
        assert!((99..=103).contains(&n), "{n}");
        assert!(bench.try_write("u.rate", "fast").is_err());
    }

    #[test]
    fn a_rate_of_zero_waits_for_another_rate() {
        for class in ["RatedUnqueue", "BandwidthRatedUnqueue"] {
            let text = format!("q :: Queue -> u :: {class}(0) -> out :: Collect");
            let mut bench = Bench::strict(crate::CLASSES, &text);
            bench.push("q", &[b"a"]);
            bench.run();
            bench.advance(Duration::from_secs(5));
            assert_eq!(bench.take("out").len(), 0, "{class}");
            bench.write("u.rate", "10000");
            bench.advance(Duration::from_secs(1));
            assert_eq!(bench.take("out").len(), 1, "{class}");
        }
    }

    #[test]
    fn a_burst_is_described_once() {
        let text = "Idle -> RatedUnqueue(2, BURST_SIZE 1, BURST_DURATION 1) -> Discard";
        let errors = testkit::errors(crate::CLASSES, text);
        assert!(errors.contains("BURST_DURATION"), "{errors}");
    }
}
