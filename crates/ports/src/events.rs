//! What happened to ports.

use std::sync::{Arc, Mutex, PoisonError};

/// Things that happened to ports and that somebody should read: a link that went down, a file that
/// cannot be written. Oldest first.
#[derive(Clone, Default)]
pub(crate) struct Events(pub(crate) Arc<Mutex<Vec<String>>>);

/// Events kept while nobody collects them.
const MAX_EVENTS: usize = 1000;

impl Events {
    pub(crate) fn say(&self, text: String) {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if list.len() < MAX_EVENTS {
            list.push(text);
        }
    }
}
