//! Parameters of a security association that both ends agree on, except its keys.

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
    /// Maximum number of bytes of inner packets.
    pub bytes: u64,
    /// Maximum age in seconds.
    pub seconds: u64,
}

/// Soft limits, at which to renew an association, and hard limits, at which it ends.
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
    /// Direction of the association's packets.
    pub direction: Direction,
    /// Security parameters index, at least 256 (RFC 4303, 2.1).
    pub spi: u32,
    /// Identifier by which policies refer to the association. Associations that replace one another have the same
    /// identifier.
    pub reqid: u32,
    /// Cipher and authentication of the association's packets.
    pub suite: Suite,
    /// Ends and header options of the tunnel; `None` in transport mode.
    pub tunnel: Option<Tunnel>,
    /// UDP ports of the sender and the receiver (RFC 3948).
    pub udp: Option<(u16, u16)>,
    /// True if sequence numbers have 64 bits.
    pub esn: bool,
    /// Size of the anti-replay window in packets; 0 = none.
    pub window: u32,
    /// Payloads are padded to a multiple of this number of bytes, to hide the length of packets (RFC 4303, 2.7).
    pub pad: u16,
    /// Limits of the association's use.
    pub lifetime: Lifetime,
}
