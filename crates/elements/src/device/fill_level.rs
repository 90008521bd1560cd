//! Fill levels of a port's queues. The balancer reads them: a queue that fills shows an overloaded worker.

use super::rx_queues::Queues;
use crate::prelude::*;
use std::time::Duration;
use steer::SteeredBy;

/// Minimum interval between checks, since some drivers count each descriptor.
const CHECK_INTERVAL_MIN: Duration = Duration::from_millis(1);
/// Minimum fill level of a queue that is reported, in quarters.
const QUARTER: u32 = 1;

/// Time for which a queue must stay above the minimum fill level until its worker counts as overloaded.
const LONG: Duration = Duration::from_millis(100);

/// Fill levels of the queues of one worker.
#[derive(Default)]
pub(super) struct Fill {
    next: Time,
    /// Fill level of the fullest queue at the last check, in quarters.
    quarters: u32,
    /// Time at which the fill level rose above the minimum.
    since: Time,
}

impl Fill {
    /// Handles the end of a poll; `has_more` is true if the poll returned as many packets as allowed. Notifies the
    /// tables if a queue has become fuller by a quarter.
    #[inline]
    pub(super) fn polled(&mut self, has_more: bool, queues: &Queues, cx: &mut Cx) {
        if !has_more {
            self.quarters = 0;
        } else if cx.now() >= self.next && cx.attached::<SteeredBy>().is_some() {
            self.check_rings(queues, cx);
        }
    }

    #[cold]
    fn check_rings(&mut self, queues: &Queues, cx: &mut Cx) {
        self.next = cx.now() + CHECK_INTERVAL_MIN;
        let fill = queues.fill();
        let quarters = (fill * 4.0) as u32;
        if self.quarters < QUARTER {
            self.since = cx.now();
        }
        if quarters >= QUARTER {
            let lasts = cx.now().since(self.since) >= LONG;
            let (worker, grows) = (cx.worker(), quarters > self.quarters);
            let tables = cx.attached().map(|SteeredBy(tables)| tables);
            for table in tables.into_iter().flatten() {
                table.note_port(worker, fill, grows, lasts);
            }
        }
        self.quarters = quarters;
    }
}
