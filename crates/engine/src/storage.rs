//! Elements that store packets: their fill level, and whether all packets older than a mark have left.

use crate::element::Element;
use crate::element::extension::element_of;
use crate::graph::StorageOfClass;

/// A class that stores packets and can tell more about them than their number ([`Element::held`]).
pub trait Storage: Element {
    /// Number of packets that wait in this copy and in state that it shares with others.
    fn waiting(&self) -> usize {
        self.held()
    }

    /// Number of packets that this copy has taken in so far, for [`is_past`](Self::is_past).
    fn mark(&self) -> usize;

    /// True if the packets that had been taken in at a [`mark`](Self::mark) have left.
    fn is_past(&self, mark: usize) -> bool;
}

/// The extension of a class, for [`Contract::extensions`](crate::element::Contract::extensions).
pub const fn of<E: Storage>() -> StorageOfClass {
    StorageOfClass {
        waiting: |element| element_of::<E>(element).waiting(),
        mark: |element| element_of::<E>(element).mark(),
        is_past: |element, mark| element_of::<E>(element).is_past(mark),
    }
}
