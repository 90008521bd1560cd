//! Common part of encapsulators of ICMP messages.

use crate::ip4::encap::{Headed, Header, Idents, read_dst, read_src, write_dst, write_src};
use crate::prelude::*;
use std::marker::PhantomData;
use wire::{Icmp, icmp, proto};

drops! {
    NO_ROOM = "no_room",
}

/// ICMP types whose header contains an identifier and a sequence number (RFC 792, RFC 950).
const NUMBERED: [u8; 8] = [0, 8, 13, 14, 15, 16, 17, 18];

/// Header fields of new messages, and the number of the next one.
#[derive(Clone, Copy)]
pub(super) struct Message {
    pub(super) header: Header,
    pub(super) kind: u8,
    pub(super) code: u8,
    pub(super) identifier: u16,
}

impl Message {
    /// Prepends IPv4 and ICMP headers to a packet. `number` is its identification and sequence number. Returns false
    /// without headroom.
    #[must_use]
    pub(super) fn prepend(&self, packet: &mut Packet, number: u16) -> bool {
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

/// Constants and arguments of a class that prepends ICMP headers.
pub(super) trait Family: Sized + 'static {
    const CLASS: &'static str;
    const MANUAL: &'static str;

    /// Parses type and code of the messages. Errors are recorded.
    fn kind_and_code(args: &mut Args) -> (u8, u8);
}

/// Element that prepends ICMP headers to packets.
pub(super) struct Encap<F> {
    message: Message,
    idents: Idents,
    family: PhantomData<F>,
}

impl<F: Family> Element for Encap<F> {
    const CONTRACT: Contract = Contract::new(F::CLASS, F::MANUAL)
        .ports(Ports::new(&["in"], &["out"]))
        .gives(&[Facts::IP4.and(Facts::AT_NETWORK).and(Facts::DST4)])
        .spoils(Facts::ETHER.and(Facts::IP6).and(Facts::DST6))
        .drops(DROPS);

    type Config = Message;

    fn configure(args: &mut Args) -> Message {
        let src = args.required("SRC", "the source address");
        let dst = args.required("DST", "the destination address");
        let (kind, code) = F::kind_and_code(args);
        Message {
            header: Header {
                ttl: 255,
                ..Header::new(src, dst, proto::ICMP)
            },
            kind,
            code,
            identifier: args.key("IDENTIFIER", 0, "the identifier, where the type has one"),
        }
    }

    fn new(message: &Arc<Message>, init: &Init) -> Encap<F> {
        Encap {
            message: **message,
            // The identifications serve as ICMP sequence numbers, too.
            idents: Idents::new(1, None, init),
            family: PhantomData,
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        on_if(self.message.prepend(packet, self.idents.next(cx)), NO_ROOM)
    }

    const HANDLERS: &'static [Handler<Encap<F>>] =
        &[read_src(), write_src(), read_dst(), write_dst()];
}

impl<F: Family> Headed for Encap<F> {
    fn header(&self) -> &Header {
        &self.message.header
    }

    fn header_mut(&mut self) -> &mut Header {
        &mut self.message.header
    }
}
