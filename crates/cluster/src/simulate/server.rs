//! First-in, first-out servers: a node, a cable, or an external output.

use super::config::QUEUE_LEAST;

/// A server that serves in order of arrival.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Server {
    /// Time until which the server is busy.
    pub(crate) busy: u64,
    /// Nanoseconds for a byte.
    per_byte: f64,
    /// Maximum waiting time of a packet in nanoseconds.
    most: u64,
    /// Nanoseconds that the longest packet so far took to serve.
    longest: u64,
    /// Time until which the server is busy with priority packets.
    first: u64,
    /// Number of bytes served during the measured time.
    pub(crate) bytes: u64,
}

impl Server {
    pub(crate) fn new(rate: f64, queue: u64) -> Server {
        let per_byte = 8e9 / rate.max(1.0);
        Server {
            busy: 0,
            longest: 0,
            first: 0,
            per_byte,
            most: queue.max((QUEUE_LEAST as f64 * per_byte) as u64),
            bytes: 0,
        }
    }

    /// A server of `rate` packets per second, independent of their length: each counts as one byte.
    pub(crate) fn of_packets(rate: f64, queue: u64) -> Server {
        Server {
            most: queue,
            ..Server::new(8.0 * rate, queue)
        }
    }

    /// Time at which the server finishes a packet; `None` if its queue is full.
    #[inline]
    pub(crate) fn serve(&mut self, now: u64, bytes: u32, measured: bool) -> Option<u64> {
        let start = self.busy.max(now);
        if start - now > self.most {
            return None;
        }
        let takes = (f64::from(bytes) * self.per_byte) as u64;
        self.longest = self.longest.max(takes);
        self.busy = start + takes;
        if measured {
            self.bytes += u64::from(bytes);
        }
        Some(self.busy)
    }

    /// Time at which the server finishes a priority packet, which delays all waiting packets. It is served after
    /// earlier priority packets and the packet in service. The latter counts as one of maximum length, because its
    /// length is unknown.
    pub(crate) fn serve_first(&mut self, now: u64, bytes: u32) -> u64 {
        let takes = (f64::from(bytes) * self.per_byte) as u64;
        let start = match self.first > now {
            true => self.first,
            false => self.busy.clamp(now, now + self.longest),
        };
        self.first = start + takes;
        self.busy = self.busy.max(now) + takes;
        self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that needs a nanosecond per byte.
    fn server() -> Server {
        Server::new(8e9, 1_000_000)
    }

    #[test]
    fn priority_packet_waits_for_one_packet_at_most() {
        let mut server = server();
        for done in [1000, 2000, 3000] {
            assert_eq!(server.serve(0, 1000, false), Some(done));
        }
        assert_eq!(server.serve_first(500, 64), 1564);
        assert_eq!(server.serve(600, 1000, false), Some(4064), "it takes time");
        assert_eq!(server.serve_first(4000, 64), 4128, "no more is left to do");
        assert_eq!(server.serve_first(9000, 64), 9064, "there is none");
    }

    #[test]
    fn priority_packets_keep_their_order() {
        let mut server = server();
        assert_eq!(server.serve(0, 1000, false), Some(1000));
        assert_eq!(server.serve_first(0, 64), 1064);
        assert_eq!(server.serve_first(10, 100), 1164);
        assert_eq!(server.serve_first(1160, 64), 1228);
        assert_eq!(server.serve(1161, 10, false), Some(1238));
    }
}
