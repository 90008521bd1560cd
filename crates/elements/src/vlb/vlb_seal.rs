//! Seals frames for an internal link with the key of the cluster.
//!
//! ```click
//! vlb :: VLBNode(NODE a, NODES a 10Gbps b 10Gbps, LINKS a-b, KEY 000102030405060708090a0b0c0d0e0f);
//! FromDevice(null:64) -> VLBOpen(vlb) -> t :: VLBTransit(vlb);
//! t[1] -> out :: VLBOutput(vlb) -> Discard; out[1] -> Discard;
//! t[2] -> hb :: VLBHeartbeat(vlb);
//! t -> seal :: VLBSeal(vlb) -> ToDevice(null:);
//! hb -> seal;
//! ```
//!
//! Put one before the device of each internal link, and VLBOpen behind it. Who can reach the wire of an internal link
//! (because it is a tunnel over a network that others use) can then neither send frames of their own nor
//! repeat any: each frame gets a tag of 22 bytes with its number on this link and a digest, SipHash-2-4 by the
//! VLBNode's KEY of the addresses, the tag and the packet's first 40 bytes. What is sent stays readable: the
//! tag proves who sent it, and hides nothing.
//!
//! Heartbeats have a digest of their own and pass, as all frames do where VLBNode has no KEY. Dropped are frames
//! without addresses (`malformed`) and those that have no room for the tag before them (`no_room`).
//!
//! Arguments:
//!
//! - `VLB`: the VLBNode that it belongs to.

use super::{ETHER_LEN, Member, Node, is_heartbeat};
use crate::prelude::*;
use cluster::address::LEN;
use cluster::tag::{ADDED, ETHERTYPE, Lane, Tag};

const MALFORMED: u8 = 0;
const NO_ROOM: u8 = 1;

pub(crate) struct VlbSeal {
    node: Arc<Node>,
    lane: Lane,
}

impl Element for VlbSeal {
    const CLASS: &'static str = "VLBSeal";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::new(&["in"], &["out"]);
    const NEEDS: &'static [Facts] = &[Facts::ETHER];
    const DROPS: &'static [&'static str] = &["malformed", "no_room"];

    type Config = Member;

    fn configure(args: &mut Args) -> Member {
        Member::named(args).0
    }

    fn new(member: &Arc<Member>, init: &Init) -> VlbSeal {
        VlbSeal {
            node: member.node(init),
            lane: Lane::new(init.worker, engine::clock::wall(init.now)),
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let Some(key) = &self.node.key else {
            return Verdict::ON;
        };
        let Some(head) = packet.data().first_chunk::<ETHER_LEN>() else {
            return Verdict::drop(MALFORMED);
        };
        if is_heartbeat(head) {
            return Verdict::ON;
        }
        let ethertype = u16::from_be_bytes([head[12], head[13]]);
        let tag = if ethertype == ETHERTYPE {
            Tag::parse(packet.data(), None).ok()
        } else {
            if packet.push(ADDED).is_none() {
                return Verdict::drop(NO_ROOM);
            }
            packet.data_mut().copy_within(ADDED..ADDED + LEN, 0);
            packet.set_mac_here();
            Some(Tag {
                link: 0,
                flow: 0,
                sequence: 0,
                ethertype,
            })
        };
        let Some(tag) = tag else {
            return Verdict::drop(MALFORMED);
        };
        let link = self.lane.number();
        Tag { link, ..tag }.write(packet.data_mut(), Some(key));
        Verdict::ON
    }

    fn take(&mut self, old: VlbSeal) {
        self.lane = old.lane;
    }
}
