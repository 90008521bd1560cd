//! Fault of a packet, recorded in it so that ICMP6Error can report it to the source.
//!
//! The fault is stored in rarely used annotations (user bytes 40 to 45), so packets without a fault cost nothing.

use super::header_chain;
use engine::packet::Packet;
use wire::addr;
use wire::ext::{BadExt, Report};

const AT: usize = 40;

/// A noted fault: code and pointer of a Parameter Problem (RFC 4443, 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) code: u8,
    pub(super) pointer: u32,
    /// True if even a packet to a group is answered.
    pub(super) always: bool,
}

/// Notes `bad` on the packet. Returns true if its source is to get an error message.
pub(super) fn record(packet: &mut Packet, bad: BadExt) -> bool {
    let [a, b, c, d] = (bad.pointer as u32).to_be_bytes();
    let always = bad.report == Report::Always;
    packet.cold_mut().user[AT..AT + 6].copy_from_slice(&[bad.code, u8::from(always), a, b, c, d]);
    let to_group = header_chain::header(packet).is_none_or(|ip| addr::is_multicast6(ip.dst()));
    match bad.report {
        Report::Never => false,
        Report::Unicast => !to_group,
        Report::Always => true,
    }
}

/// The fault noted on a packet; an erroneous field at 0 if there is none.
pub(super) fn recorded(packet: &Packet) -> Fault {
    let user = &packet.cold().user;
    Fault {
        code: user[AT],
        always: user[AT + 1] != 0,
        pointer: u32::from_be_bytes([user[AT + 2], user[AT + 3], user[AT + 4], user[AT + 5]]),
    }
}
