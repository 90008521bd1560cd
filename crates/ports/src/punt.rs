//! `punt:NAME`: a port whose other end is this program, which exchanges the frames with a daemon on another server.
//!
//! A socket pair carries the frames: each direction has a bounded queue in the kernel, and a frame wakes a sleeping
//! receiver. Senders never block: a frame that finds its queue full is dropped and counted. The link is up while the
//! program exchanges frames.

use crate::counts::Count;
use crate::scheme::{Parts, PortContext, Resource, Scheme};
use crate::sys;
use crate::tap::{Counters, Layer, Queue, Rx};
use engine::packet::Batch;
use engine::port::{
    Port, PortCounter, PortInfo, PortRequest, RxQueue, TxOutcome, TxQueue, offer_each,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use sync::Lock;

const QUEUES_MAX: usize = 64;
/// Requested size of each socket's queue in bytes; the kernel may allow less (net.core.wmem_max).
const SOCKET_BUFFER_BYTES: usize = 512 << 10;

/// The control side of an open port.
pub struct Punt {
    /// The router's socket.
    near: Arc<Queue>,
    /// The program's socket.
    far: OwnedFd,
    up: AtomicBool,
    counts: Arc<Counters>,
    tx_full: Count,
    rx_full: Count,
    rx_link_down: Count,
}

impl Punt {
    fn new() -> io::Result<Punt> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (near, far) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        for socket in [&near, &far] {
            sockopt::set_socket_send_buffer_size(socket, SOCKET_BUFFER_BYTES)?;
        }
        Ok(Punt {
            near: Queue::new(near)?,
            far,
            up: AtomicBool::new(false),
            counts: Arc::default(),
            tx_full: Count::default(),
            rx_full: Count::default(),
            rx_link_down: Count::default(),
        })
    }

    /// Descriptor that becomes readable when there is a frame to [`take`](Self::take).
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.far.as_fd()
    }

    /// Takes a frame that the router has sent; 0 if there is none.
    pub fn take(&self, into: &mut [u8]) -> usize {
        sys::read(self.far.as_raw_fd(), into)
    }

    /// Gives the router a frame. Returns false if the link is down (counted as `rx_link_down`) or the queue is full
    /// (`rx_full`).
    pub fn give(&self, frame: &[u8]) -> bool {
        let counter = if self.link_up() {
            if sys::write(&self.far, frame).is_ok() {
                return true;
            }
            &self.rx_full
        } else {
            &self.rx_link_down
        };
        counter.add_shared(1);
        false
    }

    /// Sets the state of the link. While it is down, frames in both directions are dropped (`tx_link_down`,
    /// `rx_link_down`).
    pub fn set_link(&self, up: bool) {
        self.up.store(up, Ordering::Release);
    }
}

impl Port for Punt {
    fn info(&self) -> PortInfo {
        info()
    }

    fn link_up(&self) -> bool {
        self.up.load(Ordering::Acquire)
    }

    fn counters(&self) -> Vec<PortCounter> {
        let counts = [
            ("too_long", &self.counts.too_long),
            ("rx_full", &self.rx_full),
            ("rx_link_down", &self.rx_link_down),
            ("tx_full", &self.tx_full),
            ("tx_link_down", &self.counts.tx_link_down),
            ("tx_errors", &self.counts.tx_errors),
        ];
        counts.map(|(name, count)| (name, None, count.get())).into()
    }
}

struct Tx(Arc<Punt>);

impl TxQueue for Tx {
    fn transmit(&mut self, batch: &mut Batch, refused: &mut Batch) -> usize {
        let punt = &self.0;
        offer_each(batch, refused, |packet| {
            let counter = if punt.link_up() {
                match sys::write(&punt.near.fd, packet.data()) {
                    Ok(()) => return TxOutcome::Sent,
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => &punt.tx_full,
                    Err(_) => &punt.counts.tx_errors,
                }
            } else {
                &punt.counts.tx_link_down
            };
            counter.add_shared(1);
            TxOutcome::Refused
        })
    }
}

/// The ports of a router to the program itself.
#[derive(Default)]
pub(crate) struct Punts(Lock<BTreeMap<String, Weak<Punt>>>);

impl Punts {
    /// The control side of an open port.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Punt>> {
        self.0.lock().get(name)?.upgrade()
    }
}

impl Scheme for Punts {
    fn name_syntax(&self) -> &'static str {
        "punt:NAME"
    }

    fn resource(&self, _: &str) -> Resource {
        Resource::Nothing
    }

    fn probe(&self, _: &str, _: &PortContext<'_>) -> Result<PortInfo, String> {
        Ok(info())
    }

    fn open(
        &self,
        name: &str,
        request: &PortRequest,
        _: &PortContext<'_>,
    ) -> Result<Parts, String> {
        let punt = Punt::new().map_err(|e| format!("cannot open punt:{name}: {e}"))?;
        let punt = Arc::new(punt);
        let rx = (0..request.rx_queues).map(|_| {
            let rx = Rx::new(&punt.near, &punt.counts, Layer::Ether);
            Box::new(rx) as Box<dyn RxQueue>
        });
        let rx = rx.collect();
        let tx =
            (0..request.tx_queues).map(|_| Box::new(Tx(Arc::clone(&punt))) as Box<dyn TxQueue>);
        let tx = tx.collect();
        self.0.lock().insert(name.to_owned(), Arc::downgrade(&punt));
        Ok(Parts { port: punt, rx, tx })
    }
}

fn info() -> PortInfo {
    PortInfo {
        mtu: crate::buffer_mtu(),
        ..PortInfo::of_process("punt", QUEUES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Directory;
    use engine::packet::Packet;
    use engine::port::{OpenPort, PortDirectory};

    fn opened(ports: &Directory) -> (OpenPort, Arc<Punt>) {
        let request = PortRequest {
            rx_queues: 1,
            tx_queues: 2,
            ..PortRequest::default()
        };
        let open = ports.open("punt:lan", &request).unwrap();
        (open, ports.punt("lan").unwrap())
    }

    fn count(punt: &Punt, name: &str) -> u64 {
        let counters = punt.counters();
        let found = counters.iter().find(|(known, ..)| *known == name);
        found.map_or(0, |(_, _, value)| *value)
    }

    fn send(queue: &mut dyn TxQueue, frame: &[u8]) -> bool {
        let (mut batch, mut refused) = (Batch::new(), Batch::new());
        batch.push(Packet::from_bytes(frame).unwrap());
        let sent = queue.transmit(&mut batch, &mut refused) == 1;
        assert_eq!((sent, batch.len()), (refused.is_empty(), 0));
        sent
    }

    #[test]
    fn frames_cross_in_both_directions_while_the_link_is_up() {
        let ports = Directory::new();
        let (open, punt) = opened(&ports);
        let mut tx = open.tx[1].take().unwrap();
        assert!(!open.port.link_up() && !send(&mut *tx, &[1; 60]) && !punt.give(&[1; 60]));
        let [tx_down, rx_down] = ["tx_link_down", "rx_link_down"].map(|name| count(&punt, name));
        assert_eq!((tx_down, rx_down, count(&punt, "rx_full")), (1, 1, 0));
        punt.set_link(true);
        let mut room = [0; 2048];
        assert!(send(&mut *tx, &[2; 60]));
        assert_eq!((punt.take(&mut room), room[59], room[60]), (60, 2, 0));
        assert_eq!(punt.take(&mut room), 0);
        assert!(punt.give(&[3; 70]));
        let (mut rx, mut batch) = (open.rx[0].take().unwrap(), Batch::new());
        assert_eq!(rx.receive(&mut batch, 8), 1);
        assert_eq!(batch.iter().next().unwrap().data(), [3; 70]);
        // The port is closed when its last owner is dropped.
        drop((open, rx, tx, punt));
        ports.close("punt:lan");
        assert!(ports.punt("lan").is_none());
    }

    #[test]
    fn frames_are_dropped_and_counted_when_a_queue_is_full() {
        let ports = Directory::new();
        let (open, punt) = opened(&ports);
        punt.set_link(true);
        let mut tx = open.tx[0].take().unwrap();
        let all = 10_000;
        let sent = (0..all).filter(|_| send(&mut *tx, &[1; 1514])).count() as u64;
        assert!(sent > 16 && sent < all, "{sent}");
        assert_eq!(count(&punt, "tx_full"), all - sent);
        let given = (0..all).filter(|_| punt.give(&[1; 1514])).count() as u64;
        assert!(given > 16 && given < all, "{given}");
        assert_eq!(count(&punt, "rx_full"), all - given);
        // A taken frame makes room.
        assert!(punt.take(&mut [0; 2048]) == 1514 && send(&mut *tx, &[1; 60]));
    }
}
