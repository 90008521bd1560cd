//! Liveness of links: each node watches the heartbeats of its peers, and tells all other nodes which links are up.
//!
//! Each node sends heartbeats on each of its links. A link is up for a node if it receives the peer's heartbeats well
//! and the peer reports the same of this node's. So a cable that carries one direction only is down. These states of
//! a node's links are its *record*. Heartbeats pass records on, changed ones first and at once. A link is used if it
//! is up in the records of both its ends.
//!
//! Heartbeats do not arrive well if the peer is silent for too long, if too many heartbeats are missing, or if they
//! take too long. At the first missing heartbeat both ends send heartbeats five times as often. So a lossy link is
//! distinguished from one lost frame in less time than the detection of a dead link takes. A link that failed must be
//! good for several heartbeats before it is up again; the number doubles each time that it soon fails again.
//!
//! A node whose own loop was late received nothing in that time. It counts that time neither as silence of its peers
//! nor as losses or delays.
//!
//! A peer that shares its processor may be late again. The send times in its heartbeats show how late it was,
//! independently of the link. For [`Config::settle`] its silence and its round-trip times may then be longer. A peer
//! is never dead before `dead`, and always after five times `dead`.
//!
//! Where frames of packets have codes, heartbeats also exchange the epochs ([`Life`]) of a link's ends, from which the
//! keys of those frames are derived. A pair of epochs is agreed when the peer's heartbeat contains its own epoch and
//! echoes this node's. A replayed heartbeat cannot contain this node's present epoch.

mod heartbeat;
mod link_state;
mod peer_link;
mod progress;
#[cfg(test)]
mod tests;

pub use heartbeat::{Beat, ETHERTYPE, Echo, Names, RECORDS_MAX, Record};
pub use link_state::{Cabling, End, LINKS_MAX};
pub use peer_link::Cause;

use crate::address::NodeId;
use crate::auth::{Keys, Life};
use crate::map::{Links, Map};
use link_state::{Gossip, SentRecords};
use peer_link::{Lateness, PeerLink};
use std::sync::Arc;

/// Number of heartbeats per interval at the first missing heartbeat, and for changed records.
const URGENT_FACTOR: u64 = 5;
/// Factor by which a slow link's round-trip time exceeds that of the best link.
const SLOW_FACTOR: u64 = 4;
/// Minimum time between two heartbeats of a link, in nanoseconds: the shortest interval divided by `URGENT_FACTOR`.
const INTERVAL_MIN_NS: u64 = 100_000 / URGENT_FACTOR;
/// Maximum time in nanoseconds that a node may have run after the last heartbeat that a peer received from it: one
/// hour.
const UNHEARD_MAX_NS: u64 = 3_600_000_000_000;

/// Greatest plausible lead of a version or incarnation over a node's own time, in nanoseconds (73 years): both count
/// the time of day. A greater number is refused, as the node itself could never exceed it and would never be believed
/// again.
const CLOCK_LEAD_MAX_NS: u64 = 1 << 61;

/// Sending and judging of heartbeats; times in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Time between two heartbeats.
    pub interval: u64,
    /// Silence after which a peer is dead.
    pub dead: u64,
    /// Number of good heartbeats that bring a link up; each missing or slow one cancels `window` of them.
    pub good_heartbeats: u32,
    /// A link that fails within this time after it came up needs twice as many good heartbeats the next time.
    pub settle: u64,
    /// Number of recent heartbeats among which losses are counted, at most 64.
    pub window: u32,
    /// Share of the recent heartbeats that may be missing.
    pub loss: f64,
    /// Acceptable round-trip time of a heartbeat; more if all links of a node are slow.
    pub slow: u64,
    /// Number of records in a sent heartbeat; at most [`RECORDS_MAX`] of a received one are read.
    pub records: usize,
    /// Cookie of the cluster's name.
    pub cookie: u8,
    /// Keys that authenticate heartbeats; heartbeats without a valid code are refused.
    pub keys: Option<Keys>,
    /// Names that authentication codes cover.
    pub names: Names,
    /// Epochs of the node's own links; all zero without keys.
    pub lives: Vec<Life>,
}

impl Default for Config {
    fn default() -> Config {
        const MS: u64 = 1_000_000;
        Config {
            interval: 5 * MS,
            dead: 40 * MS,
            good_heartbeats: 8,
            settle: 10_000 * MS,
            window: 16,
            loss: 0.25,
            slow: 10 * MS,
            records: 16,
            cookie: 0,
            keys: None,
            names: Names::default(),
            lives: Vec::new(),
        }
    }
}

impl Config {
    /// Silence after which a heartbeat is overdue.
    fn overdue_after_ns(&self) -> u64 {
        self.interval + self.interval / 2
    }
}

/// Reason why a heartbeat was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The frame is not a heartbeat, or has a later format.
    Malformed,
    /// Heartbeat of another cluster.
    Foreign,
    /// Signed with another key than the cluster's.
    Forged,
    /// The heartbeat was sent for another link.
    Misplaced,
    /// A duplicate, or older than the newest.
    Replayed,
}

impl Refused {
    /// All reasons, in the order of their names.
    pub const ALL: [Refused; 5] = [
        Refused::Malformed,
        Refused::Foreign,
        Refused::Forged,
        Refused::Misplaced,
        Refused::Replayed,
    ];

    /// The name of a drop.
    pub const fn name(self) -> &'static str {
        match self {
            Refused::Malformed => "malformed",
            Refused::Foreign => "foreign",
            Refused::Forged => "forged",
            Refused::Misplaced => "misplaced",
            Refused::Replayed => "replayed",
        }
    }
}

/// A node's judgement of one of its links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// The link, by its number in the cluster.
    pub link: usize,
    /// The node at the other end.
    pub peer: NodeId,
    /// True if both ends report the link up.
    pub used: bool,
    /// Reason why this node does not report the link up.
    pub cause: Cause,
    /// Time of the last change between hearing the peer well and not.
    pub since: u64,
    /// Number of missing heartbeats among the last ones.
    pub missing: u32,
    /// Round-trip time of the last heartbeat that shows one, in nanoseconds.
    pub delay: u64,
}

/// Last heartbeat sent on a link.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    sequence: u64,
    at: u64,
    told: SentRecords,
    /// Newest frame number to report; see [`Health::tell`].
    newest: u64,
    /// True if a heartbeat with changed records should be sent soon.
    has_changed_records: bool,
}

/// The heartbeats of one node.
#[derive(Debug)]
pub struct Health {
    me: NodeId,
    config: Config,
    cabling: Arc<Cabling>,
    incarnation: u64,
    /// Difference between the time of day and `now`.
    epoch: u64,
    peers: Vec<PeerLink>,
    sent: Vec<Sent>,
    gossip: Gossip,
    /// True if a new pair of epochs was agreed on since the last call of [`Health::take_agreement`].
    agreed: bool,
    /// Time of the last check, and time until which heartbeats may be late by this node's own fault.
    last_check: u64,
    blind_until: u64,
    /// Recent delays of this node.
    late: Lateness,
    records: Vec<Record>,
    bytes: Vec<u8>,
}

impl Health {
    /// Node `me`, started at `now`. `incarnation` is larger than at any earlier start: the time of day in
    /// nanoseconds will do.
    pub fn new(
        map: &Map,
        cabling: Arc<Cabling>,
        me: NodeId,
        incarnation: u64,
        config: Config,
        now: u64,
    ) -> Health {
        let own = cabling.of(me).len();
        let mut gossip = Gossip::new(map, &cabling);
        gossip.store(
            Record {
                node: me,
                version: incarnation.max(1),
                up: 0,
            },
            &cabling,
        );
        Health {
            me,
            incarnation: incarnation.max(1),
            epoch: incarnation.saturating_sub(now),
            peers: vec![PeerLink::new(&config, now); own],
            sent: vec![Sent::default(); own],
            gossip,
            agreed: false,
            last_check: now,
            blind_until: 0,
            late: Lateness::default(),
            records: Vec::with_capacity(config.records),
            bytes: Vec::new(),
            config,
            cabling,
        }
    }

    /// Continues the state of `old` after the cluster has changed. `old_of` returns a node's number in the old cluster.
    ///
    /// No link goes down while other nodes still have the old cluster, provided that new nodes and links have the
    /// highest numbers.
    pub fn follow(&mut self, old: &Health, old_of: impl Fn(NodeId) -> Option<NodeId>) {
        self.incarnation = old.incarnation;
        (self.last_check, self.blind_until, self.late) =
            (old.last_check, old.blind_until, old.late);
        let cables = old.cabling.of(old.me);
        for (own, end) in self.cabling.of(self.me).iter().enumerate() {
            let same = |was: &End| {
                Some(was.peer) == old_of(end.peer) && was.parallel_index == end.parallel_index
            };
            if let Some(was) = cables.iter().position(same) {
                self.peers[own] = old.peers[was].clone();
                let Sent { sequence, at, .. } = old.sent[was];
                (self.sent[own].sequence, self.sent[own].at) = (sequence, at);
            } else {
                // The peer may know this link from before: continue after all sequence numbers that can have been
                // used since the start.
                let sent = &mut self.sent[own];
                (sent.sequence, sent.at) = (old.last_check / INTERVAL_MIN_NS, old.last_check);
            }
        }
        for node in (0..self.cabling.nodes()).map(|node| node as NodeId) {
            let Some(was) = old_of(node) else {
                continue;
            };
            let mut record = Record {
                node,
                ..old.gossip.record(was)
            };
            if node == self.me {
                let mine = self.gossip.record(node);
                record = Record {
                    version: record.version.max(mine.version).saturating_add(1),
                    ..mine
                };
            }
            self.gossip.store(record, &self.cabling);
        }
        self.record();
    }

    /// The links that are used, as far as this node knows.
    pub fn links(&self) -> &Links {
        self.gossip.links()
    }

    /// True if [`links`](Self::links) has changed since the last call.
    pub fn take_change(&mut self) -> bool {
        self.gossip.take_change()
    }

    /// The peer's epoch of an own link, if both ends know each other's epochs.
    pub fn agreed(&self, own: usize) -> Option<Life> {
        self.peers.get(own)?.agreed
    }

    /// True if [`agreed`](Self::agreed) has changed for some link since the last call.
    pub fn take_agreement(&mut self) -> bool {
        std::mem::take(&mut self.agreed)
    }

    /// Sets the frame number that the next heartbeat reports: the newest one sent on a lane of an own link. Lanes
    /// take turns.
    pub fn tell(&mut self, own: usize, newest: u64) {
        if let Some(sent) = self.sent.get_mut(own) {
            sent.newest = newest;
        }
    }

    /// Number of the newest frame that the peer reports to have sent on an own link (see [`tell`](Self::tell)); 0 if
    /// none.
    pub fn told(&self, own: usize) -> u64 {
        self.peers.get(own).map_or(0, |hearing| hearing.newest)
    }

    /// Compares a frame number that the peer reported with those received here: `come` is the newest of that lane,
    /// and `refused` the number of refused frames of the link. A link whose frames do not arrive is not used.
    pub fn compare(&mut self, own: usize, come: (u64, u64), now: u64) {
        if let Some(hearing) = self.peers.get_mut(own)
            && hearing.progress.is_stuck(hearing.newest, come, now)
            && hearing.receives_peer
        {
            hearing.fail(Cause::Stuck, &self.config, now);
            self.record();
        }
    }

    fn life(&self, own: usize) -> Life {
        self.config.lives.get(own).copied().unwrap_or_default()
    }

    /// Judgements of this node about its own links.
    pub fn states(&self) -> impl Iterator<Item = LinkState> + '_ {
        let ends = self.cabling.of(self.me).iter();
        ends.zip(&self.peers).map(|(end, hearing)| LinkState {
            link: end.link,
            peer: end.peer,
            used: self.links().up(end.link),
            cause: hearing.cause(),
            since: hearing.since,
            missing: hearing.missing(&self.config),
            delay: hearing.delay,
        })
    }

    /// Time of the last call of [`tick`](Self::tick).
    pub fn last_check(&self) -> u64 {
        self.last_check
    }

    /// Parameters of the judgement.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Time at which [`tick`](Self::tick) should be called next. It may be called earlier, and late.
    pub fn due(&self) -> u64 {
        let sends = (0..self.sent.len()).map(|own| self.send_due(own, self.last_check));
        let hears = self
            .peers
            .iter()
            .map(|h| h.next_change_at(&self.config, self.last_check));
        sends.chain(hears).min().unwrap_or(u64::MAX)
    }

    /// Judges silent peers, and passes due heartbeats to `send`, by own link.
    pub fn tick(&mut self, now: u64, send: &mut dyn FnMut(usize, &[u8])) {
        for hearing in &mut self.peers {
            hearing.exclude_own_lateness(self.last_check, &self.config, now);
            hearing.listen(&self.config, now);
        }
        if self.is_late(now) {
            self.blind_until = now + self.config.interval;
        }
        let late = self.lateness(now);
        let behind = late.saturating_sub(self.config.interval);
        self.late.add(behind, late, &self.config);
        self.last_check = now;
        self.record();
        for own in 0..self.sent.len() {
            if self.send_due(own, now) <= now {
                self.write(own, now);
                send(own, &self.bytes);
            }
        }
    }

    /// Round-trip time above which an own link counts as slow. A full queue is no failure: taking the link down would
    /// move its load to other links until all were down. So a link is slow only relative to the best link that could
    /// carry its load. Time that heartbeats wait for a late node does not count.
    fn slow(&self, own: usize) -> u64 {
        let others = self.peers.iter().enumerate().filter(|(i, _)| *i != own);
        let up = others.filter(|(_, hearing)| hearing.up());
        let best = up.map(|(_, hearing)| hearing.delay).min();
        let waits = 2 * (self.late.worst() + self.peers[own].lateness_ns());
        best.map_or(u64::MAX, |delay| {
            self.config.slow.max(delay.saturating_mul(SLOW_FACTOR)) + waits
        })
    }

    /// Processes a frame that arrived on an own link; `bytes` begins with the addresses. [`due`](Self::due) may be
    /// earlier afterwards.
    pub fn heard(&mut self, own: usize, bytes: &[u8], now: u64) -> Result<(), Refused> {
        let Config {
            cookie,
            keys,
            names,
            ..
        } = &self.config;
        let (beat, records) = Beat::parse(bytes, *cookie, (keys.as_ref(), names))?;
        let end = self
            .cabling
            .of(self.me)
            .get(own)
            .ok_or(Refused::Misplaced)?;
        let place = (end.peer, self.me, end.parallel_index as u32);
        if (beat.from, beat.to, beat.link) != place {
            return Err(Refused::Misplaced);
        }
        let late = now < self.blind_until || self.is_late(now);
        let (slow, me) = (self.slow(own), (self.incarnation, self.life(own)));
        let hearing = &mut self.peers[own];
        let latest = self
            .epoch
            .saturating_add(now)
            .saturating_add(CLOCK_LEAD_MAX_NS);
        if beat.incarnation == 0 || beat.sequence == 0 || beat.incarnation > latest {
            return Err(Refused::Malformed);
        }
        if hearing.is_old(&beat) {
            return Err(Refused::Replayed);
        }
        let (before, agreed) = (
            (hearing.receives_peer, hearing.received_by_peer),
            hearing.agreed,
        );
        hearing.process_heartbeat(&beat, me, (late, slow), &self.config, now);
        self.agreed |= agreed != hearing.agreed;
        let mut has_changed_records = before != (hearing.receives_peer, hearing.received_by_peer);
        // The peer knows a later run of this node, made while this node's clock was ahead. So the incarnation must
        // exceed that run's incarnation.
        let echo = (beat.echo.incarnation, beat.echo.time);
        if echo > (self.incarnation, self.sent[own].at) {
            let end = beat.echo.incarnation.saturating_add(beat.echo.time);
            let next = end.saturating_add(UNHEARD_MAX_NS);
            if next <= latest {
                self.incarnation = next;
            }
        }
        for record in records.filter(|record| record.version <= latest) {
            has_changed_records |= match record.node == self.me {
                true => self.supersede(record),
                false => self.gossip.store(record, &self.cabling),
            };
        }
        if has_changed_records {
            self.record();
            self.sent
                .iter_mut()
                .for_each(|sent| sent.has_changed_records = true);
        }
        Ok(())
    }

    /// Nanoseconds since this node's last check.
    pub fn lateness(&self, now: u64) -> u64 {
        now.saturating_sub(self.last_check)
    }

    /// True if this node's last check was too long ago.
    fn is_late(&self, now: u64) -> bool {
        self.lateness(now) > 2 * self.config.interval
    }

    /// Time at which the next heartbeat of an own link is due.
    fn send_due(&self, own: usize, now: u64) -> u64 {
        let (sent, hearing) = (&self.sent[own], &self.peers[own]);
        let haste = sent.has_changed_records
            || hearing.is_probed(now)
            || hearing.is_suspect(&self.config, now);
        let step = if haste {
            self.config.interval / URGENT_FACTOR
        } else {
            self.config.interval
        };
        sent.at + step
    }

    /// Makes this node's record newer than a record from an earlier run that other nodes still pass on.
    fn supersede(&mut self, record: Record) -> bool {
        let mine = self.gossip.record(self.me);
        record.version > mine.version && {
            let version = record.version.saturating_add(1);
            self.gossip.store(Record { version, ..mine }, &self.cabling)
        }
    }

    /// Updates this node's record of its links, if their states have changed.
    fn record(&mut self) {
        let mine = self.gossip.record(self.me);
        let bits = self.peers.iter().enumerate();
        let up = bits.fold(0, |up, (own, hearing)| up | u64::from(hearing.up()) << own);
        if up != mine.up {
            let version = mine.version.saturating_add(1);
            let record = Record {
                version,
                up,
                ..mine
            };
            self.gossip.store(record, &self.cabling);
            self.sent
                .iter_mut()
                .for_each(|sent| sent.has_changed_records = true);
        }
    }

    /// Writes the next heartbeat of an own link to `bytes`.
    fn write(&mut self, own: usize, now: u64) {
        let life = self.life(own);
        let (sent, hearing) = (&mut self.sent[own], &self.peers[own]);
        let end = &self.cabling.of(self.me)[own];
        sent.sequence += 1;
        (sent.at, sent.has_changed_records) = (now, false);
        self.records.clear();
        let most = self.config.records.clamp(2, RECORDS_MAX);
        self.gossip
            .fill_records(&mut sent.told, self.me, most, &mut self.records);
        let beat = Beat {
            from: self.me,
            to: end.peer,
            link: end.parallel_index as u32,
            receives_peer: hearing.receives_peer,
            probe: hearing.is_suspect(&self.config, now),
            incarnation: self.incarnation,
            sequence: sent.sequence,
            time: now,
            epoch: life,
            newest: sent.newest,
            echo: hearing.echo(now),
        };
        self.bytes.clear();
        let key = self.config.keys.as_ref().map(Keys::first);
        let proof = (key, &self.config.names);
        beat.write(&self.records, self.config.cookie, proof, &mut self.bytes);
    }
}
