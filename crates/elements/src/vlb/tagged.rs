//! Tags of frames between nodes that have a KEY or RESEQUENCE: numbers that elements of a worker share.

use super::{Init, Node, Packet};
use cluster::address::{LEN, NodeId};
use cluster::auth::Key;
use cluster::resequencer::Numbers;
use cluster::tag::{ADDED, Lane, PACKET, Tag};
use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;

/// Under this name the elements of a node on one worker find what they share.
fn place(node: &Node) -> String {
    format!("{} {}", node.cookie, node.number)
}

/// Numbers of the frames that a worker sends on each own link: VLBInput and VLBTransit must not give the same twice.
pub(super) struct Sealer {
    lanes: Rc<RefCell<Vec<Lane>>>,
    /// See [`Node::born`].
    born: u64,
}

impl Sealer {
    /// The worker's for a node.
    pub(super) fn new(node: &Node, init: &Init) -> Sealer {
        let lanes = init.shared.get(&place(node), || {
            RefCell::new(vec![Lane::new(init.worker, init.timestamp)])
        });
        let links = node.ways().snapshot().rates().len();
        {
            // Over a reload links may change places: each goes on with numbers newer than all that were sent.
            let mut all = lanes.borrow_mut();
            if let Some(newest) = all.iter().max().cloned() {
                let len = links.max(all.len());
                all.clear();
                all.resize(len, newest);
            }
        }
        Sealer { lanes, born: 0 }
    }

    /// Numbers frames behind all that the node has sent in earlier lives. To be called for every batch.
    #[inline]
    pub(super) fn follow(&mut self, node: &Node) {
        let born = node.born();
        if born != self.born {
            self.born = born;
            let mut lanes = self.lanes.borrow_mut();
            lanes.iter_mut().for_each(|lane| lane.pass(born));
        }
    }

    /// Writes the tag of a frame that leaves by an own link: under the key its number there and a digest.
    pub(super) fn seal(&self, packet: &mut Packet, link: u16, mut tag: Tag, key: Option<&Key>) {
        tag.link = match key {
            None => 0,
            Some(_) => self.lanes.borrow_mut()[usize::from(link)].number(),
        };
        tag.write(packet.data_mut(), key);
    }
}

/// Numbers of the packets that a worker sends to each output node, for VLBResequencer there. They are the node's: two
/// VLBInputs may send packets of one flow.
#[derive(Clone)]
pub(super) struct Order(Rc<RefCell<Numbers>>);

impl Order {
    /// The worker's for a node; none if it does not number packets.
    pub(super) fn new(node: &Node, init: &Init) -> Option<Order> {
        node.resequence?;
        let numbers = init.shared.get(&place(node), || {
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
