//! Lets a packet be pulled only some time after its timestamp.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> SetTimestamp -> Queue -> DelayShaper(50ms) -> Discard;
//! ```
//!
//! A packet of time T leaves no earlier than T + `DELAY`, with the current time as its timestamp; a
//! packet without one, or with one of less than a second, has the time at which DelayShaper gets it. At
//! most one packet is held; what pulls from DelayShaper sleeps until it may go.
//!
//! Arguments:
//!
//! - `DELAY`: time from the timestamp on.

use crate::prelude::*;
use crate::show;
use engine::units;
use std::time::Duration;

pub(crate) struct DelayShaper {
    delay: Duration,
    held: Option<Packet>,
}

/// Nanoseconds of a delay.
pub(super) fn nanoseconds(delay: Duration) -> u64 {
    u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX)
}

/// Times before this, in nanoseconds since the epoch, are those of a dump that counts from zero: Click
/// takes packets with no whole second in their timestamp for packets without one.
const FIRST_SECOND: u64 = 1_000_000_000;

/// When a packet has waited long enough: nanoseconds since the epoch. Stamps it if it is not.
pub(super) fn due(packet: &mut Packet, delay: Duration, cx: &Cx) -> u64 {
    if packet.cold().timestamp < FIRST_SECOND {
        packet.cold_mut().timestamp = cx.timestamp();
    }
    packet.cold().timestamp.saturating_add(nanoseconds(delay))
}

/// Sets the timer for a time since the epoch.
pub(super) fn set_timer_at(at: u64, cx: &mut Cx) {
    let wait = at.saturating_sub(cx.timestamp());
    cx.set_timer(cx.now() + Duration::from_nanos(wait));
}

impl Element for DelayShaper {
    const CLASS: &'static str = "DelayShaper";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::coded(&["in"], &["out"], "l/l");
    const COPIES: Copies = Copies::One;
    const NOTIFIES: bool = true;

    type Config = Duration;

    fn configure(args: &mut Args) -> Duration {
        args.required("DELAY", "time from the timestamp on")
    }

    fn new(delay: &Arc<Duration>, _: &Init) -> DelayShaper {
        DelayShaper {
            delay: **delay,
            held: None,
        }
    }

    fn start(&mut self, cx: &mut Cx) {
        cx.wake_pullers();
    }

    fn pull(&mut self, _: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        for _ in 0..max {
            if self.held.is_none() {
                let mut batch = cx.spare();
                cx.pull(0, 1, &mut batch);
                self.held = batch.drain().next();
                cx.keep_spare(batch);
            }
            let Some(mut packet) = self.held.take() else {
                if !cx.input_active(0) {
                    cx.note_empty();
                }
                return;
            };
            let due = due(&mut packet, self.delay, cx);
            if due > cx.timestamp() {
                self.held = Some(packet);
                set_timer_at(due, cx);
                return cx.note_empty();
            }
            packet.cold_mut().timestamp = cx.timestamp();
            into.push(packet);
        }
    }

    fn timer(&mut self, cx: &mut Cx) {
        cx.wake_pullers();
    }

    fn held(&self) -> usize {
        usize::from(self.held.is_some())
    }

    fn take(&mut self, old: DelayShaper) {
        self.held = old.held;
    }

    const HANDLERS: &'static [Handler<DelayShaper>] = &[
        Handler::text("delay", "see DELAY", |e, _| Ok(show::interval(e.delay))),
        Handler::set("delay", "see DELAY", |e, value, cx| {
            e.delay = units::parse(value)?;
            cx.wake_pullers();
            Ok(())
        }),
    ];
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
