//! A node's judgement of the path from one peer to itself.

use super::Config;
use super::heartbeat::{Beat, Echo};
use super::progress::Progress;
use crate::auth::Life;
use std::fmt;

/// Reason why a link is down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cause {
    /// No fault.
    None,
    /// No heartbeat has arrived yet, or not enough in succession.
    #[default]
    New,
    /// The peer is silent.
    Silent,
    /// Too many heartbeats are missing.
    Lossy,
    /// Heartbeats take too long, there and back.
    Slow,
    /// The peer was started again.
    Restarted,
    /// The peer does not receive this node's heartbeats.
    Unheard,
    /// Heartbeats arrive, but all packet frames of the peer are refused: they are forged or replayed.
    Stuck,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::None => "up",
            Cause::New => "new",
            Cause::Silent => "silent",
            Cause::Lossy => "lossy",
            Cause::Slow => "slow",
            Cause::Restarted => "restarted",
            Cause::Unheard => "unheard",
            Cause::Stuck => "stuck",
        })
    }
}

/// Number of successive slow heartbeats that make a link slow; they must span over half of [`Config::dead_after_ns`].
/// One may have waited for a late peer, and several that waited for the same processor arrive together.
const SLOW_RUN: u32 = 3;
/// Greatest lateness that is remembered, in units of [`Config::dead_after_ns`].
const LATENESS_MAX_DEADS: u64 = 2;
/// Greatest number of good heartbeats that is ever required.
const GOOD_MAX: u32 = 1024;

/// Lateness of a node's loop in nanoseconds: the maximum, which decays within [`Config::settle`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lateness(u64);

impl Lateness {
    /// Adds an observation of lateness, `since` nanoseconds after the previous one.
    pub(super) fn add(&mut self, late: u64, since: u64, config: &Config) {
        let faded = since as f64 / config.settle.max(1) as f64;
        let before = self.0 - (self.0 as f64 * faded.min(1.0)) as u64;
        self.0 = before.max(late.min(LATENESS_MAX_DEADS * config.dead));
    }

    /// Nanoseconds.
    pub(super) fn worst(self) -> u64 {
        self.0
    }
}

/// Knowledge about one peer over one link.
#[derive(Clone, Debug, Default)]
pub(super) struct PeerLink {
    /// The peer's incarnation; 0 if no heartbeat has ever arrived.
    incarnation: u64,
    /// The peer's epoch of the link, and the epoch that the peer states in heartbeats that echo this node's own.
    peer_epoch: Life,
    pub(super) agreed: Option<Life>,
    sequence: u64,
    /// Newest frame number reported by the peer.
    pub(super) newest: u64,
    pub(super) progress: Progress,
    /// Peer's clock in the newest heartbeat.
    time: u64,
    /// Arrival time of the newest heartbeat.
    at: u64,
    /// Part of the silence in nanoseconds during which this node itself did not listen.
    excused: u64,
    /// Recent delays of the peer, in nanoseconds.
    late: Lateness,
    /// Bit map of the newest heartbeats, the last one lowest: 1 = missing.
    missing: u64,
    /// Number of consecutive slow heartbeats, and the arrival of the first of them.
    slow: u32,
    slow_since: u64,
    /// Number of good heartbeats while the link is down, minus `window` for each bad one.
    run: u32,
    /// Number of good heartbeats that bring the link up.
    needed: u32,
    /// Round-trip time of the last heartbeat that shows one.
    pub(super) delay: u64,
    /// True if the peer's heartbeats arrive well.
    pub(super) receives_peer: bool,
    /// True if the peer receives this node's heartbeats well.
    pub(super) received_by_peer: bool,
    /// Time of the last change of `receives_peer`.
    pub(super) since: u64,
    /// Time until which the peer requests more frequent heartbeats.
    probed_until: u64,
    cause: Cause,
}

impl PeerLink {
    pub(super) fn new(config: &Config, now: u64) -> PeerLink {
        PeerLink {
            at: now,
            needed: config.good_heartbeats,
            since: now,
            ..PeerLink::default()
        }
    }

    /// True if the link carries packets, as far as this node can tell.
    pub(super) fn up(&self) -> bool {
        self.receives_peer && self.received_by_peer
    }

    /// Reason why the link does not carry packets.
    pub(super) fn cause(&self) -> Cause {
        match self.receives_peer {
            true if self.received_by_peer => Cause::None,
            true => Cause::Unheard,
            false => self.cause,
        }
    }

    /// Echo of the peer's last heartbeat, for this node's next heartbeat.
    pub(super) fn echo(&self, now: u64) -> Echo {
        match self.incarnation {
            0 => Echo::default(),
            incarnation => Echo {
                incarnation,
                peer_epoch: self.peer_epoch,
                time: self.time,
                age: now.saturating_sub(self.at),
            },
        }
    }

    /// Number of missing heartbeats among the last `window`.
    pub(super) fn missing(&self, config: &Config) -> u32 {
        (self.missing & (u64::MAX >> (64 - config.window.clamp(1, 64)))).count_ones()
    }

    /// Nanoseconds of silence of the peer while this node listened.
    fn silence_ns(&self, now: u64) -> u64 {
        now.saturating_sub(self.at).saturating_sub(self.excused)
    }

    /// Excludes from the peer's silence the time in which this node itself was late. It checked at `last_check` and
    /// at `now`; the time beyond two intervals is its own delay.
    pub(super) fn exclude_own_lateness(&mut self, last_check: u64, config: &Config, now: u64) {
        let since = now.saturating_sub(last_check.max(self.at));
        self.excused += since.saturating_sub(2 * config.interval);
    }

    /// Silence after which the peer is dead. It is longer for a peer that was late, because it may be late again.
    fn dead_after_ns(&self, config: &Config) -> u64 {
        config.dead + 2 * self.late.worst()
    }

    /// Silence after which a heartbeat is overdue.
    fn overdue_after_ns(&self, config: &Config) -> u64 {
        config.overdue_after_ns() + self.late.worst()
    }

    /// Maximum recent delay of the peer, in nanoseconds.
    pub(super) fn lateness_ns(&self) -> u64 {
        self.late.worst()
    }

    /// Takes the link down if the peer is silent.
    pub(super) fn listen(&mut self, config: &Config, now: u64) {
        if self.receives_peer && self.silence_ns(now) >= self.dead_after_ns(config) {
            self.fail(Cause::Silent, config, now);
        }
    }

    /// Time at which silence would change the state.
    pub(super) fn next_change_at(&self, config: &Config, now: u64) -> u64 {
        let base = self.at + self.excused;
        match (self.receives_peer, self.overdue(config, now)) {
            (false, _) => u64::MAX,
            (true, false) => base + self.overdue_after_ns(config),
            (true, true) => base + self.dead_after_ns(config),
        }
    }

    fn overdue(&self, config: &Config, now: u64) -> bool {
        self.silence_ns(now) >= self.overdue_after_ns(config)
    }

    /// True if the link is up but in doubt, so that more frequent heartbeats are needed.
    pub(super) fn is_suspect(&self, config: &Config, now: u64) -> bool {
        self.receives_peer && (self.missing(config) > 0 || self.overdue(config, now))
    }

    /// True if the peer requests more frequent heartbeats.
    pub(super) fn is_probed(&self, now: u64) -> bool {
        now < self.probed_until
    }

    /// True if `beat` is a duplicate, or comes from an earlier run of the peer.
    pub(super) fn is_old(&self, beat: &Beat) -> bool {
        (beat.incarnation, beat.sequence) <= (self.incarnation, self.sequence)
    }

    /// Processes a heartbeat of the peer. `me` is this node's incarnation and its epoch of the link. If `late` is
    /// true, heartbeats may have waited or been lost because this node did not listen. A round trip longer than
    /// `slow` counts as slow.
    pub(super) fn process_heartbeat(
        &mut self,
        beat: &Beat,
        me: (u64, Life),
        (late, slow): (bool, u64),
        config: &Config,
        now: u64,
    ) {
        if beat.incarnation != self.incarnation {
            self.handle_restart(beat, config, now);
        }
        let gap = beat.sequence - self.sequence - 1;
        if gap == 0 {
            // Lateness by the peer's own clock, which no cable delay can increase.
            let late = beat.time.saturating_sub(self.time + config.interval);
            self.late.add(late, now.saturating_sub(self.at), config);
        }
        self.sequence = beat.sequence;
        (self.time, self.at, self.excused) = (beat.time, now, 0);
        (self.peer_epoch, self.newest) = (beat.epoch, beat.newest);
        if beat.probe {
            self.probed_until = now + 2 * config.interval;
        }
        // A peer that echoes both numbers has received a heartbeat of this epoch, so its heartbeat is no replay.
        let known = (beat.echo.incarnation, beat.echo.peer_epoch) == me;
        if known {
            self.agreed = Some(beat.epoch);
        }
        self.received_by_peer = known && beat.receives_peer;
        self.missing = self.missing.checked_shl(1).unwrap_or(0);
        if gap > 0 && !late {
            let gap = gap.min(63) as u32;
            self.missing = self.missing << gap | ((1 << gap) - 1) << 1;
        }
        if known && !late {
            self.delay = now
                .saturating_sub(beat.echo.time)
                .saturating_sub(beat.echo.age);
            if self.delay <= slow {
                self.slow = 0;
            } else {
                if self.slow == 0 {
                    self.slow_since = now;
                }
                self.slow += 1;
            }
        }
        let lost = if late { 0 } else { gap.min(63) as u32 };
        self.update_state(lost, config, now);
    }

    /// Updates the judgement after a heartbeat; `lost` heartbeats were missing right before it.
    fn update_state(&mut self, lost: u32, config: &Config, now: u64) {
        let window = config.window.clamp(1, 64);
        if self.receives_peer {
            if f64::from(self.missing(config)) > config.loss * f64::from(window) {
                self.fail(Cause::Lossy, config, now);
            } else if self.slow >= SLOW_RUN && now - self.slow_since >= config.dead / 2 {
                self.fail(Cause::Slow, config, now);
            }
            return;
        }
        // A bad heartbeat cancels only `window` good ones. If it cancelled all, a link with few losses and a high
        // requirement would never come up again.
        self.run = match lost + u32::from(self.slow > 0) {
            0 => self.run + 1,
            bad => self.run.saturating_sub(bad * window),
        };
        if self.run >= self.needed {
            (self.receives_peer, self.since, self.missing) = (true, now, 0);
        }
    }

    /// Handles a restart of the peer: earlier knowledge is invalid.
    fn handle_restart(&mut self, beat: &Beat, config: &Config, now: u64) {
        if self.receives_peer {
            self.fail(Cause::Restarted, config, now);
        }
        self.incarnation = beat.incarnation;
        // Counting starts at the first heartbeat that arrives.
        (self.sequence, self.time) = (beat.sequence - 1, beat.time);
        (self.missing, self.slow, self.run) = (0, 0, 0);
    }

    /// Takes the link down. A link that fails soon after it came up then needs more good heartbeats.
    pub(super) fn fail(&mut self, cause: Cause, config: &Config, now: u64) {
        let soon = now.saturating_sub(self.since) < config.settle;
        self.needed = match soon {
            true => (self.needed * 2).min(GOOD_MAX.max(config.good_heartbeats)),
            false => config.good_heartbeats,
        };
        (self.receives_peer, self.since, self.cause, self.run) = (false, now, cause, 0);
    }
}
