//! Elements that have to be looked at again, because something beside them has changed.

use std::collections::VecDeque;

/// A queue of elements, each at most once in it. A walk over all edges until nothing changes needs as many rounds as a
/// chain is long; this needs as many steps as there are changes.
pub(super) struct ToDo {
    queue: VecDeque<usize>,
    waits: Vec<bool>,
}

impl ToDo {
    /// A work list of these elements, of `elements` in all.
    pub(super) fn new(first: impl Iterator<Item = usize>, elements: usize) -> ToDo {
        let mut to_do = ToDo {
            queue: VecDeque::new(),
            waits: vec![false; elements],
        };
        first.for_each(|element| to_do.add(element));
        to_do
    }

    pub(super) fn add(&mut self, element: usize) {
        if !std::mem::replace(&mut self.waits[element], true) {
            self.queue.push_back(element);
        }
    }

    pub(super) fn next(&mut self) -> Option<usize> {
        let element = self.queue.pop_front()?;
        self.waits[element] = false;
        Some(element)
    }
}
