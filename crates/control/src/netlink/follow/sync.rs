//! Dumps: requests to the kernel for its complete state, or for the parts that may be outdated.

use super::super::model::{Part, Source, StaleParts};
use super::super::socket::is_loss;
use super::{Follower, Sockets};
use std::io;
use std::time::{Duration, Instant};
use tracing::{debug, info, warn};
use wire::netlink::{
    AF_INET, AF_INET6, AF_MPLS, AF_UNSPEC, Message, RTM_DELNEXTHOP, RTM_DELROUTE, RTM_GETLINK,
    RTM_GETNEIGH, RTM_GETNEIGHTBL, RTM_GETNETCONF, RTM_GETNEXTHOP, RTM_GETROUTE, RTM_GETRULE,
    RTM_NEWNEXTHOP, RTM_NEWROUTE,
};

/// Maximum number of prefixes pending for the mirror during a dump.
const PENDING_PREFIXES_MAX: usize = 8192;
/// Maximum length in bytes of changes buffered during a dump. Beyond that, changes count as lost.
const BACKLOG_BYTES: usize = 64 << 20;
/// Maximum number of immediate repetitions of a dump that was disturbed by changes.
const IMMEDIATE_REPEATS_MAX: usize = 3;
/// Delay before an IPv6 dump is repeated that changes have disturbed in all attempts.
const RECHECK_DELAY: Duration = Duration::from_secs(10);
/// Minimum delay after an incomplete dump.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(200);
/// Maximum delay after an incomplete dump.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(5);

impl Follower {
    /// Performs all due dumps.
    pub(super) fn resync(
        &mut self,
        sockets: &mut Sockets,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        let begun = Instant::now();
        let all = self.all_at.take_if(|at| *at <= begun).is_some();
        self.state.model.reconsider();
        let mut doubt = self.state.model.stale_parts();
        if self.recheck_at.take_if(|at| *at <= begun).is_some() {
            doubt.routes6 = true;
        }
        if all {
            doubt = StaleParts::ALL;
        }
        self.doubt_since = None;
        if !doubt.any() && !self.state.rules.stale {
            return Ok(());
        }
        debug!(all, ?doubt, "the kernel is asked");
        let asked = self.make_dumps(sockets, all, doubt, stop);
        let took = begun.elapsed();
        self.dump_duration = took;
        self.next_dump_min = Instant::now() + (4 * took).min(RETRY_DELAY_MAX);
        let counts = &self.state.counts;
        counts.resyncs.add(doubt.any().into());
        counts.resync_us.set(took.as_micros() as usize);
        match asked {
            Ok(()) => {}
            // The dump took too long or is outdated: it is repeated after a delay.
            Err(e) if is_again(&e) => {
                warn!("the kernel did not answer in full ({e}): it is asked again");
                self.next_dump_min =
                    Instant::now() + (4 * took).clamp(RETRY_DELAY_MIN, RETRY_DELAY_MAX);
                self.all_at = Some(begun);
                return Ok(());
            }
            Err(e) => return Err(e),
        }
        if all && self.all_at.is_none() {
            let (routes4, routes6) = self.state.model.len();
            let neighbours = self.state.neighbours.len();
            self.state.synced();
            info!(
                routes4,
                routes6,
                neighbours,
                ms = took.as_millis(),
                "the kernel's state is known"
            );
        }
        Ok(())
    }

    fn make_dumps(
        &mut self,
        sockets: &mut Sockets,
        all: bool,
        doubt: StaleParts,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        if all {
            self.state.links.begin_sync();
            self.dump(sockets, (RTM_GETLINK, AF_UNSPEC), None, stop)?;
            for index in self.state.links.end_sync() {
                self.state.link_gone(index);
            }
            self.state.has_mpls = false;
            for family in [AF_INET, AF_INET6, AF_MPLS] {
                self.dump(sockets, (RTM_GETNETCONF, family), None, stop)?;
            }
            // Links and neighbours precede routes, which may take seconds. Meanwhile the kernel forwards packets
            // without a route here, and none waits for a neighbour.
            self.state.neighbours_max = None;
            self.dump(sockets, (RTM_GETNEIGHTBL, AF_UNSPEC), None, stop)?;
            if let Some(places) = self.state.neighbours_max {
                self.limits.set_places(places);
            }
            self.state.neighbours.begin_sync();
            self.dump(sockets, (RTM_GETNEIGH, AF_UNSPEC), None, stop)?;
            self.state.neighbours.end_sync(&self.state.links);
        }
        if all || self.state.rules.stale {
            self.state.rules.begin_sync();
            for family in [AF_INET, AF_INET6] {
                self.dump(sockets, (RTM_GETRULE, family), None, stop)?;
            }
            let differ = self.state.rules.end_sync();
            self.state.counts.rules.set(differ);
        }
        let parts = [
            (doubt.nexthops, Part::Nexthops, (RTM_GETNEXTHOP, AF_UNSPEC)),
            (doubt.routes4, Part::Routes4, (RTM_GETROUTE, AF_INET)),
            (doubt.routes6, Part::Routes6, (RTM_GETROUTE, AF_INET6)),
            (doubt.labels, Part::Labels, (RTM_GETROUTE, AF_MPLS)),
        ];
        for (wanted, part, question) in parts {
            if wanted {
                self.state.model.begin_sync(Source::Kernel, part);
                // For an unknown address family, the kernel would dump the routes of all others.
                if part != Part::Labels || self.state.has_mpls {
                    self.dump(sockets, question, Some(part), stop)?;
                }
                self.state.model.end_sync(Source::Kernel, part);
                self.state.flush();
            }
        }
        Ok(())
    }

    /// Dumps one part of the state. Changes that arrive meanwhile are processed afterwards.
    fn dump(
        &mut self,
        sockets: &mut Sockets,
        (kind, family): (u16, u8),
        part: Option<Part>,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        let mut again = false;
        for _ in 0..IMMEDIATE_REPEATS_MAX {
            self.discard_processed();
            sockets.requests.begin_dump(kind, family)?;
            let whole = loop {
                // Unreadable messages are skipped, since a repeated dump would contain them again.
                let take = &mut |message: &Message<'_>| _ = self.state.process(message);
                let end = sockets.requests.read_part(take)?;
                self.serve_during_dump(sockets, part, stop)?;
                if let Some(whole) = end {
                    break whole;
                }
            };
            let disturbed = self.process_received(part) > 0;
            // The kernel's traversal of IPv6 routes may skip some during concurrent changes.
            let doubtful = part == Some(Part::Routes6) && disturbed;
            if whole && !doubtful {
                return Ok(());
            }
            again = doubtful;
        }
        if !again {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        // Several dumps are unlikely to have missed the same route. A later dump makes sure.
        self.recheck_at = Some(Instant::now() + RECHECK_DELAY);
        Ok(())
    }

    /// Handles urgent work during a dump: buffers changes, and processes links, neighbours and the routing daemon's
    /// messages.
    fn serve_during_dump(
        &mut self,
        sockets: &mut Sockets,
        part: Option<Part>,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        if stop() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        if self.state.model.pending() >= PENDING_PREFIXES_MAX {
            self.state.flush();
        }
        self.hear_daemon();
        if self.receive(&sockets.changes, BACKLOG_BYTES)? {
            self.mark_lost("too many came while others were read");
            self.discard_processed();
        }
        if part.is_some() {
            self.serve_urgent();
            self.ask(sockets)?;
        }
        Ok(())
    }
}

fn is_again(error: &io::Error) -> bool {
    use io::ErrorKind::{ResourceBusy, TimedOut};
    matches!(error.kind(), ResourceBusy | TimedOut) || is_loss(error)
}

/// Part of the state that a message changes; `None` if it belongs to no part.
pub(super) fn part(message: &Message<'_>) -> Option<Part> {
    match (message.kind, message.body.first()) {
        (RTM_NEWNEXTHOP | RTM_DELNEXTHOP, _) => Some(Part::Nexthops),
        (RTM_NEWROUTE | RTM_DELROUTE, Some(&AF_INET)) => Some(Part::Routes4),
        (RTM_NEWROUTE | RTM_DELROUTE, Some(&AF_INET6)) => Some(Part::Routes6),
        (RTM_NEWROUTE | RTM_DELROUTE, Some(&AF_MPLS)) => Some(Part::Labels),
        _ => None,
    }
}
