//! Holds packets, first in, first out, and wakes tasks that pull from it.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> NotifierQueue(100) -> Discard;
//! ```
//!
//! Works like Queue, but does not notify sources when it is full.
//!
//! Arguments:
//!
//! - `CAPACITY`: packets. Default 1000.

use super::kind::{Kind, Notifications};
use super::queue::Queue;
use crate::manual;

/// Names the class.
pub(crate) struct Is;

pub(crate) type NotifierQueue = Queue<Is>;

impl Kind for Is {
    const CLASS: &'static str = "NotifierQueue";
    const MANUAL: &'static str = manual!();
    const NOTIFICATIONS: Notifications = Notifications::Packets;
}
