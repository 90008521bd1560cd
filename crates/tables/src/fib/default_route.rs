//! The default route, stored separately: otherwise each change of it would rewrite the whole structure.

use std::num::NonZeroU16;
use std::sync::atomic::{AtomicU64, Ordering};

/// Id of the default route, for addresses that no other route contains.
///
/// A reader loads this word before and after it reads the structure. The word includes a count of changes. If both
/// loads are equal, this was the default route throughout the look-up, also when the structure had no other route for
/// the address.
#[derive(Debug, Default)]
pub(super) struct DefaultRoute(
    /// The id in the lower 16 bits; above them the count.
    AtomicU64,
);

impl DefaultRoute {
    /// Sets the default route; only the one writer may call this.
    pub(super) fn set(&self, id: Option<NonZeroU16>) {
        let id = id.map_or(0, NonZeroU16::get);
        let old = self.0.load(Ordering::Relaxed);
        if old as u16 != id {
            let changes = (old >> 16) + 1;
            self.0
                .store(changes << 16 | u64::from(id), Ordering::Release);
        }
    }

    /// The id that `find` returns; if that is 0, the default route's. `find` must load with acquire ordering.
    #[inline(always)]
    pub(super) fn or(&self, mut find: impl FnMut() -> u16) -> u16 {
        let mut before = self.0.load(Ordering::Acquire);
        loop {
            match find() {
                0 => {}
                id => return id,
            }
            match self.0.load(Ordering::Acquire) {
                same if same == before => return before as u16,
                other => before = other,
            }
        }
    }

    /// Bulk form of the above: `find` sets the ids and returns true if any is 0.
    #[inline(always)]
    pub(super) fn or_all(&self, ids: &mut [u16], mut find: impl FnMut(&mut [u16]) -> bool) {
        let mut before = self.0.load(Ordering::Acquire);
        while find(ids) {
            match self.0.load(Ordering::Acquire) {
                same if same == before => {
                    for id in ids.iter_mut() {
                        *id = if *id == 0 { before as u16 } else { *id };
                    }
                    return;
                }
                other => before = other,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_was_held_up_does_not_mix_two_tables() {
        let default = DefaultRoute::default();
        default.set(NonZeroU16::new(1));
        let mut looks = 0;
        let mut find = || {
            looks += 1;
            if looks == 1 {
                // A reader finds no route; meanwhile the address gets one, and the default route changes and changes
                // back.
                default.set(NonZeroU16::new(3));
                default.set(NonZeroU16::new(1));
                return 0;
            }
            2
        };
        assert_eq!(default.or(&mut find), 2, "1 was replaced in between");
        looks = 0;
        let mut ids = [9; 2];
        default.or_all(&mut ids, |ids| {
            looks += 1;
            ids.copy_from_slice(&[0, 5]);
            if looks == 1 {
                default.set(NonZeroU16::new(7));
            }
            true
        });
        assert_eq!((looks, ids), (2, [7, 5]));
    }
}
