//! Agreement of balancers about planned moves of buckets: both directions of a flow reach the same back end, although
//! they enter by different balancers.
//!
//! A balancer tells its peers which buckets wait to move, and which of these are busy. A bucket that is busy at a peer
//! does not move; a bucket that has moved at a peer moves at once. An operator's change at one balancer is sent to the
//! others. Messages of a peer that is silent, or has another configuration file, have no effect.

use super::message::{
    Body, CHUNK, CHUNKS, Chunk, MEMBERS_MAX, Message, Setting, TableState, WORDS,
};
use super::{BUCKETS, Pool};

/// Nanoseconds between messages to peers while nothing moves.
const MESSAGE_INTERVAL_NS: u64 = 100_000_000;
/// Time in nanoseconds without a message after which a peer's state has no effect.
const SILENCE_MAX_NS: u64 = 350_000_000;
/// Silence in nanoseconds after which a peer may restart its message sequence numbers.
const RESTART_SILENCE_NS: u64 = 1_000_000_000;
const ALL_WORDS: usize = BUCKETS / 64;

/// State of one table of a peer, as received.
struct Seen {
    state: TableState,
    /// For each part of the table, a bit: set if the peer has sent the part since the digest last changed.
    received_parts: u16,
    waiting: Box<[u64]>,
    busy: Box<[u64]>,
}

impl Seen {
    fn new() -> Seen {
        Seen {
            state: TableState::default(),
            received_parts: 0,
            waiting: vec![0; ALL_WORDS].into(),
            busy: vec![0; ALL_WORDS].into(),
        }
    }

    fn learn(&mut self, state: TableState) {
        if self.state.digest != state.digest || !self.state.is_moving {
            self.received_parts = 0;
        }
        self.state = state;
    }
}

/// Another balancer.
#[derive(Default)]
struct Peer {
    received_at: Option<u64>,
    sequence: u64,
    version: u64,
    /// True if the peer's messages arrive and the peer has the same configuration file, so that its state has an
    /// effect.
    has_say: bool,
    tables: Vec<Seen>,
}

/// Result of processing a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The message is older than one that was already processed.
    Old,
    /// The message was accepted; holds the numbers of back ends whose setting it changed.
    Learnt(Vec<u16>),
}

/// Relation to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// No message of the peer arrives.
    Silent,
    /// The peer's file differs; its version.
    OtherFile(u64),
    /// The peer's messages arrive and the peer has the same file: both agree on each move.
    Agrees,
}

/// Agreement of a balancer with its peers.
pub struct Agreement {
    version: u64,
    peers: Vec<Peer>,
    sequence: u64,
    sent: Vec<TableState>,
    settings: Vec<(u64, Setting)>,
    sent_at: Option<u64>,
}

impl Agreement {
    /// Makes the state before any peer's message has arrived. `version` is the digest of the parts that all
    /// configuration files must have in common. `sequence` must exceed the sequence numbers of all messages before a
    /// restart; the time of day in nanoseconds will do.
    pub fn new(version: u64, peers: usize, sequence: u64) -> Agreement {
        Agreement {
            version,
            peers: (0..peers).map(|_| Peer::default()).collect(),
            sequence,
            sent: Vec::new(),
            settings: Vec::new(),
            sent_at: None,
        }
    }

    /// Sets a lower bound for sequence numbers of future messages, such as the time of day in nanoseconds.
    pub fn count_from(&mut self, sequence: u64) {
        self.sequence = self.sequence.max(sequence);
    }

    /// Continues an earlier agreement: sequence numbers continue, and peers that `old_number` finds keep their state.
    pub fn follow(&mut self, mut old: Agreement, old_number: impl Fn(usize) -> Option<usize>) {
        self.sequence = self.sequence.max(old.sequence);
        for (at, peer) in self.peers.iter_mut().enumerate() {
            if let Some(known) = old_number(at).and_then(|at| old.peers.get_mut(at)) {
                *peer = std::mem::take(known);
            }
        }
    }

    /// Processes a message of a peer, by the peer's number.
    pub fn hear(&mut self, peer: usize, message: Message, now: u64, pool: &Pool) -> Heard {
        let Some(peer) = self.peers.get_mut(peer) else {
            return Heard::Old;
        };
        let lately = |at: u64| now.saturating_sub(at) < RESTART_SILENCE_NS;
        if message.sequence <= peer.sequence && peer.received_at.is_some_and(lately) {
            return Heard::Old;
        }
        (peer.received_at, peer.sequence) = (Some(now), message.sequence);
        peer.version = message.version;
        let mut learnt = Vec::new();
        if message.version != self.version {
            return Heard::Learnt(learnt);
        }
        match message.body {
            Body::Members(all) => {
                learnt.extend(all.iter().filter_map(|(key, new)| pool.learn(*key, *new)));
            }
            Body::Tables(all) => {
                peer.tables.resize_with(all.len(), Seen::new);
                for (seen, state) in peer.tables.iter_mut().zip(all) {
                    seen.learn(state);
                }
            }
            Body::Buckets(chunk) => {
                if let Some(seen) = peer.tables.get_mut(usize::from(chunk.table)) {
                    seen.learn(TableState {
                        digest: chunk.digest,
                        is_moving: true,
                    });
                    let at = usize::from(chunk.at);
                    let words = at * WORDS..(at + 1) * WORDS;
                    seen.waiting[words.clone()].copy_from_slice(&chunk.waiting);
                    seen.busy[words].copy_from_slice(&chunk.busy);
                    seen.received_parts |= 1 << at;
                }
            }
        }
        self.apply(now, pool);
        Heard::Learnt(learnt)
    }

    /// The relation to the peer with number `peer`, and the age of its last message in nanoseconds.
    pub fn relation(&self, peer: usize, now: u64) -> (Relation, Option<u64>) {
        let Some(peer) = self.peers.get(peer) else {
            return (Relation::Silent, None);
        };
        let age = peer.received_at.map(|at| now.saturating_sub(at));
        let relation = match age {
            Some(age) if age < SILENCE_MAX_NS => match peer.version == self.version {
                true => Relation::Agrees,
                false => Relation::OtherFile(peer.version),
            },
            _ => Relation::Silent,
        };
        (relation, age)
    }

    /// Updates the buckets that may not move, and moves the buckets that have moved at a peer.
    fn apply(&mut self, now: u64, pool: &Pool) {
        for at in 0..self.peers.len() {
            let has_say = self.relation(at, now).0 == Relation::Agrees;
            self.peers[at].has_say = has_say;
        }
        for (table, own) in pool.tables().into_iter().enumerate() {
            if !own.is_moving {
                continue;
            }
            let peers = self.peers.iter().filter(|peer| peer.has_say);
            let all: Vec<&Seen> = peers.filter_map(|peer| peer.tables.get(table)).collect();
            for word in 0..ALL_WORDS {
                let (mut held, mut moved) = (0, 0);
                for seen in &all {
                    if seen.state.digest != own.digest {
                        held = u64::MAX;
                    } else if !seen.state.is_moving {
                        moved = u64::MAX;
                    } else if seen.received_parts >> (word / WORDS) & 1 == 0 {
                        held = u64::MAX;
                    } else {
                        held |= seen.busy[word];
                        moved |= !seen.waiting[word];
                    }
                }
                pool.hold(table, word, held, moved);
            }
        }
    }

    /// Messages that are due. Call it several times in each [`super::Settings::idle`].
    pub fn tick(&mut self, now: u64, pool: &Pool, mut send: impl FnMut(Message)) {
        if self.peers.is_empty() {
            return;
        }
        self.apply(now, pool);
        let (tables, settings) = (pool.tables(), pool.settings_by_hand());
        let is_due = self
            .sent_at
            .is_none_or(|at| now.saturating_sub(at) >= MESSAGE_INTERVAL_NS);
        if is_due || tables != self.sent || settings != self.settings {
            for some in settings.chunks(MEMBERS_MAX) {
                send(self.message(Body::Members(some.to_vec())));
            }
            send(self.message(Body::Tables(tables.clone())));
            (self.sent, self.settings, self.sent_at) = (tables.clone(), settings, Some(now));
        }
        for (table, state) in tables.iter().enumerate() {
            if !state.is_moving {
                continue;
            }
            for at in 0..CHUNKS {
                let mut chunk = Chunk {
                    table: table as u8,
                    at: at as u8,
                    digest: state.digest,
                    waiting: [0; WORDS],
                    busy: [0; WORDS],
                };
                for bit in 0..CHUNK {
                    let (waits, is_busy) = pool.waits(table, at * CHUNK + bit, now);
                    chunk.waiting[bit / 64] |= u64::from(waits) << (bit % 64);
                    chunk.busy[bit / 64] |= u64::from(is_busy) << (bit % 64);
                }
                send(self.message(Body::Buckets(Box::new(chunk))));
            }
        }
    }

    fn message(&mut self, body: Body) -> Message {
        self.sequence += 1;
        Message {
            sequence: self.sequence,
            version: self.version,
            body,
        }
    }
}
