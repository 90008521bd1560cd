//! Puts ICMP and IPv4 headers before packets.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> ICMPIPEncap(192.0.2.1, 198.51.100.1, timestamp) -> Discard;
//! ```
//!
//! The IPv4 header is marked and the destination annotation set. Where the type has a sequence number, it
//! counts up from 1. A packet without room before it is dropped (`no_room`).
//!
//! Arguments:
//!
//! - `SRC`: the source address.
//! - `DST`: the destination address.
//! - `TYPE`: the message's type, a number or a name.
//! - `CODE`: its code, a number or a name. Default 0.
//!
//! Keyword arguments:
//!
//! - `IDENTIFIER`: the identifier, where the type has one. Default 0.

use super::encap::Message;
use super::names;
use crate::ip4::encap::{Header, Idents, To};
use crate::prelude::*;
use engine::units::FromArg;
use wire::proto;

const NO_ROOM: u8 = 0;

pub(super) struct ICMPIPEncap {
    message: Message,
    idents: Idents,
}

/// Type and code by number or name; a mistake is recorded.
fn kind_and_code(args: &mut Args) -> (u8, u8) {
    let kind: String = args.required("TYPE", "the message's type, a number or a name");
    let code: Option<String> = args.maybe("CODE", "its code, a number or a name");
    let number = names::type_number(&kind).or_else(|| kind.parse().ok());
    if number.is_none() && !kind.is_empty() {
        args.error_in_whole(
            format!("TYPE must be a number or a name, not `{kind}`"),
            "write 8, or echo",
        );
    }
    let number = number.unwrap_or(0);
    let code_number = match &code {
        Some(code) => names::code_number(number, code).or_else(|| code.parse().ok()),
        None => Some(0),
    };
    if code_number.is_none() {
        let code = code.unwrap_or_default();
        args.error_in_whole(
            format!("CODE must be a number or a name, not `{code}`"),
            "write 0",
        );
    }
    (number, code_number.unwrap_or(0))
}

impl Element for ICMPIPEncap {
    const CLASS: &'static str = "ICMPIPEncap";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::new(&["in"], &["out"]);
    const GIVES: &'static [Facts] = &[Facts::IP4.and(Facts::AT_NETWORK).and(Facts::DST4)];
    const SPOILS: Facts = Facts::ETHER.and(Facts::IP6).and(Facts::DST6);
    const DROPS: &'static [&'static str] = &["no_room"];

    type Config = Message;

    fn configure(args: &mut Args) -> Message {
        let src = args.required("SRC", "the source address");
        let dst = args.required("DST", "the destination address");
        let (kind, code) = kind_and_code(args);
        Message {
            header: Header::new(src, dst, proto::ICMP),
            kind,
            code,
            identifier: args.key("IDENTIFIER", 0, "the identifier"),
        }
    }

    fn new(message: &Arc<Message>, init: &Init) -> ICMPIPEncap {
        ICMPIPEncap {
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

    const HANDLERS: &'static [Handler<ICMPIPEncap>] = &[
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

    fn messages(configuration: &str) -> Vec<Vec<u8>> {
        let text = format!(
            "e :: ICMPIPEncap(1.0.0.1, 2.0.0.2, {configuration})
                -> CheckIPHeader -> CheckICMPHeader -> Strip(20) -> out :: Collect"
        );
        let mut bench = Bench::new(crate::CLASSES, &text);
        bench.push("e", &[b"data", b"data"]);
        bench.take("out")
    }

    #[test]
    fn types_and_codes_have_names_and_numbers() {
        for (configuration, begins) in [
            ("TYPE 3, CODE 1", [3, 1]),
            ("unreachable, host", [3, 1]),
            ("redirect", [5, 0]),
            ("5, 3", [5, 3]),
        ] {
            let out = messages(configuration);
            assert_eq!(out[1][..2], begins);
            assert_eq!(out[1][4..], *b"\0\0\0\0data");
        }
    }

    #[test]
    fn where_there_is_a_sequence_number_it_counts() {
        let out = messages("echo, IDENTIFIER 0x1234");
        assert_eq!(out[0][4..8], [0x12, 0x34, 0, 1]);
        assert_eq!(out[1][4..8], [0x12, 0x34, 0, 2]);
        for wrong in ["noise", "unreachable, noise", "256"] {
            let text = format!("Idle -> ICMPIPEncap(1.0.0.1, 2.0.0.2, {wrong}) -> Discard");
            testkit::errors(crate::CLASSES, &text);
        }
    }
}
