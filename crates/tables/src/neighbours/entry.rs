//! An entry of the neighbour table, and the rules by which time, packets and answers change it.

use wire::EtherAddr;

/// State of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// A probe was sent; the address is unknown.
    Incomplete = 1,
    /// The address was confirmed recently.
    Reachable,
    /// The address is known, but was not confirmed recently.
    Stale,
    /// The address was used while stale, and is being probed.
    Probe,
    /// Configured.
    Permanent,
}

impl State {
    #[inline]
    pub(super) fn from_byte(byte: u8) -> Option<State> {
        Some(match byte {
            1 => State::Incomplete,
            2 => State::Reachable,
            3 => State::Stale,
            4 => State::Probe,
            5 => State::Permanent,
            _ => return None,
        })
    }
}

/// An entry. Times are nanoseconds on the clock that the callers use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    /// The link-layer address; zeros while incomplete.
    pub mac: EtherAddr,
    /// State of the entry.
    pub state: State,
    /// Number of probes sent since the neighbour was last confirmed. In state Incomplete, 0 means: the neighbour has
    /// not answered, and is not asked again before `probe_at`.
    pub tries: u8,
    /// Time of the last confirmation, or of creation if there was none.
    pub confirmed: u64,
    /// Earliest time of the next probe.
    pub probe_at: u64,
}

impl Neighbour {
    /// The address to send to, if it is known.
    #[inline]
    pub fn known(&self) -> Option<EtherAddr> {
        (self.state != State::Incomplete).then_some(self.mac)
    }

    /// The address, if it may be used without a probe.
    #[inline]
    fn usable_address(&self) -> Option<EtherAddr> {
        is_sure(self.state).then_some(self.mac)
    }

    /// Makes an entry whose address has just been confirmed.
    pub(super) fn confirmed(mac: EtherAddr, state: State, now: u64) -> Neighbour {
        Neighbour {
            mac,
            state,
            tries: 0,
            confirmed: now,
            probe_at: now,
        }
    }
}

/// True if packets may be sent to an entry's address without a probe.
#[inline]
pub(super) fn is_sure(state: State) -> bool {
    matches!(state, State::Reachable | State::Permanent)
}

/// Times (in nanoseconds) and counts of the state machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Lifetime of an answer (RFC 4861: ReachableTime).
    pub reachable: u64,
    /// Time between probes, and before a neighbour that did not answer is probed again (RetransTimer).
    pub retry: u64,
    /// Time since confirmation after which an unused stale entry is removed.
    pub idle: u64,
    /// Number of probes before a neighbour counts as unreachable (MAX_MULTICAST_SOLICIT).
    pub tries: u8,
    /// Time between probes after `tries` of them, for callers that never report a neighbour as unreachable (Click's
    /// ARPQuerier). An old answer is then used for at most `idle`.
    pub slow_interval: Option<u64>,
    /// True if the kernel resolves neighbours and reports them here. A known address is then used until the kernel
    /// reports another, and is probed occasionally while it is stale.
    pub told: bool,
}

impl Default for Timing {
    /// RFC 4861's values, and the usual ARP time-out of 20 minutes.
    fn default() -> Self {
        const SECOND: u64 = 1_000_000_000;
        Timing {
            reachable: 30 * SECOND,
            retry: SECOND,
            idle: 1200 * SECOND,
            tries: 3,
            slow_interval: None,
            told: false,
        }
    }
}

/// Probe to send for a packet to a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// No probe: the address is known, or a probe is under way.
    NoProbe,
    /// Send a probe to all stations (ARP broadcast, or solicitation to the multicast group).
    All,
    /// Send a probe to this address.
    One(EtherAddr),
    /// Give up: the neighbour has not answered.
    Unreachable,
}

/// Result of [`Neighbours::expire`](super::Neighbours::expire) for an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The entry was reachable and now is stale.
    BecameStale,
    /// [`Neighbours::ask`](super::Neighbours::ask) should be called again.
    ProbeDue,
    /// The neighbour never answered; the entry is removed.
    Failed,
    /// The entry was stale for long and is removed.
    Removed,
}

/// Change of an entry.
pub(super) enum Change {
    Keep,
    Put(Neighbour),
    Remove,
}

impl Change {
    /// True if the entry then has another address that needs no probe than `before`.
    pub(super) fn makes_address_sure(&self, before: Option<&Neighbour>) -> bool {
        let sure = before.and_then(Neighbour::usable_address);
        match self {
            Change::Keep => false,
            Change::Put(new) => new.usable_address() != sure,
            Change::Remove => sure.is_some(),
        }
    }
}

impl Timing {
    /// Probe that the sender of a packet should send, and the change of the neighbour's entry.
    pub(super) fn next_probe(&self, entry: Option<Neighbour>, now: u64) -> (Change, Ask) {
        let next = |tries| {
            let pause = match self.slow_interval {
                Some(slow) if tries >= self.tries => slow,
                _ => self.retry,
            };
            now.saturating_add(pause)
        };
        let kept = entry.filter(|_| self.slow_interval.is_some());
        let mac = kept.map_or(EtherAddr::ZERO, |e| e.mac);
        let incomplete = |tries, confirmed| Neighbour {
            mac,
            state: State::Incomplete,
            tries,
            confirmed,
            probe_at: next(tries),
        };
        let Some(entry) = entry else {
            return (Change::Put(incomplete(1, now)), Ask::All);
        };
        if self.slow_interval.is_some() && self.has_expired(&entry, now) && entry.known().is_some()
        {
            return (Change::Put(incomplete(1, now)), Ask::All);
        }
        let due = now >= entry.probe_at;
        let probe = |tries| Neighbour {
            state: State::Probe,
            tries,
            probe_at: next(tries),
            ..entry
        };
        match entry.state {
            State::Permanent => (Change::Keep, Ask::NoProbe),
            State::Reachable if now < entry.confirmed.saturating_add(self.reachable) => {
                (Change::Keep, Ask::NoProbe)
            }
            State::Reachable | State::Stale => (Change::Put(probe(1)), Ask::One(entry.mac)),
            State::Probe if !due => (Change::Keep, Ask::NoProbe),
            State::Probe if entry.tries < self.tries => {
                (Change::Put(probe(entry.tries + 1)), Ask::One(entry.mac))
            }
            State::Probe if self.slow_interval.is_some() || self.told => {
                (Change::Put(probe(self.tries)), Ask::One(entry.mac))
            }
            State::Probe => (Change::Put(incomplete(1, entry.confirmed)), Ask::All),
            State::Incomplete if !due && entry.tries == 0 => (Change::Keep, Ask::Unreachable),
            State::Incomplete if !due => (Change::Keep, Ask::NoProbe),
            State::Incomplete if entry.tries < self.tries => (
                Change::Put(incomplete(entry.tries + 1, entry.confirmed)),
                Ask::All,
            ),
            State::Incomplete if self.slow_interval.is_some() => (
                Change::Put(incomplete(self.tries, entry.confirmed)),
                Ask::All,
            ),
            State::Incomplete => (
                Change::Put(incomplete(0, entry.confirmed)),
                Ask::Unreachable,
            ),
        }
    }

    /// True if the entry's confirmation is too old to use its address.
    fn has_expired(&self, entry: &Neighbour, now: u64) -> bool {
        entry.state != State::Permanent && now >= entry.confirmed.saturating_add(self.idle)
    }

    /// Event and change of an entry that are due at `now`.
    pub(super) fn aged(&self, entry: &Neighbour, now: u64) -> Option<(Event, Change)> {
        let older = |age: u64| now >= entry.confirmed.saturating_add(age);
        if self.slow_interval.is_some() && self.has_expired(entry, now) && now >= entry.probe_at {
            return Some((Event::Removed, Change::Remove));
        }
        let due = now >= entry.probe_at;
        let waiting = entry.tries > 0 && entry.tries < self.tries;
        match entry.state {
            State::Reachable if older(self.reachable) => Some((
                Event::BecameStale,
                Change::Put(Neighbour {
                    state: State::Stale,
                    ..*entry
                }),
            )),
            State::Stale if older(self.idle) => Some((Event::Removed, Change::Remove)),
            State::Probe if due => Some((Event::ProbeDue, Change::Keep)),
            State::Incomplete if due && waiting => Some((Event::ProbeDue, Change::Keep)),
            State::Incomplete if due && self.slow_interval.is_none() => {
                Some((Event::Failed, Change::Remove))
            }
            _ => None,
        }
    }
}
