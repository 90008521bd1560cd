//! What tells the first-in-first-out queues apart: their names and what they tell their neighbours.

/// What a queue tells others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notes {
    /// Nothing: who pulls from it polls it.
    None,
    /// When packets wait.
    Packets,
    /// When packets wait, and when there is room.
    Both,
}

/// A class of queue.
pub(crate) trait Kind: 'static {
    /// The class name.
    const CLASS: &'static str;
    /// The manual page.
    const MANUAL: &'static str;
    /// What it tells others.
    const NOTES: Notes = Notes::Both;
    /// True if it says so at once when it is empty, not only when it is found so again and again.
    const QUICK: bool = false;
}
