//! Work list for data-flow passes: elements to be examined again because a neighbour has changed.

use std::collections::VecDeque;

/// Queue that contains each element at most once. Its cost is one step per change, while repeated rounds over all edges
/// would need as many rounds as the longest path has elements.
pub(super) struct WorkList {
    queue: VecDeque<usize>,
    is_listed: Vec<bool>,
}

impl WorkList {
    /// A work list that starts with these elements, out of `elements`.
    pub(super) fn new(first: impl Iterator<Item = usize>, elements: usize) -> WorkList {
        let mut to_do = WorkList {
            queue: VecDeque::new(),
            is_listed: vec![false; elements],
        };
        first.for_each(|element| to_do.add(element));
        to_do
    }

    pub(super) fn add(&mut self, element: usize) {
        if !std::mem::replace(&mut self.is_listed[element], true) {
            self.queue.push_back(element);
        }
    }

    pub(super) fn next(&mut self) -> Option<usize> {
        let element = self.queue.pop_front()?;
        self.is_listed[element] = false;
        Some(element)
    }
}
