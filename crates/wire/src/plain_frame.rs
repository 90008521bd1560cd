//! Recogniser of plain frames, which are most frames on most links and need no further parsing.

use crate::{bytes, proto, tunnel};

/// Flow of a plain frame: untagged Ethernet, IPv4 without options, TCP or UDP, neither a fragment nor in a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain {
    /// Source address.
    pub src: u32,
    /// Destination address.
    pub dst: u32,
    /// The source port, and below it the destination port.
    pub ports: u32,
    /// TCP or UDP.
    pub protocol: u8,
}

impl Plain {
    /// Flow of a plain frame. `None` for other frames, which may have a flow all the same.
    #[inline]
    pub fn of_ether(frame: &[u8]) -> Option<Plain> {
        let head = frame.first_chunk::<38>()?;
        let word = |at: usize| bytes::be32(head, at);
        // Ethertype, version and header length; more fragments, and the fragment's offset.
        let fits = word(12) >> 8 == 0x0008_0045 && word(20) >> 16 & 0x3fff == 0;
        let (protocol, ports) = (head[23], word(34));
        let is_tunnel = ports as u16 == tunnel::VXLAN_PORT;
        let is_plain = protocol == proto::TCP || protocol == proto::UDP && !is_tunnel;
        (fits && is_plain).then(|| Plain {
            src: word(26),
            dst: word(30),
            ports,
            protocol,
        })
    }
}
