//! Bound on a number of objects.

/// Maximum number of objects, and a counter of the excess ones.
#[derive(Debug)]
pub(super) struct Bound {
    most: usize,
    left_out: u64,
    /// True if objects of the kernel were left out since its last dump.
    lacks: bool,
}

impl Default for Bound {
    /// Unlimited.
    fn default() -> Self {
        Bound {
            most: usize::MAX,
            left_out: 0,
            lacks: false,
        }
    }
}

impl Bound {
    /// Sets the maximum. Existing objects beyond it stay.
    pub(super) fn set(&mut self, most: usize) {
        self.most = most;
    }

    /// True if there is room for another object besides `count`.
    pub(super) fn has_room(&self, count: usize) -> bool {
        count < self.most
    }

    /// Counts an object that is left out. `again` is true if a dump would contain it again.
    pub(super) fn leave_out(&mut self, again: bool) {
        self.left_out += 1;
        self.lacks |= again;
    }

    /// Number of objects left out; each message of the kernel counts.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// True if there is room besides `count` for objects that were left out and can be dumped.
    pub(super) fn lacks(&self, count: usize) -> bool {
        self.lacks && self.has_room(count)
    }

    /// Records that a full dump begins.
    pub(super) fn asked(&mut self) {
        self.lacks = false;
    }
}
