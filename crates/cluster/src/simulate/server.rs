//! What serves in order of arrival: a node, a cable, an external output.

use super::config::QUEUE_LEAST;

/// Something that serves in order of arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct Server {
    /// Until when it is busy.
    pub(super) busy: u64,
    /// Nanoseconds for a byte.
    per_byte: f64,
    /// Nanoseconds that a packet may wait.
    most: u64,
    /// Bytes served while it was measured.
    pub(super) bytes: u64,
}

impl Server {
    pub(super) fn new(rate: f64, queue: u64) -> Server {
        let per_byte = 8e9 / rate.max(1.0);
        Server {
            busy: 0,
            per_byte,
            most: queue.max((QUEUE_LEAST as f64 * per_byte) as u64),
            bytes: 0,
        }
    }

    /// When it is done with a packet, or nothing if its queue is full.
    #[inline]
    pub(super) fn serve(&mut self, now: u64, bytes: u32, measured: bool) -> Option<u64> {
        let start = self.busy.max(now);
        if start - now > self.most {
            return None;
        }
        self.busy = start + (f64::from(bytes) * self.per_byte) as u64;
        if measured {
            self.bytes += u64::from(bytes);
        }
        Some(self.busy)
    }

    /// When it is done with what goes before all that waits, and takes its time from that.
    pub(super) fn serve_first(&mut self, now: u64, bytes: u32) -> u64 {
        let takes = (f64::from(bytes) * self.per_byte) as u64;
        self.busy = self.busy.max(now) + takes;
        now + takes
    }
}
