//! Several routers as one, in one process and in virtual time, with in-memory ports as cables, which a test can cut.

use crate::{Whole, strip};
use cluster::address::NodeId;
use cluster::map::{Fabric, Link, Map};
use engine::graph::Walker;
use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use testkit::ip4;

/// Devices of a node by name: the external port, then links.
const EXTERNAL: usize = 0;
/// Length of a step.
const STEP: Duration = Duration::from_micros(500);

/// Routers `n0`, `n1` ...: behind the external port of each is `10.0.N.0/24`, and links are those of a map.
pub struct Cluster {
    fabric: Arc<Fabric>,
    /// Further arguments of every VLBNode.
    arguments: String,
    /// Arguments of every VLBHeartbeat. `None`: there is no VLBHeartbeat, and all links are up.
    heartbeat: Option<String>,
    nodes: Vec<Option<Whole>>,
    /// Cables on which frames are lost, by node and own link.
    cut: BTreeSet<(usize, usize)>,
    /// Rounds by which frames of the first link of node 0 are delayed, and the delayed frames.
    pub slow: usize,
    under_way: VecDeque<Vec<Vec<u8>>>,
    /// Frames that hosts have sent.
    pub sent: u64,
    /// Frames that crossed each internal link, by node and own link.
    pub crossed: Vec<Vec<u64>>,
    /// Frames that crossed the first cable.
    pub wire: Vec<Vec<u8>>,
    /// Milliseconds of steps since the start.
    pub time: f64,
}

impl Cluster {
    /// The routers of a map.
    pub fn new(map: Map, arguments: &str, heartbeat: Option<&str>) -> Cluster {
        let nodes = map.nodes.len();
        let links = (0..nodes).map(|node| vec![0; map.links_of(node as NodeId).count()]);
        let mut cluster = Cluster {
            crossed: links.collect(),
            fabric: Fabric::new(map),
            arguments: arguments.to_owned(),
            heartbeat: heartbeat.map(str::to_owned),
            nodes: (0..nodes).map(|_| None).collect(),
            cut: BTreeSet::new(),
            slow: 0,
            under_way: VecDeque::new(),
            sent: 0,
            wire: Vec::new(),
            time: 0.0,
        };
        (0..nodes).for_each(|node| cluster.start(node));
        cluster
    }

    /// The configuration of a node.
    fn text(&self, node: usize) -> String {
        let map = self.fabric.map();
        let nodes = map.nodes.iter().enumerate();
        let nodes: Vec<String> = nodes
            .map(|(n, of)| format!("n{n} {}bps", of.rate))
            .collect();
        let pair = |link: &Link| {
            let [a, b] = link.ends;
            format!("n{a}-n{b} {}bps", link.rate)
        };
        let pairs: Vec<String> = map.links.iter().map(pair).collect();
        let more = &self.arguments;
        let mut text = format!(
            "vlb :: VLBNode(NAME test, NODE n{node}, NODES {}, LINKS {}{more});\n",
            nodes.join(" "),
            pairs.join(" ")
        );
        let others: Vec<usize> = (0..nodes.len()).filter(|&n| n != node).collect();
        let destinations: Vec<String> = others.iter().map(|n| format!("n{n}/0")).collect();
        let mut routes = vec![format!("10.0.{node}.0/24 0")];
        let remote = others.iter().enumerate();
        routes.extend(remote.map(|(at, n)| format!("10.0.{n}.0/24 {}", at + 1)));
        let links = self.crossed[node].len();
        let resequencer = match more.contains("RESEQUENCE") {
            true => "order :: VLBResequencer(vlb) ->",
            false => "",
        };
        let beat = match &self.heartbeat {
            Some(more) => format!("hb :: VLBHeartbeat(vlb{more})"),
            None => "Discard".to_owned(),
        };
        let _ = write!(
            text,
            "in :: FromDevice(ext) -> Strip(14) -> CheckIPHeader -> rt :: RadixIPLookup({});
             rt[0] -> own :: DecIPTTL -> port :: EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> ToDevice(ext);
             own[1] -> error :: ICMPError(10.0.{node}.1, timeexceeded) -> port;
             enter :: VLBInput(vlb, {});
             transit :: VLBTransit(vlb);
             transit[{links}] -> {resequencer} leave :: VLBOutput(vlb) -> port;
             leave[1] -> Discard; transit[{}] -> {beat};\n",
            routes.join(", "),
            destinations.join(", "),
            links + 1,
        );
        for at in 0..others.len() {
            let _ = writeln!(
                text,
                "rt[{}] -> ttl{at} :: DecIPTTL -> [{at}]enter; ttl{at}[1] -> error;",
                at + 1
            );
        }
        for link in 0..links {
            let _ = writeln!(
                text,
                "FromDevice(link{link}) -> [{link}]transit;
                 out{link} :: ToDevice(link{link}); enter[{link}] -> out{link}; transit[{link}] -> out{link};"
            );
            if self.heartbeat.is_some() {
                let _ = writeln!(text, "hb[{link}] -> [1] out{link};");
            }
        }
        text
    }

    /// Starts a router anew.
    pub fn start(&mut self, node: usize) {
        self.nodes[node] = Some(Whole::new(&self.text(node), &[], Walker::Sweep));
    }

    /// Changes the VLBNode arguments of a running router.
    pub fn reload(&mut self, node: usize, arguments: &str) {
        let usual = std::mem::replace(&mut self.arguments, arguments.to_owned());
        let text = self.text(node);
        self.arguments = usual;
        let router = self.nodes[node].take();
        self.nodes[node] = router.map(|router| router.reload(&text, &[]));
    }

    /// Ends a router without notice.
    pub fn kill(&mut self, node: usize) {
        self.nodes[node] = None;
    }

    /// A running router.
    pub fn router(&mut self, node: usize) -> &mut Whole {
        self.nodes[node].as_mut().expect("it runs")
    }

    /// The running routers.
    pub fn routers(&mut self) -> impl Iterator<Item = &mut Whole> {
        self.nodes.iter_mut().flatten()
    }

    /// Cuts the first cable between two nodes in one direction, or restores it.
    pub fn cut(&mut self, from: usize, to: usize, cut: bool) {
        let cables = self.fabric.neighbours(from as NodeId);
        let own = cables.iter().position(|&(peer, _)| usize::from(peer) == to);
        let cable = (from, own.expect("a cable leads there"));
        match cut {
            true => self.cut.insert(cable),
            false => self.cut.remove(&cable),
        };
    }

    /// A host behind a node sends a packet.
    pub fn send(&mut self, from: usize, packet: &[u8]) {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        frame.extend(packet);
        self.send_frame(from, &frame);
    }

    /// A host behind a node sends a frame.
    pub fn send_frame(&mut self, from: usize, frame: &[u8]) {
        self.router(from).receive(EXTERNAL, [frame]);
        self.sent += 1;
    }

    /// Injects a frame into a node by an own link.
    pub fn inject(&mut self, node: usize, own: usize, frame: &[u8]) {
        self.router(node).receive(own + 1, [frame]);
    }

    /// Runs the routers, and carries their frames over one cable. Records frames for hosts, by node; returns true if
    /// any crossed.
    fn carry(&mut self, arrived: &mut [Vec<Vec<u8>>]) -> bool {
        let mut all = Vec::new();
        for (node, router) in self.nodes.iter_mut().enumerate() {
            let Some(router) = router else {
                continue;
            };
            router.settle();
            let out = router.sent(EXTERNAL);
            arrived[node].extend(out.iter().map(|frame| strip(frame)));
            let links = 0..self.crossed[node].len();
            all.extend(links.map(|own| (node, own, router.sent(own + 1))));
        }
        let moved = all.iter().any(|(.., frames)| !frames.is_empty());
        for (node, own, frames) in all {
            self.crossed[node][own] += frames.len() as u64;
            let first = (node, own) == (0, 0);
            if first {
                self.wire.extend_from_slice(&frames);
            }
            match self.under_way.back_mut() {
                Some(last) if self.slow > 0 && first => last.extend(frames),
                _ => self.cross(node, own, &frames),
            }
        }
        moved
    }

    /// Delivers frames at the other end of a cable.
    fn cross(&mut self, node: usize, own: usize, frames: &[Vec<u8>]) {
        let (peer, link) = self.fabric.neighbours(node as NodeId)[own];
        let mut back = self.fabric.neighbours(peer).iter();
        let theirs = back.position(|&(_, other)| other == link);
        let theirs = theirs.expect("a cable has two ends");
        if let (Some(peer), false) = (
            &mut self.nodes[usize::from(peer)],
            self.cut.contains(&(node, own)),
        ) {
            peer.receive(theirs + 1, frames.iter().map(Vec::as_slice));
        }
    }

    /// Carries frames along cables until none is under way. Returns frames for hosts, by node.
    pub fn settle(&mut self) -> Vec<Vec<Vec<u8>>> {
        let mut arrived = vec![Vec::new(); self.nodes.len()];
        if self.under_way.len() > self.slow {
            let frames = self.under_way.pop_front().unwrap_or_default();
            self.cross(0, 0, &frames);
        }
        self.under_way.push_back(Vec::new());
        for _ in 0..100 {
            if !self.carry(&mut arrived) {
                return arrived;
            }
        }
        panic!("frames go round in circles");
    }

    /// Advances the time of all routers.
    pub fn advance(&mut self, by: Duration) {
        self.routers().for_each(|router| router.advance(by));
    }

    /// Advances the time, and carries the frames sent meanwhile over one cable. Returns frames for hosts, by node.
    pub fn step(&mut self) -> Vec<Vec<Vec<u8>>> {
        let mut arrived = vec![Vec::new(); self.nodes.len()];
        self.time += STEP.as_secs_f64() * 1e3;
        self.advance(STEP);
        self.carry(&mut arrived);
        arrived
    }

    /// Steps until a condition holds; panics after a virtual second. Returns the milliseconds that it took.
    pub fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Cluster) -> bool) -> f64 {
        let begin = self.time;
        while !holds(self) {
            assert!(self.time - begin < 1000.0, "never {what}");
            self.step();
        }
        self.time - begin
    }

    /// True if all running routers use all links between them.
    pub fn is_whole(&mut self) -> bool {
        let mut links = self.routers().map(|router| router.handler("vlb.links", ""));
        links.all(|links| !links.contains(" down "))
    }

    /// A count of all routers.
    pub fn read(&mut self, path: &str) -> u64 {
        let counts = self.routers().map(|node| node.handler(path, ""));
        counts.map(|n| n.parse::<u64>().expect("a number")).sum()
    }

    /// Checks the packet accounts of every node and of the cluster: packets that came in have left, or were dropped
    /// under a name. Returns the drops.
    #[track_caller]
    pub fn check(&mut self, arrived: u64) -> Vec<(String, u64)> {
        let (mut drops, mut taken) = (Vec::new(), 0);
        for node in self.routers() {
            let books = node.check();
            // Heartbeats are not packets of hosts.
            let heard = |(path, _): &(String, u64)| !path.ends_with(" heard");
            // Frames that looked like heartbeats, or were for the node itself.
            taken += books.ended_at("Discard");
            drops.extend(books.drops().into_iter().filter(heard));
        }
        let dropped: u64 = drops.iter().map(|(_, n)| n).sum();
        assert_eq!(self.sent, arrived + taken + dropped, "{drops:?}");
        drops
    }

    /// Sends a flow from each node to each other one, the same number of packets each, with short gaps.
    pub fn all_pairs(&mut self, packets: u16) -> Vec<Vec<Vec<u8>>> {
        let nodes = self.nodes.len();
        let mut arrived = vec![Vec::new(); nodes];
        for number in 0..packets {
            for (from, to) in (0..nodes * nodes).map(|pair| (pair / nodes, pair % nodes)) {
                if from != to {
                    self.send(from, &host_packet(from, to, number));
                }
            }
            for (all, new) in arrived.iter_mut().zip(self.settle()) {
                all.extend(new);
            }
            self.advance(Duration::from_micros(200));
        }
        arrived
    }
}

/// A packet from a host of one node to a host of another: ten flows, by number, which is its identification.
pub fn host_packet(from: usize, to: usize, number: u16) -> Vec<u8> {
    let packet = ip4()
        .src(format!("10.0.{from}.9"))
        .dst(format!("10.0.{to}.9"));
    packet
        .ttl(17)
        .udp(1000 + number % 10, 2)
        .ident(number.into())
        .payload_len(400)
        .bytes()
}

/// Packets dropped under a name, by any element.
pub fn dropped_as(drops: &[(String, u64)], name: &str) -> u64 {
    let of_name = drops.iter().filter(|(path, _)| path.ends_with(name));
    of_name.map(|(_, packets)| packets).sum()
}
