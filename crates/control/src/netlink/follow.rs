//! Following the kernel: what it says becomes the image.
//!
//! Everything here is driven by levels, not by edges: what a dump says is compared with what is known, and only
//! what differs changes. So it does not matter how often or why the kernel is asked again, and the image
//! stays as it is while it is asked.

use super::asks::Limits;
use super::counts::Counts;
use super::fpm::Fpm;
use super::links::Links;
use super::model::{Doubt, Model, Part, Source};
use super::neighbours::{Neighbours, Place};
use super::socket::{Changes, Requests, is_loss};
use elements::linux::Kernel;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::{debug, info, warn};
use wire::netlink::{
    AF_INET, AF_INET6, AF_UNSPEC, Event, Message, RTM_GETLINK, RTM_GETNEIGH, RTM_GETNEXTHOP,
    RTM_GETROUTE, messages,
};

/// Bytes of messages that are taken up before the image is told.
const BATCH: usize = 256 << 10;
/// Prefixes that may wait for the image during a dump.
const PENDING: usize = 8192;
/// Bytes of changes that are kept while a dump is read. If more come, they count as lost.
const BACKLOG: usize = 64 << 20;
/// Times that one dump is repeated at once if changes disturb it.
const REPEATS: usize = 3;
/// How long one waits before asking again, so that one answer serves for several reasons.
const SETTLE: Duration = Duration::from_millis(20);
/// The longest rest between two such questions.
const REST_MAX: Duration = Duration::from_secs(5);
/// When an IPv6 dump was never undisturbed, it is repeated after this time.
const RECHECK: Duration = Duration::from_secs(10);

/// All that is known, and what is told of it.
pub(super) struct State {
    kernel: Arc<Kernel>,
    counts: Arc<Counts>,
    model: Model,
    links: Links,
    neighbours: Neighbours,
    /// Whether a table was full, so that it is said once.
    full: bool,
}

/// The sockets.
pub(super) struct Sockets {
    pub(super) changes: Changes,
    pub(super) requests: Requests,
}

impl Sockets {
    /// Opens them in the namespace of the calling thread.
    pub(super) fn open(room: usize) -> io::Result<Sockets> {
        Ok(Sockets {
            changes: Changes::open(room)?,
            requests: Requests::open()?,
        })
    }
}

/// The kernel's follower.
pub(super) struct Follower {
    state: State,
    limits: Limits,
    asked: Vec<Place>,
    /// What has been heard and not been taken up.
    heard: Vec<u8>,
    /// When to ask for everything again.
    all_at: Option<Instant>,
    /// When to ask for the routes again of which the model is in doubt.
    doubt_at: Option<Instant>,
    /// When to ask for IPv6 routes again.
    recheck_at: Option<Instant>,
    /// Not before this: asking takes at most a fifth of the time, but for tables that take very long.
    rest_until: Instant,
    start: Instant,
    /// A routing daemon, if its routes take the place of the kernel's.
    fpm: Option<Fpm>,
}

impl Follower {
    pub(super) fn new(kernel: Arc<Kernel>, counts: Arc<Counts>, fpm: Option<Fpm>) -> Follower {
        let now = Instant::now();
        Follower {
            state: State {
                kernel,
                counts,
                model: Model::new(fpm.is_some()),
                links: Links::default(),
                neighbours: Neighbours::default(),
                full: false,
            },
            limits: Limits::default(),
            asked: Vec::new(),
            heard: Vec::with_capacity(BATCH + (64 << 10)),
            all_at: Some(now),
            doubt_at: None,
            recheck_at: None,
            rest_until: now,
            start: now,
            fpm,
        }
    }

    /// Nothing that was heard before counts: the sockets are new.
    pub(super) fn start_again(&mut self) {
        self.all_at = Some(Instant::now());
    }

    /// Takes up what has come and what is due; whether there is more to do at once. `stop` tells whether to
    /// give up meanwhile. An error: the sockets are of no use.
    pub(super) fn turn(
        &mut self,
        sockets: &mut Sockets,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<bool> {
        if self.state.links.is_outdated(&self.state.kernel) {
            self.state.renumber();
        }
        self.heard.clear();
        let more = self.hear(&sockets.changes, BATCH)? | self.hear_daemon();
        self.take_heard(None);
        self.ask(sockets)?;
        self.note_doubts();
        if self.due().is_some_and(|at| at <= Instant::now()) {
            self.resync(sockets, stop)?;
            return Ok(true);
        }
        Ok(more)
    }

    /// When the kernel is to be asked again.
    fn due(&self) -> Option<Instant> {
        let all = [self.all_at, self.doubt_at, self.recheck_at];
        let first = all.into_iter().flatten().min();
        first.map(|first| first.max(self.rest_until))
    }

    /// When to take a turn though nothing is heard.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        let daemon = self.fpm.as_ref().and_then(Fpm::due);
        [self.due(), daemon].into_iter().flatten().min()
    }

    /// Descriptors of FPM that bring something.
    pub(super) fn daemon_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.fpm.iter().flat_map(Fpm::fds)
    }

    /// Takes up what a routing daemon says; whether there may be more.
    fn hear_daemon(&mut self) -> bool {
        let Some(fpm) = &mut self.fpm else {
            return false;
        };
        let more = fpm.turn(&mut self.state.model, &self.state.counts);
        if self.state.model.pending() > 0 {
            self.state.flush();
        }
        more
    }

    /// Hears what has come, until nothing is left or so much is kept; whether there may be more.
    fn hear(&mut self, changes: &Changes, most: usize) -> io::Result<bool> {
        loop {
            match changes.receive(&mut self.heard, most) {
                Err(e) if is_loss(&e) => self.lose("they came faster than they could be read"),
                other => return other,
            }
        }
    }

    fn lose(&mut self, why: &str) {
        self.state.counts.lost.add(1);
        self.state.counts.synced.set(0);
        if self.all_at.is_none() {
            warn!("messages of the kernel were lost ({why}): all is asked for again");
        }
        self.all_at = Some(Instant::now() + SETTLE);
    }

    /// Takes up what was heard; how many of the messages are about `of`.
    fn take_heard(&mut self, of: Option<Part>) -> usize {
        if self.heard.is_empty() {
            return 0;
        }
        let (mut bad, mut about) = (false, 0);
        for message in messages(&self.heard) {
            match message {
                Ok(message) => {
                    about += usize::from(of.is_some() && part(&message) == of);
                    bad |= !self.state.take(&message);
                }
                Err(_) => bad = true,
            }
        }
        if bad {
            self.state.counts.bad_messages.add(1);
            self.lose("one could not be read");
        }
        self.state.flush();
        about
    }

    /// Has the kernel look for the neighbours that workers ask for.
    fn ask(&mut self, sockets: &mut Sockets) -> io::Result<()> {
        let Follower {
            state,
            limits,
            asked,
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
            let known = state.neighbours.knows(&place);
            match limits.allow(ask.interface, known, now) {
                true => asked.push(place),
                false => counts.asks_limited.add(1),
            }
        });
        counts.asks_lost.set(state.kernel.lost_asks() as usize);
        if !asked.is_empty() {
            counts.asks.add(asked.len() as u64);
            match sockets.requests.use_neighbours(asked) {
                // The kernel has no memory just now: workers ask again.
                Err(e) if is_loss(&e) => counts.asks_refused.add(asked.len() as u64),
                other => other?,
            }
        }
        counts.asks_refused.add(sockets.requests.refusals());
        Ok(())
    }

    fn note_doubts(&mut self) {
        if self.doubt_at.is_none() && self.state.model.doubt().any() {
            self.doubt_at = Some(Instant::now() + SETTLE);
        }
    }

    /// Asks the kernel for what is due.
    fn resync(&mut self, sockets: &mut Sockets, stop: &dyn Fn() -> bool) -> io::Result<()> {
        let begun = Instant::now();
        let all = self.all_at.take().is_some();
        let mut doubt = self.state.model.doubt();
        if self.recheck_at.take_if(|at| *at <= begun).is_some() {
            doubt.routes6 = true;
        }
        if all {
            doubt = Doubt::ALL;
        }
        self.doubt_at = None;
        debug!(all, ?doubt, "the kernel is asked");
        let asked = self.dumps(sockets, all, doubt, stop);
        let took = begun.elapsed();
        self.rest_until = Instant::now() + (4 * took).min(REST_MAX);
        let counts = &self.state.counts;
        counts.resyncs.add(1);
        counts.resync_us.set(took.as_micros() as usize);
        match asked {
            Ok(()) => {}
            // Of an answer that takes too long, or is too old: again, a little later.
            Err(e) if is_again(&e) => {
                warn!("the kernel did not answer in full ({e}): it is asked again");
                self.rest_until = Instant::now() + 4 * took.max(Duration::from_millis(50));
                self.all_at = Some(begun);
                return Ok(());
            }
            Err(e) => return Err(e),
        }
        if all && self.all_at.is_none() {
            let (routes4, routes6) = self.state.model.len();
            let neighbours = self.state.neighbours.len();
            counts.synced.set(1);
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

    fn dumps(
        &mut self,
        sockets: &mut Sockets,
        all: bool,
        doubt: Doubt,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        if all {
            self.state.links.begin_sync();
            self.dump(sockets, (RTM_GETLINK, AF_UNSPEC), None, stop)?;
            for index in self.state.links.end_sync() {
                self.state.link_gone(index);
            }
            // Before routes, which may take seconds: meanwhile the kernel forwards what has no route here, and
            // nothing waits for a neighbour.
            self.state.neighbours.begin_sync();
            self.dump(sockets, (RTM_GETNEIGH, AF_UNSPEC), None, stop)?;
            self.state.neighbours.end_sync(&self.state.links);
        }
        let parts = [
            (doubt.nexthops, Part::Nexthops, (RTM_GETNEXTHOP, AF_UNSPEC)),
            (doubt.routes4, Part::Routes4, (RTM_GETROUTE, AF_INET)),
            (doubt.routes6, Part::Routes6, (RTM_GETROUTE, AF_INET6)),
        ];
        for (wanted, part, question) in parts {
            if wanted {
                self.state.model.begin_sync(Source::Kernel, part);
                self.dump(sockets, question, Some(part), stop)?;
                self.state.model.end_sync(Source::Kernel, part);
                self.state.flush();
            }
        }
        Ok(())
    }

    /// Asks for all of a kind. What changes meanwhile is taken up behind it.
    fn dump(
        &mut self,
        sockets: &mut Sockets,
        (kind, family): (u16, u8),
        of: Option<Part>,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        let mut again = false;
        for _ in 0..REPEATS {
            self.heard.clear();
            let mut broken = false;
            let whole = sockets.requests.dump(kind, family, &mut |message| {
                let Some(message) = message else {
                    if stop() {
                        return Err(io::ErrorKind::ConnectionAborted.into());
                    }
                    if self.state.model.pending() >= PENDING {
                        self.state.flush();
                    }
                    if self.hear(&sockets.changes, BACKLOG)? && self.heard.len() >= BACKLOG {
                        self.lose("too many came while others were read");
                        self.heard.clear();
                    }
                    return Ok(());
                };
                broken |= !self.state.take(message);
                Ok(())
            })?;
            // What was being announced when the last part was read.
            self.hear(&sockets.changes, BACKLOG)?;
            let disturbed = self.take_heard(of) > 0;
            if broken {
                return Err(io::ErrorKind::InvalidData.into());
            }
            // The kernel's walk through IPv6 routes may skip some when others come or go.
            let doubtful = of == Some(Part::Routes6) && disturbed;
            if whole && !doubtful {
                return Ok(());
            }
            again = doubtful;
        }
        if !again {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        // That all of them have missed the same route is not likely, and it is looked at again.
        self.recheck_at = Some(Instant::now() + RECHECK);
        Ok(())
    }
}

fn is_again(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, ResourceBusy, TimedOut};
    matches!(error.kind(), InvalidData | ResourceBusy | TimedOut) || is_loss(error)
}

/// What a change is about.
fn part(message: &Message<'_>) -> Option<Part> {
    use wire::netlink::{RTM_DELNEXTHOP, RTM_DELROUTE, RTM_NEWNEXTHOP, RTM_NEWROUTE};
    match (message.kind, message.body.first()) {
        (RTM_NEWNEXTHOP | RTM_DELNEXTHOP, _) => Some(Part::Nexthops),
        (RTM_NEWROUTE | RTM_DELROUTE, Some(&AF_INET)) => Some(Part::Routes4),
        (RTM_NEWROUTE | RTM_DELROUTE, Some(&AF_INET6)) => Some(Part::Routes6),
        _ => None,
    }
}

impl State {
    /// Takes a message up; whether it could be read.
    fn take(&mut self, message: &Message<'_>) -> bool {
        self.counts.messages.add(1);
        let Ok(event) = message.event() else {
            return false;
        };
        match event {
            Event::Route(change, route) => {
                self.model
                    .route(Source::Kernel, message.flags, change, &route);
            }
            Event::Neighbour(change, neighbour) => {
                self.neighbours.take(&self.links, change, &neighbour);
            }
            Event::Nexthop(change, nexthop) => {
                self.model.nexthop(Source::Kernel, change, &nexthop);
            }
            Event::Address(change, address) => {
                self.model.address(change, address.family == AF_INET);
            }
            Event::Link(change, link) => {
                let had = self.links.interface(link.index).is_some();
                match self.links.take(change, &link) {
                    Some(None) => self.link_gone(link.index),
                    Some(state) => self.model.link(link.index, state),
                    None => {}
                }
                if !had {
                    self.neighbours.tell_all(&self.links, link.index);
                }
            }
            Event::Overrun => return false,
            Event::Done(_) | Event::Error(_) | Event::Other => {}
        }
        true
    }

    fn link_gone(&mut self, index: u32) {
        self.neighbours.forget(index);
        self.model.link(index, None);
    }

    /// The configuration names other interfaces.
    fn renumber(&mut self) {
        for (index, state) in self.links.renumber(&self.kernel) {
            self.model.link(index, Some(state));
            self.neighbours.tell_all(&self.links, index);
        }
        self.flush();
    }

    /// Brings the image in step.
    fn flush(&mut self) {
        let (Ok(v4), Ok(v6)) = (self.kernel.routes4(), self.kernel.routes6()) else {
            return;
        };
        match self.model.flush(v4, v6) {
            Ok(_) => self.full = false,
            Err(_) => {
                self.counts.full.add(1);
                if !std::mem::replace(&mut self.full, true) {
                    warn!("a table of routes is full: the rest of the routes is not forwarded by");
                }
            }
        }
        self.count();
    }

    fn count(&self) {
        let counts = &self.counts;
        let (routes4, routes6) = self.model.len();
        let (links, used) = self.links.count();
        let left_out = self.model.counts();
        counts.routes4.set(routes4);
        counts.routes6.set(routes6);
        counts.links.set(links);
        counts.links_used.set(used);
        counts.neighbours.set(self.neighbours.len());
        counts.model_bytes.set(self.model.memory_bytes());
        counts.other_table.set(left_out.other_table as usize);
        counts.selective.set(left_out.selective as usize);
        counts.no_group.set(left_out.no_group as usize);
        counts.no_room.set(left_out.no_room as usize);
    }
}
