//! Linux tells the router which packets of IPsec to seal and open: the kernel's associations and policies (XFRM) become the table of
//! an IPsecTable with `KERNEL true`, and the kernel is told what passes.
//!
//! [`Xfrm`] is a thread. As with routes, everything is driven by levels: what a dump says is compared with what is known.

mod mirror;
#[cfg(test)]
mod tests;
pub mod translate;

pub use mirror::Mirror;

use super::counts::XfrmCounts;
use super::own::is_own;
use super::socket::{Changes, Requests, is_loss};
use elements::ipsec::KernelTable;
use ports::Namespace;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tracing::{info, warn};
use wire::netlink::xfrm::{GETPOLICY, GETSA};
use wire::netlink::{Writer, messages};
use zeroize::{Zeroize, Zeroizing};

/// `NETLINK_XFRM`.
const PROTOCOL: isize = 6;
/// Limits that are reached, associations, policies, other addresses (`XFRMNLGRP_*`).
const GROUPS: [u32; 4] = [2, 3, 4, 7];
/// Room for messages that wait.
const ROOM: usize = 64 << 20;
/// Bytes that are read before they are taken up.
const BATCH: usize = 256 << 10;
/// How often the kernel is told what has passed.
const TELL: Duration = Duration::from_millis(500);
/// How often all is asked for while an association has no end here, or an answer was not whole.
const AGAIN: Duration = Duration::from_secs(1);
/// After how long sockets that failed are opened again.
const RETRY: Duration = Duration::from_secs(1);

fn wall() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

struct Sockets {
    changes: Changes,
    requests: Requests,
}

struct Shared {
    table: Arc<KernelTable>,
    namespace: Option<Arc<Namespace>>,
    counts: Arc<XfrmCounts>,
    room: usize,
    stop: AtomicBool,
    /// Counts what the thread does; one that hangs does nothing.
    steps: AtomicU64,
    poke: OwnedFd,
}

/// Follows the kernel's IPsec until it is dropped.
pub(crate) struct Xfrm {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    seen: AtomicU64,
}

impl Xfrm {
    /// Begins to follow the kernel's IPsec in a namespace; without one, in that of the process. The error is a sentence.
    pub(crate) fn start(
        table: Arc<KernelTable>,
        namespace: Option<Arc<Namespace>>,
    ) -> Result<Xfrm, String> {
        let failed = |e: io::Error| format!("cannot follow the kernel's IPsec (XFRM): {e}");
        let shared = Arc::new(Shared {
            table,
            namespace,
            counts: Arc::default(),
            room: super::thread::room_or(ROOM),
            stop: AtomicBool::new(false),
            steps: AtomicU64::new(1),
            poke: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
                .map_err(|e| failed(e.into()))?,
        });
        let sockets = shared.open().map_err(failed)?;
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("xfrm".into());
        let thread = thread
            .spawn(move || of_thread.run(sockets))
            .map_err(failed)?;
        Ok(Xfrm {
            shared,
            thread: Some(thread),
            seen: AtomicU64::new(0),
        })
    }

    /// Whether the thread has done something since this was last asked. It is woken, so that it will have the next time.
    pub(crate) fn is_alive(&self) -> bool {
        let now = self.shared.steps.load(Ordering::Relaxed);
        let before = self.seen.swap(now, Ordering::Relaxed);
        self.shared.wake();
        now != before
    }

    /// What has been heard and done.
    pub(crate) fn counts(&self) -> &XfrmCounts {
        &self.shared.counts
    }
}

impl Drop for Xfrm {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            // What a panic has said has been said.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn open(&self) -> io::Result<Sockets> {
        let room = self.room;
        let open = move || {
            Ok(Sockets {
                changes: Changes::of(PROTOCOL, &GROUPS, room)?,
                requests: Requests::of(PROTOCOL)?,
            })
        };
        match &self.namespace {
            Some(namespace) => namespace.within(open),
            None => open(),
        }
    }

    fn is_own(&self, address: IpAddr) -> bool {
        let own = match &self.namespace {
            Some(namespace) => namespace.within(move || is_own(address)),
            None => is_own(address),
        };
        own.unwrap_or(false)
    }

    fn wake(&self) {
        // Full: it is about to wake.
        let _ = rustix::io::write(&self.poke, &1u64.to_ne_bytes());
    }

    fn is_stopped(&self) -> bool {
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.stop.load(Ordering::Acquire)
    }

    fn run(&self, sockets: Sockets) {
        let database = Arc::clone(self.table.database());
        let mut mirror = Mirror::new(database, Arc::clone(&self.counts));
        let mut sockets = Some(sockets);
        while !self.is_stopped() {
            let ended = match &mut sockets {
                Some(sockets) => self.follow(&mut mirror, sockets),
                None => self.open().map(|opened| {
                    info!("the kernel's IPsec is followed again");
                    mirror.all_stale = true;
                    sockets = Some(opened);
                }),
            };
            if let Err(e) = ended
                && !self.is_stopped()
            {
                warn!(
                    "the kernel's IPsec cannot be followed ({e}): packets go on by what is known"
                );
                sockets = None;
                self.wait(None, RETRY);
            }
        }
    }

    /// Follows the kernel until it is to stop, or the sockets are of no use.
    fn follow(&self, mirror: &mut Mirror, sockets: &mut Sockets) -> io::Result<()> {
        let mut own = HashMap::new();
        let mut heard = Zeroizing::new(Vec::with_capacity(BATCH + (64 << 10)));
        let (mut tell_at, mut again_at) = (Instant::now(), Instant::now());
        while !self.is_stopped() {
            let more = self.hear(mirror, sockets, &mut heard, &mut own)?;
            let now = Instant::now();
            if mirror.has_unresolved() && again_at <= now {
                mirror.all_stale = true;
            }
            if (mirror.all_stale || mirror.policies_stale) && again_at <= now {
                own.clear();
                if !self.resync(mirror, sockets, &mut own)? || mirror.has_unresolved() {
                    again_at = now + AGAIN;
                }
                continue;
            }
            if tell_at <= now {
                self.tell(mirror, sockets)?;
                tell_at = now + TELL;
            }
            if !more {
                let rest = tell_at.saturating_duration_since(Instant::now());
                self.wait(Some(&sockets.changes), rest);
            }
        }
        // The last that has passed.
        self.tell(mirror, sockets)
    }

    /// Takes up what has come; whether there may be more.
    fn hear(
        &self,
        mirror: &mut Mirror,
        sockets: &Sockets,
        heard: &mut Zeroizing<Vec<u8>>,
        own: &mut HashMap<IpAddr, bool>,
    ) -> io::Result<bool> {
        let more = match sockets.changes.receive(heard, BATCH) {
            Err(e) if is_loss(&e) => {
                self.counts.xfrm_lost.add(1);
                mirror.all_stale = true;
                true
            }
            other => other?,
        };
        let mut own = self.asker(own);
        for message in messages(heard) {
            match message {
                Ok(message) => mirror.take(&message, &mut own, wall()),
                Err(_) => mirror.all_stale = true,
            }
        }
        heard.zeroize();
        Ok(more)
    }

    fn asker<'a>(
        &'a self,
        known: &'a mut HashMap<IpAddr, bool>,
    ) -> impl FnMut(IpAddr) -> bool + 'a {
        move |address| {
            let own = known.entry(address);
            // Only what is: an address may come later.
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

    /// Asks for all, or for all policies; whether the kernel vouches for the answer.
    fn resync(
        &self,
        mirror: &mut Mirror,
        sockets: &mut Sockets,
        own: &mut HashMap<IpAddr, bool>,
    ) -> io::Result<bool> {
        let mut own = self.asker(own);
        let requests = &mut sockets.requests;
        let mut whole = true;
        if std::mem::take(&mut mirror.all_stale) {
            self.counts.xfrm_resyncs.add(1);
            mirror.policies_stale = true;
            mirror.begin_sas();
            let mut made = Vec::new();
            let now = wall();
            requests.ask(|writer, sequence| writer.xfrm_dump(GETSA, sequence))?;
            let ended = loop {
                let part = requests.part(&mut |message| {
                    mirror.dumped_sa(message, &mut made, &mut own, now);
                });
                requests.wipe();
                if let Some(ended) = part? {
                    break ended;
                }
            };
            match ended {
                true => mirror.end_sas(&made, now),
                // What it has told is there; what it has not may have been passed over.
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
            // Old kernels do not know the question: then all passes.
            let _ = requests.part(&mut |message| mirror.dumped_policy(message));
            requests.ask(|writer, sequence| writer.xfrm_dump(GETPOLICY, sequence))?;
            let ended = loop {
                let part = requests.part(&mut |message| mirror.dumped_policy(message));
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

    /// Tells the kernel what has passed.
    fn tell(&self, mirror: &mut Mirror, sockets: &mut Sockets) -> io::Result<()> {
        let mut room = [0; 16 << 10];
        loop {
            let mut writer = Writer::new(&mut room);
            let all = mirror.tell(&mut writer, wall());
            if !writer.is_empty() {
                sockets.requests.tell(writer.bytes())?;
            }
            self.counts.xfrm_refused.add(sockets.requests.refusals());
            if all || self.is_stopped() {
                return Ok(());
            }
        }
    }

    /// Waits until the kernel says something, for a poke, or so long.
    fn wait(&self, changes: Option<&Changes>, at_most: Duration) {
        let changes = changes.map(|changes| PollFd::from_borrowed_fd(changes.fd(), PollFlags::IN));
        let mut all: Vec<PollFd<'_>> = changes.into_iter().collect();
        all.push(PollFd::new(&self.poke, PollFlags::IN));
        let at_most = Timespec {
            tv_sec: at_most.as_secs() as i64,
            tv_nsec: i64::from(at_most.subsec_nanos()),
        };
        // An interruption is no harm: everything is looked at again.
        let _ = poll(&mut all, Some(&at_most));
        let _ = rustix::io::read(&self.poke, &mut [0; 8]);
    }
}
