//! Lets packets be pulled at a steady rate at most.
//!
//! ```click
//! InfiniteSource(LIMIT 30) -> Queue -> Shaper(1000) -> Discard;
//! ```
//!
//! Packets are spaced evenly. Where it was asked too late, Shaper catches up with what it missed in the
//! last 20 ms. Until the next packet may pass, what pulls from Shaper sleeps.
//!
//! Output 1, if it is connected, gives packets only while output 0 may not: what is pulled there is not
//! shaped.
//!
//! Arguments:
//!
//! - `RATE`: packets per second.

use super::rate::{self, Packets, Unit, parse_rate, show_rate};
use super::rated_unqueue::Kind;
use crate::prelude::*;
use std::marker::PhantomData;

/// Nanoseconds that may be caught up with.
const LATE_MAX: u64 = 20_000_000;
/// The gap of a unit is kept with so many binary places.
const PLACES: u32 = 16;

/// By packets.
pub(crate) struct ByPackets;

impl Kind for ByPackets {
    const CLASS: &'static str = "Shaper";
    const MANUAL: &'static str = manual!();
    type Unit = Packets;
}

pub(crate) struct Shaper<K: Kind = ByPackets> {
    kind: PhantomData<K>,
    rate: u64,
    /// When the next packet may pass, in parts of nanoseconds.
    next: u128,
    /// Whether somebody asks for what may not pass.
    excess: bool,
}

impl<K: Kind> Shaper<K> {
    /// Parts of nanoseconds that a packet takes.
    fn gap(&self, packet: &Packet) -> u128 {
        let units = if K::Unit::BYTES { packet.len() } else { 1 };
        ((units as u128 * 1_000_000_000) << PLACES) / u128::from(self.rate.max(1))
    }

    fn may_pass(&self, now: Time) -> bool {
        self.rate > 0 && self.next <= u128::from(now.0) << PLACES
    }

    /// Counts a packet that passes.
    fn count(&mut self, packet: &Packet, now: Time) {
        let oldest = u128::from(now.0.saturating_sub(LATE_MAX)) << PLACES;
        self.next = self.next.max(oldest) + self.gap(packet);
    }

    /// Tells those who pull when to come again.
    fn wait(&self, cx: &mut Cx) {
        if self.excess {
            return;
        }
        cx.note_empty();
        if self.rate > 0 {
            let at = (self.next >> PLACES) + 1;
            cx.set_timer(Time(u64::try_from(at).unwrap_or(u64::MAX)));
        }
    }
}

impl<K: Kind> Element for Shaper<K> {
    const CLASS: &'static str = K::CLASS;
    const MANUAL: &'static str = K::MANUAL;
    const PORTS: Ports = Ports::coded(&["in"], &["out", "excess?"], "l/l");
    const COPIES: Copies = Copies::One;
    const NOTIFIES: bool = true;

    type Config = u64;

    fn configure(args: &mut Args) -> u64 {
        rate::rate::<K::Unit>(args)
    }

    fn new(rate: &Arc<u64>, _: &Init) -> Shaper<K> {
        Shaper {
            kind: PhantomData,
            rate: **rate,
            next: 0,
            excess: false,
        }
    }

    fn start(&mut self, cx: &mut Cx) {
        // Nothing is to be caught up with at the start.
        self.next = self.next.max(u128::from(cx.now().0) << PLACES);
        self.excess = cx.is_pulled(1);
        cx.wake_pullers();
    }

    fn pull(&mut self, output: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        let now = cx.now();
        for _ in 0..max {
            if (output == 0) != self.may_pass(now) {
                return self.wait(cx);
            }
            let had = into.len();
            if cx.pull(0, 1, into) == 0 {
                if !cx.input_active(0) {
                    cx.note_empty();
                }
                return;
            }
            if output == 0 {
                into.iter().skip(had).for_each(|p| self.count(p, now));
            }
        }
    }

    fn timer(&mut self, cx: &mut Cx) {
        cx.wake_pullers();
    }

    fn take(&mut self, old: Shaper<K>) {
        self.next = old.next;
    }

    const HANDLERS: &'static [Handler<Shaper<K>>] = &[
        Handler::text("rate", "see RATE", |e, _| Ok(show_rate::<K::Unit>(e.rate))),
        Handler::set("rate", "see RATE", |e, value, cx| {
            e.rate = parse_rate::<K::Unit>(value)?;
            e.next = u128::from(cx.now().0) << PLACES;
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
    }
}
