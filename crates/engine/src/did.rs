//! What came of a run of a task.

/// What a task did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Did {
    /// It moved packets: run it again soon.
    Work,
    /// Nothing was there; poll it again.
    Nothing,
    /// Nothing was there, and a notifier or a timer will wake it; see `Cx::rest`.
    Sleep,
    /// It will never have work again (its file has ended, its limit is reached).
    End,
}
