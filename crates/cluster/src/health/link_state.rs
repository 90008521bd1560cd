//! Link-state records of all nodes, as far as they have reached this node.
//!
//! Only the node itself makes its record. The newest version replaces older ones, so records may arrive twice, late
//! and by any path. A heartbeat carries changed records first. The remaining room carries other records in turn, so
//! that lost ones are sent again.

use super::heartbeat::Record;
use crate::address::NodeId;
use crate::map::{Links, Map};
use std::collections::BTreeMap;

/// Maximum number of links of a node: each is a bit of a record.
pub const LINKS_MAX: usize = 64;

/// An end of a link.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// The link, by its number in the cluster.
    pub link: usize,
    /// The node at the other end.
    pub peer: NodeId,
    /// Index among the peer's own links.
    pub index: usize,
    /// Index among the parallel links between these two nodes.
    pub parallel_index: usize,
}

/// The links of each node in a map. All nodes of a simulation share one copy.
#[derive(Debug)]
pub struct Cabling {
    ends: Vec<Vec<End>>,
    links: usize,
}

impl Cabling {
    /// Computes the links of each node. Links that name nonexistent nodes connect nothing. The error names a node
    /// that has too many links.
    pub fn new(map: &Map) -> Result<Cabling, NodeId> {
        let mut ends: Vec<Vec<End>> = vec![Vec::new(); map.nodes.len()];
        for (link, cable) in map.links.iter().enumerate() {
            let [a, b] = cable.ends.map(usize::from);
            if a.max(b) >= ends.len() {
                continue;
            }
            let [at_a, at_b] = [a, b].map(|node| ends[node].len());
            let [peer_a, peer_b] = cable.ends;
            let parallel_index = ends[a].iter().filter(|end| end.peer == peer_b).count();
            ends[a].push(End {
                link,
                peer: peer_b,
                index: at_b,
                parallel_index,
            });
            ends[b].push(End {
                link,
                peer: peer_a,
                index: at_a,
                parallel_index,
            });
        }
        match ends.iter().position(|own| own.len() > LINKS_MAX) {
            Some(node) => Err(node as NodeId),
            None => Ok(Cabling {
                ends,
                links: map.links.len(),
            }),
        }
    }

    /// A node's own links, in order.
    pub fn of(&self, node: NodeId) -> &[End] {
        self.ends.get(usize::from(node)).map_or(&[], |own| own)
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.ends.len()
    }
}

/// Newest record of a node.
#[derive(Clone, Copy, Debug, Default)]
struct NodeState {
    version: u64,
    up: u64,
    /// Number of record changes up to this one; it orders records by arrival.
    stamp: u64,
}

/// All records, and the link states computed from them.
#[derive(Debug)]
pub(super) struct Gossip {
    known: Vec<NodeState>,
    /// Nodes by the stamp of their last change.
    order: BTreeMap<u64, NodeId>,
    stamp: u64,
    links: Links,
    changed: bool,
}

/// Position in the records sent to one peer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SentRecords {
    stamp: u64,
    turn: usize,
}

impl Gossip {
    pub(super) fn new(map: &Map, cabling: &Cabling) -> Gossip {
        let mut links = Links::all(map);
        for link in 0..cabling.links {
            links.set(link, false);
        }
        Gossip {
            known: vec![NodeState::default(); cabling.nodes()],
            order: BTreeMap::new(),
            stamp: 0,
            links,
            changed: false,
        }
    }

    /// The links that are up in the records of both ends.
    pub(super) fn links(&self) -> &Links {
        &self.links
    }

    /// True if links have changed since the last call.
    pub(super) fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Record of a node.
    pub(super) fn record(&self, node: NodeId) -> Record {
        let known = self.known.get(usize::from(node)).copied();
        let NodeState { version, up, .. } = known.unwrap_or_default();
        Record { node, version, up }
    }

    /// Stores a record if it is newer than the known one. Returns true if it was.
    pub(super) fn store(&mut self, record: Record, cabling: &Cabling) -> bool {
        let Some(known) = self.known.get_mut(usize::from(record.node)) else {
            return false;
        };
        if record.version <= known.version {
            return false;
        }
        self.order.remove(&known.stamp);
        self.stamp += 1;
        self.order.insert(self.stamp, record.node);
        let changes = known.up ^ record.up;
        *known = NodeState {
            version: record.version,
            up: record.up,
            stamp: self.stamp,
        };
        for (index, end) in cabling.of(record.node).iter().enumerate() {
            if changes >> index & 1 == 1 {
                let there = self.known[usize::from(end.peer)].up >> end.index & 1 == 1;
                let here = record.up >> index & 1 == 1;
                self.changed |= self.links.set(end.link, here && there);
            }
        }
        true
    }

    /// Fills `records`, up to `limit`, with the record of `me`, then changed records, then others in turn.
    pub(super) fn fill_records(
        &self,
        told: &mut SentRecords,
        me: NodeId,
        limit: usize,
        records: &mut Vec<Record>,
    ) {
        records.push(self.record(me));
        for (&stamp, &node) in self.order.range(told.stamp + 1..) {
            if records.len() >= limit {
                return;
            }
            told.stamp = stamp;
            if node != me {
                records.push(self.record(node));
            }
        }
        let changed = records.len();
        for _ in 0..self.known.len() {
            if records.len() >= limit {
                return;
            }
            let node = told.turn as NodeId;
            told.turn = (told.turn + 1) % self.known.len();
            let record = self.record(node);
            if record.version != 0 && !records[..changed].contains(&record) {
                records.push(record);
            }
        }
    }
}
