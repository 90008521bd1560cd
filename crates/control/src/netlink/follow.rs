//! Follower of the kernel: turns its messages into changes of the mirror.
//!
//! The follower compares states, and does not rely on every change being reported: a dump is compared with the known
//! state, and only differences are applied. So a dump may be repeated at any time, and the mirror keeps its state
//! during a dump.

mod state;
mod sync;
#[cfg(test)]
mod tests;

use super::collector::Collector;
use super::counts::Counts;
use super::fpm::Fpm;
use super::model::Part;
use super::neighbour_requests::Limits;
use super::neighbours::NeighbourKey;
use super::socket::{Notifications, Requests, is_loss};
use forwarding::Kernel;
use forwarding::RouteBound;
use state::State;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use sync::part;
use tracing::warn;
use wire::netlink::{Message, RTM_DELLINK, RTM_DELNEIGH, RTM_NEWLINK, RTM_NEWNEIGH, messages};

/// Maximum length of messages in bytes that are processed before the mirror is updated.
const BATCH_BYTES: usize = 256 << 10;
/// Delay before a repeated dump, so that one dump serves several causes.
const DUMP_DELAY: Duration = Duration::from_millis(20);
/// Delay before a full dump after an unreadable message.
const UNREADABLE_DUMP_DELAY: Duration = Duration::from_secs(10);
/// Maximum pause in messages that a pending dump waits for.
const QUIET_MAX: Duration = Duration::from_millis(500);

/// Netlink sockets.
pub(super) struct Sockets {
    pub(super) changes: Notifications,
    pub(super) requests: Requests,
}

impl Sockets {
    /// Opens the sockets in the namespace of the calling thread. `room` is the size of the receive buffer in bytes.
    pub(super) fn open(room: usize) -> io::Result<Sockets> {
        Ok(Sockets {
            changes: Notifications::open(room)?,
            requests: Requests::open()?,
        })
    }
}

/// Worker that keeps the mirror of the kernel's routing state up to date.
pub(super) struct Follower {
    state: State,
    limits: Limits,
    requested_neighbours: Vec<NeighbourKey>,
    /// Messages received and not processed yet.
    received: Vec<u8>,
    /// Offset up to which urgent messages (about links and neighbours) have been processed.
    urgent_offset: usize,
    /// Time of the last message.
    received_at: Instant,
    /// Time of the next full dump.
    all_at: Option<Instant>,
    /// Time since which parts of the model need a new dump; `None` if none does.
    doubt_since: Option<Instant>,
    /// Time of the next IPv6 dump.
    recheck_at: Option<Instant>,
    /// Earliest time of the next dump. Dumps take at most a fifth of the time, except for very slow tables.
    next_dump_min: Instant,
    /// Duration of the last dump.
    dump_duration: Duration,
    start: Instant,
    /// Routing daemon whose routes replace the kernel's; `None` without FPM.
    fpm: Option<Fpm>,
}

impl Follower {
    pub(super) fn new(
        (kernel, bound): (Arc<Kernel>, Arc<RouteBound>),
        counts: Arc<Counts>,
        fpm: Option<Fpm>,
    ) -> Follower {
        Follower::of(State::new((kernel, bound), counts, fpm.is_some()), fpm)
    }

    /// Worker that brings all routes of the kernel to a collector.
    pub(super) fn collecting(collector: Arc<Collector>, counts: Arc<Counts>) -> Follower {
        Follower::of(State::collecting(collector, counts), None)
    }

    fn of(state: State, fpm: Option<Fpm>) -> Follower {
        let now = Instant::now();
        Follower {
            state,
            limits: Limits::default(),
            requested_neighbours: Vec::new(),
            received: Vec::with_capacity(BATCH_BYTES + (64 << 10)),
            urgent_offset: 0,
            received_at: now,
            all_at: Some(now),
            doubt_since: None,
            recheck_at: None,
            next_dump_min: now,
            dump_duration: Duration::ZERO,
            start: now,
            fpm,
        }
    }

    /// Discards all messages received so far, after the sockets were reopened.
    pub(super) fn start_again(&mut self) {
        self.all_at = Some(Instant::now());
    }

    /// Processes received messages and due work. Returns true if more work is pending. If `stop` returns true, the call
    /// ends early.
    ///
    /// # Errors
    ///
    /// The sockets have failed and must be reopened.
    pub(super) fn process_pending(
        &mut self,
        sockets: &mut Sockets,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<bool> {
        self.state.follow_bound();
        if self.state.links.is_outdated(&self.state.kernel) {
            self.state.renumber();
        }
        self.discard_processed();
        let more = self.receive(&sockets.changes, BATCH_BYTES)? | self.hear_daemon();
        self.process_received(None);
        self.ask(sockets)?;
        let refused = sockets.requests.refusals();
        self.state.counts.asks_refused.add(refused);
        self.note_doubts();
        if self.next_dump_at().is_some_and(|at| at <= Instant::now()) {
            self.resync(sockets, stop)?;
            return Ok(true);
        }
        Ok(more)
    }

    /// Time of the next dump; `None` if none is pending.
    fn next_dump_at(&self) -> Option<Instant> {
        // Changes come in bursts, and must wait during the dump of a large table. So a dump starts after a pause in
        // messages, or after a maximum delay.
        let quiet = self.dump_duration.clamp(DUMP_DELAY, QUIET_MAX);
        let doubt_at =
            |since| (self.received_at + quiet).clamp(since + DUMP_DELAY, since + 4 * quiet);
        let rules_at = self
            .state
            .rules
            .stale
            .then(|| self.received_at + DUMP_DELAY);
        let doubt_at = self.doubt_since.map(doubt_at);
        let all = [self.all_at, doubt_at, self.recheck_at, rules_at];
        let first = all.into_iter().flatten().min();
        first.map(|first| first.max(self.next_dump_min))
    }

    /// Time of the next call of `process_pending` if no message arrives before.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        let daemon = self.fpm.as_ref().and_then(Fpm::next_due);
        [self.next_dump_at(), daemon].into_iter().flatten().min()
    }

    /// Descriptors to poll for FPM.
    pub(super) fn daemon_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.fpm.iter().flat_map(Fpm::fds)
    }

    /// Processes messages of a routing daemon. Returns true if there were any, since more may follow.
    fn hear_daemon(&mut self) -> bool {
        let fpm = self.fpm.as_mut();
        let heard =
            fpm.is_some_and(|fpm| fpm.process_pending(&mut self.state.model, &self.state.counts));
        if heard {
            self.state.flush();
        }
        heard
    }

    /// Discards processed or obsolete messages.
    fn discard_processed(&mut self) {
        self.received.clear();
        // Many messages arrived during the dump of a large table.
        self.received.shrink_to(2 * BATCH_BYTES);
        self.urgent_offset = 0;
    }

    /// Receives messages until none is left or `limit` bytes are buffered. Returns true if more may be pending.
    fn receive(&mut self, changes: &Notifications, limit: usize) -> io::Result<bool> {
        loop {
            match changes.receive(&mut self.received, limit) {
                Err(e) if is_loss(&e) => self.mark_lost("they came faster than they could be read"),
                other => return other,
            }
        }
    }

    fn mark_lost(&mut self, why: &str) {
        self.state.counts.lost.add(1);
        self.state.counts.synced.set(0);
        if self.all_at.is_none() {
            warn!(
                "messages of the kernel were lost ({why}): the complete state is requested again"
            );
        }
        self.all_at = Some(Instant::now() + DUMP_DELAY);
    }

    /// Processes buffered messages. Returns the number of messages about `wanted_part`.
    fn process_received(&mut self, wanted_part: Option<Part>) -> usize {
        if self.received.is_empty() {
            return 0;
        }
        self.received_at = Instant::now();
        let (mut bad, mut about) = (false, 0);
        let (served, rest) = self
            .received
            .split_at(self.urgent_offset.min(self.received.len()));
        let left = |m: &Result<_, _>| !m.as_ref().is_ok_and(is_urgent);
        for message in messages(served).filter(left).chain(messages(rest)) {
            match message {
                Ok(message) => {
                    about += usize::from(wanted_part.is_some() && part(&message) == wanted_part);
                    bad |= !self.state.process(&message);
                }
                Err(why) => bad |= !self.state.leave_out(0, why),
            }
        }
        if bad {
            // The effect of the message is unknown, and more of the kind may follow.
            self.all_at
                .get_or_insert(Instant::now() + UNREADABLE_DUMP_DELAY);
            self.state.counts.synced.set(0);
        }
        self.urgent_offset = 0;
        self.state.flush();
        about
    }

    /// Processes messages about links and neighbours ahead of others, since packets wait for them or are lost.
    fn serve_urgent(&mut self) {
        let news = self.received.get(self.urgent_offset..).unwrap_or(&[]);
        let mut linked = false;
        for message in messages(news).flatten().filter(is_urgent) {
            self.state.process(&message);
            linked |= matches!(message.kind, RTM_NEWLINK | RTM_DELLINK);
        }
        self.urgent_offset = self.received.len();
        if linked {
            self.state.flush();
        }
    }

    /// Sends workers' neighbour requests to the kernel.
    fn ask(&mut self, sockets: &mut Sockets) -> io::Result<()> {
        let Follower {
            state,
            limits,
            requested_neighbours: asked,
            start,
            ..
        } = self;
        let counts = &state.counts;
        let now = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        asked.clear();
        state.kernel.take_asks(&mut |ask| {
            let Some(index) = state.links.index(ask.interface) else {
                return;
            };
            let place = (index, ask.address);
            let known = state.neighbours.is_resolved(&place);
            match limits.allow(ask.interface, known, now) {
                true => asked.push(place),
                false => counts.asks_limited.add(1),
            }
        });
        counts.asks_lost.set(state.kernel.lost_asks() as usize);
        if !asked.is_empty() {
            counts.asks.add(asked.len() as u64);
            match sockets.requests.use_neighbours(asked) {
                // The kernel is short of memory; workers repeat their requests.
                Err(e) if is_loss(&e) => counts.asks_refused.add(asked.len() as u64),
                other => other?,
            }
        }
        Ok(())
    }

    fn note_doubts(&mut self) {
        if self.doubt_since.is_none() && self.state.model.stale_parts().any() {
            self.doubt_since = Some(Instant::now());
        }
    }
}

/// True if a message reports a change of a link or a neighbour.
fn is_urgent(message: &Message<'_>) -> bool {
    matches!(
        message.kind,
        RTM_NEWLINK | RTM_DELLINK | RTM_NEWNEIGH | RTM_DELNEIGH
    )
}
