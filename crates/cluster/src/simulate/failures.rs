//! Links and nodes that break, and the heartbeats by which nodes see it: the same machine as on real servers.

use std::sync::Arc;

use super::Server;
use crate::address::NodeId;
use crate::health::{self, Cabling, Health};
use crate::map::{Fabric, Map, Reach, Ways};

/// What breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A link carries nothing.
    Link(NodeId, NodeId),
    /// A link carries nothing from the first to the second.
    OneWay(NodeId, NodeId),
    /// A node neither sends nor hears.
    Node(NodeId),
}

impl Broken {
    /// Whether frames from one node to another are lost.
    fn loses(self, from: NodeId, to: NodeId) -> bool {
        match self {
            Broken::Link(a, b) => (a, b) == (from, to) || (b, a) == (from, to),
            Broken::OneWay(a, b) => (a, b) == (from, to),
            Broken::Node(node) => from == node || to == node,
        }
    }
}

/// Something that breaks for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What.
    pub what: Broken,
    /// From when, in nanoseconds from the start of the run.
    pub from: u64,
    /// Until when.
    pub until: u64,
}

/// How long it took until all other nodes knew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Noticed {
    /// Nanoseconds until no node used the broken links any more.
    pub gone: Option<u64>,
    /// Nanoseconds until all used them again.
    pub back: Option<u64>,
}

/// A heartbeat on its way: to a node, by its own link.
#[derive(Clone, Debug)]
pub(super) struct Beat {
    pub(super) to: NodeId,
    pub(super) own: usize,
    pub(super) bytes: Box<[u8]>,
}

/// The heartbeats of all nodes.
#[derive(Debug)]
pub(super) struct Watch {
    failures: Vec<Failure>,
    pub(super) noticed: Vec<Noticed>,
    cabling: Arc<Cabling>,
    nodes: Vec<Health>,
    /// Whether a node has seen all links up. Before that it uses all.
    started: Vec<bool>,
    /// When a node looks next.
    pub(super) due: Vec<u64>,
}

impl Watch {
    /// Of a map whose nodes have few enough links.
    pub(super) fn new(map: &Map, failures: &[Failure]) -> Option<Watch> {
        if failures.is_empty() {
            return None;
        }
        let cabling = Arc::new(Cabling::new(map).ok()?);
        let config = health::Config::default();
        let nodes = (0..map.nodes.len()).map(|node| {
            // Servers do not start, nor send, in step.
            Health::new(
                map,
                Arc::clone(&cabling),
                node as NodeId,
                1,
                config.clone(),
                0,
            )
        });
        Some(Watch {
            nodes: nodes.collect(),
            started: vec![false; map.nodes.len()],
            due: vec![u64::MAX; map.nodes.len()],
            noticed: vec![Noticed::default(); failures.len()],
            failures: failures.to_vec(),
            cabling,
        })
    }

    /// Whether frames from one node to another are lost now.
    pub(super) fn loses(&self, now: u64, from: NodeId, to: NodeId) -> bool {
        let now = |failure: &&Failure| (failure.from..failure.until).contains(&now);
        let mut broken = self.failures.iter().filter(now);
        broken.any(|failure| failure.what.loses(from, to))
    }

    /// Whether a node is dead now.
    pub(super) fn dead(&self, now: u64, node: NodeId) -> bool {
        self.loses(now, node, node)
    }

    /// A node looks at the time. Heartbeats leave by `links`, as packets do.
    pub(super) fn tick(
        &mut self,
        now: u64,
        node: NodeId,
        links: &mut [Server],
        out: &mut Vec<(u64, Beat)>,
    ) {
        let cabling = Arc::clone(&self.cabling);
        let mut sent: Vec<(usize, Box<[u8]>)> = Vec::new();
        self.nodes[usize::from(node)]
            .tick(now, &mut |own, bytes| sent.push((own, Box::from(bytes))));
        for (own, bytes) in sent {
            let end = cabling.of(node)[own];
            if self.loses(now, node, end.peer) {
                continue;
            }
            let cable = &mut links[2 * end.link + usize::from(node > end.peer)];
            // With the check sequence, and at least the shortest frame.
            let length = (bytes.len() as u32 + 4).max(64);
            if let Some(at) = cable.serve(now, length, false) {
                let (to, own) = (end.peer, end.index);
                out.push((at, Beat { to, own, bytes }));
            }
        }
    }

    /// A node hears a heartbeat.
    pub(super) fn heard(&mut self, now: u64, beat: &Beat) {
        let node = &mut self.nodes[usize::from(beat.to)];
        // What is refused would be counted on a real server; here nobody forges.
        let _ = node.heard(beat.own, &beat.bytes, now);
    }

    /// When a node wants to look next, if that is earlier than planned.
    pub(super) fn plan(&mut self, now: u64, node: NodeId) -> Option<u64> {
        let at = usize::from(node);
        let due = self.nodes[at].due().max(now + 1);
        (due < self.due[at]).then(|| {
            self.due[at] = due;
            due
        })
    }

    /// New ways of a node, if it has learned of links.
    pub(super) fn changed(&mut self, now: u64, node: NodeId, fabric: &Arc<Fabric>) -> Option<Ways> {
        let at = usize::from(node);
        if !self.nodes[at].take_change() {
            return None;
        }
        let links = self.nodes[at].links();
        let all = (0..fabric.map().links.len()).all(|link| links.up(link));
        self.started[at] |= all;
        if !self.started[at] {
            return None;
        }
        let ways = Ways::new(&Reach::new(fabric, links), node);
        self.note(now, fabric.map());
        Some(ways)
    }

    /// Looks who knows of which failure.
    fn note(&mut self, now: u64, map: &Map) {
        for (failure, noticed) in self.failures.iter().zip(&mut self.noticed) {
            let hit = |link: &crate::map::Link| {
                let [a, b] = link.ends;
                failure.what.loses(a, b) || failure.what.loses(b, a)
            };
            let hit: Vec<usize> = (0..map.links.len())
                .filter(|&link| hit(&map.links[link]))
                .collect();
            let others = self.nodes.iter().enumerate();
            let mut others =
                others.filter(|(node, _)| failure.what != Broken::Node(*node as NodeId));
            let up =
                |health: &Health, up: bool| hit.iter().all(|&link| health.links().up(link) == up);
            if noticed.gone.is_none() && now >= failure.from {
                let all = others.clone().all(|(_, health)| up(health, false));
                noticed.gone = all.then(|| now - failure.from);
            } else if noticed.back.is_none() && now >= failure.until {
                noticed.back = others
                    .all(|(_, health)| up(health, true))
                    .then(|| now - failure.until);
            }
        }
    }
}
