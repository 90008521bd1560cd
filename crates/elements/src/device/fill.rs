//! Fill levels of a port's queues. The balancer reads them: if a queue fills, a worker behind it is overloaded.

use super::rx_queues::Queues;
use crate::prelude::*;
use std::time::Duration;
use steer::SteeredBy;

/// Time between two looks: some drivers count descriptor by descriptor.
const OFTEN: Duration = Duration::from_millis(1);
/// Quarters of a queue from which on it is worth telling.
const QUARTER: u32 = 1;

/// Time for which a queue must be that full, without a moment in which it is less, until its worker counts as
/// overloaded.
const LONG: Duration = Duration::from_millis(100);

/// Fill levels of the queues of one worker.
#[derive(Default)]
pub(super) struct Fill {
    next: Time,
    /// Full quarters of the queues at the last check.
    quarters: u32,
    /// Time since which some queues have been full.
    since: Time,
}

impl Fill {
    /// Polls bring as much as they may, or less. Rings when a queue has become fuller by a quarter.
    #[inline]
    pub(super) fn polled(&mut self, has_more: bool, queues: &Queues, cx: &mut Cx) {
        if !has_more {
            self.quarters = 0;
        } else if cx.now() >= self.next && cx.attached::<SteeredBy>().is_some() {
            self.look(queues, cx);
        }
    }

    #[cold]
    fn look(&mut self, queues: &Queues, cx: &mut Cx) {
        self.next = cx.now() + OFTEN;
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
