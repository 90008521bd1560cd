//! Parameters of a security association that both ends agree on, without its keys.

use crate::outer::Tunnel;
use crate::suite::Suite;

/// Direction of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Inbound: from the network to this router.
    In,
    /// Outbound: from this router to the network.
    Out,
}

/// Limits on the use of an association; 0 = no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Packets.
    pub packets: u64,
    /// Bytes of inner packets.
    pub bytes: u64,
    /// Seconds since the association was created.
    pub seconds: u64,
}

/// Limits for renewing an association, and for ending it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetime {
    /// Limits for renewal.
    pub soft: Limits,
    /// Limits of use.
    pub hard: Limits,
}

/// Parameters of an association, without its keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Direction of its packets.
    pub direction: Direction,
    /// Security parameters index, at least 256 (RFC 4303, 2.1).
    pub spi: u32,
    /// Identifier by which policies refer to it; all associations that replace one another have the same.
    pub reqid: u32,
    /// Protection of its packets.
    pub suite: Suite,
    /// The tunnel's ends and manners; none in transport mode.
    pub tunnel: Option<Tunnel>,
    /// UDP ports of the sender and the receiver (RFC 3948).
    pub udp: Option<(u16, u16)>,
    /// True if sequence numbers have 64 bits.
    pub esn: bool,
    /// Size of the anti-replay window; 0 = none.
    pub window: u32,
    /// Minimum multiple of bytes to which payloads are padded, to hide the length of packets (RFC 4303, 2.7).
    pub pad: u16,
    /// Limits of its use.
    pub lifetime: Lifetime,
}
