//! Tags of frames between nodes that have a KEY or RESEQUENCE.

use super::{Init, Node, Packet};
use cluster::address::{LEN, NodeId};
use cluster::resequencer::Numbers;
use cluster::tag::{ADDED, PACKET};
use engine::random::secret;
use std::cell::RefCell;
use std::rc::Rc;

/// Sequence numbers of the packets that a worker sends to each output node, for its VLBResequencer. All VLBInputs of
/// the node share them, since they may send packets of one flow.
#[derive(Clone)]
pub(super) struct Order(Rc<RefCell<Numbers>>);

impl Order {
    /// The worker's sequence numbers for a node; `None` if the node does not number packets.
    pub(super) fn new(node: &Node, init: &Init) -> Option<Order> {
        node.resequence?;
        // Name under which a node's elements on one worker share the numbers.
        let place = format!("{} {}", node.cookie, node.number);
        let numbers = init.shared.get(&place, || {
            let start = secret();
            RefCell::new(Numbers::new(init.worker, start as u16))
        });
        Some(Order(numbers))
    }

    /// Flow tag and sequence number of a packet.
    #[inline]
    pub(super) fn number(&self, to: NodeId, flow_hash: u32) -> (u16, u16) {
        self.0.borrow_mut().number(to, flow_hash)
    }
}

/// Removes a tag: moves the Ethernet addresses in front of the packet's own EtherType.
pub(super) fn remove(packet: &mut Packet) {
    if packet.len() >= PACKET {
        packet.data_mut().copy_within(..LEN, ADDED);
        let _ = packet.pull(ADDED);
        packet.set_mac_here();
    }
}
