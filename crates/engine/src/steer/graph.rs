//! A graph as who moves buckets between workers needs it.

use super::extensions::{KeepsFlowsOfClass, SteersOfClass};
use super::{Shard, Steering};
use crate::graph::Graph;
use crate::graph::StorageOfClass;

impl Graph {
    /// Works on this worker's copy of an element that steers; `None` if there is none.
    pub fn steering<R>(
        &mut self,
        node: usize,
        work: impl FnOnce(&mut dyn Steering) -> R,
    ) -> Option<R> {
        let class: &SteersOfClass = self.class_of(node)?.extension()?;
        Some(work((class.steering)(self.element_mut(node)?)))
    }

    /// Those of these elements that hold something on this worker, each with its mark.
    pub(crate) fn marks(&self, nodes: &[usize]) -> Vec<(usize, usize)> {
        let mark = |&node: &usize| {
            let mark = self.mark(node)?;
            (!self.is_past(node, mark)).then_some((node, mark))
        };
        nodes.iter().filter_map(mark).collect()
    }

    /// Those of these marks that have not passed.
    pub(crate) fn not_past(&self, marks: &[(usize, usize)]) -> Vec<(usize, usize)> {
        let stays = |&(node, mark): &(usize, usize)| !self.is_past(node, mark);
        marks.iter().copied().filter(stays).collect()
    }

    /// What an element has taken in by now; `None` if it has no copy here.
    fn mark(&self, node: usize) -> Option<usize> {
        let element = self.element(node)?;
        let class: Option<&StorageOfClass> = self.class_of(node)?.extension();
        Some(class.map_or(0, |class| (class.mark)(element)))
    }

    /// Whether what an element had taken in at a mark has left. Of a class that cannot tell, nothing must be held.
    fn is_past(&self, node: usize, mark: usize) -> bool {
        let class = self.class_of(node);
        let class: Option<&StorageOfClass> = class.and_then(|class| class.extension());
        match self.element(node).zip(class) {
            Some((element, class)) => (class.is_past)(element, mark),
            None => self.held_by(node) == 0,
        }
    }

    fn keeps_flows(&self, node: usize) -> Option<&'static KeepsFlowsOfClass> {
        self.class_of(node)?.extension()
    }

    /// Takes the state of buckets out of these elements.
    pub(crate) fn give_buckets(&mut self, nodes: &[usize], buckets: &[u16]) -> Vec<Shard> {
        let mut shards = Vec::new();
        for &node in nodes {
            let Some(class) = self.keeps_flows(node) else {
                continue;
            };
            let Some(element) = self.element_mut(node) else {
                continue;
            };
            let give = |&bucket| Some((node, bucket, (class.give_bucket)(element, bucket)?));
            let given = buckets.iter().filter_map(give);
            shards.extend(given);
        }
        shards
    }

    /// Puts the state of buckets into the elements that it is of.
    pub(crate) fn take_buckets(&mut self, shards: Vec<Shard>) {
        for (node, bucket, state) in shards {
            if let Some(class) = self.keeps_flows(node) {
                self.with_element(node, |e, cx| (class.take_bucket)(e, bucket, state, cx));
            }
        }
        self.move_on();
    }
}
