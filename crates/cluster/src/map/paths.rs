//! Paths over live links: the part that all nodes share, and a node's own part.
//!
//! [`Fabric`] is computed from the map alone, [`Reach`] from the map and the live links. Both are the same for every
//! node with the same knowledge, so a simulator of thousands of nodes keeps them once. [`Ways`] adds one node's part:
//! its links on shortest paths to each other node.

use super::{Links, Map};
use crate::address::{HOPS_MAX, NO_NODE, NodeId};
use std::sync::Arc;

/// Hop count of an unreachable node.
pub const UNREACHABLE: u8 = u8::MAX;

/// Number of internal links on a shortest path between each two nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Distances {
    nodes: usize,
    hops: Vec<u8>,
}

impl Distances {
    fn row(&self, from: NodeId) -> &[u8] {
        let start = usize::from(from) * self.nodes;
        self.hops.get(start..start + self.nodes).unwrap_or(&[])
    }

    #[inline]
    fn between(&self, from: NodeId, to: NodeId) -> u8 {
        let (from, to) = (usize::from(from), usize::from(to));
        if to >= self.nodes {
            return UNREACHABLE;
        }
        let at = from * self.nodes + to;
        self.hops.get(at).copied().unwrap_or(UNREACHABLE)
    }
}

/// Data computed from a map alone: neighbours, distances with every link up, and weights.
#[derive(Debug)]
pub struct Fabric {
    map: Map,
    /// Start of each node's neighbours in `neighbours`.
    start: Vec<u32>,
    /// Neighbours and the links to them, in the order of links.
    neighbours: Vec<(NodeId, u32)>,
    whole: Distances,
    /// For each node, the end of its interval on a scale of 2^32. The length of the interval is the node's share of
    /// all external rates.
    ends: Vec<u64>,
}

impl Fabric {
    /// The fabric of a map. Links that name nonexistent nodes connect nothing.
    pub fn new(map: Map) -> Arc<Fabric> {
        let nodes = map.nodes.len();
        let mut count = vec![0u32; nodes + 1];
        let known = |ends: [NodeId; 2]| ends.iter().all(|&end| usize::from(end) < nodes);
        for link in map.links.iter().filter(|link| known(link.ends)) {
            for end in link.ends {
                count[usize::from(end) + 1] += 1;
            }
        }
        for node in 0..nodes {
            count[node + 1] += count[node];
        }
        let mut near = vec![(0, 0); count[nodes] as usize];
        let mut place = count.clone();
        for (number, link) in map.links.iter().enumerate() {
            let [a, b] = link.ends;
            if known(link.ends) {
                for (from, to) in [(a, b), (b, a)] {
                    let place = &mut place[usize::from(from)];
                    near[*place as usize] = (to, number as u32);
                    *place += 1;
                }
            }
        }
        let mut fabric = Fabric {
            ends: ends(&map),
            start: count,
            neighbours: near,
            whole: Distances {
                nodes,
                hops: Vec::new(),
            },
            map,
        };
        fabric.whole = fabric.distances(|_| true);
        Arc::new(fabric)
    }

    /// The map.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// True if some nodes are not neighbours, so that several paths may be equally short.
    pub fn branches(&self) -> bool {
        self.whole.hops.iter().any(|&hops| hops > 1)
    }

    /// A node's neighbours and the links to them, by link number: those are its links 0, 1, ...
    pub fn neighbours(&self, node: NodeId) -> &[(NodeId, u32)] {
        let node = usize::from(node);
        match (self.start.get(node), self.start.get(node + 1)) {
            (Some(&from), Some(&to)) => &self.neighbours[from as usize..to as usize],
            _ => &[],
        }
    }

    /// The node whose interval holds `point`. A uniformly random point names each node with the probability of its
    /// share of external rates.
    #[inline]
    pub fn node_at(&self, point: u32) -> NodeId {
        let node = self.ends.partition_point(|&end| end <= u64::from(point));
        node.min(self.ends.len().saturating_sub(1)) as NodeId
    }

    /// Breadth-first search from every node. In a mesh it ends after a node's own links.
    fn distances(&self, up: impl Fn(usize) -> bool) -> Distances {
        let nodes = self.map.nodes.len();
        let mut hops = vec![UNREACHABLE; nodes * nodes];
        let mut queue = Vec::with_capacity(nodes);
        for (from, row) in hops.chunks_mut(nodes.max(1)).enumerate() {
            row[from] = 0;
            queue.clear();
            queue.push(from as NodeId);
            let mut next = 0;
            while next < queue.len() && queue.len() < nodes {
                let node = queue[next];
                next += 1;
                let beyond = row[usize::from(node)].saturating_add(1);
                for &(peer, link) in self.neighbours(node) {
                    let seen = &mut row[usize::from(peer)];
                    if *seen == UNREACHABLE && up(link as usize) && beyond < UNREACHABLE {
                        *seen = beyond;
                        queue.push(peer);
                    }
                }
            }
        }
        Distances { nodes, hops }
    }
}

/// Ends of the nodes' intervals on a scale of 2^32, in proportion to external rates; equal intervals if there are
/// none.
fn ends(map: &Map) -> Vec<u64> {
    let all = map.rate();
    let weight = |rate: f64| {
        if all > 0.0 {
            rate / all
        } else {
            1.0 / map.nodes.len() as f64
        }
    };
    let mut sum = 0.0;
    let parts = map.nodes.iter().map(|node| {
        sum += weight(node.rate);
        (sum * (1u64 << 32) as f64).round() as u64
    });
    parts.collect()
}

/// Distances over the links that are up, shared by all nodes with the same knowledge of links.
#[derive(Debug)]
pub struct Reach {
    fabric: Arc<Fabric>,
    links: Links,
    now: Distances,
    /// True if each node is a neighbour of each other one.
    mesh: bool,
}

impl Reach {
    /// Computes reachability over the links that are up.
    pub fn new(fabric: &Arc<Fabric>, links: &Links) -> Arc<Reach> {
        let now = fabric.distances(|link| links.up(link));
        Arc::new(Reach {
            fabric: Arc::clone(fabric),
            links: links.clone(),
            mesh: now.hops.iter().all(|&hops| hops < 2),
            now,
        })
    }

    /// The fabric on which reachability was computed.
    pub fn fabric(&self) -> &Arc<Fabric> {
        &self.fabric
    }

    /// The links that were up.
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// Internal links between two nodes, or [`UNREACHABLE`].
    #[inline]
    pub fn hops(&self, from: NodeId, to: NodeId) -> u8 {
        self.now.between(from, to)
    }

    /// True if the path between two nodes is no longer than with all links up.
    #[inline]
    pub fn is_whole(&self, from: NodeId, to: NodeId) -> bool {
        let hops = self.now.between(from, to);
        hops != UNREACHABLE && hops == self.fabric.whole.between(from, to)
    }
}

/// The paths of one node: its own links on shortest paths to each other node.
#[derive(Clone, Debug)]
pub struct Ways {
    reach: Arc<Reach>,
    node: NodeId,
    /// Start of the links towards each node in `links`.
    start: Vec<u32>,
    links: Vec<u16>,
    /// Rates of own links, in bits per second.
    rates: Vec<f64>,
}

impl Ways {
    /// Paths of a node over the links of `reach`.
    pub fn new(reach: &Arc<Reach>, node: NodeId) -> Ways {
        let fabric = &reach.fabric;
        let neighbours = fabric.neighbours(node);
        let nodes = fabric.map.nodes.len();
        let row = reach.now.row(node);
        let mut towards = vec![Vec::new(); nodes];
        let far = row.iter().any(|&hops| (2..UNREACHABLE).contains(&hops));
        for (own, &(peer, link)) in neighbours.iter().enumerate() {
            if !reach.links.up(link as usize) {
                continue;
            }
            towards[usize::from(peer)].push(own as u16);
            let beyond = if far { reach.now.row(peer) } else { &[] };
            for (target, (&here, &there)) in row.iter().zip(beyond).enumerate() {
                if here > 1 && here < UNREACHABLE && there + 1 == here {
                    towards[target].push(own as u16);
                }
            }
        }
        let mut start = Vec::with_capacity(nodes + 1);
        let mut links = Vec::new();
        for towards in &towards {
            start.push(links.len() as u32);
            links.extend_from_slice(towards);
        }
        start.push(links.len() as u32);
        let rate = |&(_, link): &(NodeId, u32)| fabric.map.links[link as usize].rate;
        Ways {
            reach: Arc::clone(reach),
            node,
            start,
            links,
            rates: neighbours.iter().map(rate).collect(),
        }
    }

    /// Paths of a node over the live links of `map`, for callers that need one node only.
    pub fn of(map: &Map, links: &Links, node: NodeId) -> Ways {
        Ways::new(&Reach::new(&Fabric::new(map.clone()), links), node)
    }

    /// The node at which the paths start.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// The live links over which the paths lead.
    pub fn reach(&self) -> &Arc<Reach> {
        &self.reach
    }

    /// Rates of the own links, in bits per second.
    pub fn rates(&self) -> &[f64] {
        &self.rates
    }

    /// Own links on shortest paths to a node; empty if the node cannot be reached.
    #[inline]
    pub fn next(&self, to: NodeId) -> &[u16] {
        let to = usize::from(to);
        match (self.start.get(to), self.start.get(to + 1)) {
            (Some(&from), Some(&end)) => &self.links[from as usize..end as usize],
            _ => &[],
        }
    }

    /// The own link for a flow to a node.
    #[inline]
    pub fn link(&self, to: NodeId, flow_hash: u32) -> Option<u16> {
        match self.next(to) {
            [] => None,
            &[only] => Some(only),
            // The product's upper half is uniformly distributed; other tables use the hash's lower bits.
            many => Some(many[((u64::from(flow_hash) * many.len() as u64) >> u32::BITS) as usize]),
        }
    }

    /// Like [`Ways::link`], but avoids the node `past` if other links lead to the destination. Flows that would pass
    /// `past` are spread over those links.
    #[inline]
    pub fn link_past(&self, to: NodeId, flow_hash: u32, past: NodeId) -> Option<u16> {
        let link = self.link(to, flow_hash)?;
        let links = self.next(to);
        if links.len() < 2 || !self.leads_to(link, past) {
            return Some(link);
        }
        let others = links.iter().filter(|&&link| !self.leads_to(link, past));
        let count = others.clone().count().max(1);
        // This choice uses hash bits other than the first choice.
        Some(
            others
                .copied()
                .nth(flow_hash as usize % count)
                .unwrap_or(link),
        )
    }

    #[inline]
    fn leads_to(&self, link: u16, node: NodeId) -> bool {
        let neighbours = self.reach.fabric.neighbours(self.node);
        let peer = neighbours.get(usize::from(link));
        peer.is_some_and(|&(peer, _)| peer == node)
    }

    /// Like [`Ways::link_past`], for a packet that came from `from`.
    ///
    /// If all paths lead back to `from`, a direct link to the destination is used although it is not known to be up:
    /// `from` may know better, and otherwise the packet is lost in any case.
    #[inline]
    pub fn link_on(&self, to: NodeId, flow_hash: u32, from: NodeId) -> Option<u16> {
        let link = self.link_past(to, flow_hash, from)?;
        if !self.leads_to(link, from) {
            return Some(link);
        }
        let mut neighbours = self.reach.fabric.neighbours(self.node).iter();
        let straight = neighbours.position(|&(peer, _)| peer == to);
        Some(straight.map_or(link, |own| own as u16))
    }

    /// Number of links on the path to `to`, through `via` if that is a node.
    #[inline]
    pub fn passes(&self, via: NodeId, to: NodeId) -> u8 {
        let reach = &*self.reach;
        match via {
            NO_NODE => reach.hops(self.node, to),
            via => (reach.hops(self.node, via)).saturating_add(reach.hops(via, to)),
        }
    }

    /// True if a node can be reached at all.
    pub fn is_reachable(&self, to: NodeId) -> bool {
        !self.next(to).is_empty()
    }

    /// True if `via` can be the intermediate node of packets to `to`; with `via == to`, if the direct path is usable.
    ///
    /// Both halves of the path must be as short as with every link up. So no detour around a dead link is chosen
    /// while other paths have no dead link. Packets must not return to this node, nor pass `to` before `via`.
    #[inline(always)] // in a mesh, the only look-up for every packet
    pub fn allowed(&self, via: NodeId, to: NodeId) -> bool {
        if self.reach.mesh {
            let known = usize::from(via.max(to)) < self.reach.now.nodes;
            return known && (via == to || via != self.node);
        }
        self.allowed_over_several(via, to)
    }

    fn allowed_over_several(&self, via: NodeId, to: NodeId) -> bool {
        if via == to {
            return self.reach.is_whole(self.node, to);
        }
        self.is_whole_by(via, to) && !self.comes_back(via, to)
    }

    /// Node to visit for packets to `to` that are spread to `via`. It is `via`, except where a shortest path from
    /// `via` leads back to this node: then it is `to` itself. In Valiant's scheme such packets would come back here
    /// and then go directly to `to`. So links carry no more load than in that scheme, as if these packets were spread
    /// over all other nodes.
    #[inline]
    pub fn stop(&self, via: NodeId, to: NodeId) -> NodeId {
        if !self.reach.mesh && self.is_whole_by(via, to) && self.comes_back(via, to) {
            return to;
        }
        via
    }

    #[inline]
    fn is_whole_by(&self, via: NodeId, to: NodeId) -> bool {
        let reach = &*self.reach;
        let whole = reach.is_whole(self.node, via) && reach.is_whole(via, to);
        whole && via != self.node && self.passes(via, to) <= HOPS_MAX
    }

    #[inline]
    fn comes_back(&self, via: NodeId, to: NodeId) -> bool {
        let (reach, node) = (&*self.reach, self.node);
        let first_and_straight = reach.hops(node, via).saturating_add(reach.hops(node, to));
        reach.hops(via, to) >= first_and_straight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without(map: &Map, dead: &[[NodeId; 2]]) -> Links {
        let mut links = Links::all(map);
        for (number, link) in map.links.iter().enumerate() {
            if dead.contains(&link.ends) {
                links.set(number, false);
            }
        }
        links
    }

    #[test]
    fn in_a_mesh_each_node_is_a_link_away_and_any_other_can_be_between() {
        let map = Map::mesh(5, 1e9);
        let ways = Ways::of(&map, &Links::all(&map), 2);
        assert_eq!(ways.next(0), [0]);
        assert_eq!(ways.next(4), [3]);
        assert_eq!((ways.next(2), ways.next(9)), (&[][..], &[][..]));
        let between = (0..5).filter(|&via| ways.allowed(via, 4));
        assert_eq!(between.collect::<Vec<_>>(), [0, 1, 3, 4]);
        assert_eq!((ways.passes(NO_NODE, 4), ways.passes(1, 4)), (1, 2));
        assert!(!ways.reach().fabric().branches());
        assert!(Fabric::new(Map::fly(3, 2, 1e9)).branches());
    }

    #[test]
    fn a_mesh_needs_no_distances_to_name_intermediate_nodes() {
        let map = Map::mesh(5, 1e9);
        let ways = Ways::of(&map, &Links::all(&map), 2);
        assert!(ways.reach.mesh);
        for (via, to) in (0..49)
            .map(|pair| (pair / 7, pair % 7))
            .filter(|&(_, to)| to != 2)
        {
            assert_eq!(
                ways.allowed(via, to),
                ways.allowed_over_several(via, to),
                "{via} {to}"
            );
            assert_eq!(ways.stop(via, to), via);
        }
        let ways = Ways::of(&map, &without(&map, &[[0, 1]]), 2);
        assert!(!ways.reach.mesh);
    }

    #[test]
    fn no_node_uses_a_dead_link_and_its_ends_are_reached_over_others() {
        let map = Map::mesh(4, 1e9);
        let links = without(&map, &[[0, 3], [1, 2]]);
        let ways = Ways::of(&map, &links, 0);
        assert_eq!(ways.next(3), [0, 1], "by 1 or by 2");
        let between = (0..4).filter(|&via| ways.allowed(via, 3));
        assert_eq!(between.collect::<Vec<_>>(), [1, 2]);
        assert!(!ways.allowed(1, 2), "1 reaches 2 by a detour only");
        assert!(ways.allowed(2, 2));
    }

    #[test]
    fn isolated_node_has_no_paths() {
        let map = Map::mesh(3, 1e9);
        let links = without(&map, &[[0, 2], [1, 2]]);
        let ways = Ways::of(&map, &links, 0);
        assert!(!ways.is_reachable(2) && !ways.allowed(2, 2) && !ways.allowed(1, 2));
        assert!(ways.is_reachable(1) && ways.allowed(1, 1));
    }

    #[test]
    fn in_a_fly_packets_never_come_back_and_go_straight_at_once_where_they_would() {
        let map = Map::fly(4, 2, 1e9);
        let reach = Reach::new(&Fabric::new(map.clone()), &Links::all(&map));
        for from in 0..16 {
            let ways = Ways::new(&reach, from);
            for to in (0..16).filter(|&to| to != from) {
                assert!(ways.allowed(to, to) && ways.stop(to, to) == to);
                let [back, on]: [Vec<NodeId>; 2] = (0..16)
                    .filter(|&via| via != from && via != to)
                    .partition(|&via| ways.stop(via, to) == to)
                    .into();
                assert!(back.iter().all(|&via| !ways.allowed(via, to)));
                // Nodes in the row of `from`, and nodes across it.
                assert_eq!(back.len(), [3, 0][usize::from(reach.hops(from, to)) - 1]);
                for via in on {
                    assert!(ways.allowed(via, to) && ways.stop(via, to) == via);
                    walk(&reach, from, via, &[from]);
                    walk(&reach, via, to, &[from, via]);
                }
            }
        }
    }

    #[test]
    fn avoided_node_is_bypassed_while_other_links_exist() {
        let map = Map::fly(4, 2, 1e9);
        let ways = Ways::of(&map, &Links::all(&map), 0);
        let peer = |link: u16| ways.reach().fabric().neighbours(0)[usize::from(link)].0;
        for flow in (0..64).map(|flow: u32| flow.wrapping_mul(0x9e37_79b9)) {
            let by = |to, past| ways.link_past(to, flow, past).map(peer);
            assert_eq!(by(5, 1), Some(4));
            assert_eq!(by(5, 4), Some(1));
            assert_eq!(by(5, NO_NODE), ways.link(5, flow).map(peer));
            assert_eq!(by(1, 1), Some(1), "no other leads there");
        }
    }

    /// Follows every shortest path and asserts that it passes no node of `not` after its start.
    fn walk(reach: &Arc<Reach>, from: NodeId, to: NodeId, not: &[NodeId]) {
        let ways = Ways::new(reach, from);
        for &link in ways.next(to) {
            let (peer, _) = reach.fabric().neighbours(from)[usize::from(link)];
            assert!(!not.contains(&peer), "{from} to {to} by {peer}");
            assert_eq!(reach.hops(peer, to) + 1, reach.hops(from, to));
            if peer != to {
                walk(reach, peer, to, not);
            }
        }
    }

    #[test]
    fn a_point_of_the_scale_names_nodes_by_their_rates() {
        let mut map = Map::mesh(4, 1e9);
        map.nodes[1].rate = 0.0;
        map.nodes[2].rate = 2e9;
        let fabric = Fabric::new(map);
        let mut seen = [0; 4];
        for step in 0..4096u32 {
            let point = step << 20;
            seen[usize::from(fabric.node_at(point))] += 1;
        }
        assert_eq!(seen, [1024, 0, 2048, 1024]);
        assert_eq!(fabric.node_at(u32::MAX), 3);
    }

    #[test]
    fn nodes_share_their_common_path_data() {
        let map = Map::mesh(300, 1e9);
        let reach = Reach::new(&Fabric::new(map.clone()), &Links::all(&map));
        let ways: Vec<Ways> = (0..300).map(|node| Ways::new(&reach, node)).collect();
        assert_eq!(Arc::strong_count(&reach), 301);
        assert!(ways.iter().all(|ways| ways.links.len() == 299));
    }
}
