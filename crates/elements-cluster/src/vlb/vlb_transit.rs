//! Forwards frames of internal links by their Ethernet header, or passes them to this node's output stage.
//!
//! ```click
//! vlb :: VLBNode(NODE a, NODES a 10Gbps b 10Gbps c 10Gbps, LINKS a-b a-c b-c);
//! FromDevice(null:64) -> t :: VLBTransit(vlb) -> ToDevice(null:);  // the link a-b
//! FromDevice(null:60) -> [1]t; t[1] -> ToDevice(null:);            // the link a-c
//! t[2] -> out :: VLBOutput(vlb) -> Discard; out[1] -> Discard;
//! t[3] -> Discard;
//! ```
//!
//! Input i takes frames from the node's own link i (see VLBNode). Outputs are the own links in the same order,
//! then one for frames whose output node is this one, then one for heartbeats, which carry the number of their
//! link as paint annotation. Connect only internal links: frames from external ports must not be taken for
//! frames of the cluster.
//!
//! The addresses show a frame's destination node. VLBTransit reads the 14 bytes of the Ethernet header, and caches
//! decisions by them. For frames that leave the cluster here (LEAVE, below) it may also read the packet's
//! destination; of frames with a tag (KEY) it reads all bytes. A frame is dropped if its addresses are not those of a
//! cluster (`malformed`) or are those of another cluster (`foreign`), if they name a node that does not exist
//! (`unknown_node`), if the frame has passed 15 links (`too_many_hops`) or comes back to its input node (`loop`), or
//! if no link that is up leads to its node (`no_path`).
//!
//! With VLBNode's KEY every frame must have a tag whose code covers the whole frame. Only the peer can have written
//! the code, for this link and the current start of both ends (otherwise the frame is dropped as `forged`). It must
//! come only once, whichever worker receives it (`replayed`). Until both ends of a link have received each other's
//! heartbeats there is no key for its frames: they are dropped (`no_key`). A frame that is forwarded gets a new tag
//! for its next link. A frame that has arrived loses its tag (with RESEQUENCE only in VLBResequencer).
//!
//! Frames whose output node is this one can skip the output stage. LEAVE and LEAVE6 name the elements of this stage:
//! a VLBOutput or VLBOutput6, and the ARPQuerier or IP6NDSolicitor after each of its ports. VLBTransit then has one
//! more output for each external port, after all other outputs. If the neighbour's Ethernet address is known and need
//! not be confirmed, a frame leaves by this output as it would leave the output stage, with the Ethernet addresses of
//! the neighbour and of this node. Of such a frame VLBTransit reads the destination address only if it goes to a
//! station of the port's own network. A frame that an internal link has padded stays padded. All other frames take
//! the output stage, which finds and confirms neighbours and checks packets. No element between VLBTransit and the
//! ARPQuerier or IP6NDSolicitor, nor between these and the port, may hold packets. Frames with tags (KEY, RESEQUENCE)
//! always take the output stage.
//!
//! ```click
//! vlb :: VLBNode(NODE a, NODES a 10Gbps b 10Gbps, LINKS a-b);
//! FromDevice(null:64) -> t :: VLBTransit(vlb, LEAVE leave arp) -> ToDevice(null:);
//! t[1] -> leave :: VLBOutput(vlb, 0 192.0.2.254)
//!     -> arp :: ARPQuerier(192.0.2.1/24, 2:0:0:0:0:1) -> out :: ToDevice(null:);
//! leave[1] -> Discard; t[2] -> Discard; Idle -> [1]arp;
//! t[3] -> out;                    // external port 0
//! ```
//!
//! Arguments:
//!
//! - `VLB`: the VLBNode that it belongs to.
//! - `LEAVE`: the VLBOutput downstream of the output for this node, then for each of its ports in order the
//!   ARPQuerier after it, or `-`.
//! - `LEAVE6`: the same for VLBOutput6 and IP6NDSolicitors.

use super::leave::{Leave, Outward};
use super::memory::Memory;
use super::tagged;
use super::{ETHER_LEN, Member, Node};
use crate::prelude::*;
use crate::sides::{Sides, Step};
use cluster::tag::{Bad, LANES};
use cluster::transit::Fault;
use engine::element::Annotates;
use engine::packet::anno::PacketType;

const FORGED: u8 = Fault::ALL.len() as u8;
const REPLAYED: u8 = FORGED + 1;
const NO_KEY: u8 = FORGED + 2;
/// Number of outputs that a verdict can name.
const OUTPUTS_MAX: usize = 255;

pub(crate) struct Config {
    member: Member,
    links: usize,
    /// Maximum number of workers that can be told apart by tags in frames.
    workers_max: Option<usize>,
    leave4: Option<Outward>,
    leave6: Option<Outward>,
}

impl Config {
    /// Number of outputs for external ports.
    fn ports(&self) -> usize {
        let both = [&self.leave4, &self.leave6].into_iter().flatten();
        both.map(Outward::ports).max().unwrap_or(0)
    }

    fn outputs(&self) -> usize {
        self.links + 2 + self.ports()
    }
}

pub(crate) struct VlbTransit {
    node: Arc<Node>,
    memory: Box<Memory>,
    links: usize,
    worker: usize,
    sides: Sides,
    /// For each output, true if packets must get annotations when they leave.
    annotates: Box<[bool]>,
}

impl Element for VlbTransit {
    const CONTRACT: Contract = Contract::new("VLBTransit", manual!())
        .ports(Ports::coded(&["link*"], &["out*"], "h/h"))
        .needs(&[Facts::ETHER])
        .gives(&[Facts::ETHER])
        .drops(&[
            Fault::Malformed.name(),
            Fault::Foreign.name(),
            Fault::UnknownNode.name(),
            Fault::TooManyHops.name(),
            Fault::Loop.name(),
            Fault::NoPath.name(),
            "forged",
            "replayed",
            "no_key",
        ])
        .extensions(&[&resources::of::<Self>(), &Annotates])
        .ignores_annotations();

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let (member, described) = Member::named(args);
        let what = ("LEAVE", "a VLBOutput, and the ARPQuerier behind each port");
        let leave4 = Outward::read(args, what, ["VLBOutput", "ARPQuerier"]);
        let what = (
            "LEAVE6",
            "a VLBOutput6, and the IP6NDSolicitor behind each port",
        );
        let leave6 = Outward::read(args, what, ["VLBOutput6", "IP6NDSolicitor"]);
        let config = Config {
            member,
            links: described
                .as_ref()
                .map_or(0, |d| d.map.links_of(d.node).count()),
            workers_max: described.and_then(|d| d.keys.map(|_| LANES)),
            leave4,
            leave6,
        };
        if config.outputs() > OUTPUTS_MAX {
            args.error_in_whole(
                format!("{} links and ports are too many", config.outputs() - 2),
                format!(
                    "links and external ports may be {} together",
                    OUTPUTS_MAX - 2
                ),
            );
        }
        config
    }

    fn new(config: &Arc<Config>, init: &Init) -> VlbTransit {
        let node = config.member.node(init);
        let tagged = node.keys.is_some() || node.resequence.is_some();
        let [four, six] = [&config.leave4, &config.leave6].map(|l| l.as_ref().filter(|_| !tagged));
        VlbTransit {
            memory: Memory::new(&node, Leave::new(four, six, config.links + 2, init)),
            links: config.links,
            worker: init.worker,
            annotates: (0..config.outputs())
                .map(|out| init.annotates(out))
                .collect(),
            sides: Sides::new(config.outputs()),
            node,
        }
    }

    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        self.memory.follow(&self.node);
        if self.node.keys.is_some() {
            return self.check(input, batch, cx);
        }
        let (memory, node) = (&mut *self.memory, &*self.node);
        let (links, annotates) = (self.links, &self.annotates);
        let leave = |output: usize, batch: &mut Batch, cx: &Cx| {
            if annotates.get(output) == Some(&true) && !cx.watched() {
                arrived(batch);
            }
            leave(node, links, (input, output), batch);
        };
        let step = Plain { memory, node };
        self.sides
            .part(batch, Batch::iter_of_same_length, cx, step, leave);
    }
}

impl Resources for VlbTransit {
    fn port_count(config: &Config) -> (Option<usize>, Option<usize>) {
        (Some(config.links), Some(config.outputs()))
    }

    fn placement(config: &Config) -> Placement {
        Placement {
            workers_max: config.workers_max,
            ..Placement::default()
        }
    }
}

impl VlbTransit {
    /// Processes frames that must carry a tag, like `process`.
    #[inline(never)]
    fn check(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        let (node, links) = (&*self.node, self.links);
        if self.annotates.contains(&true) && !cx.watched() {
            arrived(batch); // packets may get hashes
        }
        let mut gate = Gate {
            memory: &mut self.memory,
            node,
            input,
            worker: self.worker,
        };
        let step = |packet: &mut Packet, cx: &Cx| gate.pass(packet, cx);
        let leave = |output: usize, batch: &mut Batch, _: &Cx| {
            leave(node, links, (input, output), batch);
        };
        self.sides.part(batch, Batch::iter_mut, cx, step, leave);
    }
}

/// Processes frames of one link for one output: counts transit traffic, and marks heartbeats with their link.
#[inline]
fn leave(node: &Node, links: usize, (input, output): (usize, usize), batch: &mut Batch) {
    if output < links {
        node.carry(output, batch.bytes());
    } else if output == links + 1 {
        let beats = batch.iter_mut();
        beats.for_each(|beat| beat.anno_mut().paint = input as u8);
    }
}

/// Sets the annotations of packets as for received frames to another host.
fn arrived(batch: &mut Batch) {
    let fresh = batch.iter_mut();
    fresh.for_each(|packet| packet.arrived(|_| PacketType::OtherHost));
}

/// Step for frames without tags.
struct Plain<'a> {
    memory: &'a mut Memory,
    node: &'a Node,
}

impl Step for Plain<'_> {
    #[inline(always)]
    fn fast(&mut self, packet: &mut Packet, _: &Cx) -> Option<Verdict> {
        self.memory.fast(packet.data_mut())
    }

    fn slow(&mut self, packet: &mut Packet, cx: &Cx) -> Verdict {
        self.memory.pass(packet.data_mut(), self.node, cx)
    }
}

/// Step for frames of one link that must carry a tag.
struct Gate<'a> {
    memory: &'a mut Memory,
    node: &'a Node,
    input: usize,
    worker: usize,
}

impl Gate<'_> {
    /// Verdict for a frame. The frame gets a new tag for the next link, or loses its tag at this node.
    fn pass(&mut self, packet: &mut Packet, cx: &Cx) -> Verdict {
        let Some(head) = packet.data().first_chunk::<ETHER_LEN>() else {
            return Verdict::drop(Fault::Malformed as u8);
        };
        let next = self.memory.look(head, self.node, cx).next;
        let (verdict, links) = (next.verdict, self.node.own_links());
        if verdict == Verdict::out(links as u8 + 1) {
            return verdict; // VLBHeartbeat knows by itself what is forged
        }
        let Some(session) = self.node.session(self.input, cx) else {
            return Verdict::drop(NO_KEY);
        };
        let tag = match session.open(packet.data_mut()) {
            Ok(tag) => tag,
            Err(Bad::Malformed) => return Verdict::drop(Fault::Malformed as u8),
            Err(Bad::Forged) => return Verdict::drop(FORGED),
        };
        if verdict.reason().is_some() {
            return verdict;
        }
        let on = match verdict.port() {
            link if link < links => match self.node.session(link, cx) {
                Some(next) => Some(next),
                None => return Verdict::drop(NO_KEY),
            },
            _ => None,
        };
        // The sequence number is taken last: a frame that is dropped for another reason does not count as received.
        if !session.take(&tag) {
            return Verdict::drop(REPLAYED);
        }
        if let Some(session) = on {
            next.write(packet.data_mut());
            session.seal(self.worker, tag, packet.data_mut());
            if packet.hash() == 0 {
                packet.set_hash(1 << 16 | u32::from(tag.flow)); // as in VLBInput
            }
        } else if self.node.resequence.is_none() {
            tagged::remove(packet);
        }
        verdict
    }
}

#[cfg(test)]
#[path = "vlb_transit_tests.rs"]
mod tests;
