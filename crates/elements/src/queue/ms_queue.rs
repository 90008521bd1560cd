//! Holds packets, first in, first out: many workers may fill it, and one empties it.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> MSQueue(100) -> Discard;
//! ```
//!
//! An older class of Click; in Ashlar it is the same as Queue.
//!
//! Arguments:
//!
//! - `CAPACITY`: packets. Default 1000.

use super::kind::Kind;
use super::queue::Queue;
use crate::manual;

/// Names the class.
pub(crate) struct Is;

pub(crate) type MSQueue = Queue<Is>;

impl Kind for Is {
    const CLASS: &'static str = "MSQueue";
    const MANUAL: &'static str = manual!();
}
