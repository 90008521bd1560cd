//! Path MTU of an association, as reported by routers on the path (RFC 4301, 8.2).

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Least path MTU that is accepted over IPv4, as in Linux (`net.ipv4.route.min_pmtu`).
pub(crate) const PATH_MTU_MIN: usize = 552;
/// Validity of a path MTU, in nanoseconds: 10 minutes (RFC 1191, 6.3).
const AGE_MAX_NS: u64 = 600_000_000_000;

/// Path MTU of an association, and when it was learnt.
#[derive(Default)]
pub(crate) struct PathMtu {
    /// Path MTU in bytes; 0 if none is known.
    mtu: AtomicU32,
    learnt: AtomicU64,
}

impl PathMtu {
    /// Path MTU in bytes; `usize::MAX` if unknown.
    #[inline]
    pub(crate) fn get(&self) -> usize {
        match self.mtu.load(Relaxed) {
            0 => usize::MAX,
            mtu => mtu as usize,
        }
    }

    /// Records a reported path MTU. A greater one than the known one is ignored.
    pub(crate) fn learn(&self, mtu: usize, now: u64) {
        self.expire(now);
        if mtu <= self.get() {
            self.learnt.store(now, Relaxed);
            self.mtu
                .store(u32::try_from(mtu).unwrap_or(u32::MAX), Relaxed);
        }
    }

    /// Forgets a path MTU that was learnt too long ago.
    pub(crate) fn expire(&self, now: u64) {
        if now.saturating_sub(self.learnt.load(Relaxed)) > AGE_MAX_NS {
            self.mtu.store(0, Relaxed);
        }
    }
}
