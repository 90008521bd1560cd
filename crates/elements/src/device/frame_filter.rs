//! Filter for some kinds of frames: FORCE_IP and PROTOCOL of FromDevice.

use crate::prelude::*;
use captures::link::{Encap, mark_ip};

/// Indices in DROPS.
const NOT_IP: u8 = 0;
const OTHER_PROTOCOL: u8 = 1;
pub(super) const DROPS: &[&str] = &["not_ip", "other_protocol"];

/// Filter of received frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameFilter {
    /// True to accept only valid IPv4 packets, and mark their headers.
    pub(super) ip: bool,
    /// Required EtherType; `None` for any.
    pub(super) protocol: Option<u16>,
}

impl FrameFilter {
    /// Filter with these conditions; `None` if there are none.
    pub(super) fn new(ip: bool, protocol: Option<u16>) -> Option<FrameFilter> {
        (ip || protocol.is_some()).then_some(FrameFilter { ip, protocol })
    }

    /// Drops frames that do not match.
    pub(super) fn filter(self, batch: &mut Batch, cx: &mut Cx) {
        batch.split(
            cx,
            |packet, _| self.verdict(packet),
            |packet, verdict, cx| cx.send(packet, verdict),
        );
    }

    fn verdict(self, packet: &mut Packet) -> Verdict {
        let kind = packet
            .data()
            .get(12..14)
            .and_then(|kind| kind.try_into().ok());
        if let Some(wanted) = self.protocol
            && kind != Some(wanted.to_be_bytes())
        {
            return Verdict::drop(OTHER_PROTOCOL);
        }
        if self.ip {
            let Some(at) = Encap::ETHER.ip_at(packet.data()) else {
                return Verdict::drop(NOT_IP);
            };
            mark_ip(packet, at);
        }
        Verdict::ON
    }
}

#[cfg(test)]
impl FrameFilter {
    pub(super) fn matches(self, packet: &mut Packet) -> bool {
        self.verdict(packet) == Verdict::ON
    }
}
