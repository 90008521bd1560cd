//! Failures of links and nodes, and the heartbeats by which nodes detect them, with the same code as on real servers.

use std::fmt;
use std::sync::Arc;

use super::Packet;
use super::rng::SimRng;
use super::server::Server;
use crate::address::NodeId;
use crate::health::{self, Cabling, Health};
use crate::map::{Fabric, Links, Map, Reach, Ways};

/// Failing part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A link.
    Link(NodeId, NodeId),
    /// One direction of a link: from the first node to the second.
    OneWay(NodeId, NodeId),
    /// A node, with all its links.
    Node(NodeId),
}

/// Kind of failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// A link passes no frames, or a node is dead.
    #[default]
    Cut,
    /// Seven of ten frames are lost.
    Lossy,
    /// Frames take 20 ms more.
    Slow,
    /// A node does nothing, and continues later. Links do not hang.
    Hang,
}

/// Writes the part as `--break` takes it: `0-1` a link, `0>1` one direction of it, `2` a node.
impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Broken::Link(a, b) => write!(f, "{a}-{b}"),
            Broken::OneWay(a, b) => write!(f, "{a}>{b}"),
            Broken::Node(node) => write!(f, "{node}"),
        }
    }
}

impl Fault {
    /// Name of the fault.
    pub fn name(self) -> &'static str {
        let named = Fault::ALL.iter().find(|(fault, _)| *fault == self);
        named.map_or("", |(_, name)| name)
    }

    /// All faults, with their names.
    pub const ALL: [(Fault, &'static str); 4] = [
        (Fault::Cut, "cut"),
        (Fault::Lossy, "lossy"),
        (Fault::Slow, "slow"),
        (Fault::Hang, "hang"),
    ];
}

/// Lost frames of ten on a lossy link.
const LOST_OF_TEN: u64 = 7;
/// Nanoseconds that a slow link adds.
const SLOW_DELAY_NS: u64 = 20_000_000;

impl Broken {
    /// True if the failure affects frames from one node to another.
    fn hits(self, from: NodeId, to: NodeId) -> bool {
        match self {
            Broken::Link(a, b) => (a, b) == (from, to) || (b, a) == (from, to),
            Broken::OneWay(a, b) => (a, b) == (from, to),
            Broken::Node(node) => from == node || to == node,
        }
    }

    /// True if the failure affects a link.
    fn affects_link(self, a: NodeId, b: NodeId) -> bool {
        self.hits(a, b) || self.hits(b, a)
    }

    /// True if the failure affects a place.
    fn is_at(self, place: Place) -> bool {
        match place {
            Place::Node(node) => self == Broken::Node(node),
            Place::Link(from, to) => self.hits(from, to),
        }
    }

    /// True if a packet is from a failing node or for it.
    fn is_end_of(self, packet: &Packet) -> bool {
        let address = packet.address();
        matches!(self, Broken::Node(node) if [address.input, address.node].contains(&node))
    }
}

impl Users {
    /// The counter for a packet: `ends` or `through`.
    fn counter_mut(&mut self, broken: Broken, packet: &Packet) -> &mut u64 {
        match broken.is_end_of(packet) {
            true => &mut self.ends,
            false => &mut self.through,
        }
    }
}

/// A part of the cluster that fails for some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Failing part.
    pub what: Broken,
    /// Kind of failure.
    pub how: Fault,
    /// Start of the failure, in nanoseconds from the start of the run.
    pub from: u64,
    /// End of the failure.
    pub until: u64,
}

/// Writes the failure as `--break` takes it, in milliseconds: `0-1:cut@100-200`.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let [from, until] = [self.from, self.until].map(|ns| ns as f64 / 1e6);
        let (what, how) = (self.what, self.how.name());
        write!(f, "{what}:{how}@{from}-{until}")
    }
}

/// Number of packets affected by a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Users {
    /// Number of packets that could take another path.
    pub through: u64,
    /// Number of packets from or to a failing node.
    pub ends: u64,
}

/// Effect of a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailureEffect {
    /// Nanoseconds until all other nodes had stopped using the broken links; `None` if they did not.
    pub gone: Option<u64>,
    /// Nanoseconds until all nodes used the repaired links again; `None` if they did not.
    pub back: Option<u64>,
    /// Packets that passed the failing part from the start of the run until it failed.
    pub passed: Users,
    /// Packets that were lost: in the failing part, if they were sent before all nodes avoided it; of a failing node,
    /// anywhere, if they were sent before all nodes used it again.
    pub lost: Users,
}

/// Place where a packet is: a node or a link.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    Node(NodeId),
    /// The link between two nodes.
    Link(NodeId, NodeId),
}

/// A heartbeat under way to a node, by one of the node's links.
#[derive(Clone, Debug)]
pub(super) struct Beat {
    pub(super) to: NodeId,
    pub(super) own: usize,
    pub(super) bytes: Box<[u8]>,
}

/// The heartbeats of all nodes.
#[derive(Debug)]
pub(super) struct Watch {
    failures: Vec<Failure>,
    pub(super) noticed: Vec<FailureEffect>,
    pub(super) false_alarms: u64,
    /// The links that each node used at its last check.
    used: Vec<Links>,
    /// Cabling, as each node knows it.
    cabling: Vec<Arc<Cabling>>,
    nodes: Vec<Health>,
    /// True if a node has seen all links up. Until then it uses all links.
    started: Vec<bool>,
    /// Time of each node's next check.
    pub(super) due: Vec<u64>,
    chance: SimRng,
}

impl Watch {
    /// Liveness of a map's nodes; `None` if a node has too many links.
    pub(super) fn new(map: &Map, failures: &[Failure], seed: u64) -> Option<Watch> {
        let mut watch = Watch {
            nodes: Vec::new(),
            started: Vec::new(),
            due: Vec::new(),
            noticed: vec![FailureEffect::default(); failures.len()],
            false_alarms: 0,
            used: Vec::new(),
            failures: failures.to_vec(),
            cabling: Vec::new(),
            chance: SimRng::new(seed),
        };
        watch.join(map, 0, false)?;
        Some(watch)
    }

    /// Adds the nodes of a map that were not there before. A joining node uses only links that it has seen up.
    pub(super) fn join(&mut self, map: &Map, now: u64, started: bool) -> Option<()> {
        let cabling = Arc::new(Cabling::new(map).ok()?);
        for node in self.nodes.len()..map.nodes.len() {
            let node = node as NodeId;
            let config = health::Config::default();
            let health = Health::new(map, Arc::clone(&cabling), node, 1, config, now);
            self.used.push(health.links().clone());
            self.nodes.push(health);
            self.cabling.push(Arc::clone(&cabling));
            self.started.push(started);
            self.due.push(u64::MAX);
        }
        Some(())
    }

    /// Switches a node to a map with more nodes and links.
    pub(super) fn adopt(&mut self, map: &Map, node: NodeId, now: u64) -> Option<()> {
        let at = usize::from(node);
        let known = self.cabling[at].nodes();
        let cabling = Arc::new(Cabling::new(map).ok()?);
        let config = health::Config::default();
        let mut health = Health::new(map, Arc::clone(&cabling), node, 1, config, now);
        health.follow(&self.nodes[at], |node| {
            (usize::from(node) < known).then_some(node)
        });
        (self.nodes[at], self.cabling[at]) = (health, cabling);
        self.count_false_alarms(now, map, at);
        Some(())
    }

    /// The links that a node uses.
    pub(super) fn links(&self, node: NodeId) -> &Links {
        self.nodes[usize::from(node)].links()
    }

    fn active(&self, now: u64) -> impl Iterator<Item = &Failure> {
        let active = move |failure: &&Failure| (failure.from..failure.until).contains(&now);
        self.failures.iter().filter(active)
    }

    /// Extra delay in nanoseconds of a frame from one node to another now; `None` if it is lost.
    pub(super) fn extra_delay_ns(&mut self, now: u64, from: NodeId, to: NodeId) -> Option<u64> {
        let lost = self.chance.below(10) < LOST_OF_TEN;
        let mut hit = self
            .active(now)
            .filter(|failure| failure.what.hits(from, to));
        hit.try_fold(0, |more, failure| match failure.how {
            Fault::Cut => None,
            Fault::Lossy if lost => None,
            Fault::Slow => Some(more + SLOW_DELAY_NS),
            Fault::Lossy | Fault::Hang => Some(more),
        })
    }

    fn active_failure(&self, now: u64, node: NodeId, how: Fault) -> Option<&Failure> {
        self.active(now)
            .find(|failure| failure.what == Broken::Node(node) && failure.how == how)
    }

    /// True if a node is dead now.
    pub(super) fn is_dead(&self, now: u64, node: NodeId) -> bool {
        self.active_failure(now, node, Fault::Cut).is_some()
    }

    /// End of a node's hang, if it hangs.
    pub(super) fn hang_end(&self, now: u64, node: NodeId) -> Option<u64> {
        self.active_failure(now, node, Fault::Hang)
            .map(|failure| failure.until)
    }

    /// Runs a node's timers. Heartbeats leave through `links`, as packets do.
    pub(super) fn tick(
        &mut self,
        now: u64,
        node: NodeId,
        links: &mut [Server],
        out: &mut Vec<(u64, Beat)>,
    ) {
        let cabling = Arc::clone(&self.cabling[usize::from(node)]);
        let mut sent: Vec<(usize, Box<[u8]>)> = Vec::new();
        self.nodes[usize::from(node)]
            .tick(now, &mut |own, bytes| sent.push((own, Box::from(bytes))));
        for (own, bytes) in sent {
            let end = cabling.of(node)[own];
            let Some(more) = self.extra_delay_ns(now, node, end.peer) else {
                continue;
            };
            let cable = &mut links[2 * end.link + usize::from(node > end.peer)];
            // The length on the wire includes the frame check sequence, and is at least 64 bytes.
            let length = (bytes.len() as u32 + 4).max(64);
            let at = cable.serve_first(now, length);
            let (to, own) = (end.peer, end.index);
            out.push((at + more, Beat { to, own, bytes }));
        }
    }

    /// Handles a heartbeat that a node has received.
    pub(super) fn receive_heartbeat(&mut self, now: u64, beat: &Beat) {
        // A node that does not know of a link yet has no port for it.
        if beat.own >= self.cabling[usize::from(beat.to)].of(beat.to).len() {
            return;
        }
        let node = &mut self.nodes[usize::from(beat.to)];
        // Refusals are not counted, because the simulation has no forged frames.
        let _ = node.heard(beat.own, &beat.bytes, now);
    }

    /// Schedules a node's next check, if it is earlier than planned.
    pub(super) fn plan(&mut self, now: u64, node: NodeId) -> Option<u64> {
        let at = usize::from(node);
        let due = self.nodes[at].due().max(now + 1);
        (due < self.due[at]).then(|| {
            self.due[at] = due;
            due
        })
    }

    /// Computes a node's paths again, if it has learned of changed links.
    pub(super) fn changed(&mut self, now: u64, node: NodeId, fabric: &Arc<Fabric>) -> Option<Ways> {
        let at = usize::from(node);
        if !self.nodes[at].take_change() {
            return None;
        }
        self.count_false_alarms(now, fabric.map(), at);
        let links = self.nodes[at].links();
        let all = (0..fabric.map().links.len()).all(|link| links.up(link));
        self.started[at] |= all;
        if !self.started[at] {
            return None;
        }
        let ways = Ways::new(&Reach::new(fabric, links), node);
        self.record_detections(now, fabric.map());
        Some(ways)
    }

    /// Counts links that a node stopped using without a failure.
    fn count_false_alarms(&mut self, now: u64, map: &Map, node: usize) {
        let links = self.nodes[node].links();
        let before = std::mem::replace(&mut self.used[node], links.clone());
        for (link, of) in map.links.iter().enumerate() {
            let [a, b] = of.ends;
            let mut failures = self.failures.iter().zip(&self.noticed);
            let broken = failures.any(|(failure, noticed)| {
                let mended = noticed.back.is_some_and(|back| now > failure.until + back);
                failure.what.affects_link(a, b) && now >= failure.from && !mended
            });
            if before.up(link) && !links.up(link) && !broken {
                self.false_alarms += 1;
            }
        }
    }

    /// Records that a packet passes a place.
    pub(super) fn record_passage(&mut self, now: u64, packet: &Packet, at: Place) {
        for (failure, noticed) in self.failures.iter().zip(&mut self.noticed) {
            // A packet that passes a failing node also passes its links: count it once.
            let once = matches!(failure.what, Broken::Node(_)) == matches!(at, Place::Node(_));
            if now < failure.from && once && failure.what.is_at(at) {
                *noticed.passed.counter_mut(failure.what, packet) += 1;
            }
        }
    }

    /// Counts a packet that was lost at a place.
    pub(super) fn record_loss(&mut self, now: u64, packet: &Packet, at: Place) {
        for (failure, noticed) in self.failures.iter().zip(&mut self.noticed) {
            let before = |begun: u64, after: Option<u64>| {
                after.is_none_or(|after| packet.chosen <= begun + after)
            };
            let caused = match failure.what.is_end_of(packet) {
                true => before(failure.until, noticed.back),
                false => failure.what.is_at(at) && before(failure.from, noticed.gone),
            };
            if now >= failure.from && caused {
                *noticed.lost.counter_mut(failure.what, packet) += 1;
                return;
            }
        }
    }

    /// Records which nodes have noticed which failure.
    fn record_detections(&mut self, now: u64, map: &Map) {
        for (failure, noticed) in self.failures.iter().zip(&mut self.noticed) {
            let hit = |link: &usize| {
                let [a, b] = map.links[*link].ends;
                failure.what.affects_link(a, b)
            };
            let hit: Vec<usize> = (0..map.links.len()).filter(hit).collect();
            let others = self.nodes.iter().enumerate();
            let mut others =
                others.filter(|(node, _)| failure.what != Broken::Node(*node as NodeId));
            let up =
                |health: &Health, up: bool| hit.iter().all(|&link| health.links().up(link) == up);
            if noticed.gone.is_none() && now >= failure.from {
                let all = others.clone().all(|(_, health)| up(health, false));
                noticed.gone = all.then(|| now - failure.from);
            } else if noticed.back.is_none() && now >= failure.until {
                noticed.back = others
                    .all(|(_, health)| up(health, true))
                    .then(|| now - failure.until);
            }
        }
    }
}
