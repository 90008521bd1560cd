//! Flowlet table: the last path of each flow.
//!
//! Packets of a flow that follow each other within delta keep their path, so that none overtakes another (RB10; Flare's
//! flowlets). The table has a fixed size: it consists of sets of four flows, chosen by the flow's hash. A new flow
//! replaces the one of its set that was idle longest. A replaced flow only chooses a new path.
//!
//! The table also counts the flows to each output node by their path, so that a new flow can take a path with few
//! flows. The links of an intermediate node carry packets of several input nodes to one output node, and no input node
//! sees their load. These links are loaded evenly only if each input node spreads its flows to each output node evenly.

use crate::address::{NO_NODE, NodeId};

/// Number of nodes up to which paths are counted: the table has this number squared.
const COUNTED_NODES_MAX: usize = 256;

/// Number of flows in a set.
const SET_FLOWS: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Flowlet {
    seen: u64,
    hash: u32,
    to: NodeId,
    via: NodeId,
}

/// A set fills a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Set([Flowlet; SET_FLOWS]);

const EMPTY: Set = Set([Flowlet {
    seen: 0,
    hash: 0,
    to: NO_NODE,
    via: NO_NODE,
}; SET_FLOWS]);

/// The table of the flows' paths.
#[derive(Clone, Debug)]
pub struct Flowlets {
    sets: Box<[Set]>,
    delta: u64,
    ways: Counts,
    /// Index of the set that is searched next for ended flows (clock hand).
    clock_hand: usize,
}

/// Number of flows in the table by intermediate node, including flows that have ended recently.
#[derive(Clone, Debug, Default)]
struct Counts {
    /// Number of nodes in all; 0: nothing is counted.
    nodes: usize,
    /// Flows by output node and intermediate node.
    flows_by_path: Box<[u32]>,
    /// Flows by output node.
    flows_by_output: Box<[u32]>,
}

impl Counts {
    fn new(nodes: usize) -> Counts {
        Counts {
            nodes,
            flows_by_path: vec![0; nodes * nodes].into(),
            flows_by_output: vec![0; nodes].into(),
        }
    }

    /// Index of a count; `None` for direct flows, which are not counted.
    #[inline]
    fn count_index(&self, to: NodeId, via: NodeId) -> Option<(usize, usize)> {
        let (to, via) = (usize::from(to), usize::from(via));
        (to < self.nodes && via < self.nodes).then_some((to * self.nodes + via, to))
    }

    #[inline]
    fn add(&mut self, flow: &Flowlet, more: i32) {
        if let Some((by, to)) = self.count_index(flow.to, flow.via) {
            for count in [&mut self.flows_by_path[by], &mut self.flows_by_output[to]] {
                *count = count.wrapping_add_signed(more);
            }
        }
    }
}

fn sets(flows: usize) -> usize {
    match flows {
        0 => 0,
        flows => flows.div_ceil(SET_FLOWS).next_power_of_two(),
    }
}

/// Number of nodes between which paths are counted: all, if there are flows and not too many nodes.
fn counted(flows: usize, nodes: usize) -> usize {
    if flows > 0 && nodes <= COUNTED_NODES_MAX {
        nodes
    } else {
        0
    }
}

/// A flow's place in the table, until the table changes.
#[derive(Clone, Copy, Debug)]
pub struct FlowSlot(usize, usize);

impl Flowlets {
    /// A table for about `flows` flows, rounded up to a power of two; 0 disables it. A flow keeps its path while
    /// packets follow each other within `delta` nanoseconds.
    pub fn new(flows: usize, delta: u64) -> Flowlets {
        Flowlets {
            sets: vec![EMPTY; sets(flows)].into(),
            delta,
            ways: Counts::default(),
            clock_hand: 0,
        }
    }

    /// Starts to count paths, unless the table is disabled or there are more than `COUNTED_NODES_MAX` nodes.
    pub fn count(&mut self, nodes: usize) {
        let mut ways = Counts::new(counted(self.sets.len(), nodes));
        let flows = self.sets.iter().flat_map(|set| set.0.iter());
        flows.for_each(|flow| ways.add(flow, 1));
        self.ways = ways;
    }

    /// Number of flows to an output node through `via`, and number of flows to that node through any intermediate
    /// node.
    #[inline]
    pub fn visitors(&self, to: NodeId, via: NodeId) -> (u32, u32) {
        match self.ways.count_index(to, via) {
            Some((by, to)) => (self.ways.flows_by_path[by], self.ways.flows_by_output[to]),
            None => (0, 0),
        }
    }

    /// Number of bytes of a table for `flows` flows, with the counts of paths between `nodes` nodes.
    pub fn bytes(flows: usize, nodes: usize) -> usize {
        let counted = counted(flows, nodes);
        sets(flows) * size_of::<Set>() + counted * (counted + 1) * size_of::<u32>()
    }

    /// The table place of flows with this hash to a node, and the path of the flow's last packet within delta: the
    /// intermediate node, or [`NO_NODE`] for the direct path.
    #[inline]
    pub fn lookup(&self, now: u64, hash: u32, to: NodeId) -> Option<(FlowSlot, Option<NodeId>)> {
        let mixed = (hash ^ u32::from(to) << 16).wrapping_mul(0x9e37_79b1);
        let at = ((u64::from(mixed) * self.sets.len() as u64) >> u32::BITS) as usize;
        let set = &self.sets.get(at)?.0;
        if let Some(way) = set.iter().position(|f| f.hash == hash && f.to == to) {
            let fresh = now.saturating_sub(set[way].seen) < self.delta;
            return Some((FlowSlot(at, way), fresh.then_some(set[way].via)));
        }
        // An entry that was never used counts as oldest.
        let older = |a: usize, b: usize| if set[b].seen < set[a].seen { b } else { a };
        Some((FlowSlot(at, older(older(0, 1), older(2, 3))), None))
    }

    /// Records that a packet took the path of its flow.
    #[inline]
    pub fn keep_path(&mut self, place: FlowSlot, now: u64) {
        if let Some(set) = self.sets.get_mut(place.0) {
            set.0[place.1].seen = now;
        }
    }

    /// Stops counting the ended flows of a set. If they were still counted, a node that has come back would have the
    /// fewest and would get all new flows.
    #[inline]
    fn expire_flows(&mut self, at: usize, now: u64) {
        let flows = self.sets.get_mut(at).into_iter().flat_map(|set| &mut set.0);
        for flow in flows {
            if flow.via != NO_NODE && now.saturating_sub(flow.seen) >= self.delta {
                self.ways.add(flow, -1);
                flow.via = NO_NODE;
            }
        }
    }

    /// Records that a packet took a path that is new to its flow.
    #[inline]
    pub fn set_path(&mut self, place: FlowSlot, now: u64, hash: u32, to: NodeId, via: NodeId) {
        if via != NO_NODE {
            // Only the choice of an intermediate node reads the counts, so only such packets pay for their update.
            self.expire_flows(place.0, now);
            self.expire_flows(self.clock_hand, now);
            self.clock_hand = (self.clock_hand + 1) & (self.sets.len().max(1) - 1);
        }
        if let Some(set) = self.sets.get_mut(place.0) {
            let flow = Flowlet {
                seen: now,
                hash,
                to,
                via,
            };
            let old = std::mem::replace(&mut set.0[place.1], flow);
            if (old.via, via) != (NO_NODE, NO_NODE) {
                self.ways.add(&old, -1);
                self.ways.add(&flow, 1);
            }
        }
    }

    /// Number of flows that would keep their path now.
    pub fn live_flows(&self, now: u64) -> usize {
        let all = self.sets.iter().flat_map(|set| set.0.iter());
        all.filter(|f| f.to != NO_NODE && now.saturating_sub(f.seen) < self.delta)
            .count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn way(table: &Flowlets, now: u64, hash: u32, to: NodeId) -> Option<NodeId> {
        table.lookup(now, hash, to).and_then(|(_, via)| via)
    }

    #[test]
    fn a_flow_keeps_its_way_within_delta_and_not_after() {
        let mut table = Flowlets::new(64, 100);
        let (place, via) = table.lookup(1000, 7, 3).unwrap();
        assert_eq!(via, None);
        table.set_path(place, 1000, 7, 3, 5);
        assert_eq!(way(&table, 1099, 7, 3), Some(5));
        assert_eq!(way(&table, 1100, 7, 3), None);
        assert_eq!(way(&table, 1050, 7, 4), None, "another output node");
        assert_eq!((table.live_flows(1099), table.live_flows(1100)), (1, 0));
    }

    #[test]
    fn a_table_for_no_flows_knows_none() {
        assert!(Flowlets::new(0, 100).lookup(0, 1, 1).is_none());
    }

    #[test]
    fn table_agrees_with_a_naive_one_or_forgets() {
        let (mut table, mut naive) = (Flowlets::new(64, 1000), HashMap::new());
        let (mut seed, mut known) = (1u64, 0);
        for now in 0..20_000u64 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
            let (hash, to) = ((seed >> 33) as u32 % 90, (seed >> 50) as NodeId % 2);
            let (place, via) = table.lookup(now, hash, to).unwrap();
            if let Some(via) = via {
                let (told, seen) = naive[&(hash, to)];
                assert!(via == told && now - seen < 1000);
                known += 1;
            }
            let new = (seed >> 40) as NodeId % 8;
            table.set_path(place, now, hash, to, new);
            naive.insert((hash, to), (new, now));
        }
        assert!(known > 5000, "{known}: 180 flows share 64 places");
    }

    #[test]
    fn ways_are_counted_as_flows_come_move_and_lose_their_places() {
        let mut table = Flowlets::new(64, 1000);
        table.count(8);
        let mut seed = 1u64;
        for now in 0..5000u64 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
            let (hash, to) = ((seed >> 33) as u32 % 90, (seed >> 50) as NodeId % 3);
            let (place, via) = table.lookup(now, hash, to).unwrap();
            if via.is_some() && seed >> 60 != 0 {
                table.keep_path(place, now);
            } else {
                let via = (seed >> 40) as NodeId % 9;
                let via = if via == 8 { NO_NODE } else { via };
                table.set_path(place, now, hash, to, via);
            }
            let held = |to, via| {
                let flows = table.sets.iter().flat_map(|set| set.0.iter());
                flows.filter(|f| f.to == to && f.via == via).count() as u32
            };
            for to in 0..3 {
                let all: u32 = (0..8).map(|via| held(to, via)).sum();
                assert!((0..8).all(|via| table.visitors(to, via) == (held(to, via), all)));
            }
        }
        let known = table.visitors(1, 5);
        assert!(known.0 > 0);
        table.count(12);
        assert_eq!(table.visitors(1, 5), known, "a cluster that grows");
        assert_eq!(table.visitors(1, NO_NODE), (0, 0));
    }

    #[test]
    fn table_uses_its_stated_memory() {
        for (flows, nodes) in [(64, 8), (100, 256), (100, 257), (0, 8)] {
            let mut table = Flowlets::new(flows, 100);
            table.count(nodes);
            let counts =
                size_of_val(&*table.ways.flows_by_path) + size_of_val(&*table.ways.flows_by_output);
            let all = size_of_val(&*table.sets) + counts;
            assert_eq!(Flowlets::bytes(flows, nodes), all);
        }
    }

    #[test]
    fn flows_that_have_ended_count_no_more() {
        let mut table = Flowlets::new(64, 100);
        table.count(8);
        let mut note = |now: u64, hash: u32, via| {
            let (place, _) = table.lookup(now, hash, 1).unwrap();
            table.set_path(place, now, hash, 1, via);
            [2, 3].map(|via| table.visitors(1, via).0)
        };
        (0..40).for_each(|hash| {
            note(10, hash, 2);
        });
        assert!(note(10, 40, 3)[0] > 30);
        let counts = (41..60).map(|hash| note(200, hash, 3)).last();
        assert!(
            counts.is_some_and(|[old, new]| old == 0 && new > 10),
            "{counts:?}"
        );
    }

    #[test]
    fn longest_idle_flow_is_replaced() {
        let mut table = Flowlets::new(4, 1_000_000);
        for hash in 0..5u32 {
            let (place, _) = table.lookup(u64::from(hash), hash, 1).unwrap();
            table.set_path(place, u64::from(hash), hash, 1, 2);
        }
        assert_eq!(way(&table, 9, 0, 1), None);
        assert!((1..5).all(|hash| way(&table, 9, hash, 1) == Some(2)));
    }
}
