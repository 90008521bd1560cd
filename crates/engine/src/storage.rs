//! Elements that store packets, as others ask how full they are and when what came before some moment has left.

use crate::element::Element;
use crate::extension::element_of;
use std::any::Any;

/// A class that stores packets and can say more of them than how many a copy holds ([`Element::held`]).
pub trait Storage: Element {
    /// Packets that wait in this copy or in what it shares with others.
    fn waiting(&self) -> usize {
        self.held()
    }

    /// How many packets this copy has taken in by now, for [`is_past`](Self::is_past).
    fn mark(&self) -> usize;

    /// Whether the packets that had been taken in at a [`mark`](Self::mark) have left.
    fn is_past(&self, mark: usize) -> bool;
}

/// [`Storage`] of a class, its type erased.
pub struct OfClass {
    pub(crate) waiting: fn(&dyn Any) -> usize,
    /// [`Storage::mark`].
    pub mark: fn(&dyn Any) -> usize,
    /// [`Storage::is_past`].
    pub is_past: fn(&dyn Any, usize) -> bool,
}

/// The extension of a class, for [`Element::EXTENSIONS`].
pub const fn of<E: Storage>() -> OfClass {
    OfClass {
        waiting: |element| element_of::<E>(element).waiting(),
        mark: |element| element_of::<E>(element).mark(),
        is_past: |element, mark| element_of::<E>(element).is_past(mark),
    }
}
