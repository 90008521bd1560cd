//! The queues whose lengths an element of active queue management reads.

use crate::prelude::*;

#[derive(Default)]
pub(super) struct Queues {
    elements: Vec<usize>,
    names: String,
}

impl Queues {
    /// Queues with these names; without names, the nearest queues. Unknown names are ignored.
    pub(super) fn find(names: &[String], cx: &Cx) -> Queues {
        let elements = if names.is_empty() {
            cx.nearest_queues()
        } else {
            names.iter().filter_map(|name| cx.find(name)).collect()
        };
        let lines = elements.iter().map(|&e| format!("{}\n", cx.name_of(e)));
        Queues {
            names: lines.collect(),
            elements,
        }
    }

    /// Number of packets in all queues.
    #[inline]
    pub(super) fn length(&self, cx: &Cx) -> usize {
        self.elements.iter().map(|&e| cx.waiting_in(e)).sum()
    }

    /// Names of the queues, one per line.
    pub(super) fn names(&self) -> String {
        self.names.clone()
    }
}
