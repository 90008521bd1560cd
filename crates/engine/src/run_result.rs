//! Result of a run of a task.

/// Result of a run of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Did {
    /// Packets were moved: run the task again soon.
    Work,
    /// Nothing to do; poll the task again.
    Nothing,
    /// Nothing to do; a notifier or a timer will wake the task, see `Cx::rest`.
    Sleep,
    /// The task will never have work again: its file has ended, or its limit is reached.
    End,
}
