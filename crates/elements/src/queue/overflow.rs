//! Message of a queue without room.

use crate::prelude::*;

/// The words of a queue; none but where the router runs as Click would, for a router does not log on
/// the packet path.
pub(super) struct Overflow(Option<Box<str>>);

impl Overflow {
    pub(super) fn new(class: &str, init: &Init) -> Overflow {
        let words = || format!("{} :: {class}: overflow", init.name).into();
        Overflow(init.as_click().then(words))
    }

    /// Says so of the first packet, as Click does; `before` have been dropped since the counts were reset.
    pub(super) fn say(&self, before: u64, capacity: usize, cx: &mut Cx) {
        if let Some(words) = &self.0
            && before == 0
            && capacity > 0
        {
            cx.job_cx().say(words);
        }
    }
}
