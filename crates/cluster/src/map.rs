//! Members of a cluster, their links, and the paths over live links.
//!
//! A [`Map`] is the operator's description. [`Links`] has the links that are up. [`Ways`] is one node's view of both:
//! its links on shortest paths to each other node, and the possible intermediate nodes.

use crate::address::NodeId;
pub use paths::{Fabric, Reach, UNREACHABLE, Ways};

mod paths;

/// A server of the cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Rate of all its external ports together, in bits per second; 0 for a node that only carries others' packets.
    pub rate: f64,
}

/// A cable between two nodes, or its equivalent. Both directions have the same rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// The nodes at both ends, the smaller number first.
    pub ends: [NodeId; 2],
    /// Bits per second.
    pub rate: f64,
}

impl Link {
    /// The node at the other end, as seen from `node`.
    pub fn peer(&self, node: NodeId) -> Option<NodeId> {
        match self.ends {
            [a, b] if a == node => Some(b),
            [a, b] if b == node => Some(a),
            _ => None,
        }
    }
}

/// Nodes and links of a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Map {
    /// Nodes, by number.
    pub nodes: Vec<Node>,
    /// Links, by number.
    pub links: Vec<Link>,
}

impl Map {
    /// A full mesh of equal nodes, with links of 2R/N.
    pub fn mesh(nodes: usize, rate: f64) -> Map {
        let link = 2.0 * rate / nodes as f64;
        let ids = 0..nodes as NodeId;
        Map {
            nodes: vec![Node { rate }; nodes],
            links: ids
                .clone()
                .flat_map(|a| ids.clone().filter(move |&b| a < b).map(move |b| [a, b]))
                .map(|ends| Link { ends, rate: link })
                .collect(),
        }
    }

    /// A larger full mesh of equal nodes. Nodes and links keep their numbers, and new ones follow.
    pub fn mesh_with(&self, more: usize) -> Map {
        let (old, nodes) = (self.nodes.len(), self.nodes.len() + more);
        let mut map = self.clone();
        let rate = map.nodes.first().map_or(0.0, |node| node.rate);
        map.nodes.resize(nodes, Node { rate });
        for b in old..nodes {
            map.links.extend((0..b).map(|a| Link {
                ends: [a as NodeId, b as NodeId],
                rate,
            }));
        }
        for link in &mut map.links {
            link.rate = 2.0 * rate / nodes as f64;
        }
        map
    }

    /// The greatest external rate of a node, in bits per second.
    pub fn most(&self) -> f64 {
        self.nodes.iter().map(|node| node.rate).fold(1.0, f64::max)
    }

    /// A `k`-ary `n`-fly of k^n equal nodes. Each node plays the switches of its row in all n stages, so it is linked
    /// to the n (k - 1) nodes whose numbers differ from its own in one digit to the base k. Links of rate 2R/k carry
    /// the load of Valiant's two phases, because each phase corrects a digit in k - 1 of k cases, by one of k - 1
    /// links.
    pub fn fly(k: usize, n: u32, rate: f64) -> Map {
        let nodes = k.pow(n);
        let mut links = Vec::new();
        for a in 0..nodes {
            for stage in 0..n {
                let digit = k.pow(stage);
                let more = (1..k - a / digit % k).map(|up| a + up * digit);
                links.extend(more.map(|b| Link {
                    ends: [a as NodeId, b as NodeId],
                    rate: 2.0 * rate / k as f64,
                }));
            }
        }
        Map {
            nodes: vec![Node { rate }; nodes],
            links,
        }
    }

    /// The default rate of a link: that of a full mesh, 2AB/S between nodes of the rates A and B out of S in all.
    /// This is 2R/N between N equal nodes. `None` if one of the nodes has no external ports.
    pub fn usual_rate(&self, ends: [NodeId; 2]) -> Option<f64> {
        let [a, b] = ends.map(|end| Some(self.nodes.get(usize::from(end))?.rate));
        let rate = 2.0 * a? * b? / self.rate();
        (rate > 0.0).then_some(rate)
    }

    /// Rate of all external ports, in bits per second.
    pub fn rate(&self) -> f64 {
        self.nodes.iter().map(|node| node.rate).sum()
    }

    /// A node's links by their numbers in the cluster; the first is the node's link 0.
    pub fn links_of(&self, node: NodeId) -> impl Iterator<Item = usize> {
        let links = self.links.iter().enumerate();
        links
            .filter(move |(_, link)| link.peer(node).is_some())
            .map(|(number, _)| number)
    }
}

/// State of links by number: true if up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Links(Vec<bool>);

impl Links {
    /// All links up.
    pub fn all(map: &Map) -> Links {
        Links(vec![true; map.links.len()])
    }

    /// True if a link is up.
    pub fn up(&self, link: usize) -> bool {
        self.0.get(link).is_some_and(|&up| up)
    }

    /// Sets a link up or down. Returns true if this is a change.
    pub fn set(&mut self, link: usize, up: bool) -> bool {
        match self.0.get_mut(link) {
            Some(now) if *now != up => {
                *now = up;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mesh_connects_each_to_each_with_links_of_2r_by_n() {
        let map = Map::mesh(4, 10e9);
        assert_eq!(map.links.len(), 6);
        assert_eq!(map.rate(), 40e9);
        for node in 0..4 {
            let links: Vec<usize> = map.links_of(node).collect();
            let mut peers: Vec<_> = links
                .iter()
                .filter_map(|&link| map.links[link].peer(node))
                .collect();
            peers.sort_unstable();
            let others: Vec<NodeId> = (0..4).filter(|&other| other != node).collect();
            assert_eq!(peers, others);
            assert!(links.iter().all(|&link| map.links[link].rate == 5e9));
        }
    }

    #[test]
    fn a_mesh_that_grows_is_a_mesh_in_which_old_numbers_remain() {
        let (small, large) = (Map::mesh(4, 10e9), Map::mesh(4, 10e9).mesh_with(2));
        let ends = |map: &Map| map.links.iter().map(|link| link.ends).collect::<Vec<_>>();
        assert_eq!(ends(&large)[..6], ends(&small));
        let mut all = ends(&large);
        all.sort_unstable();
        assert_eq!(all, ends(&Map::mesh(6, 10e9)));
        assert!(large.links.iter().all(|link| link.rate == 20e9 / 6.0));
    }

    #[test]
    fn a_fly_connects_nodes_that_differ_in_one_digit() {
        let map = Map::fly(4, 2, 8e9);
        assert_eq!((map.nodes.len(), map.links.len()), (16, 48));
        for link in &map.links {
            let [a, b] = link.ends;
            assert!(a < b && (a / 4 == b / 4) != (a % 4 == b % 4), "{a}-{b}");
            assert_eq!(link.rate, 4e9);
        }
        assert_eq!(Map::fly(4, 1, 8e9), Map::mesh(4, 8e9));
    }

    #[test]
    fn link_change_is_reported_once() {
        let map = Map::mesh(3, 1e9);
        let mut links = Links::all(&map);
        assert!(links.set(1, false) && !links.set(1, false) && !links.up(1) && links.up(0));
        assert!(!links.set(9, false), "there is no such link");
    }
}
