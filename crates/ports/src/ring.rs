//! `ring:NAME`: packets sent to transmit queue n are received from receive queue n, in this process. It joins two parts
//! of a configuration, on the same or on other cores, as a cable would.

use crate::scheme::{Parts, Resource, Scheme, Site};
use crate::sys;
use engine::packet::anno::PacketType;
use engine::packet::{Batch, Packet};
use engine::port::{PortInfo, PortRequest, RxQueue, TxQueue};
use engine::ring::{Head, Tail, ring};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering::SeqCst, fence};

const MAX_QUEUES: usize = 64;
const DESCRIPTORS: usize = 1024;

struct Rx {
    head: Head<Packet>,
    bell: Arc<OwnedFd>,
}

impl RxQueue for Rx {
    fn receive(&mut self, into: &mut Batch, max: usize) -> usize {
        let before = into.len();
        if self.head.pop_each(max, |packet| into.push(packet)) == 0 {
            sys::clear(&self.bell);
            // Either this check finds packets sent before the bell was silenced, or the sender finds the ring drained
            // and rings again.
            fence(SeqCst);
            self.head.pop_each(max, |packet| into.push(packet));
        }
        for packet in into.iter_mut().skip(before) {
            packet.arrived(PacketType::of_frame);
            packet.set_hash(0); // a device's hash would cover the packet as it came into the sender
        }
        into.len() - before
    }

    fn wait_fd(&self) -> Option<RawFd> {
        Some(self.bell.as_raw_fd())
    }

    fn fill(&self) -> Option<f64> {
        let level = self.head.level();
        Some(level.len() as f64 / level.limit().max(1) as f64)
    }
}

struct Tx {
    tail: Tail<Packet>,
    bell: Arc<OwnedFd>,
}

impl TxQueue for Tx {
    fn transmit(&mut self, batch: &mut Batch, _: &mut Batch) -> usize {
        let room = self.tail.capacity().saturating_sub(self.tail.len());
        let n = room.min(batch.len());
        let sent = self.tail.push_from(n, &mut batch.drain_front(n));
        debug_assert_eq!(sent, n);
        fence(SeqCst);
        // Everything older has been taken: the receiver may be asleep.
        if n > 0 && self.tail.len() <= n {
            sys::signal(&self.bell);
        }
        n
    }
}

/// The scheme `ring:`.
pub(crate) struct Ring;

impl Scheme for Ring {
    fn form(&self) -> &'static str {
        "ring:NAME"
    }

    fn resource(&self, _: &str) -> Resource {
        Resource::Nothing
    }

    fn probe(&self, _: &str, _: &Site<'_>) -> Result<PortInfo, String> {
        Ok(PortInfo {
            mtu: engine::packet::pool::data_bytes() - 14,
            ..PortInfo::of_process("ring", MAX_QUEUES)
        })
    }

    /// Makes the rings.
    ///
    /// # Errors
    /// Queues that would have no other end, or no descriptors left.
    fn open(&self, name: &str, request: &PortRequest, site: &Site<'_>) -> Result<Parts, String> {
        let (rx_queues, tx_queues) = (request.rx_queues, request.tx_queues);
        if rx_queues != tx_queues {
            return Err(format!(
                "ring:{name} is received from by {rx_queues} queues and sent to by {tx_queues}: give \
                 both sides as many (QUEUES)"
            ));
        }
        let frames = if request.descriptors == 0 {
            DESCRIPTORS
        } else {
            request.descriptors
        };
        let (mut rx, mut tx) = (Vec::new(), Vec::new());
        for _ in 0..rx_queues {
            let (tail, head) = ring(frames);
            let bell = sys::eventfd().map_err(|e| format!("cannot open ring:{name}: {e}"))?;
            let bell = Arc::new(bell);
            rx.push(Box::new(Rx {
                head,
                bell: Arc::clone(&bell),
            }) as Box<dyn RxQueue>);
            tx.push(Box::new(Tx { tail, bell }) as Box<dyn TxQueue>);
        }
        Ok(Parts {
            port: Arc::new(self.probe(name, site)?),
            rx,
            tx,
        })
    }
}
