//! A timer that rings at every interval.

use crate::prelude::*;
use arguments::show;
use arguments::units;
use std::time::Duration;

/// Minimum interval, so that the timer leaves time for other work.
const SHORTEST: Duration = Duration::from_micros(1);

/// Periodic timer. It first expires one interval after its start; late handling does not shift later expiries.
pub(super) struct Every {
    interval: Duration,
    next: Time,
}

impl Every {
    /// Parses `INTERVAL`; the default is half a second, as in Click's timed classes.
    pub(super) fn parse(args: &mut Args) -> Duration {
        let default = Duration::from_millis(500);
        args.optional("INTERVAL", default, "time between packets")
    }

    pub(super) fn new(interval: Duration) -> Every {
        Every {
            interval,
            next: Time(0),
        }
    }

    /// Starts the timer.
    pub(super) fn start(&mut self, cx: &mut Cx) {
        self.next = cx.now();
        self.rearm(cx);
    }

    /// Sets the timer for its next expiry.
    pub(super) fn rearm(&mut self, cx: &mut Cx) {
        self.next = self.next + self.interval.max(SHORTEST);
        cx.set_timer(self.next);
    }

    /// Text form of the interval, in Click's syntax.
    pub(super) fn show(&self) -> Result<String, String> {
        Ok(show::interval(self.interval))
    }

    /// Changes the interval. The next expiry is at most one new interval from now.
    pub(super) fn change(&mut self, value: &str, cx: &mut Cx) -> Result<(), String> {
        let interval: Duration = units::parse(value)?;
        if interval.is_zero() {
            return Err("the interval must not be 0".to_owned());
        }
        self.interval = interval;
        let soonest = cx.now() + self.interval.max(SHORTEST);
        if soonest < self.next {
            self.next = soonest;
            cx.cancel_timer();
            cx.set_timer(self.next);
        }
        Ok(())
    }
}
