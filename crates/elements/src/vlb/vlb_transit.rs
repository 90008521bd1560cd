//! Sends frames of internal links on by their Ethernet header, or to this node's output stage.
//!
//! ```click
//! vlb :: VLBNode(NODE a, NODES a 10Gbps b 10Gbps c 10Gbps, LINKS a-b a-c b-c);
//! FromDevice(null:64) -> t :: VLBTransit(vlb) -> ToDevice(null:);  // the link a-b
//! FromDevice(null:60) -> [1]t; t[1] -> ToDevice(null:);            // the link a-c
//! t[2] -> out :: VLBOutput(vlb) -> Discard; out[1] -> Discard;
//! t[3] -> Discard;
//! ```
//!
//! Input i takes frames from the node's own link i (see VLBNode). Outputs are the own links in the same order, then
//! one for frames whose output node is this one, then one for heartbeats, which carry the number of their link as
//! paint annotation. Connect nothing but internal links here: what comes by external ports must not be taken for
//! frames of the cluster.
//!
//! Only the 12 bytes of addresses are read. Dropped are frames whose addresses are none of the cluster's
//! (`malformed`), or of another cluster (`foreign`), that name nodes which do not exist (`unknown_node`), have
//! passed 15 links (`too_many_hops`), come back to their input node (`loop`), or to whose node no living link leads
//! (`no_way`).
//!
//! With VLBNode's KEY every frame must carry a tag that only who has the key can write, and come once: others
//! are dropped (`forged`, `replayed`). A worker watches for what it has seen itself, so a link should be
//! received by one worker. A frame that goes on gets a new tag for its link, one that has arrived loses it (with
//! RESEQUENCE in VLBResequencer only).
//!
//! Arguments:
//!
//! - `VLB`: the VLBNode that it belongs to.

use super::tagged::{self, Sealer};
use super::{ETHER_LEN, Member, Node};
use crate::prelude::*;
use cluster::address::LEN;
use cluster::map::Ways;
use cluster::tag::{Bad, Tag, Windows};
use cluster::transit::{self, Fault, Step};

const FORGED: u8 = Fault::ALL.len() as u8;
const REPLAYED: u8 = FORGED + 1;

/// Different addresses whose ways are remembered.
const KNOWN: usize = 64;

pub(crate) struct Config {
    member: Member,
    links: usize,
}

/// A way that frames with some addresses have taken.
#[derive(Clone, Copy)]
struct Known {
    addresses: [u8; LEN],
    new: [u8; LEN],
    verdict: Verdict,
}

/// Of the addresses that no frame of ours has.
const UNKNOWN: Known = Known {
    addresses: [0; LEN],
    new: [0; LEN],
    verdict: Verdict::drop(Fault::Malformed as u8),
};

pub(crate) struct VlbTransit {
    node: Arc<Node>,
    known: Box<[Known; KNOWN]>,
    version: u64,
    /// Bytes sent on since the last batch, by own link.
    bytes: Box<[u64]>,
    links: usize,
    sealer: Sealer,
    /// Numbers that have come, by own link.
    windows: Box<[Windows]>,
}

impl Element for VlbTransit {
    const CLASS: &'static str = "VLBTransit";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::coded(&["link*"], &["out*"], "h/h");
    const NEEDS: &'static [Facts] = &[Facts::ETHER];
    const GIVES: &'static [Facts] = &[Facts::ETHER];
    const DROPS: &'static [&'static str] = &[
        Fault::Malformed.name(),
        Fault::Foreign.name(),
        Fault::UnknownNode.name(),
        Fault::TooManyHops.name(),
        Fault::Loop.name(),
        Fault::NoWay.name(),
        "forged",
        "replayed",
    ];

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let (member, described) = Member::named(args);
        Config {
            member,
            links: described.map_or(0, |d| d.map.links_of(d.node).count()),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> VlbTransit {
        let node = config.member.node(init);
        VlbTransit {
            known: Box::new([UNKNOWN; KNOWN]),
            version: node.version(),
            bytes: vec![0; config.links].into(),
            links: config.links,
            sealer: Sealer::new(&node, init),
            windows: vec![Windows::default(); config.links].into(),
            node,
        }
    }

    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        // Before the ways are read: what is remembered is never older than it says.
        let version = self.node.version();
        if version != self.version {
            self.version = version;
            self.known.fill(UNKNOWN);
        }
        match self.node.key {
            None => cx.sort(batch, |packet, cx| self.pass(input, packet, cx)),
            Some(_) => cx.sort(batch, |packet, cx| self.pass_tagged(input, packet, cx)),
        }
        for (link, bytes) in self.bytes.iter_mut().enumerate().filter(|(_, b)| **b > 0) {
            self.node.carry(link, *bytes);
            *bytes = 0;
        }
    }

    fn take(&mut self, old: VlbTransit) {
        // Links may have changed places.
        let mut known: Vec<_> = old.node.cables().into_iter().zip(old.windows).collect();
        for (new, cable) in self.windows.iter_mut().zip(self.node.cables()) {
            if let Some(at) = known.iter().position(|(was, _)| *was == cable) {
                *new = known.swap_remove(at).1;
            }
        }
    }

    fn port_count(config: &Config) -> (Option<usize>, Option<usize>) {
        (Some(config.links), Some(config.links + 2))
    }
}

impl VlbTransit {
    #[inline(always)]
    fn pass(&mut self, input: usize, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let len = packet.len();
        let Some(addresses) = packet.data_mut().first_chunk_mut::<LEN>() else {
            return Verdict::drop(Fault::Malformed as u8);
        };
        let known = &mut self.known[place(addresses)];
        if known.addresses != *addresses {
            *known = decide(*addresses, self.node.ways().read(cx.reader()), &self.node);
        }
        *addresses = known.new;
        let verdict = known.verdict;
        match self.bytes.get_mut(verdict.port()) {
            Some(bytes) => *bytes += len as u64,
            None => return self.arrived(input, packet, verdict),
        }
        verdict
    }

    /// As [`pass`](Self::pass), where frames must have a tag.
    fn pass_tagged(&mut self, input: usize, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let (node, windows) = (Arc::clone(&self.node), self.windows.get_mut(input));
        let heartbeat = Verdict::out(self.links as u8 + 1);
        let ways = node.ways().read(cx.reader());
        let addresses = packet.data().first_chunk::<LEN>();
        if addresses.is_some_and(|addresses| decide(*addresses, ways, &node).verdict == heartbeat) {
            return self.pass(input, packet, cx); // VLBHeartbeat knows by itself what is forged
        }
        let tag = match Tag::parse(packet.data(), node.key.as_ref()) {
            Ok(tag) => tag,
            Err(Bad::Malformed) => return Verdict::drop(Fault::Malformed as u8),
            Err(Bad::Forged) => return Verdict::drop(FORGED),
        };
        if !windows.is_some_and(|windows| windows.take(tag.link)) {
            return Verdict::drop(REPLAYED);
        }
        let verdict = self.pass(input, packet, cx);
        match verdict.port() {
            link if link < self.links => {
                self.sealer
                    .seal(packet, link as u16, tag, node.key.as_ref());
                if packet.hash() == 0 {
                    packet.set_hash(1 << 16 | u32::from(tag.flow)); // as in VLBInput
                }
            }
            here if here == self.links && node.resequence.is_none() => tagged::remove(packet),
            _ => {}
        }
        verdict
    }

    /// What is not to go on by a link.
    #[inline]
    fn arrived(&self, input: usize, packet: &mut Packet, verdict: Verdict) -> Verdict {
        if packet.len() < ETHER_LEN {
            return Verdict::drop(Fault::Malformed as u8);
        }
        if verdict.port() == self.links + 1 {
            packet.anno_mut().paint = input as u8;
        }
        verdict
    }
}

/// Where ways of such addresses are remembered: by output and input node, port, and intermediate node.
#[inline(always)]
fn place(addresses: &[u8; LEN]) -> usize {
    let [_, n0, n1, port, g0, g1, _, i0, i1, v0, v1, _] = *addresses;
    let word = u64::from_ne_bytes([n1, port, i1, v1, n0, i0 ^ g0, v0, g1]);
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize
}

#[cold]
fn decide(addresses: [u8; LEN], ways: &Ways, node: &Node) -> Known {
    let links = ways.rates().len();
    let (new, verdict) = match transit::pass(&addresses, ways, node.cookie) {
        Ok(Step::On { link, addresses }) => (addresses, Verdict::out(link as u8)),
        Ok(Step::Here) => (addresses, Verdict::out(links as u8)),
        Ok(Step::Heartbeat) => (addresses, Verdict::out(links as u8 + 1)),
        Err(fault) => (addresses, Verdict::drop(fault as u8)),
    };
    Known {
        addresses,
        new,
        verdict,
    }
}

#[cfg(test)]
#[path = "vlb_transit_tests.rs"]
mod tests;
