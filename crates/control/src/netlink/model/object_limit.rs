//! Limit of the number of objects.

/// Maximum number of objects, and a counter of the excess ones.
#[derive(Debug)]
pub(super) struct Bound {
    count_max: usize,
    left_out: u64,
    /// True if objects of the kernel were left out since its last dump.
    incomplete: bool,
}

impl Default for Bound {
    /// Unlimited.
    fn default() -> Self {
        Bound {
            count_max: usize::MAX,
            left_out: 0,
            incomplete: false,
        }
    }
}

impl Bound {
    /// Sets the maximum. Existing objects beyond it stay.
    pub(super) fn set(&mut self, limit: usize) {
        self.count_max = limit;
    }

    /// True if there is room for another object besides `count`.
    pub(super) fn has_room(&self, count: usize) -> bool {
        count < self.count_max
    }

    /// Counts an object that is left out. `again` is true if a dump would contain it again.
    pub(super) fn leave_out(&mut self, again: bool) {
        self.left_out += 1;
        self.incomplete |= again;
    }

    /// Number of objects left out; each message of the kernel counts.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// True if there is room besides `count` for objects that were left out and can be dumped.
    pub(super) fn can_restore(&self, count: usize) -> bool {
        self.incomplete && self.has_room(count)
    }

    /// Records that a full dump begins.
    pub(super) fn dump_started(&mut self) {
        self.incomplete = false;
    }
}
