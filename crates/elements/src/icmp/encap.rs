//! What encapsulators of ICMP messages share.

use crate::ip4::encap::{Header, Idents};
use crate::prelude::*;
use wire::{Icmp, icmp};

/// Types whose header has an identifier and a sequence number (RFC 792, RFC 950).
const NUMBERED: [u8; 8] = [0, 8, 13, 14, 15, 16, 17, 18];

/// The fields of new messages, and the number of the next one.
#[derive(Clone, Copy)]
pub(super) struct Message {
    pub(super) header: Header,
    pub(super) kind: u8,
    pub(super) code: u8,
    pub(super) identifier: u16,
}

impl Message {
    /// Puts IPv4 and ICMP headers before a packet; false if there is no room.
    #[must_use]
    pub(super) fn put(&self, packet: &mut Packet, idents: &mut Idents) -> bool {
        self.put_as(packet, idents.next())
    }

    /// As [`put`](Self::put), with this number as identification and as sequence number.
    #[must_use]
    pub(super) fn put_as(&self, packet: &mut Packet, number: u16) -> bool {
        let Some(mut ip) = self.header.put(packet, icmp::LEN, number) else {
            return false;
        };
        let mut message = Icmp::new_unchecked(ip.payload_mut());
        message.set_kind(self.kind);
        message.set_code(self.code);
        if NUMBERED.contains(&self.kind) {
            message.set_echo(self.identifier, number);
        } else {
            message.set_rest(0);
        }
        message.fill_checksum();
        true
    }
}
