//! Many nodes in virtual time: links with delay and faults, and loops that are late. All randomness comes from one
//! seed.

use crate::health::{Cabling, Config, Health};
use crate::map::Map;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

pub(super) const MS: u64 = 1_000_000;
pub(super) const US: u64 = 1_000;

/// SplitMix64.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub(super) fn below(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { self.next() % n }
    }
}

/// A direction of a link.
#[derive(Clone, Default)]
pub(super) struct Way {
    pub(super) cut: bool,
    /// Frames lost of 1000.
    pub(super) loss: u64,
    pub(super) delay: u64,
    last: u64,
}

enum Event {
    Tick(usize, u64),
    Wake(usize),
    Frame(usize, usize, Vec<u8>),
}

#[derive(Default)]
struct Node {
    health: Option<Health>,
    hung: bool,
    /// Frames that arrived while the node hung.
    inbox: Vec<(usize, Vec<u8>)>,
    /// Number of the only scheduled tick that is valid.
    epoch: u64,
    starts: u64,
}

/// A cluster in virtual time.
pub(super) struct Lab {
    pub(super) now: u64,
    pub(super) map: Map,
    pub(super) cabling: Arc<Cabling>,
    pub(super) config: Config,
    pub(super) dice: Dice,
    /// Maximum delay of a node's checks.
    pub(super) jitter: u64,
    /// Directions of each link, by the sending end.
    pub(super) ways: Vec<[Way; 2]>,
    nodes: Vec<Node>,
    events: BinaryHeap<Reverse<(u64, u64)>>,
    waiting: std::collections::HashMap<u64, Event>,
    count: u64,
    /// True if heartbeats may be refused.
    pub(super) tolerant: bool,
    /// True if some node's links have changed.
    changed: bool,
    /// Links that a node stopped using: time, node, link.
    pub(super) lost: Vec<(u64, usize, usize)>,
}

impl Lab {
    pub(super) fn new(map: Map, config: Config, seed: u64) -> Lab {
        let cabling = Arc::new(Cabling::new(&map).expect("few links"));
        let way = Way {
            delay: 50 * US,
            ..Way::default()
        };
        let mut lab = Lab {
            now: 1,
            ways: vec![[way.clone(), way]; map.links.len()],
            nodes: map.nodes.iter().map(|_| Node::default()).collect(),
            map,
            cabling,
            config,
            dice: Dice(seed),
            jitter: 200 * US,
            events: BinaryHeap::new(),
            waiting: Default::default(),
            count: 0,
            changed: false,
            tolerant: false,
            lost: Vec::new(),
        };
        for node in 0..lab.nodes.len() {
            lab.now = 1 + lab.dice.below(5 * MS);
            lab.start(node);
        }
        lab
    }

    fn at(&mut self, time: u64, event: Event) {
        self.count += 1;
        self.events.push(Reverse((time, self.count)));
        self.waiting.insert(self.count, event);
    }

    pub(super) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn health(&self, node: usize) -> Option<&Health> {
        self.nodes[node].health.as_ref()
    }

    pub(super) fn health_mut(&mut self, node: usize) -> Option<&mut Health> {
        self.nodes[node].health.as_mut()
    }

    /// Starts a node; one that ran before gets a new incarnation.
    pub(super) fn start(&mut self, node: usize) {
        self.nodes[node].starts += 1;
        let incarnation = self.nodes[node].starts * 1_000 * 1_000_000 * MS;
        self.start_as(node, incarnation);
    }

    pub(super) fn start_as(&mut self, node: usize, incarnation: u64) {
        let (cabling, config) = (Arc::clone(&self.cabling), self.config.clone());
        let me = node as u16;
        let health = Health::new(&self.map, cabling, me, incarnation, config, self.now);
        self.nodes[node].health = Some(health);
        self.nodes[node].hung = false;
        self.look(node);
    }

    /// Gives a node a cluster file with more nodes.
    pub(super) fn learn(&mut self, node: usize, more: &Map) {
        let cabling = Arc::new(Cabling::new(more).expect("few links"));
        let (me, now) = (node as u16, self.now);
        let mut new = Health::new(more, cabling, me, now, self.config.clone(), now);
        if let Some(old) = &self.nodes[node].health {
            new.follow(old, |node| {
                (node < old.cabling.nodes() as u16).then_some(node)
            });
        }
        self.nodes[node].health = Some(new);
        self.look(node);
    }

    /// Starts new nodes, and gives all others the new cluster file.
    pub(super) fn join(&mut self, more: Map) {
        self.cabling = Arc::new(Cabling::new(&more).expect("few links"));
        let way = self.ways[0].clone();
        self.ways.resize(more.links.len(), way);
        let old = std::mem::replace(&mut self.map, more).nodes.len();
        for node in old..self.map.nodes.len() {
            self.nodes.push(Node::default());
            self.start(node);
        }
    }

    pub(super) fn kill(&mut self, node: usize) {
        self.changed = true;
        self.nodes[node].health = None;
        self.nodes[node].inbox.clear();
    }

    /// Hangs a node for some time; frames to it wait.
    pub(super) fn hang(&mut self, node: usize, time: u64) {
        self.nodes[node].hung = true;
        self.at(self.now + time, Event::Wake(node));
    }

    /// Runs the cluster for some time.
    pub(super) fn run(&mut self, time: u64) {
        self.run_while(time, |_| true);
    }

    /// Runs the cluster for some time, or until `go` returns false; `go` sees each node's link states. Returns true
    /// if it did.
    pub(super) fn run_while(&mut self, time: u64, go: impl Fn(&Lab) -> bool) -> bool {
        let end = self.now + time;
        self.changed = true;
        while let Some(&Reverse((time, id))) = self.events.peek() {
            if time > end {
                break;
            }
            self.events.pop();
            self.now = self.now.max(time);
            if let Some(event) = self.waiting.remove(&id) {
                self.happen(event);
            }
            if std::mem::take(&mut self.changed) && !go(self) {
                return true;
            }
        }
        self.now = end;
        false
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Tick(node, epoch) if self.nodes[node].epoch == epoch => self.look(node),
            Event::Tick(..) => {}
            Event::Wake(node) => {
                self.nodes[node].hung = false;
                // The order of timer and frames is random.
                if self.dice.below(2) == 0 {
                    self.look(node);
                }
                for (own, bytes) in std::mem::take(&mut self.nodes[node].inbox) {
                    self.hear(node, own, &bytes);
                }
                self.look(node);
            }
            Event::Frame(node, own, bytes) => match self.nodes[node].hung {
                true => self.nodes[node].inbox.push((own, bytes)),
                false => {
                    self.hear(node, own, &bytes);
                    let due = self.health(node).map_or(u64::MAX, Health::due);
                    if due <= self.now {
                        self.look(node);
                    } else {
                        self.plan(node);
                    }
                }
            },
        }
    }

    fn hear(&mut self, node: usize, own: usize, bytes: &[u8]) {
        let now = self.now;
        if let Some(health) = &mut self.nodes[node].health {
            let heard = health.heard(own, bytes, now);
            assert!(heard.is_ok() || self.tolerant, "{heard:?}");
            self.note(node);
        }
    }

    fn look(&mut self, node: usize) {
        let mut out = Vec::new();
        if self.nodes[node].hung {
            return;
        }
        let Some(health) = &mut self.nodes[node].health else {
            return;
        };
        health.tick(self.now, &mut |own, bytes| out.push((own, bytes.to_vec())));
        self.note(node);
        for (own, bytes) in out {
            self.send(node, own, bytes);
        }
        self.plan(node);
    }

    /// Records links that a node stopped using.
    fn note(&mut self, node: usize) {
        let Some(health) = &mut self.nodes[node].health else {
            return;
        };
        if health.take_change() {
            self.changed = true;
            let links = 0..self.map.links.len();
            let down = links.filter(|&link| !health.links().up(link));
            self.lost.extend(down.map(|link| (self.now, node, link)));
        }
    }

    fn plan(&mut self, node: usize) {
        let Some(due) = self.health(node).map(Health::due) else {
            return;
        };
        let time = due.max(self.now + 1) + self.dice.below(self.jitter);
        self.nodes[node].epoch += 1;
        self.at(time, Event::Tick(node, self.nodes[node].epoch));
    }

    fn send(&mut self, node: usize, own: usize, bytes: Vec<u8>) {
        let Some(&end) = self.cabling.of(node as u16).get(own) else {
            return; // a cable that is not there yet
        };
        let side = usize::from(self.map.links[end.link].ends[1] == node as u16);
        let way = &mut self.ways[end.link][side];
        if way.cut || self.dice.below(1000) < way.loss {
            return;
        }
        let time = self.now + way.delay + self.dice.below(100 * US);
        way.last = way.last.max(time);
        let time = way.last;
        self.at(time, Event::Frame(usize::from(end.peer), end.index, bytes));
    }
}
