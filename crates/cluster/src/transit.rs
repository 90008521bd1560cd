//! Forwarding of a frame from an internal link, by its two addresses alone (RB9).

use crate::address::{self, Address, Bad, Kind, LEN, NO_NODE, NodeId};
use crate::map::Ways;

/// Next step for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The frame goes to the next node by an own link, with these addresses.
    On {
        /// This node's link to the next node.
        link: u16,
        /// New addresses.
        addresses: [u8; LEN],
    },
    /// The frame has arrived at its output node.
    Here,
    /// A neighbour's heartbeat.
    Heartbeat,
}

/// Reason why a frame is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The addresses are not of a cluster.
    Malformed,
    /// The frame belongs to another cluster.
    Foreign,
    /// The frame names a node that does not exist.
    UnknownNode,
    /// The frame has passed as many links as it may.
    TooManyHops,
    /// The frame came back to its input node.
    Loop,
    /// No path of live links leads to the output node, or only one with more links than the packet may still pass.
    NoPath,
}

impl Fault {
    /// Every fault, in the order of its number.
    pub const ALL: [Fault; 6] = [
        Fault::Malformed,
        Fault::Foreign,
        Fault::UnknownNode,
        Fault::TooManyHops,
        Fault::Loop,
        Fault::NoPath,
    ];

    /// Name of the fault's drop counter.
    pub const fn name(self) -> &'static str {
        match self {
            Fault::Malformed => "malformed",
            Fault::Foreign => "foreign",
            Fault::UnknownNode => "unknown_node",
            Fault::TooManyHops => "too_many_hops",
            Fault::Loop => "loop",
            Fault::NoPath => "no_path",
        }
    }
}

/// Next step for a frame at the node with the paths `ways`.
///
/// If several links lead to the destination, frames choose one by their lane. So a flow keeps its order, and the
/// flows of two nodes are spread even if they are the only ones here.
///
/// # Errors
/// The frame is to be dropped under the fault's name.
pub fn pass(addresses: &[u8; LEN], ways: &Ways, cookie: u8) -> Result<Step, Fault> {
    let address = Address::parse(addresses, cookie).map_err(|bad| match bad {
        Bad::Malformed => Fault::Malformed,
        Bad::Foreign => Fault::Foreign,
    })?;
    if address.kind == Kind::Heartbeat {
        return Ok(Step::Heartbeat);
    }
    let (me, nodes) = (ways.node(), ways.reach().fabric().map().nodes.len());
    let known = |node: NodeId| usize::from(node) < nodes;
    let Address {
        node, input, via, ..
    } = address;
    if !known(node) || !known(input) || !(known(via) || via == NO_NODE) {
        return Err(Fault::UnknownNode);
    }
    if input == me {
        return Err(Fault::Loop);
    }
    if node == me {
        return Ok(Step::Here);
    }
    let hops = address.hops.checked_sub(1).ok_or(Fault::TooManyHops)?;
    let hash = hash(me, input, node, address::lane(addresses));
    let first = (via != me && via != NO_NODE).then(|| ways.link(via, hash));
    let (link, via) = match first.flatten() {
        Some(link) => (link, via),
        // The intermediate node was visited or cannot be reached, so the frame goes directly to the output node. The
        // input node may have learnt earlier than this node that a link is up.
        None => (
            ways.link_on(node, hash, input).ok_or(Fault::NoPath)?,
            NO_NODE,
        ),
    };
    // If this node needs more links than the frame may still pass, it knows of a failure that earlier nodes did not:
    // no path is left.
    if ways.passes(via, node) > address.hops {
        return Err(Fault::NoPath);
    }
    let mut addresses = *addresses;
    address::set_way(&mut addresses, hops, via);
    Ok(Step::On { link, addresses })
}

/// Hash for a node's choice among links; nodes choose independently of each other.
#[inline]
fn hash(me: NodeId, input: NodeId, node: NodeId, lane: u8) -> u32 {
    let pair = u32::from(input) << 16 | u32::from(node);
    let here = (u32::from(me) << 8 | u32::from(lane)).wrapping_mul(0x85eb_ca6b);
    let mixed = (pair ^ pair >> 15).wrapping_mul(0x2c1b_3c6d) ^ here;
    (mixed ^ mixed >> 15).wrapping_mul(0x9e37_79b1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::HOPS_MAX;
    use crate::map::{Fabric, Links, Map, Reach};

    const FRAME: Address = Address {
        kind: Kind::Data,
        hops: 3,
        node: 3,
        port: 1,
        gateway: 7,
        input: 0,
        via: 1,
        cookie: 9,
    };

    fn ways(node: NodeId) -> Ways {
        let map = Map::mesh(4, 1e9);
        Ways::of(&map, &Links::all(&map), node)
    }

    fn passed(frame: Address, node: NodeId) -> Result<Step, Fault> {
        pass(&frame.bytes(), &ways(node), 9)
    }

    #[test]
    fn an_intermediate_node_sends_on_what_was_to_visit_it_and_nothing_else_changes() {
        let on = Address {
            hops: 2,
            via: NO_NODE,
            ..FRAME
        };
        let step = Step::On {
            link: 2,
            addresses: on.bytes(),
        };
        assert_eq!(passed(FRAME, 1), Ok(step));
        assert_eq!(passed(on, 3), Ok(Step::Here));
    }

    #[test]
    fn on_the_way_to_an_intermediate_node_a_frame_still_has_to_visit_it() {
        let on = Address { hops: 2, ..FRAME };
        let step = Step::On {
            link: 1,
            addresses: on.bytes(),
        };
        assert_eq!(passed(FRAME, 2), Ok(step));
    }

    #[test]
    fn flows_of_a_pair_are_spread_over_the_links_that_lead_on_and_each_keeps_its_own() {
        let map = Map::fly(4, 2, 1e9);
        let ways = Ways::of(&map, &Links::all(&map), 5);
        let frame = Address {
            node: 10,
            via: 5,
            ..FRAME
        };
        let [mut left, mut right] = [0; 2];
        for hash in 0..6400u32 {
            let mut bytes = frame.bytes();
            address::set_lane(&mut bytes, hash.wrapping_mul(0x9e37_79b9));
            let Ok(Step::On { link, addresses }) = pass(&bytes, &ways, 9) else {
                panic!("it goes on");
            };
            assert_eq!(pass(&bytes, &ways, 9), Ok(Step::On { link, addresses }));
            assert_eq!(address::lane(&addresses), address::lane(&bytes));
            let [a, b] = ways.next(10) else {
                panic!("two ways");
            };
            assert!(link == *a || link == *b);
            left += u32::from(link == *a);
            right += u32::from(link == *b);
        }
        assert!(left.abs_diff(right) < 1600, "{left} and {right}");
    }

    #[test]
    fn an_intermediate_node_that_died_is_left_out() {
        let map = Map::mesh(4, 1e9);
        let mut links = Links::all(&map);
        for (number, link) in map.links.iter().enumerate() {
            links.set(number, !link.ends.contains(&1));
        }
        let ways = Ways::of(&map, &links, 2);
        let step = pass(&FRAME.bytes(), &ways, 9);
        assert!(matches!(step, Ok(Step::On { link: 2, .. })), "{step:?}");
        let to_dead = Address {
            node: 1,
            via: NO_NODE,
            ..FRAME
        };
        assert_eq!(pass(&to_dead.bytes(), &ways, 9), Err(Fault::NoPath));
    }

    #[test]
    fn a_frame_is_not_sent_back_to_its_input_node_while_others_lead_on() {
        let map = Map::mesh(4, 1e9);
        let mut links = Links::all(&map);
        let dead = |ends| map.links.iter().position(|link| link.ends == ends);
        links.set(dead([1, 3]).expect("a link"), false);
        for (input, past) in [(0, 1), (2, 0)] {
            let frame = Address { input, ..FRAME };
            let step = pass(&frame.bytes(), &Ways::of(&map, &links, 1), 9);
            let Ok(Step::On { link, .. }) = step else {
                panic!("it goes on: {step:?}");
            };
            assert_eq!(link, past, "from {input}");
        }
        links.set(dead([1, 2]).expect("a link"), false);
        let step = pass(&FRAME.bytes(), &Ways::of(&map, &links, 1), 9);
        assert!(matches!(step, Ok(Step::On { link: 2, .. })), "{step:?}");
    }

    #[test]
    fn bad_frames_go_nowhere_under_their_names() {
        let wrong = |change: fn(&mut Address)| {
            let mut frame = FRAME;
            change(&mut frame);
            passed(frame, 1).map_err(Fault::name)
        };
        assert_eq!(wrong(|f| f.cookie = 8), Err("foreign"));
        assert_eq!(wrong(|f| f.hops = 0), Err("too_many_hops"));
        assert_eq!(wrong(|f| f.node = 4), Err("unknown_node"));
        assert_eq!(wrong(|f| f.via = 4), Err("unknown_node"));
        assert_eq!(wrong(|f| f.input = NO_NODE), Err("unknown_node"));
        assert_eq!(wrong(|f| f.input = 1), Err("loop"));
        assert_eq!(wrong(|f| f.kind = Kind::Heartbeat), Ok(Step::Heartbeat));
        let broadcast = pass(&[0xff; LEN], &ways(1), 9);
        assert_eq!(broadcast, Err(Fault::Malformed));
        let names = Fault::ALL.map(Fault::name);
        assert!((1..names.len()).all(|at| !names[..at].contains(&names[at])));
    }

    #[test]
    fn every_frame_arrives_or_has_passed_as_many_links_as_it_may() {
        // Every frame ends, whatever its neighbours believe about links.
        let map = Map::fly(3, 2, 1e9);
        let fabric = Fabric::new(map.clone());
        let mut seed = 3u32;
        for case in 0..2000 {
            let views = (0..9).map(|node| {
                let mut links = Links::all(&map);
                for link in 0..map.links.len() {
                    seed = seed.wrapping_mul(747_796_405).wrapping_add(case);
                    links.set(link, seed >> 29 > 1);
                }
                Ways::new(&Reach::new(&fabric, &links), node)
            });
            let views: Vec<Ways> = views.collect();
            let mut at = (case % 8) as usize;
            let frame = Address {
                hops: HOPS_MAX,
                node: 8,
                input: ((case + 1) % 8) as NodeId,
                via: (case % 7) as NodeId,
                ..FRAME
            };
            let mut bytes = frame.bytes();
            let mut passed = 0;
            while let Ok(Step::On { link, addresses }) = pass(&bytes, &views[at], 9) {
                let (peer, _) = fabric.neighbours(at as NodeId)[usize::from(link)];
                (at, bytes) = (peer.into(), addresses);
                passed += 1;
                assert!(passed <= HOPS_MAX);
            }
        }
    }
}
