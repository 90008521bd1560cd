//! Bound on a number of objects.

/// A limit, and the number of routes beyond it.
#[derive(Debug)]
pub(super) struct Bound {
    most: usize,
    left_out: u64,
    /// True if some that the kernel has told were left out since it was last asked.
    lacks: bool,
}

impl Default for Bound {
    /// No bound.
    fn default() -> Self {
        Bound {
            most: usize::MAX,
            left_out: 0,
            lacks: false,
        }
    }
}

impl Bound {
    /// Sets the bound. Routes beyond it stay.
    pub(super) fn set(&mut self, most: usize) {
        self.most = most;
    }

    /// True if there is room for one more object than `count`.
    pub(super) fn has_room(&self, count: usize) -> bool {
        count < self.most
    }

    /// Counts a route that is left out; returns true if it can be requested again.
    pub(super) fn leave_out(&mut self, again: bool) {
        self.left_out += 1;
        self.lacks |= again;
    }

    /// Number of objects left out, counted each time that the kernel reports them.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// True if beside `count` there is room for some that were left out and can be asked for.
    pub(super) fn lacks(&self, count: usize) -> bool {
        self.lacks && self.has_room(count)
    }

    /// The kernel is asked for all.
    pub(super) fn asked(&mut self) {
        self.lacks = false;
    }
}
