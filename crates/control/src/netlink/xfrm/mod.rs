//! IPsec of Linux: the kernel's associations and policies (XFRM) become the table of an IPsecTable with `KERNEL true`,
//! and the kernel gets reports of traffic.
//!
//! [`Xfrm`] is a thread. As for routes, a dump is compared with the known state, so it may be repeated at any time.

mod associations;
mod mirror;
#[cfg(test)]
mod tests;
pub mod translate;

pub use mirror::Mirror;

use super::counts::XfrmCounts;
use super::local_address::is_own;
use super::socket::{Notifications, Requests, is_loss};
use super::watched_thread::{ThreadState, Watched, WatchedJob, room_or, run_in_namespace};
use elements_linux::ipsec::KernelTable;
use ports::Namespace;
use rustix::event::{PollFd, PollFlags};
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tracing::{info, warn};
use wire::netlink::xfrm::{GETPOLICY, GETSA};
use wire::netlink::{Writer, messages};
use zeroize::{Zeroize, Zeroizing};

/// Netlink protocol `NETLINK_XFRM`.
const PROTOCOL: isize = 6;
/// Multicast groups (`XFRMNLGRP_*`): reached limits, associations, policies and changed addresses.
const GROUPS: [u32; 4] = [2, 3, 4, 7];
/// Receive buffer size in bytes.
const RECEIVE_BUFFER_BYTES: usize = 64 << 20;
/// Maximum length of messages in bytes that are read before they are processed.
const BATCH_BYTES: usize = 256 << 10;
/// Interval of reports of traffic to the kernel.
const REPORT_INTERVAL: Duration = Duration::from_millis(500);
/// Interval of dumps while an association's direction is unknown, or a dump was incomplete.
const DUMP_INTERVAL: Duration = Duration::from_secs(1);

fn wall_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

struct Sockets {
    changes: Notifications,
    requests: Requests,
}

/// Network namespace whose IPsec state is followed.
struct FollowedNamespace {
    namespace: Option<Arc<Namespace>>,
    room: usize,
}

/// State of the thread.
struct Following {
    namespace: FollowedNamespace,
    counts: Arc<XfrmCounts>,
    mirror: Mirror,
}

/// Thread that follows the kernel's IPsec state until this value is dropped.
pub(crate) struct Xfrm {
    counts: Arc<XfrmCounts>,
    thread: Watched,
}

impl Xfrm {
    /// Starts to follow the kernel's IPsec state in a namespace, by default the namespace of the process.
    ///
    /// # Errors
    ///
    /// The sockets cannot be opened; a message.
    pub(crate) fn start(
        table: Arc<KernelTable>,
        namespace: Option<Arc<Namespace>>,
    ) -> Result<Xfrm, String> {
        let failed = |e: io::Error| format!("cannot follow the kernel's IPsec (XFRM): {e}");
        let place = FollowedNamespace {
            namespace,
            room: room_or(RECEIVE_BUFFER_BYTES),
        };
        let sockets = place.open().map_err(failed)?;
        let counts: Arc<XfrmCounts> = Arc::default();
        let of_thread = Arc::clone(&counts);
        let thread = Watched::start("xfrm", move |post| {
            let database = Arc::clone(table.database());
            let mut following = Following {
                namespace: place,
                mirror: Mirror::new(database, Arc::clone(&of_thread)),
                counts: of_thread,
            };
            post.run_job(&mut following, sockets);
        });
        Ok(Xfrm {
            counts,
            thread: thread.map_err(failed)?,
        })
    }

    /// True if the thread makes progress; see [`Watched::is_alive`].
    pub(crate) fn is_alive(&self) -> bool {
        self.thread.is_alive()
    }

    /// Counters of messages and actions.
    pub(crate) fn counts(&self) -> &XfrmCounts {
        &self.counts
    }
}

impl FollowedNamespace {
    fn open(&self) -> io::Result<Sockets> {
        let room = self.room;
        run_in_namespace(&self.namespace, move || {
            Ok(Sockets {
                changes: Notifications::of(PROTOCOL, &GROUPS, room)?,
                requests: Requests::of(PROTOCOL)?,
            })
        })
    }

    fn is_own(&self, address: IpAddr) -> bool {
        run_in_namespace(&self.namespace, move || is_own(address)).unwrap_or(false)
    }

    /// Function that returns true for local addresses. The kernel is queried for unknown ones.
    fn local_address_query<'a>(
        &'a self,
        known: &'a mut HashMap<IpAddr, bool>,
    ) -> impl FnMut(IpAddr) -> bool + 'a {
        move |address| {
            let own = known.entry(address);
            // Only positive answers are cached, because an address may be added later.
            match own {
                std::collections::hash_map::Entry::Occupied(own) => *own.get(),
                std::collections::hash_map::Entry::Vacant(none) => {
                    let is = self.is_own(address);
                    if is {
                        none.insert(true);
                    }
                    is
                }
            }
        }
    }
}

impl WatchedJob for Following {
    type Sockets = Sockets;

    fn open(&self) -> io::Result<Sockets> {
        self.namespace.open()
    }

    fn sockets_failed(&mut self, why: &io::Error) {
        warn!("the kernel's IPsec cannot be followed ({why}): packets pass by the known state");
    }

    fn sockets_opened(&mut self) {
        info!("the kernel's IPsec is followed again");
        self.mirror.all_stale = true;
    }

    fn follow(&mut self, post: &ThreadState, sockets: &mut Sockets) -> io::Result<()> {
        let mut own = HashMap::new();
        let mut heard = Zeroizing::new(Vec::with_capacity(BATCH_BYTES + (64 << 10)));
        let (mut tell_at, mut again_at) = (Instant::now(), Instant::now());
        while !post.is_stopped() {
            let more = self.receive(sockets, &mut heard, &mut own)?;
            let now = Instant::now();
            let mirror = &mut self.mirror;
            if mirror.has_unresolved() && again_at <= now {
                mirror.all_stale = true;
            }
            if (mirror.all_stale || mirror.policies_stale) && again_at <= now {
                own.clear();
                if !self.resync(sockets, &mut own)? || self.mirror.has_unresolved() {
                    again_at = now + DUMP_INTERVAL;
                }
                continue;
            }
            if tell_at <= now {
                self.report(post, sockets)?;
                tell_at = now + REPORT_INTERVAL;
            }
            if !more {
                let rest = tell_at.saturating_duration_since(Instant::now());
                let changes = PollFd::from_borrowed_fd(sockets.changes.fd(), PollFlags::IN);
                post.wait(&[changes], Some(rest));
            }
        }
        // A last report includes packets since the previous one.
        self.report(post, sockets)
    }
}

impl Following {
    /// Receives and processes messages. Returns true if more may be pending.
    fn receive(
        &mut self,
        sockets: &Sockets,
        heard: &mut Zeroizing<Vec<u8>>,
        own: &mut HashMap<IpAddr, bool>,
    ) -> io::Result<bool> {
        let mirror = &mut self.mirror;
        let more = match sockets.changes.receive(heard, BATCH_BYTES) {
            Err(e) if is_loss(&e) => {
                self.counts.xfrm_lost.add(1);
                mirror.all_stale = true;
                true
            }
            other => other?,
        };
        let mut own = self.namespace.local_address_query(own);
        for message in messages(heard) {
            match message {
                Ok(message) => mirror.process(&message, &mut own, wall_ns()),
                Err(_) => mirror.all_stale = true,
            }
        }
        heard.zeroize();
        Ok(more)
    }

    /// Dumps stale state: everything, or policies only. Returns true if the kernel guarantees that the dumps are
    /// complete.
    fn resync(
        &mut self,
        sockets: &mut Sockets,
        own: &mut HashMap<IpAddr, bool>,
    ) -> io::Result<bool> {
        let mirror = &mut self.mirror;
        let mut own = self.namespace.local_address_query(own);
        let requests = &mut sockets.requests;
        let mut whole = true;
        if std::mem::take(&mut mirror.all_stale) {
            self.counts.xfrm_resyncs.add(1);
            mirror.policies_stale = true;
            mirror.begin_sas();
            let mut made = Vec::new();
            let now = wall_ns();
            requests.ask(|writer, sequence| writer.xfrm_dump(GETSA, sequence))?;
            let ended = loop {
                let part = requests.read_part(&mut |message| {
                    mirror.dumped_sa(message, &mut made, &mut own, now);
                });
                requests.zeroize();
                if let Some(ended) = part? {
                    break ended;
                }
            };
            match ended {
                true => mirror.end_sas(&made, now),
                // The entries of an incomplete dump are valid, but others may be missing.
                false => {
                    mirror.keep_sas(&made);
                    mirror.all_stale = true;
                }
            }
            whole &= ended;
        }
        if std::mem::take(&mut mirror.policies_stale) {
            mirror.begin_policies();
            requests.ask(|writer, sequence| writer.xfrm_default(sequence))?;
            // Old kernels lack this request; then the default action is to pass.
            let _ = requests.read_part(&mut |message| mirror.dumped_policy(message));
            requests.ask(|writer, sequence| writer.xfrm_dump(GETPOLICY, sequence))?;
            let ended = loop {
                let part = requests.read_part(&mut |message| mirror.dumped_policy(message));
                if let Some(ended) = part? {
                    break ended;
                }
            };
            match ended {
                true => mirror.end_policies(),
                false => mirror.policies_stale = true,
            }
            whole &= ended;
        }
        Ok(whole)
    }

    /// Reports counts and sequence numbers to the kernel.
    fn report(&mut self, post: &ThreadState, sockets: &mut Sockets) -> io::Result<()> {
        let mut room = [0; 16 << 10];
        loop {
            let mut writer = Writer::new(&mut room);
            let all = self.mirror.report(&mut writer, wall_ns());
            if !writer.is_empty() {
                sockets.requests.send(writer.bytes())?;
            }
            self.counts.xfrm_refused.add(sockets.requests.refusals());
            if all || post.is_stopped() {
                return Ok(());
            }
        }
    }
}
