//! Delays packets that are pulled, by a time after their timestamp.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> SetTimestamp -> Queue -> DelayShaper(50ms) -> Discard;
//! ```
//!
//! A packet with timestamp T leaves no earlier than T + `DELAY`, with the current time as its new timestamp. If
//! a packet has no timestamp, or one of less than a second, T is the time at which DelayShaper gets it. At most
//! one packet is held; a task that pulls from DelayShaper sleeps until it may leave.
//!
//! Arguments:
//!
//! - `DELAY`: time from the timestamp on.

use super::delay::{Delay, Delays, Next, handlers};
use crate::prelude::*;
use engine::notify::Notifies;
use std::time::Duration;

pub(crate) struct DelayShaper(Delay);

impl Element for DelayShaper {
    const CONTRACT: Contract = Contract::new("DelayShaper", manual!())
        .ports(Ports::coded(&["in"], &["out"], "l/l"))
        .copies(Copies::One)
        .extensions(&[&Notifies::PACKETS]);

    type Config = Duration;

    fn configure(args: &mut Args) -> Duration {
        Delay::parse(args)
    }

    fn new(delay: &Arc<Duration>, _: &Init) -> DelayShaper {
        DelayShaper(Delay::new(**delay))
    }

    fn start(&mut self, cx: &mut Cx) {
        cx.wake_pullers();
    }

    fn pull(&mut self, _: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        for _ in 0..max {
            match self.0.next(cx) {
                Next::Due(mut packet, _) => {
                    packet.cold_mut().timestamp = cx.timestamp();
                    into.push(packet);
                }
                Next::Nothing if cx.input_active(0) => return,
                Next::Nothing | Next::Early => return cx.note_empty(),
            }
        }
    }

    fn timer(&mut self, cx: &mut Cx) {
        cx.wake_pullers();
    }

    fn held(&self) -> usize {
        self.0.held()
    }

    fn take(&mut self, old: DelayShaper) {
        self.0.take(old.0);
    }

    const HANDLERS: &'static [Handler<DelayShaper>] = &handlers::<DelayShaper>();
}

impl Delays for DelayShaper {
    fn delay(&self) -> &Delay {
        &self.0
    }

    fn delay_mut(&mut self) -> &mut Delay {
        &mut self.0
    }

    fn wake(cx: &mut Cx) {
        cx.wake_pullers();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use testkit::Bench;

    #[test]
    fn packets_wait_for_their_time_and_new_ones_wake_the_puller() {
        for make in [Bench::new, Bench::strict] {
            let text = "q :: Queue -> d :: DelayShaper(50ms) -> Unqueue -> out :: Collect";
            let mut bench = make(crate::CLASSES, text);
            for _ in 0..2 {
                bench.push("q", &[b"a"]);
                bench.run();
                bench.advance(Duration::from_millis(49));
                assert!(bench.take("out").is_empty());
                bench.advance(Duration::from_millis(1));
                let out = bench.take_packets("out");
                assert_eq!(out.len(), 1);
            }
            assert_eq!(bench.read("d.delay"), "50ms");
        }
    }
}
