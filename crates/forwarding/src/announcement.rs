//! Announcements of an address after a change of its Ethernet address: three, a second apart (RFC 4861, 7.2.6). Without
//! them, neighbours would send to the old Ethernet address until they doubt it.

use engine::prelude::{Cx, Time};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Number of announcements (MAX_NEIGHBOR_ADVERTISEMENT).
const TIMES: u32 = 3;
/// Interval between two of them (RETRANS_TIMER).
const INTERVAL: Duration = Duration::from_secs(1);
/// Value of `next_ns` if no announcement is scheduled.
const NEVER: u64 = u64::MAX;

/// Schedule of an element's announcements, shared by the workers; one of them sends each.
pub struct Announcements {
    /// Time of the next announcement, as [`Time`] counts it.
    next_ns: AtomicU64,
    /// Number of announcements that are still to be sent.
    left: AtomicU32,
}

impl Announcements {
    /// A schedule without announcements.
    pub fn none() -> Announcements {
        Announcements {
            next_ns: AtomicU64::new(NEVER),
            left: AtomicU32::new(0),
        }
    }

    /// A schedule whose first announcement is due at once.
    pub fn at_once() -> Announcements {
        Announcements {
            next_ns: AtomicU64::new(0),
            left: AtomicU32::new(TIMES),
        }
    }

    /// Sets the element's timer to the next announcement, if there is one.
    pub fn set_timer(&self, cx: &mut Cx) {
        match self.next_ns.load(Relaxed) {
            NEVER => {}
            next => cx.set_timer(Time(next)),
        }
    }

    /// Claims the announcement that is due, and schedules the next one. True if the caller must send it.
    pub fn claim(&self, now: Time) -> bool {
        let due = self.next_ns.load(Relaxed);
        if now.0 < due {
            return false;
        }
        let next = if self.left.load(Relaxed) > 1 {
            (now + INTERVAL).0
        } else {
            NEVER
        };
        let claimed = self.next_ns.compare_exchange(due, next, Relaxed, Relaxed);
        if claimed.is_ok() {
            self.left.fetch_sub(1, Relaxed);
        }
        claimed.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_announcements_are_due_a_second_apart_whichever_workers_ask() {
        let (schedule, second) = (Announcements::at_once(), INTERVAL.as_nanos() as u64);
        let sent = |at: u64| (0..3).filter(|_| schedule.claim(Time(at))).count();
        let start = 7 * second;
        assert_eq!((sent(start), sent(start + second - 1)), (1, 0));
        let later = [1, 2, 3, 100].map(|seconds| sent(start + seconds * second));
        assert_eq!(later, [1, 1, 0, 0]);
    }

    #[test]
    fn nothing_is_due_without_a_change() {
        assert!(!Announcements::none().claim(Time(NEVER - 1)));
    }
}
