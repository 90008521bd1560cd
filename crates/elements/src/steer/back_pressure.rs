//! Back-pressure: when a worker stops polling its sources because a ring to another worker is nearly full.
//!
//! A packet that finds such a ring full is lost, after the work to receive and sort it. A device's own ring can
//! hold packets until the other worker has caught up or buckets have moved. But packets for other workers then
//! wait, too. So sources pause for a short time only; after that, packets that find the ring full are lost. A
//! worker that is overloaded for good costs the others no more than this.

use crate::prelude::*;
use std::time::Duration;

/// Maximum total pause of sources in one period of congestion.
const PAUSE_TOTAL_MAX: Duration = Duration::from_millis(100);
/// Time without a nearly full ring that ends a period of congestion.
const CONGESTION_END: Duration = Duration::from_secs(1);
/// Maximum interval at which a paused worker checks its rings.
pub(super) const RING_CHECK_INTERVAL: Duration = Duration::from_micros(100);

/// Back-pressure: sources pause while rings to other workers are nearly full.
#[derive(Default)]
pub(super) struct BackPressure {
    /// Start of the current pause; `None` if sources are running.
    since: Option<Time>,
    /// Total time of earlier pauses in the current period of congestion.
    paused_for: Duration,
    /// Last time at which a ring was nearly full.
    crowded: Time,
    count: u64,
}

impl BackPressure {
    /// Handles a nearly full ring. Returns true if sources are to pause from now on.
    pub(super) fn begins(&mut self, now: Time) -> bool {
        if now.since(self.crowded) >= CONGESTION_END {
            self.paused_for = Duration::ZERO;
        }
        self.crowded = now;
        let begins = self.since.is_none() && self.paused_for < PAUSE_TOTAL_MAX;
        if begins {
            self.since = Some(now);
            self.count += 1;
        }
        begins
    }

    /// True if sources are paused.
    #[inline]
    pub(super) fn goes_on(&self) -> bool {
        self.since.is_some()
    }

    /// Ends the pause if the rings have room, or the maximum time has passed. Returns true if the pause has ended.
    pub(super) fn try_end(&mut self, now: Time, has_room: bool) -> bool {
        let Some(since) = self.since else {
            return false;
        };
        self.crowded = now;
        let paused_for = self.paused_for + now.since(since);
        let ends = has_room || paused_for >= PAUSE_TOTAL_MAX;
        if ends {
            (self.since, self.paused_for) = (None, paused_for);
        }
        ends
    }

    /// Number of pauses.
    pub(super) fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(1);

    /// Simulates sources whose packets fill a ring for `on` milliseconds, and which then pause for `off`, repeatedly;
    /// returns the total time of their pauses within `time`.
    fn run(
        back_pressure: &mut BackPressure,
        from: Time,
        time: Duration,
        on: u32,
        off: u32,
    ) -> Duration {
        let (mut now, mut paused_for, mut phase) = (from, Duration::ZERO, 0);
        while now < from + time {
            phase += 1;
            if back_pressure.goes_on() {
                paused_for += STEP;
                if back_pressure.try_end(now, phase >= off) {
                    phase = 0;
                }
            } else if phase >= on && back_pressure.begins(now) {
                phase = 0;
            }
            now = now + STEP;
        }
        paused_for
    }

    #[test]
    fn sources_pause_until_there_is_room() {
        let mut back_pressure = BackPressure::default();
        assert!(!back_pressure.goes_on() && back_pressure.begins(Time(0) + CONGESTION_END));
        assert!(
            !back_pressure.begins(Time(0) + CONGESTION_END + STEP),
            "they do already"
        );
        assert!(
            !back_pressure.try_end(Time(0) + CONGESTION_END + STEP, false)
                && back_pressure.goes_on()
        );
        assert!(
            back_pressure.try_end(Time(0) + CONGESTION_END + STEP * 2, true)
                && !back_pressure.goes_on()
        );
        assert_eq!(back_pressure.count(), 1);
    }

    #[test]
    fn a_ring_that_stays_full_or_fills_again_and_again_takes_no_more_than_so_much_time() {
        for (on, off) in [(1, u32::MAX), (5, 12), (1, 1), (900, 10)] {
            let mut back_pressure = BackPressure::default();
            let paused_for = run(
                &mut back_pressure,
                Time(0) + CONGESTION_END,
                CONGESTION_END * 20,
                on,
                off,
            );
            assert!(
                (PAUSE_TOTAL_MAX..=PAUSE_TOTAL_MAX + STEP * 2).contains(&paused_for),
                "{on} {off}: {paused_for:?}"
            );
        }
    }

    #[test]
    fn another_crowd_later_is_bridged_again() {
        let mut back_pressure = BackPressure::default();
        let first = run(
            &mut back_pressure,
            Time(0) + CONGESTION_END,
            CONGESTION_END,
            1,
            u32::MAX,
        );
        let quiet = Time(0) + CONGESTION_END * 4;
        let second = run(&mut back_pressure, quiet, CONGESTION_END, 1, u32::MAX);
        assert!(
            first >= PAUSE_TOTAL_MAX && second >= PAUSE_TOTAL_MAX,
            "{first:?} {second:?}"
        );
    }
}
