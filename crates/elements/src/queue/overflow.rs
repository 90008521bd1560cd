//! Message of a queue without room.

use crate::prelude::*;

/// Log text of an overflow. `None` except in Click's mode, since a router does not log on the packet path.
pub(super) struct Overflow(Option<Box<str>>);

impl Overflow {
    pub(super) fn new(class: &str, init: &Init) -> Overflow {
        let words = || format!("{} :: {class}: overflow", init.name).into();
        Overflow(init.as_click().then(words))
    }

    /// Logs the first dropped packet, as Click does. `before` packets were dropped since the counters were reset.
    pub(super) fn log_first_drop(&self, before: u64, capacity: usize, cx: &mut Cx) {
        if let Some(words) = &self.0
            && before == 0
            && capacity > 0
        {
            cx.job_cx().say(words);
        }
    }
}
