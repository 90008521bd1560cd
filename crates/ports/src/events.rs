//! Events of ports.

use std::sync::Arc;
use sync::Lock;

/// Events of ports that an operator should read: a link that went down, a file that cannot be written. Oldest first.
#[derive(Clone, Default)]
pub struct Events(pub(crate) Arc<Lock<Vec<String>>>);

/// Maximum number of events that are kept uncollected.
const EVENTS_MAX: usize = 1000;

impl Events {
    /// Adds an event: one sentence. Events that nobody collects are dropped from 1000 on.
    pub fn add(&self, text: String) {
        let mut list = self.0.lock();
        if list.len() < EVENTS_MAX {
            list.push(text);
        }
    }
}
