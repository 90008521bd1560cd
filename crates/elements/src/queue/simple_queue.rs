//! Holds packets, first in, first out, and tells nobody about them.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> SimpleQueue(100) -> Discard;
//! ```
//!
//! As Queue, but tasks that pull from it must poll it, and sources do not hear that it is
//! full.
//!
//! Arguments:
//!
//! - `CAPACITY`: packets. Default 1000.

use super::kind::{Kind, Notes};
use super::queue::Queue;
use engine::manual;

/// Names the class.
pub(crate) struct Is;

pub(crate) type SimpleQueue = Queue<Is>;

impl Kind for Is {
    const CLASS: &'static str = "SimpleQueue";
    const MANUAL: &'static str = manual!();
    const NOTES: Notes = Notes::None;
}
