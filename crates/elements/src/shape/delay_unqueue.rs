//! Pulls packets and pushes each on after a delay from its timestamp.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> SetTimestamp -> Queue -> DelayUnqueue(50ms) -> Discard;
//! ```
//!
//! A packet with timestamp T leaves no earlier than T + `DELAY`, with this time as its new timestamp. If a
//! packet has no timestamp, or one of less than a second, T is the time at which DelayUnqueue gets it. At most
//! one packet is held. DelayUnqueue sleeps while no packets wait upstream.
//!
//! Arguments:
//!
//! - `DELAY`: time from the timestamp on.

use super::delay::{Delay, Delays, Next, handlers};
use crate::prelude::*;
use std::time::Duration;

pub(crate) struct DelayUnqueue(Delay);

impl Element for DelayUnqueue {
    const CONTRACT: Contract = Contract::new("DelayUnqueue", manual!())
        .ports(Ports::coded(&["in"], &["out"], "l/h"))
        .copies(Copies::One)
        .runs(Runs::AsTask);

    type Config = Duration;

    fn configure(args: &mut Args) -> Duration {
        Delay::parse(args)
    }

    fn new(delay: &Arc<Duration>, _: &Init) -> DelayUnqueue {
        DelayUnqueue(Delay::new(**delay))
    }

    fn task(&mut self, cx: &mut Cx) -> Did {
        let mut out = cx.spare();
        let mut last = Next::Nothing;
        while out.len() < cx.burst() {
            last = self.0.next(cx);
            let Next::Due(mut packet, due) = last else {
                break;
            };
            packet.cold_mut().timestamp = due;
            out.push(packet);
            last = Next::Nothing;
        }
        let moved = !out.is_empty();
        cx.emit_batch(0, &mut out);
        cx.keep_spare(out);
        match last {
            Next::Early => Did::Sleep,
            // A packet that came with the last one needs another check: no timer is set for it.
            _ if moved => Did::Work,
            _ => cx.idle_result(0),
        }
    }

    fn timer(&mut self, cx: &mut Cx) {
        cx.wake_self();
    }

    fn held(&self) -> usize {
        self.0.held()
    }

    fn take(&mut self, old: DelayUnqueue) {
        self.0.take(old.0);
    }

    const HANDLERS: &'static [Handler<DelayUnqueue>] = &handlers::<DelayUnqueue>();
}

impl Delays for DelayUnqueue {
    fn delay(&self) -> &Delay {
        &self.0
    }

    fn delay_mut(&mut self) -> &mut Delay {
        &mut self.0
    }

    fn wake(cx: &mut Cx) {
        cx.wake_self();
    }
}

#[cfg(test)]
mod tests {
    use engine::packet::Packet;
    use std::time::Duration;
    use testkit::Bench;

    #[test]
    fn each_packet_waits_for_its_own_time() {
        for make in [Bench::new, Bench::strict] {
            let text =
                "s :: RatedSource(abc, RATE 10, LIMIT 3) -> q :: Queue -> d :: DelayUnqueue(0.15)
                -> out :: Collect";
            let mut bench = make(crate::CLASSES, text);
            bench.run();
            bench.advance(Duration::from_millis(149));
            assert!(bench.take("out").is_empty());
            bench.advance(Duration::from_millis(1));
            assert_eq!(bench.take("out").len(), 1);
            bench.write("d.delay", "10ms");
            bench.run();
            assert_eq!(bench.read("d.delay"), "10ms");
            assert_eq!(bench.take("out").len(), 0, "the second keeps its delay");
            bench.advance(Duration::from_millis(102));
            assert_eq!(bench.take("out").len(), 2, "the third came at 201 ms");
        }
    }

    #[test]
    fn a_time_within_the_first_second_is_none() {
        for stamp in [0, 120_000_000, 999_999_000] {
            let text = "q :: Queue -> DelayUnqueue(0.03) -> out :: Collect";
            let mut bench = Bench::strict(crate::CLASSES, text);
            let mut packet = Packet::from_bytes(b"abc").expect("it fits");
            packet.cold_mut().timestamp = stamp;
            bench.push_packets("q", 0, [packet].into_iter().collect());
            bench.run();
            bench.advance(Duration::from_millis(29));
            assert!(bench.take("out").is_empty(), "{stamp}");
            bench.advance(Duration::from_millis(1));
            assert_eq!(bench.take("out").len(), 1, "{stamp}");
        }
    }
}
