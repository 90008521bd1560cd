//! Checks that a peer's data frames arrive, and not only its heartbeats.
//!
//! Heartbeats contain the number of the newest frame of each of the peer's lanes. A frame may be lost, and a
//! heartbeat may overtake frames in a queue. So a lane is *stuck* only under three conditions: the peer sent many of
//! its frames more than a second ago, none of them was accepted, and frames of the link were refused meanwhile. A
//! stuck lane should never occur, because frame keys are derived anew at each start.

use crate::tag;
use std::collections::BTreeMap;

/// Number of frames, all of which are missing, that make a lane suspect.
const SENT_MIN: u64 = 64;
/// Number of refused frames that make a lane suspect.
const REFUSED_MIN: u64 = 16;
/// Time in nanoseconds that the last of these frames may take.
const PATIENCE_NS: u64 = 1_000_000_000;

/// State of one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    /// Newest accepted number, and the peer's newest number and the count of refused frames at that time.
    taken: u64,
    sent: u64,
    refused: u64,
    /// Time at which the peer had sent `SENT_MIN` further frames.
    since: Option<u64>,
}

/// State of all lanes of a link.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress(BTreeMap<usize, Mark>);

impl Progress {
    /// True if a lane is stuck. The peer has reported `sent` as the newest number of one of its lanes. `taken` is the
    /// newest number received on that lane, and `refused` the number of refused frames of the link.
    pub(super) fn is_stuck(&mut self, sent: u64, (taken, refused): (u64, u64), now: u64) -> bool {
        if sent == 0 {
            return false;
        }
        let new = Mark {
            taken,
            sent,
            refused,
            since: None,
        };
        let mark = self.0.entry(tag::lane(sent)).or_insert(new);
        if taken != mark.taken || sent < mark.sent {
            *mark = new;
        }
        if sent - mark.sent < SENT_MIN {
            return false;
        }
        let since = *mark.since.get_or_insert(now);
        let stuck = now.saturating_sub(since) >= PATIENCE_NS
            && refused - mark.refused.min(refused) >= REFUSED_MIN;
        if stuck {
            self.0.clear();
        }
        stuck
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// True if the lane gets stuck within ten seconds of heartbeats; `counters_at` gives sent, taken and refused for
    /// each.
    fn stuck(counters_at: impl Fn(u64) -> (u64, u64, u64)) -> bool {
        let mut progress = Progress::default();
        (0..2000).any(|beat| {
            let (sent, taken, refused) = counters_at(beat);
            progress.is_stuck(sent, (taken, refused), beat * 5 * MS)
        })
    }

    #[test]
    fn a_lane_is_stuck_if_many_of_its_frames_are_refused_and_none_is_taken() {
        assert!(stuck(|beat| (beat + 1, 0, beat)));
        assert!(
            stuck(|beat| (beat + 1, u64::MAX >> 8, beat)),
            "as if it were ahead"
        );
        let two = |beat| match beat % 2 {
            0 => ((1 << 56) | (beat + 1), (1 << 56) | beat, beat),
            _ => ((2 << 56) | (beat + 1), 0, beat),
        };
        assert!(stuck(two), "while another goes on");
    }

    #[test]
    fn frames_that_are_late_or_lost_and_others_that_are_refused_are_no_reason() {
        assert!(!stuck(|_| (0, 0, 0)), "nothing is sent");
        assert!(
            !stuck(|beat| (beat * 100, beat.saturating_sub(150) * 100, beat * 9)),
            "late"
        );
        assert!(!stuck(|beat| (beat.min(63) + 1, 0, beat)), "a few are lost");
        assert!(!stuck(|beat| (beat * 100, 0, 0)), "nothing is refused");
        assert!(
            !stuck(|beat| (beat * 100 + 1, beat / 100, beat * 100)),
            "one of ten thousand comes"
        );
    }

    #[test]
    fn a_link_that_was_found_stuck_is_judged_again() {
        let mut progress = Progress::default();
        let mut at = |beat: u64| progress.is_stuck(beat + 1, (0, beat), beat * 5 * MS);
        let first = (0..2000).find(|beat| at(*beat)).expect("it is stuck");
        assert!((0..200).all(|beat| !at(first + 1 + beat)));
    }
}
