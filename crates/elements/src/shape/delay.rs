//! Holding of a packet until some time after its timestamp.

use crate::prelude::*;
use arguments::show;
use arguments::units;
use std::time::Duration;

/// Least timestamp that counts as one, in nanoseconds since the epoch. Smaller ones come from a dump that counts from
/// zero: for Click, a packet with no whole second in its timestamp has no timestamp.
const FIRST_SECOND: u64 = 1_000_000_000;

/// A delay, and the packet that waits for its end.
pub(super) struct Delay {
    delay: Duration,
    /// Waiting packet with its due time in nanoseconds since the epoch. A later change of the delay has no effect on
    /// it.
    held: Option<(Packet, u64)>,
}

/// Next packet.
pub(super) enum Next {
    /// A packet, and the time at which it was due, in nanoseconds since the epoch.
    Due(Packet, u64),
    /// A packet that is not due yet; the timer is set for its due time.
    Early,
    /// No packet.
    Nothing,
}

impl Delay {
    pub(super) fn parse(args: &mut Args) -> Duration {
        args.required("DELAY", "time from the timestamp on")
    }

    pub(super) fn new(delay: Duration) -> Delay {
        Delay { delay, held: None }
    }

    /// Waiting packet, or else the next one of input 0, if it is due.
    pub(super) fn next(&mut self, cx: &mut Cx) -> Next {
        let now = cx.timestamp();
        let Some((packet, due)) = self.held.take().or_else(|| self.pull(now, cx)) else {
            return Next::Nothing;
        };
        if due <= now {
            return Next::Due(packet, due);
        }
        self.held = Some((packet, due));
        cx.set_timer(cx.now() + Duration::from_nanos(due - now));
        Next::Early
    }

    /// Next packet of input 0, with its due time.
    fn pull(&self, now: u64, cx: &mut Cx) -> Option<(Packet, u64)> {
        let mut batch = cx.spare();
        cx.pull(0, 1, &mut batch);
        let packet = batch.drain().next();
        cx.keep_spare(batch);
        let mut packet = packet?;
        if packet.cold().timestamp < FIRST_SECOND {
            packet.cold_mut().timestamp = now;
        }
        let delay = u64::try_from(self.delay.as_nanos()).unwrap_or(u64::MAX);
        let due = packet.cold().timestamp.saturating_add(delay);
        Some((packet, due))
    }

    /// Number of waiting packets, 0 or 1.
    pub(super) fn held(&self) -> usize {
        usize::from(self.held.is_some())
    }

    /// Takes over the packet held by the delay of the old graph.
    pub(super) fn take(&mut self, old: Delay) {
        self.held = old.held;
    }
}

/// An element with a delay.
pub(super) trait Delays: Element {
    /// Delay of the element.
    fn delay(&self) -> &Delay;
    /// Delay of the element, mutable.
    fn delay_mut(&mut self) -> &mut Delay;
    /// Makes the element check the held packet again.
    fn wake(cx: &mut Cx);
}

/// The handlers of every element with a delay.
pub(super) const fn handlers<E: Delays>() -> [Handler<E>; 2] {
    [
        Handler::text("delay", "see DELAY", |e, _| {
            Ok(show::interval(e.delay().delay))
        }),
        Handler::set("delay", "see DELAY", |e, value, cx| {
            e.delay_mut().delay = units::parse(value)?;
            E::wake(cx);
            Ok(())
        }),
    ]
}
