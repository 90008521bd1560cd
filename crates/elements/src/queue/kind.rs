//! Difference between the first-in-first-out queues: their names and their notifications.

/// Notifications that a queue sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notifications {
    /// No notification: a pulling element polls the queue.
    None,
    /// Notification of waiting packets.
    Packets,
    /// Notifications of waiting packets and of room.
    Both,
}

/// A class of queue.
pub(crate) trait Kind: 'static {
    /// The class name.
    const CLASS: &'static str;
    /// The manual page.
    const MANUAL: &'static str;
    /// Notifications that the class sends.
    const NOTIFICATIONS: Notifications = Notifications::Both;
    /// True if an empty queue notifies at once, instead of after several empty polls.
    const QUICK: bool = false;
}
