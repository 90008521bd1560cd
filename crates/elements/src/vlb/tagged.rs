//! Tags of frames between nodes that have a KEY or RESEQUENCE.

use super::{Init, Node, Packet};
use cluster::address::{LEN, NodeId};
use cluster::resequencer::Numbers;
use cluster::tag::{ADDED, PACKET};
use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;

/// Numbers of the packets that a worker sends to each output node, for VLBResequencer there. They are the node's: two
/// VLBInputs may send packets of one flow.
#[derive(Clone)]
pub(super) struct Order(Rc<RefCell<Numbers>>);

impl Order {
    /// The worker's for a node; none if it does not number packets.
    pub(super) fn new(node: &Node, init: &Init) -> Option<Order> {
        node.resequence?;
        // Under this name the elements of a node on one worker find what they share.
        let place = format!("{} {}", node.cookie, node.number);
        let numbers = init.shared.get(&place, || {
            let start = RandomState::new().hash_one(0);
            RefCell::new(Numbers::new(init.worker, start as u16))
        });
        Some(Order(numbers))
    }

    /// The tag of a packet's flow, and its number.
    #[inline]
    pub(super) fn number(&self, to: NodeId, flow_hash: u32) -> (u16, u16) {
        self.0.borrow_mut().number(to, flow_hash)
    }
}

/// Removes a tag: the addresses come to stand before the packet's own ethertype.
pub(super) fn remove(packet: &mut Packet) {
    if packet.len() >= PACKET {
        packet.data_mut().copy_within(..LEN, ADDED);
        let _ = packet.pull(ADDED);
        packet.set_mac_here();
    }
}
