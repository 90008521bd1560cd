//! A graph as who moves buckets between workers needs it.

use super::Graph;
use crate::steer::{Shard, Steering};

impl Graph {
    /// Works on this worker's copy of an element that steers; `None` if there is none.
    pub fn steering<R>(
        &mut self,
        node: usize,
        work: impl FnOnce(&mut dyn Steering) -> R,
    ) -> Option<R> {
        self.nodes.get_mut(node)?.as_mut()?.steering().map(work)
    }

    /// Those of these elements that hold something on this worker, each with its mark.
    pub(crate) fn marks(&self, nodes: &[usize]) -> Vec<(usize, usize)> {
        let mark = |&node: &usize| {
            let element = self.nodes[node].as_ref()?;
            let mark = element.mark();
            (!element.is_past(mark)).then_some((node, mark))
        };
        nodes.iter().filter_map(mark).collect()
    }

    /// Those of these marks that have not passed.
    pub(crate) fn not_past(&self, marks: &[(usize, usize)]) -> Vec<(usize, usize)> {
        let stays = |&(node, mark): &(usize, usize)| {
            let element = self.nodes[node].as_ref();
            element.is_some_and(|element| !element.is_past(mark))
        };
        marks.iter().copied().filter(stays).collect()
    }

    /// Takes the state of buckets out of these elements.
    pub(crate) fn give_buckets(&mut self, nodes: &[usize], buckets: &[u16]) -> Vec<Shard> {
        let mut shards = Vec::new();
        for &node in nodes {
            let Some(element) = self.nodes[node].as_mut() else {
                continue;
            };
            let given = buckets
                .iter()
                .filter_map(|&bucket| Some((node, bucket, element.give_bucket(bucket)?)));
            shards.extend(given);
        }
        shards
    }

    /// Puts the state of buckets into the elements that it is of.
    pub(crate) fn take_buckets(&mut self, shards: Vec<Shard>) {
        for (node, bucket, state) in shards {
            self.with_node(node, |element, cx| element.take_bucket(bucket, state, cx));
        }
        self.walk();
    }
}
