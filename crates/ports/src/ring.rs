//! `ring:NAME`: packets sent to transmit queue n are received from receive queue n, in this process. It joins two parts
//! of a configuration, on the same or on other cores, as a cable would.

use crate::scheme::{Parts, PortContext, Resource, Scheme};
use crate::sys;
use engine::packet::anno::PacketType;
use engine::packet::{Batch, Packet};
use engine::port::{PortInfo, PortRequest, RxQueue, TxQueue};
use engine::ring::{Head, Tail, ring};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering::SeqCst, fence};

const QUEUES_MAX: usize = 64;
const DESCRIPTORS: usize = 1024;

struct Rx {
    head: Head<Packet>,
    wake_fd: Arc<OwnedFd>,
}

impl RxQueue for Rx {
    fn receive(&mut self, into: &mut Batch, max: usize) -> usize {
        let before = into.len();
        if self.head.pop_each(max, |packet| into.push(packet)) == 0 {
            sys::clear(&self.wake_fd);
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
        Some(self.wake_fd.as_raw_fd())
    }

    fn fill(&self) -> Option<f64> {
        let level = self.head.level();
        Some(level.len() as f64 / level.limit().max(1) as f64)
    }
}

struct Tx {
    tail: Tail<Packet>,
    wake_fd: Arc<OwnedFd>,
}

impl TxQueue for Tx {
    fn transmit(&mut self, batch: &mut Batch, _: &mut Batch) -> usize {
        let room = self.tail.capacity().saturating_sub(self.tail.len());
        let n = room.min(batch.len());
        let sent = self.tail.push_from(n, &mut batch.drain_front(n));
        debug_assert_eq!(sent, n);
        fence(SeqCst);
        // All older packets were taken, so the receiver may be asleep.
        if n > 0 && self.tail.len() <= n {
            sys::signal(&self.wake_fd);
        }
        n
    }
}

/// The scheme `ring:`.
pub(crate) struct Ring;

impl Scheme for Ring {
    fn name_syntax(&self) -> &'static str {
        "ring:NAME"
    }

    fn resource(&self, _: &str) -> Resource {
        Resource::Nothing
    }

    fn probe(&self, _: &str, _: &PortContext<'_>) -> Result<PortInfo, String> {
        Ok(PortInfo {
            mtu: crate::buffer_mtu(),
            ..PortInfo::of_process("ring", QUEUES_MAX)
        })
    }

    /// Makes the rings.
    ///
    /// # Errors
    /// A sentence: the numbers of receive and transmit queues differ, or no descriptors are left.
    fn open(
        &self,
        name: &str,
        request: &PortRequest,
        site: &PortContext<'_>,
    ) -> Result<Parts, String> {
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
                wake_fd: Arc::clone(&bell),
            }) as Box<dyn RxQueue>);
            tx.push(Box::new(Tx {
                tail,
                wake_fd: bell,
            }) as Box<dyn TxQueue>);
        }
        Ok(Parts {
            port: Arc::new(self.probe(name, site)?),
            rx,
            tx,
        })
    }
}
