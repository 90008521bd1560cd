//! Sends IP packets to the external ports of other nodes of the cluster.
//!
//! ```click
//! vlb :: VLBNode(NODE a, NODES a 10Gbps b 10Gbps c 10Gbps, LINKS a-b a-c b-c);
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> DecIPTTL
//!     -> rt :: RadixIPLookup(10.0.2.0/24 0, 10.0.3.0/24 10.0.3.9 1, 0/0 2);
//! rt[0] -> in :: VLBInput(vlb, b/0, c/1/1);
//! rt[1] -> [1]in;
//! rt[2] -> Discard;
//! in[0] -> ToDevice(null:);  // the link a-b
//! in[1] -> ToDevice(null:);  // the link a-c
//! ```
//!
//! This is the node where packets enter the cluster. Routing, TTL and ICMP errors are done here, once. VLBInput
//! writes the output node, its port and the path to it into the Ethernet header, and other nodes read only this
//! header. It replaces the external header, so packets do not become longer.
//!
//! Direct Valiant load balancing: each output node's share of this node's rate (R/N in a cluster of N equal
//! nodes) goes directly to it. The rest is spread over all nodes by their rates. A flow keeps its path while
//! its packets follow each other within VLBNode's DELTA and the path is not full.
//!
//! With VLBNode's RESEQUENCE or KEY a tag of 30 bytes follows the addresses. It has the packet's number (see
//! VLBResequencer) and a code, which proves that the frame comes from this node (see VLBTransit).
//!
//! Input i takes packets for the i-th destination; output j is the node's own link j (see VLBNode). A packet is
//! dropped if no links that are up lead to its node (`no_path`), if the links that lead there are loaded beyond
//! their rate (`full`), if it is not an IP packet (`malformed`), if there is no room for the header (`no_room`),
//! or if the ends of the link have not agreed on a key yet (`no_key`).
//!
//! Arguments:
//!
//! - `VLB`: the VLBNode that it belongs to.
//! - `DESTINATION`, any number of: `NODE/PORT` or `NODE/PORT/GATEWAY`. PORT is the number of an external port
//!   there; 255 is the node itself. GATEWAY is the number, from 1, of one of the port's gateways there (see
//!   VLBOutput); without it the next hop is the packet's own destination.

use super::tagged::Order;
use super::{ETHER_LEN, Member, Node};
use crate::prelude::*;
use crate::sides::Sides;
use cluster::address::{
    Address, HOPS_MAX, Kind, LEN, NO_NODE, NodeId, allowance, set_lane, set_way,
};
use cluster::flowlet::Flowlets;
use cluster::session::Session;
use cluster::spread::{Refusal, Settings, Spread};
use cluster::tag::{PACKET, Tag};
use wire::FlowKey;

drops! {
    NO_PATH = "no_path",
    FULL = "full",
    MALFORMED = "malformed",
    NO_ROOM = "no_room",
    NO_KEY = "no_key",
}

/// An output node, and the external port and gateway there.
#[derive(Clone, Copy)]
struct Destination {
    node: NodeId,
    port: u8,
    gateway: u16,
}

pub(crate) struct Config {
    member: Member,
    destinations: Vec<Destination>,
    /// Number of this node's links.
    links: usize,
    /// Number of flows whose path each worker remembers.
    flows: usize,
    /// Number of nodes in the cluster.
    nodes: usize,
    /// Maximum number of workers that can be told apart by tags in frames.
    workers_max: Option<usize>,
}

pub(crate) struct VlbInput {
    node: Arc<Node>,
    spread: Spread,
    /// Output node and Ethernet addresses by input; the path is added per packet.
    headers: Box<[(NodeId, [u8; LEN])]>,
    /// Bytes of transit traffic by link that have already been accounted for here.
    carried: Box<[u64]>,
    /// Sequence numbers of packets; `None` without resequencing.
    order: Option<Order>,
    worker: usize,
    /// Batches by output; taken out while packets are examined, so that `self` can be borrowed.
    sides: Option<Box<Sides>>,
    share: f64,
    seed: u32,
    /// True if frames carry lanes.
    lanes: bool,
}

/// Parses `NODE/PORT[/GATEWAY]`.
fn destination(
    word: &str,
    number: impl Fn(&str) -> Option<NodeId>,
) -> Result<Destination, (String, &'static str)> {
    let mut parts = word.split('/');
    let label = parts.next().unwrap_or("");
    let node = number(label);
    let node = node.ok_or_else(|| {
        (
            format!("`{label}` is no node"),
            "name one of VLBNode's NODES",
        )
    })?;
    let port = parts.next().and_then(|port| port.parse().ok());
    let gateway = parts.next().map_or(Some(0), |gateway| gateway.parse().ok());
    match (port, gateway, parts.next()) {
        (Some(port), Some(gateway), None) => Ok(Destination {
            node,
            port,
            gateway,
        }),
        _ => Err((
            format!("`{word}` is no destination"),
            "write NODE/PORT or NODE/PORT/GATEWAY, such as b/0 or b/0/1; port 255 is the node itself",
        )),
    }
}

impl Element for VlbInput {
    const CONTRACT: Contract = Contract::new("VLBInput", manual!())
        .ports(Ports::coded(&["to*"], &["link*"], "h/h"))
        .gives(&[Facts::ETHER])
        .spoils(Facts::AT_NETWORK)
        .drops(DROPS)
        .extensions(&[&resources::of::<Self>()]);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let (member, described) = Member::named(args);
        let mut destinations = Vec::new();
        for arg in args.rest("DESTINATION", "NODE/PORT or NODE/PORT/GATEWAY", "an output") {
            let Some(described) = &described else {
                continue;
            };
            match destination(&arg.unquoted(), |label| described.number(label)) {
                Err((wrong, help)) => args.error_with_help(&arg, wrong, help),
                Ok(to) if to.node == described.node => args.error_with_help(
                    &arg,
                    format!("`{}` is this node itself", arg.raw),
                    "send packets that leave here to the output port without VLBInput",
                ),
                Ok(to) => destinations.push(to),
            }
        }
        Config {
            member,
            destinations,
            links: described
                .as_ref()
                .map_or(0, |d| d.map.links_of(d.node).count()),
            flows: described.as_ref().map_or(0, |d| d.settings.flows),
            nodes: described.as_ref().map_or(0, |d| d.map.nodes.len()),
            workers_max: described.and_then(|d| d.workers_max()),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> VlbInput {
        let node = config.member.node(init);
        // Each worker that sends packets has an equal share of all rates.
        let share = 1.0 / init.pushers.len().max(1) as f64;
        let seed = init.worker as u32 + 1;
        let headers = config.destinations.iter().map(|to| {
            let address = Address {
                kind: Kind::Data,
                hops: HOPS_MAX,
                node: to.node,
                port: to.port,
                gateway: to.gateway,
                input: node.number,
                via: NO_NODE,
                cookie: node.cookie,
            };
            (to.node, address.bytes())
        });
        VlbInput {
            headers: headers.collect(),
            spread: Spread::new(
                settings(&node, share, seed),
                &node.ways().snapshot(),
                init.now.0,
            ),
            carried: node.carried().collect(),
            order: Order::new(&node, init),
            worker: init.worker,
            sides: Some(Box::new(Sides::new(config.links))),
            share,
            seed,
            lanes: node.fabric().branches(),
            node,
        }
    }

    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        self.give_way(cx.now().0);
        let Some(&(to, header)) = self.headers.get(input) else {
            return cx.drop_batch(batch, NO_PATH);
        };
        if let Some(mut sides) = self.sides.take() {
            let step = |packet: &mut Packet, cx: &Cx| self.send(packet, to, header, cx);
            sides.part(batch, Batch::iter_mut, cx, step, |_, _, _| {});
            self.sides = Some(sides);
        }
    }

    fn take(&mut self, old: VlbInput) {
        if (self.share, self.seed) == (old.share, old.seed)
            && self.node.settings == old.node.settings
        {
            self.spread = old.spread;
            // Recent use of the rates no longer matters when the next packet arrives.
            self.spread.adapt(&self.node.ways().snapshot(), 0);
        }
    }

    const HANDLERS: &'static [Handler<VlbInput>] = &[
        Handler::sum("direct", "packets sent directly, within the quota", |i| {
            i.spread.counts().direct
        }),
        Handler::sum(
            "straight",
            "packets sent directly, because spreading chose their output node",
            |i| i.spread.counts().straight,
        ),
        Handler::sum("phase1", "packets sent to an intermediate node", |i| {
            i.spread.counts().phase1
        }),
        Handler::sum("kept", "packets that kept the path of their flow", |i| {
            i.spread.counts().kept
        }),
        Handler::sum(
            "moved",
            "packets whose flow changed its path, because that was full or down",
            |i| i.spread.counts().moved,
        ),
        Handler::text("bytes", "bytes sent by each own link", |i, _| {
            let all: Vec<String> = i.spread.sent().map(|bytes| bytes.to_string()).collect();
            Ok(all.join(" "))
        }),
    ];
}

impl Resources for VlbInput {
    fn port_count(config: &Config) -> (Option<usize>, Option<usize>) {
        (Some(config.destinations.len()), Some(config.links))
    }

    fn placement(config: &Config) -> Placement {
        Placement {
            workers_max: config.workers_max,
            ..Placement::default()
        }
    }

    fn memory_each(config: &Config) -> usize {
        Flowlets::bytes(config.flows, config.nodes)
    }
}

fn settings(node: &Node, share: f64, seed: u32) -> Settings {
    Settings {
        share,
        seed,
        ..node.settings.clone()
    }
}

impl VlbInput {
    /// Accounts for the transit traffic since the last batch.
    fn give_way(&mut self, now: u64) {
        for (link, (carried, seen)) in self.node.carried().zip(&mut self.carried).enumerate() {
            let bytes = (carried - *seen) as f64 * self.share;
            if carried != *seen {
                self.spread.carried(now, link as u16, bytes as u32);
                *seen = carried;
            }
        }
    }

    #[inline]
    fn send(&mut self, packet: &mut Packet, to: NodeId, mut header: [u8; LEN], cx: &Cx) -> Verdict {
        let data = packet.data();
        let (ethertype, hash): (u16, _) =
            match (data.first().map(|first| first >> 4), packet.hash()) {
                // By version, as the flow of either is a larger value.
                (Some(4), 0) => (
                    0x0800,
                    FlowKey::of_ip4_or_quoted(data).map_or(0, |flow| flow.hash(0)),
                ),
                (Some(6), 0) => (
                    0x86dd,
                    FlowKey::of_ip6_or_quoted(data).map_or(0, |flow| flow.hash(0)),
                ),
                (Some(4), hash) => (0x0800, hash),
                (Some(6), hash) => (0x86dd, hash),
                _ => return Verdict::drop(MALFORMED),
            };
        let keyed = self.node.keys.is_some();
        let tagged = self.order.is_some() || keyed;
        let added = if tagged { PACKET } else { ETHER_LEN };
        let bytes = (packet.len() + added) as u32;
        let ways = self.node.ways().read(cx.reader());
        let choice = match self.spread.choose(cx.now().0, ways, to, bytes, hash) {
            Ok(choice) => choice,
            Err(Refusal::NoPath) => return Verdict::drop(NO_PATH),
            Err(Refusal::Full) => return Verdict::drop(FULL),
        };
        let session = match keyed {
            true => match self.node.session(usize::from(choice.link), cx) {
                None => return Verdict::drop(NO_KEY),
                session => session,
            },
            false => None,
        };
        set_way(
            &mut header,
            allowance(ways.passes(choice.via, to)),
            choice.via,
        );
        if self.lanes {
            set_lane(&mut header, hash);
        }
        let Some(room) = packet.push(added) else {
            return Verdict::drop(NO_ROOM);
        };
        room[..LEN].copy_from_slice(&header);
        if tagged {
            self.tag(packet, session, (to, hash), ethertype);
        } else {
            room[LEN..].copy_from_slice(&ethertype.to_be_bytes());
        }
        packet.set_mac_here();
        Verdict::out(choice.link as u8)
    }

    /// Writes the tag of a packet that leaves by a link of this node. Without a key, the tag has no code.
    fn tag(
        &self,
        packet: &mut Packet,
        session: Option<&Session>,
        (to, hash): (NodeId, u32),
        ethertype: u16,
    ) {
        let order = self.order.as_ref();
        let (flow, sequence) = order.map_or((hash as u16, 0), |order| order.number(to, hash));
        if packet.hash() == 0 {
            packet.set_hash(hash); // links over an IP network tell flows apart by it
        }
        let tag = Tag {
            link: 0,
            flow,
            sequence,
            ethertype,
        };
        match session {
            Some(session) => session.seal(self.worker, tag, packet.data_mut()),
            None => tag.write(packet.data_mut(), None),
        }
    }
}

#[cfg(test)]
#[path = "vlb_input_tests.rs"]
mod tests;
