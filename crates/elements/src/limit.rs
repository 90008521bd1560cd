//! Rate limits per router: one bucket for all cores, kept over reloads.

use crate::prelude::*;
use tables::bucket::{Rate, SharedBucket};

/// How many messages may be sent.
pub(crate) struct Limit {
    per_second: u64,
    burst: u64,
    bucket: Arc<SharedBucket>,
}

impl Limit {
    /// Reads `RATE` and `BURST`.
    pub(crate) fn configure(args: &mut Args, rate: u64, burst: u64) -> Limit {
        let per_second = args.key("RATE", rate, "messages per second; 0 = no limit");
        let burst = args.key("BURST", burst, "messages at once");
        Limit {
            per_second,
            burst,
            bucket: Arc::new(SharedBucket::new(Rate::new(per_second, burst))),
        }
    }

    /// Whether one more may be sent.
    #[inline]
    pub(crate) fn take(&self, cx: &Cx) -> bool {
        self.per_second == 0 || self.bucket.take(cx.now().0, 1)
    }

    /// Hot swap: a limit that stays goes on with what was taken.
    pub(crate) fn inherit(&mut self, old: &Limit) {
        if (self.per_second, self.burst) == (old.per_second, old.burst) {
            self.bucket = Arc::clone(&old.bucket);
        }
    }
}
