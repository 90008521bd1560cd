//! The sending side of a Linux interface.

use super::sys::{TxParameters, TxVectors};
use super::{Shared, Socket};
use crate::counts::Counts;
use engine::packet::Batch;
use engine::port::TxQueue;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use wire::ether;

/// Names of the counters of a transmit queue.
pub(super) const NAMES: [&str; 3] = ["tx_too_long", "tx_link_down", "tx_errors"];
const TOO_LONG: usize = 0;
const LINK_DOWN: usize = 1;
const ERRORS: usize = 2;

pub(super) struct Tx {
    socket: Arc<Socket>,
    shared: Arc<Shared>,
    vectors: TxVectors,
    /// True if the interface takes super-frames.
    merges: bool,
    counts: Arc<Counts<3>>,
}

impl Tx {
    pub(super) fn new(socket: Arc<Socket>, shared: Arc<Shared>, counts: Arc<Counts<3>>) -> Tx {
        Tx {
            socket,
            shared,
            vectors: TxVectors::new(),
            merges: true,
            counts,
        }
    }

    /// Counter under which a frame is dropped after this error; `None` if sending is to be tried again.
    fn drop_counter(&self, code: Option<i32>) -> Option<usize> {
        match code {
            // The socket has no room now. While the link is down it will not get any, and frames must not wait for the
            // link.
            Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => {
                (!self.shared.interface.link_up()).then_some(LINK_DOWN)
            }
            Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => Some(LINK_DOWN),
            Some(libc::EMSGSIZE) => Some(TOO_LONG),
            _ => Some(ERRORS),
        }
    }
}

impl Tx {
    fn send(&mut self, batch: &mut Batch, refused: &mut Batch, whole: bool) -> usize {
        let longest = self.shared.interface.mtu() + ether::LEN;
        // `done` counts sent frames at the front of the batch, `sent` those that were sent and have been removed from
        // the batch.
        let (mut done, mut sent) = (0, 0);
        while done < batch.len() {
            let (fd, left) = (self.socket.fd.as_raw_fd(), batch.iter().skip(done));
            let parameters = TxParameters {
                merges: self.merges,
                whole,
                longest,
            };
            match self.vectors.send(fd, left, parameters) {
                // A partial count: the next frame met an error, which the next call reports.
                Ok(n) => done += n,
                Err((e, frames)) => match self.drop_counter(e.raw_os_error()) {
                    // With several frames at once, the error concerns no single frame: the kernel does not support
                    // merged frames.
                    Some(TOO_LONG | ERRORS) if frames > 1 => self.merges = false,
                    Some(counter) => {
                        self.counts.at(counter).add(frames as u64);
                        drop(batch.drain_front(done));
                        sent += std::mem::take(&mut done);
                        refused.extend(batch.drain_front(frames));
                    }
                    None => break,
                },
            }
        }
        drop(batch.drain_front(done));
        sent + done
    }
}

impl TxQueue for Tx {
    fn transmit(&mut self, batch: &mut Batch, refused: &mut Batch) -> usize {
        self.send(batch, refused, false)
    }

    fn takes_super_frames(&self) -> bool {
        self.merges
    }

    fn transmit_whole(&mut self, batch: &mut Batch, refused: &mut Batch) -> usize {
        self.send(batch, refused, true)
    }
}
