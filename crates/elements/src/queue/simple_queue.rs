//! Holds packets, first in, first out, without notifying tasks.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> SimpleQueue(100) -> Discard;
//! ```
//!
//! Works like Queue, but tasks that pull from it must poll it, and it does not notify sources when it is full.
//!
//! Arguments:
//!
//! - `CAPACITY`: packets. Default 1000.

use super::kind::{Kind, Notifications};
use super::queue::Queue;
use crate::manual;

/// Names the class.
pub(crate) struct Is;

pub(crate) type SimpleQueue = Queue<Is>;

impl Kind for Is {
    const CLASS: &'static str = "SimpleQueue";
    const MANUAL: &'static str = manual!();
    const NOTIFICATIONS: Notifications = Notifications::None;
}
