//! Difference between the first-in-first-out queues: their names and their notifications.

/// Notifications of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notes {
    /// No notification: a pulling element polls the queue.
    None,
    /// Waiting packets.
    Packets,
    /// Waiting packets, and room.
    Both,
}

/// A class of queue.
pub(crate) trait Kind: 'static {
    /// The class name.
    const CLASS: &'static str;
    /// The manual page.
    const MANUAL: &'static str;
    /// Notifications of the class.
    const NOTES: Notes = Notes::Both;
    /// True if it says so at once when it is empty, not only when it is found so again and again.
    const QUICK: bool = false;
}
