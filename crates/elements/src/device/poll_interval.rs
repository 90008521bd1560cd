//! Polling interval of a port whose packets are lost anyway (VR7).
//!
//! If many packets of a port find an output full, and none go elsewhere, the time between two polls of the port grows
//! until it receives about as many packets as the output takes. The excess is lost in the port, where a loss costs
//! nothing. A packet to another output ends this for at least a second. So other outputs lose nothing, and neither
//! does an output that is full only at times.

use engine::clock::Time;
use engine::external::OverflowLosses;
use std::time::Duration;

/// Duration of the first pause.
const FIRST: Duration = Duration::from_micros(20);
/// Maximum duration of a pause, which may delay a packet of another port.
const LONGEST: Duration = Duration::from_millis(10);
/// Time for which all packets must have been destined to full outputs before the port pauses.
const SURE: Duration = Duration::from_secs(1);

/// Polling interval of a port: pauses while all its packets are lost.
#[derive(Debug, Default)]
pub(super) struct PollInterval {
    pause: Duration,
    /// End of the current pause; `None` outside of a pause.
    until: Option<Time>,
    /// Time since which all packets were destined to full outputs.
    since: Option<Time>,
    /// True if the result of the last run was reported.
    told: bool,
    /// Number of pauses.
    pauses: u64,
}

impl PollInterval {
    /// End of the current pause; `None` if the port is to be polled.
    #[inline]
    pub(super) fn pause_end(&mut self, now: Time) -> Option<Time> {
        match self.pause.is_zero() {
            true => None,
            false => self.current_pause_end(now),
        }
    }

    #[cold]
    fn current_pause_end(&mut self, now: Time) -> Option<Time> {
        if !std::mem::take(&mut self.told) && self.until.is_none() {
            // The last run received no packet, or lost none.
            self.shorter();
        }
        let until = self.until.take().filter(|&until| until > now)?;
        self.until = Some(until);
        Some(until)
    }

    /// Handles the result of the last run, in which `came` packets were received.
    pub(super) fn record_run(&mut self, came: u64, fate: OverflowLosses, now: Time) {
        if came == 0 {
            return;
        }
        self.told = true;
        if fate.entered < came {
            (self.pause, self.since) = (Duration::ZERO, Some(now));
            return;
        }
        let since = *self.since.get_or_insert(now);
        if fate.lost * 4 > came && now >= since + SURE {
            // The pause is extended so that the next poll finds only as many packets as the outputs took now.
            let taken = came.saturating_sub(fate.lost).max(1);
            let factor = (came as f64 / taken as f64).min(2.0);
            self.pause = self.pause.max(FIRST).mul_f64(factor).min(LONGEST);
        } else if fate.lost * 8 < came {
            self.shorter();
        }
        if !self.pause.is_zero() {
            self.until = Some(now + self.pause);
            self.pauses += 1;
        }
    }

    fn shorter(&mut self) {
        self.pause = self.pause * 7 / 8;
        if self.pause < FIRST {
            self.pause = Duration::ZERO;
        }
    }

    /// Current duration of pauses; 0 without pauses.
    pub(super) fn pause(&self) -> Duration {
        self.pause
    }

    /// Number of pauses.
    pub(super) fn count(&self) -> u64 {
        self.pauses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAME: u64 = 64;

    /// Polls every 20 us, except in pauses, a port that always has packets: `lost` says how many packets of a burst are
    /// lost.
    fn run(
        poll_interval: &mut PollInterval,
        from: Time,
        time: Duration,
        mut fate: impl FnMut(Time) -> OverflowLosses,
    ) -> u32 {
        let (mut now, mut polls) = (from, 0);
        while now < from + time {
            if poll_interval.pause_end(now).is_none() {
                polls += 1;
                let fate = fate(now);
                if fate.lost > 0 || fate.entered > 0 {
                    poll_interval.record_run(CAME, fate, now);
                }
            }
            now = now + FIRST;
        }
        polls
    }

    fn all_lost(_: Time) -> OverflowLosses {
        OverflowLosses {
            entered: CAME,
            lost: CAME,
        }
    }

    #[test]
    fn a_port_of_which_all_is_lost_is_polled_ever_less_but_never_given_up() {
        let mut poll_interval = PollInterval::default();
        assert_eq!(run(&mut poll_interval, Time(0), SURE, all_lost), 50_000);
        let polls = run(&mut poll_interval, Time(0) + SURE, SURE, all_lost);
        assert!((95..150).contains(&polls), "{polls}");
        assert_eq!(poll_interval.pause(), LONGEST);
    }

    #[test]
    fn poll_interval_settles_near_the_rate_of_the_output() {
        // The output sends a burst each 500 us, and up to eight may wait for it.
        let each = Duration::from_micros(500);
        let mut free_at = Time(0);
        let mut output = |now: Time| {
            free_at = free_at.max(now);
            let lost = if free_at > now + each * 7 { CAME } else { 0 };
            if lost == 0 {
                free_at = free_at + each;
            }
            OverflowLosses {
                entered: CAME,
                lost,
            }
        };
        let mut poll_interval = PollInterval::default();
        run(&mut poll_interval, Time(0), SURE * 2, &mut output);
        let polls = run(&mut poll_interval, Time(0) + SURE * 2, SURE, &mut output);
        assert!((1990..2600).contains(&polls), "{polls} for 2000 bursts");
    }

    #[test]
    fn one_packet_that_goes_elsewhere_ends_pauses_for_a_second() {
        let mut poll_interval = PollInterval::default();
        run(&mut poll_interval, Time(0), SURE * 2, all_lost);
        let now = Time(0) + SURE * 2 + LONGEST;
        let fate = OverflowLosses {
            entered: CAME - 1,
            lost: CAME - 1,
        };
        poll_interval.record_run(CAME, fate, now);
        assert_eq!(run(&mut poll_interval, now, SURE, all_lost), 50_000);
        assert!(run(&mut poll_interval, now + SURE, SURE, all_lost) < 150);
    }

    #[test]
    fn pauses_end_by_themselves_when_nothing_is_lost_any_more() {
        let mut poll_interval = PollInterval::default();
        run(&mut poll_interval, Time(0), SURE * 2, all_lost);
        let quiet = |_| OverflowLosses {
            entered: 0,
            lost: 0,
        };
        run(&mut poll_interval, Time(0) + SURE * 3, LONGEST * 9, quiet);
        assert_eq!(poll_interval.pause(), Duration::ZERO);
    }
}
