//! Access to a worker's graph, for moving buckets and queues.

use super::extensions::{KeepsFlowsOfClass, ReceivesOfClass, SteersOfClass};
use super::{RxQueues, Steering};
use engine::graph::Graph;
use engine::graph::StorageOfClass;
use std::any::Any;

/// State of a bucket: the element, the bucket, the element's state.
pub(crate) type Shard = (usize, u16, Box<dyn Any + Send>);

/// Runs `work` on this worker's copy of a steering element; `None` if there is none.
pub fn steering<R>(
    graph: &mut Graph,
    node: usize,
    work: impl FnOnce(&mut dyn Steering) -> R,
) -> Option<R> {
    let class: &SteersOfClass = graph.class_of(node)?.extension()?;
    Some(work((class.steering)(graph.element_mut(node)?)))
}

/// Runs `work` on the RX queues of this worker's copy of a receiver, which then processes its changes; `None` if
/// there is none.
pub(crate) fn queues<R>(
    graph: &mut Graph,
    node: usize,
    work: impl FnOnce(&mut dyn RxQueues) -> R,
) -> Option<R> {
    let class: &ReceivesOfClass = graph.class_of(node)?.extension()?;
    graph.with_element(node, |element, cx| {
        cx.wake_self();
        work((class.queues)(element))
    })
}

/// For steering elements of this worker, the numbers of packets that they had sent to other workers at some time.
pub(crate) struct Sent(Vec<(usize, usize, usize)>);

impl Sent {
    /// Packets that these elements have sent to these workers so far.
    pub(crate) fn now(graph: &mut Graph, steers: &[usize], to: std::ops::Range<usize>) -> Sent {
        let mut sent = Vec::new();
        for &node in steers {
            steering(graph, node, |s| {
                sent.extend(to.clone().map(|to| (node, to, s.sent(to))));
            });
        }
        Sent(sent)
    }

    /// True if all receiving workers have taken these packets.
    pub(crate) fn has_arrived(&self, graph: &mut Graph) -> bool {
        self.0.iter().all(|&(node, to, sent)| {
            let there = steering(graph, node, |s| s.has_arrived(to, sent));
            there.unwrap_or(true)
        })
    }
}

/// Marks of the packets that elements of this worker held at some time.
pub(crate) struct Marks(Vec<(usize, usize)>);

impl Marks {
    /// Marks of the packets that these elements hold now.
    pub(crate) fn now(graph: &Graph, nodes: &[usize]) -> Marks {
        let marks = nodes
            .iter()
            .filter_map(|&node| Some((node, mark(graph, node)?)));
        let mut marks = Marks(marks.collect());
        marks.have_passed(graph);
        marks
    }

    /// True if all marked packets have left.
    pub(crate) fn have_passed(&mut self, graph: &Graph) -> bool {
        self.0.retain(|&(node, mark)| !is_past(graph, node, mark));
        self.0.is_empty()
    }

    /// Elements that still hold marked packets.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|mark| mark.0)
    }
}

/// Number of packets that an element has taken in so far; `None` if it has no copy here.
fn mark(graph: &Graph, node: usize) -> Option<usize> {
    let element = graph.element(node)?;
    let class: Option<&StorageOfClass> = graph.class_of(node)?.extension();
    Some(class.map_or(0, |class| (class.mark)(element)))
}

/// True if all packets that the element held at `mark` have left. If the class has no `Storage` extension, true if the
/// element holds no packet.
fn is_past(graph: &Graph, node: usize, mark: usize) -> bool {
    let class: Option<&StorageOfClass> = graph.class_of(node).and_then(|c| c.extension());
    match graph.element(node).zip(class) {
        Some((element, class)) => (class.is_past)(element, mark),
        None => graph.held_by(node) == 0,
    }
}

fn keeps_flows(graph: &Graph, node: usize) -> Option<&'static KeepsFlowsOfClass> {
    graph.class_of(node)?.extension()
}

/// Removes the state of buckets from these elements.
pub(crate) fn give_buckets(graph: &mut Graph, nodes: &[usize], buckets: &[u16]) -> Vec<Shard> {
    let mut shards = Vec::new();
    for &node in nodes {
        if let Some(class) = keeps_flows(graph, node)
            && let Some(element) = graph.element_mut(node)
        {
            let give = |&bucket| Some((node, bucket, (class.give_bucket)(element, bucket)?));
            shards.extend(buckets.iter().filter_map(give));
        }
    }
    shards
}

/// Adds the state of buckets to the elements to which it belongs.
pub(crate) fn take_buckets(graph: &mut Graph, shards: Vec<Shard>) {
    for (node, bucket, state) in shards {
        if let Some(class) = keeps_flows(graph, node) {
            graph.with_element(node, |e, cx| (class.take_bucket)(e, bucket, state, cx));
        }
    }
    graph.move_on();
}
