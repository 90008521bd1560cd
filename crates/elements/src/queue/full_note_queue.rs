//! Holds packets, first in, first out: an older name of Queue.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> FullNoteQueue(100) -> Discard;
//! ```
//!
//! See Queue.
//!
//! Arguments:
//!
//! - `CAPACITY`: packets. Default 1000.

use super::kind::Kind;
use super::queue::Queue;
use crate::manual;

/// Names the class.
pub(crate) struct Is;

pub(crate) type FullNoteQueue = Queue<Is>;

impl Kind for Is {
    const CLASS: &'static str = "FullNoteQueue";
    const MANUAL: &'static str = manual!();
}
