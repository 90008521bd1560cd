//! Puts ICMP echo request and IPv4 headers before packets.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> ICMPPingEncap(192.0.2.1, 198.51.100.1) -> Discard;
//! ```
//!
//! The IPv4 header is marked and the destination annotation set. The sequence number counts up from 1. A
//! packet without room before it is dropped (`no_room`).
//!
//! Arguments:
//!
//! - `SRC`: the source address.
//! - `DST`: the destination address.
//!
//! Keyword arguments:
//!
//! - `IDENTIFIER`: the identifier of the requests. Default 0.

use super::encap::Message;
use crate::ip4::encap::{Header, Idents, To};
use crate::prelude::*;
use engine::units::FromArg;
use wire::{icmp, proto};

const NO_ROOM: u8 = 0;

pub(super) struct ICMPPingEncap {
    message: Message,
    idents: Idents,
}

impl Element for ICMPPingEncap {
    const CLASS: &'static str = "ICMPPingEncap";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::new(&["in"], &["out"]);
    const GIVES: &'static [Facts] = &[Facts::IP4.and(Facts::AT_NETWORK).and(Facts::DST4)];
    const SPOILS: Facts = Facts::ETHER.and(Facts::IP6).and(Facts::DST6);
    const DROPS: &'static [&'static str] = &["no_room"];

    type Config = Message;

    fn configure(args: &mut Args) -> Message {
        let src = args.required("SRC", "the source address");
        let dst = args.required("DST", "the destination address");
        Message {
            header: Header::new(src, dst, proto::ICMP),
            kind: icmp::ECHO,
            code: 0,
            identifier: args.key("IDENTIFIER", 0, "the identifier of the requests"),
        }
    }

    fn new(message: &Arc<Message>, init: &Init) -> ICMPPingEncap {
        ICMPPingEncap {
            message: **message,
            idents: Idents::new(1, init),
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        if self.message.put(packet, &mut self.idents) {
            Verdict::ON
        } else {
            Verdict::drop(NO_ROOM)
        }
    }

    const HANDLERS: &'static [Handler<ICMPPingEncap>] = &[
        Handler::text("src", "see SRC", |e, _| {
            Ok(e.message.header.src.to_string())
        }),
        Handler::set("src", "changes SRC", |e, value, _| {
            assign(&mut e.message.header.src, value)
        }),
        Handler::text("dst", "see DST", |e, _| Ok(e.message.header.dst.show())),
        Handler::set("dst", "changes DST", |e, value, _| {
            assign::<To>(&mut e.message.header.dst, value)
        }),
    ];
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn requests_are_valid_and_answered() {
        let text = "e :: ICMPPingEncap(1.0.0.1, 2.0.0.2, IDENTIFIER 7) -> CheckIPHeader
            -> CheckICMPHeader -> t :: Tee -> ICMPPingResponder -> a :: Collect; t[1] -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("e", &[b"x"]);
        bench.write("e.dst", "3.0.0.3");
        bench.push("e", &[b"y"]);
        let out = bench.take("out");
        assert_eq!(out[0][20..22], [8, 0]);
        assert_eq!(out[0][24..], *b"\0\x07\0\x01x");
        assert_eq!(out[1][24..], *b"\0\x07\0\x02y");
        assert_eq!(out[1][16..20], [3, 0, 0, 3]);
        assert_eq!(bench.take("a").len(), 2);
    }
}
