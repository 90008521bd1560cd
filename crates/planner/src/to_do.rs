//! Work list for data-flow passes: elements to be examined again because a neighbour has changed.

use std::collections::VecDeque;

/// A queue that contains each element at most once. Iterating over all edges would take as many rounds as the longest
/// chain has elements; a work list takes as many steps as there are changes.
pub(super) struct ToDo {
    queue: VecDeque<usize>,
    waits: Vec<bool>,
}

impl ToDo {
    /// A work list that starts with these elements, out of `elements`.
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
