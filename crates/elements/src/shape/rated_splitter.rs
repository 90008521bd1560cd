//! Passes packets up to a rate, and sends the excess to another output.
//!
//! ```click
//! InfiniteSource(LIMIT 30) -> s :: RatedSplitter(100) -> Discard;
//! s[1] -> Discard;
//! ```
//!
//! Up to `RATE` packets a second leave by output 0. The excess leaves by output 1, or is dropped (`excess`) if
//! output 1 is not connected. A token bucket as in RatedUnqueue decides. Unlike Meter, RatedSplitter passes
//! `RATE` packets a second also when more arrive.
//!
//! Arguments:
//!
//! - `RATE`: packets per second.
//!
//! Keyword arguments:
//!
//! - `BURST_DURATION`: depth of the bucket, as the time in which it fills. Default 20ms.
//! - `BURST_SIZE`: depth of the bucket in packets.

use super::rate::{Bucket, Packets, RateConfig, parse_rate, show_rate};
use super::rated_unqueue::Kind;
use crate::prelude::*;
use std::marker::PhantomData;

const EXCESS: Verdict = Verdict::reject(0, 1);

/// Rates in packets per second.
pub(crate) struct ByPackets;

impl Kind for ByPackets {
    const CLASS: &'static str = "RatedSplitter";
    const MANUAL: &'static str = manual!();
    type Unit = Packets;
}

pub(crate) struct RatedSplitter<K: Kind = ByPackets> {
    kind: PhantomData<K>,
    bucket: Bucket<K::Unit>,
}

impl<K: Kind> Element for RatedSplitter<K> {
    const CONTRACT: Contract = Contract::new(K::CLASS, K::MANUAL)
        .ports(Ports::coded(&["in"], &["out", "excess?"], "h/h"))
        .drops(&["excess"])
        .copies(Copies::One);

    type Config = RateConfig;

    fn configure(args: &mut Args) -> RateConfig {
        RateConfig::parse::<K::Unit>(args)
    }

    fn new(config: &Arc<RateConfig>, _: &Init) -> RatedSplitter<K> {
        RatedSplitter {
            kind: PhantomData,
            bucket: Bucket::new(**config),
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        self.bucket.refill(cx.now());
        if self.bucket.allows(1) == 0 {
            return EXCESS;
        }
        self.bucket.consume(packet);
        Verdict::ON
    }

    fn take(&mut self, old: RatedSplitter<K>) {
        self.bucket.take(old.bucket);
    }

    const HANDLERS: &'static [Handler<RatedSplitter<K>>] = &[
        Handler::text("rate", "see RATE", |e, _| {
            Ok(show_rate::<K::Unit>(e.bucket.rate()))
        }),
        Handler::set("rate", "see RATE", |e, value, _| {
            e.bucket.set_rate(parse_rate::<K::Unit>(value)?);
            Ok(())
        }),
    ];
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use testkit::Bench;

    #[test]
    fn the_rate_passes_and_the_rest_is_split_off() {
        for (config, source, expected) in [
            ("RATE 2", 10, 20),
            ("RATE 2, BURST_SIZE 50", 10, 69),
            ("RATE 2, BURST_DURATION 25", 10, 69),
            ("RATE 100, BURST_SIZE 2", 200, 1001),
        ] {
            let text = format!(
                "InfiniteSource -> Queue(10) -> RatedUnqueue({source}) -> in :: Counter
                    -> s :: RatedSplitter({config}) -> c :: Counter -> Discard;
                s[1] -> d :: Counter -> Discard"
            );
            let mut bench = Bench::strict(crate::CLASSES, &text);
            bench.run();
            bench.advance(Duration::from_micros(9_999_999));
            let mut read = |path| bench.read(path).parse::<u64>().unwrap();
            assert_eq!(read("c.count"), expected, "{config}");
            assert_eq!(read("c.count") + read("d.count"), read("in.count"));
        }
    }

    #[test]
    fn the_excess_is_dropped_by_name_where_it_leads_nowhere() {
        let mut bench = Bench::new(crate::CLASSES, "s :: RatedSplitter(1) -> out :: Collect");
        bench.push("s", &[b"a", b"b", b"c"]);
        assert_eq!(bench.take("out"), [b"a"]);
        assert_eq!(bench.drops("s", "excess"), 2);
    }

    #[test]
    fn a_rate_of_zero_passes_nothing() {
        for config in [
            "RatedSplitter(0)",
            "RatedSplitter(0, BURST_SIZE 5)",
            "BandwidthRatedSplitter(0)",
        ] {
            let text = format!("s :: {config} -> out :: Collect; s[1] -> excess :: Collect");
            let mut bench = Bench::new(crate::CLASSES, &text);
            bench.push("s", &[b"a", b"b"]);
            assert_eq!(bench.take("out").len(), 0, "{config}");
            assert_eq!(bench.take("excess").len(), 2);
            bench.write("s.rate", "10000");
            bench.advance(Duration::from_secs(1));
            bench.push("s", &[b"a"]);
            assert_eq!(bench.take("out").len(), 1, "{config}");
        }
    }

    #[test]
    fn bandwidth_is_split_by_bytes() {
        let text = "s :: BandwidthRatedSplitter(8kbps, BURST_BYTES 10) -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        let packet = [0u8; 500];
        bench.push("s", &[packet, packet, packet]);
        assert_eq!(bench.take("out").len(), 1, "the second finds a debt");
        bench.advance(Duration::from_millis(400));
        bench.push("s", &[packet]);
        assert_eq!(bench.take("out").len(), 0);
        bench.advance(Duration::from_millis(100));
        bench.push("s", &[packet]);
        assert_eq!(bench.take("out").len(), 1);
        assert_eq!(bench.read("s.rate"), "8kbps");
    }
}
