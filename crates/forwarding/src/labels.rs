//! The kernel's MPLS routes, as control changes them and workers read them.

use super::LOCAL;
use super::label_table::{Entry, Hop, LabelTable};
use std::fmt;
use std::sync::Arc;
use wire::mpls::{EXPLICIT_NULL4, EXPLICIT_NULL6, Labels};

/// MPLS routes by outermost label. Initially, the explicit null labels are local.
pub struct LabelRoutes {
    table: Arc<LabelTable>,
}

impl Default for LabelRoutes {
    fn default() -> LabelRoutes {
        let routes = LabelRoutes {
            table: Arc::new(LabelTable::default()),
        };
        let here = Hop {
            labels: Labels::NONE,
            gateway: None,
            port: LOCAL,
            weight: 1,
        };
        routes.set(EXPLICIT_NULL4, Some(vec![here]));
        routes.set(EXPLICIT_NULL6, Some(vec![here]));
        routes
    }
}

impl LabelRoutes {
    /// Sets or removes a label's next hops. Their ports are interface numbers, [`LOCAL`] or
    /// [`EXCEPTION`](super::EXCEPTION).
    pub fn set(&self, label: u32, hops: Option<Vec<Hop>>) {
        let entry = hops.map(|hops| Arc::new(Entry::new(hops)));
        self.table.set(&mut self.table.lock(), label, entry);
    }

    /// Next hops of a label; `None` if the label has no route.
    pub fn hops(&self, label: u32) -> Option<Vec<Hop>> {
        Some(self.table.entry(label)?.hops().to_vec())
    }

    /// Labels that have a route.
    pub fn labels(&self) -> Vec<u32> {
        self.table.lock().labels.iter().copied().collect()
    }

    /// The table in which workers look labels up.
    pub fn table(&self) -> &Arc<LabelTable> {
        &self.table
    }
}

impl fmt::Debug for LabelRoutes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} labels", self.table.lock().labels.len())
    }
}
