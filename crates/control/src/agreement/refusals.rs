//! Log of refused clients. Whoever is refused may come again at once, so few refusals are told.

use std::time::{Duration, Instant};
use sync::Lock;
use tracing::warn;

/// Minimum time between messages.
const BETWEEN: Duration = Duration::from_secs(10);

/// Time of the latest message about a refused client.
#[derive(Default)]
pub(crate) struct Refusals(Lock<Option<Instant>>);

impl Refusals {
    /// Tells the log, unless it was told of a refusal a moment ago.
    pub(crate) fn tell(&self, text: &str) {
        let mut last = self.0.lock();
        if last.is_none_or(|last| last.elapsed() >= BETWEEN) {
            *last = Some(Instant::now());
            warn!("{text}");
        }
    }
}
