//! Holds packets, first in, first out, between any number of workers.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> ThreadSafeQueue(100) -> Discard;
//! ```
//!
//! In Click this is the queue that several threads may fill. Ashlar's Queue can do that, too, so both are the
//! same.
//!
//! Arguments:
//!
//! - `CAPACITY`: packets. Default 1000.

use super::kind::Kind;
use super::queue::Queue;
use crate::manual;

/// Names the class.
pub(crate) struct Is;

pub(crate) type ThreadSafeQueue = Queue<Is>;

impl Kind for Is {
    const CLASS: &'static str = "ThreadSafeQueue";
    const MANUAL: &'static str = manual!();
}
