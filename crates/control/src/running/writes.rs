//! Counters of writes to elements' handlers, by which a reload detects writes that its plan may lack.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of writes since the start of the router.
#[derive(Default)]
pub(super) struct Writes {
    begun_count: AtomicU64,
    ended: AtomicU64,
}

impl Writes {
    /// Runs a write, and counts its beginning and its end.
    pub(super) fn run<R>(&self, write: impl FnOnce() -> R) -> R {
        self.begun_count.fetch_add(1, Ordering::SeqCst);
        let done = write();
        self.ended.fetch_add(1, Ordering::SeqCst);
        done
    }

    /// Number of writes that have ended.
    pub(super) fn ended(&self) -> u64 {
        self.ended.load(Ordering::SeqCst)
    }

    /// True if no write was in progress when [`ended`](Self::ended) returned this number, and none has begun since.
    pub(super) fn none_since(&self, ended: u64) -> bool {
        self.begun_count.load(Ordering::SeqCst) == ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_count_from_their_beginning_to_their_end() {
        let writes = Writes::default();
        let before = writes.ended();
        assert!(writes.none_since(before));
        writes.run(|| {
            assert!(!writes.none_since(before));
            assert!(!writes.none_since(writes.ended()), "one is under way");
        });
        assert!(!writes.none_since(before));
        assert!(writes.none_since(writes.ended()));
    }
}
