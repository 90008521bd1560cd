//! A full mesh of routers in one process and in virtual time, whose cables a test can cut.

use crate::Whole;
use engine::graph::Walker;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;
use testkit::ip4;

/// How far time goes before frames cross the cables.
const STEP: Duration = Duration::from_micros(500);
/// Bytes that a UDP packet carries.
const LENGTH: usize = 500;

/// Routers `n0`, `n1` ...: each has an external port, behind which `10.0.N.0/24` is, and a link to each other.
pub struct Mesh {
    routers: Vec<Option<Whole>>,
    /// Whether frames from the first to the second are lost.
    cut: BTreeMap<(usize, usize), bool>,
    /// Written behind VLBNode's arguments.
    pub arguments: String,
    /// Written behind VLBHeartbeat's arguments.
    pub heartbeat: String,
    /// Packets sent so far.
    pub sent: u32,
    /// Numbers of the packets that came out, by external port, in their order.
    pub came: Vec<Vec<u32>>,
    /// What crossed the first cable.
    pub wire: Vec<Vec<u8>>,
    /// Milliseconds since the start.
    pub time: f64,
}

impl Mesh {
    /// `nodes` routers with external ports of 8 Mbit/s.
    pub fn new(nodes: usize, arguments: &str, heartbeat: &str) -> Mesh {
        let mut mesh = Mesh {
            routers: (0..nodes).map(|_| None).collect(),
            cut: BTreeMap::new(),
            arguments: arguments.to_owned(),
            heartbeat: heartbeat.to_owned(),
            sent: 0,
            came: vec![Vec::new(); nodes],
            wire: Vec::new(),
            time: 0.0,
        };
        for node in 0..nodes {
            mesh.start(node);
        }
        mesh
    }

    /// The configuration of a node.
    pub fn text(&self, node: usize) -> String {
        let nodes = 0..self.routers.len();
        let peers: Vec<usize> = nodes.clone().filter(|&peer| peer != node).collect();
        let (last, mut text) = (peers.len(), String::new());
        let all: String = nodes.clone().map(|n| format!(" n{n} 8Mbps")).collect();
        let pairs = nodes
            .clone()
            .flat_map(|a| nodes.clone().map(move |b| (a, b)));
        let links: String = pairs
            .filter(|(a, b)| a < b)
            .map(|(a, b)| format!(" n{a}-n{b}"))
            .collect();
        let (arguments, heartbeat) = (&self.arguments, &self.heartbeat);
        let _ = writeln!(
            text,
            "vlb :: VLBNode(NAME mesh, NODE n{node}, NODES{all}, LINKS{links}{arguments});
            t :: VLBTransit(vlb); hb :: VLBHeartbeat(vlb{heartbeat}); out :: VLBOutput(vlb);
            ext :: EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> ToDevice(ext);
            t[{last}] -> out -> ext; out[1] -> Discard; t[{next}] -> hb;
            FromDevice(ext) -> Strip(14) -> CheckIPHeader -> DecIPTTL -> rt :: RadixIPLookup(",
            next = last + 1
        );
        let routes: Vec<String> = nodes.map(|n| format!("10.0.{n}.0/24 {n}")).collect();
        let to: Vec<String> = peers.iter().map(|peer| format!("n{peer}/0")).collect();
        let _ = writeln!(
            text,
            "{}); in :: VLBInput(vlb, {});",
            routes.join(", "),
            to.join(", ")
        );
        let _ = writeln!(text, "rt[{node}] -> ext;");
        for (own, peer) in peers.iter().enumerate() {
            let _ = writeln!(
                text,
                "rt[{peer}] -> [{own}]in; l{own} :: ToDevice(to{peer});
                FromDevice(to{peer}) -> [{own}]t;
                in[{own}] -> l{own}; t[{own}] -> l{own}; hb[{own}] -> l{own};"
            );
        }
        text
    }

    /// Starts a router, as a new one.
    pub fn start(&mut self, node: usize) {
        self.routers[node] = Some(Whole::new(&self.text(node), &[], Walker::Sweep));
    }

    /// Ends a router without a word.
    pub fn kill(&mut self, node: usize) {
        self.routers[node] = None;
    }

    /// Cuts a cable in one direction, or mends it.
    pub fn cut(&mut self, from: usize, to: usize, cut: bool) {
        self.cut.insert((from, to), cut);
    }

    /// A router that runs.
    pub fn router(&mut self, node: usize) -> &mut Whole {
        self.routers[node].as_mut().expect("it runs")
    }

    /// A packet comes by a node's external port, for what is behind another's.
    pub fn send(&mut self, from: usize, to: usize) {
        self.sent += 1;
        let mut payload = [0; LENGTH];
        payload[..4].copy_from_slice(&self.sent.to_be_bytes());
        let packet = ip4()
            .src(format_args!("10.0.{from}.9"))
            .dst(format_args!("10.0.{to}.9"))
            .ident(self.sent & 0xffff)
            .udp(1000, 2000)
            .payload(payload)
            .ether("2:0:0:0:0:2", "2:0:0:0:0:1");
        let bytes = packet.bytes();
        self.router(from).receive(0, [&bytes[..]]);
    }

    /// Lets time pass; frames cross the cables.
    pub fn step(&mut self) {
        self.time += STEP.as_secs_f64() * 1e3;
        for router in self.routers.iter_mut().flatten() {
            router.advance(STEP);
        }
        let nodes = self.routers.len();
        for from in 0..nodes {
            let Some(router) = &mut self.routers[from] else {
                continue;
            };
            for frame in router.sent(0) {
                let number = frame[14 + 28..].first_chunk().expect("the number");
                self.came[from].push(u32::from_be_bytes(*number));
            }
            for to in (0..nodes).filter(|&to| to != from) {
                // Devices are numbered by name: that of the external port, then those of peers.
                let port = |node: usize, peer: usize| 1 + peer - usize::from(peer > node);
                let frames = self.routers[from]
                    .as_mut()
                    .map(|router| router.sent(port(from, to)));
                if let (0, 1, Some(frames)) = (from, to, &frames) {
                    self.wire.extend_from_slice(frames);
                }
                let cut = self.cut.get(&(from, to)).copied().unwrap_or(false);
                if let (Some(peer), Some(frames), false) = (&mut self.routers[to], frames, cut) {
                    peer.receive(port(to, from), frames.iter().map(Vec::as_slice));
                }
            }
        }
    }

    /// Steps until something holds; panics after a virtual second. Returns the milliseconds that it took.
    pub fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Mesh) -> bool) -> f64 {
        let begin = self.time;
        while !holds(self) {
            assert!(self.time - begin < 1000.0, "never {what}");
            self.step();
        }
        self.time - begin
    }

    /// Whether all routers that run use all links between them.
    pub fn is_whole(&mut self) -> bool {
        let nodes = 0..self.routers.len();
        nodes
            .filter(|&node| self.routers[node].is_some())
            .collect::<Vec<_>>()
            .iter()
            .all(|&node| {
                !self
                    .router(node)
                    .handler("vlb.links", "")
                    .contains(" down ")
            })
    }
}
