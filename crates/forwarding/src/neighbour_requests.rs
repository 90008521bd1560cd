//! Questions for neighbours, from workers to control.

use rustix::event::{EventfdFlags, eventfd};
use std::fmt;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use sync::Lock;

/// Maximum number of pending requests to the control thread. A request that finds the channel full is repeated a second
/// later.
const WAITING_MAX: usize = 4096;

/// Request to the kernel to resolve or confirm the neighbour of an outgoing packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Number of the interface ([`Interface::number`](super::Interface::number)).
    pub interface: u16,
    /// The neighbour's address.
    pub address: IpAddr,
}

/// Channel for neighbour requests, on which workers never block. Unset as long as no element names an interface.
#[derive(Default)]
pub(super) struct RequestChannel {
    way: OnceLock<Channel>,
    /// True if the doorbell has been rung since the control thread last read it.
    doorbell_pending: AtomicBool,
    lost: AtomicU64,
}

struct Channel {
    sender: SyncSender<Ask>,
    receiver: Lock<Receiver<Ask>>,
    doorbell: Option<OwnedFd>,
}

impl RequestChannel {
    /// Enables requests from now on.
    pub(super) fn enable(&self) {
        self.way.get_or_init(|| {
            let (sender, receiver) = sync_channel(WAITING_MAX);
            Channel {
                sender,
                receiver: Lock::new(receiver),
                doorbell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok(),
            }
        });
    }

    /// Sends a request, and rings the doorbell unless it is pending.
    pub(super) fn send(&self, ask: Ask) {
        let way = self.way.get();
        if way.is_none_or(|way| way.sender.try_send(ask).is_err()) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        } else if !self.doorbell_pending.swap(true, Ordering::AcqRel)
            && let Some(doorbell) = self.doorbell()
        {
            // The write cannot block, because the control thread reads the doorbell before it is rung again.
            let _ = rustix::io::write(doorbell, &1u64.to_ne_bytes());
        }
    }

    pub(super) fn take(&self, each: &mut dyn FnMut(Ask)) {
        let Some(way) = self.way.get() else {
            return;
        };
        if let Some(doorbell) = &way.doorbell {
            let _ = rustix::io::read(doorbell, &mut [0; 8]);
        }
        // The flag is cleared before the channel is read: a request sent from now on rings again.
        self.doorbell_pending.store(false, Ordering::Release);
        let receiver = way.receiver.lock();
        // At most one channel's worth of requests per call, so that the control thread gets to other work.
        receiver.try_iter().take(WAITING_MAX).for_each(each);
    }

    pub(super) fn doorbell(&self) -> Option<BorrowedFd<'_>> {
        self.way.get()?.doorbell.as_ref().map(AsFd::as_fd)
    }

    /// Number of requests lost because the channel was full or unset.
    pub(super) fn lost_requests(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for RequestChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestChannel, {} lost", self.lost_requests())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(n: u8) -> Ask {
        Ask {
            interface: 3,
            address: IpAddr::from([192, 0, 2, n]),
        }
    }

    fn rings(asks: &RequestChannel) -> bool {
        rustix::io::read(asks.doorbell().expect("a descriptor"), &mut [0; 8]).is_ok()
    }

    #[test]
    fn the_bell_rings_once_until_control_looks() {
        let asks = RequestChannel::default();
        asks.enable();
        assert!(!rings(&asks));
        asks.send(ask(1));
        assert!(rings(&asks));
        asks.send(ask(2));
        assert!(!rings(&asks), "it was rung for already");
        let mut taken = Vec::new();
        asks.take(&mut |ask| taken.push(ask));
        assert_eq!(taken, [ask(1), ask(2)]);
        asks.send(ask(3));
        assert!(rings(&asks));
    }

    #[test]
    fn too_many_questions_are_lost_and_counted() {
        let asks = RequestChannel::default();
        asks.send(ask(1));
        asks.take(&mut |_| unreachable!("nobody follows a kernel"));
        assert_eq!(asks.lost_requests(), 1);
        let asks = RequestChannel::default();
        asks.enable();
        for _ in 0..WAITING_MAX + 5 {
            asks.send(ask(1));
        }
        let mut taken = 0;
        asks.take(&mut |_| taken += 1);
        assert_eq!((taken, asks.lost_requests()), (WAITING_MAX, 5));
    }
}
