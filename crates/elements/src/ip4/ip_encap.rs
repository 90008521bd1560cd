//! Prepends an IPv4 header to packets.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> IPEncap(ipip, 192.0.2.1, 198.51.100.1) -> Discard;
//! ```
//!
//! The network header and destination annotations are set. An identification is not repeated within 65,536, and
//! cannot be guessed from others; with `ashlar click` identifications count up, as in Click. A packet without room
//! before its data, or too long for a datagram, is dropped (`no_room`).
//!
//! Arguments:
//!
//! - `PROTO`: the protocol inside: a number, or `icmp`, `igmp`, `ipip`, `tcp`, `udp`, `dccp`, `gre`,
//!   `esp`, `ah`, `ospf`, `sctp`.
//! - `SRC`: the source address.
//! - `DST`: the destination address; `DST_ANNO` takes each packet's annotation.
//!
//! Keyword arguments:
//!
//! - `TTL`: time to live. Default 250.
//! - `DSCP`: differentiated services code point, 0 to 63. Default 0.
//! - `ECT`: support of explicit congestion notification by the transport: true or 1 for ECT(1), 2 for
//!   ECT(0). Default false.
//! - `CE`: true to set "congestion experienced". Default false.
//! - `TOS`: the whole type of service byte, instead of the three arguments before.
//! - `DF`: true if routers must not fragment. Default false.

use super::encap::{Headed, Header, Idents, Order, read_dst, read_src, write_dst, write_src};
use crate::prelude::*;
use arguments::Names;
use arguments::protocol::Protocol;
use arguments::units::FromArg;

drops! {
    NO_ROOM = "no_room",
}

pub(super) struct IPEncap {
    header: Header,
    idents: Idents,
}

pub(super) struct Config {
    header: Header,
    order: Arc<Order>,
}

/// ECN value of an ECN-capable transport.
struct Ect(u8);

impl FromArg for Ect {
    const KIND: &'static str = "true, false or 2";

    fn from_arg(raw: &str, names: &Names) -> Result<Ect, String> {
        match raw {
            "2" => Ok(Ect(2)),
            _ => bool::from_arg(raw, names).map(|on| Ect(u8::from(on))),
        }
    }

    fn stand_in() -> Ect {
        Ect(0)
    }

    fn unparse(&self) -> String {
        ["false", "true", "2"][usize::from(self.0)].to_owned()
    }
}

fn type_of_service(args: &mut Args) -> u8 {
    let dscp: Option<u8> = args.key_maybe("DSCP", "code point, 0 to 63");
    let ect: Option<Ect> = args.key_maybe("ECT", "true if the transport knows ECN");
    let ce: Option<bool> = args.key_maybe("CE", "true if congestion was experienced");
    let tos: Option<u8> = args.key_maybe("TOS", "the whole byte");
    let parts = dscp.is_some() || ect.as_ref().is_some_and(|e| e.0 != 0) || ce == Some(true);
    if let Some(tos) = tos {
        if parts {
            args.error_in_whole(
                "cannot specify both TOS and DSCP, ECT, or CE",
                "give the byte, or its parts",
            );
        }
        return tos;
    }
    if ce == Some(true) && ect.as_ref().is_some_and(|e| e.0 != 0) {
        args.error_in_whole("can set at most one ECN option", "give ECT, or CE");
    }
    let dscp = dscp.unwrap_or(0);
    if dscp > 63 {
        args.error_in_whole("bad DSCP", "it goes from 0 to 63");
        return 0;
    }
    let ecn = match ce {
        Some(true) => 3,
        _ => ect.map_or(0, |ect| ect.0),
    };
    dscp << 2 | ecn
}

impl Element for IPEncap {
    const CONTRACT: Contract = Contract::new("IPEncap", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .gives(&[Facts::IP4.and(Facts::AT_NETWORK).and(Facts::DST4)])
        .spoils(Facts::ETHER.and(Facts::IP6).and(Facts::DST6))
        .drops(DROPS);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let protocol: Protocol = args.required("PROTO", "the protocol inside");
        let src = args.required("SRC", "the source address");
        let dst = args.required("DST", "the destination address");
        let header = Header {
            tos: type_of_service(args),
            ttl: args.key("TTL", 250, "time to live"),
            dont_fragment: args.key("DF", false, "true if routers must not fragment"),
            ..Header::new(src, dst, protocol.0)
        };
        Config {
            header,
            order: Arc::default(),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> IPEncap {
        IPEncap {
            header: config.header,
            idents: Idents::new(0, Some(&config.order), init),
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let put = self.header.put(packet, 0, self.idents.next(cx));
        on_if(put.is_some(), NO_ROOM)
    }

    const HANDLERS: &'static [Handler<IPEncap>] =
        &[read_src(), write_src(), read_dst(), write_dst()];
}

impl Headed for IPEncap {
    fn header(&self) -> &Header {
        &self.header
    }

    fn header_mut(&mut self) -> &mut Header {
        &mut self.header
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;
    use wire::Ipv4;

    fn made(configuration: &str) -> Vec<u8> {
        let text = format!("e :: IPEncap({configuration}) -> CheckIPHeader -> out :: Collect");
        let mut bench = Bench::click(crate::CLASSES, &text);
        bench.push("e", &[b"data"]);
        bench.take("out").remove(0)
    }

    #[test]
    fn the_header_is_valid_and_as_configured() {
        let packet = made("tcp, 1.0.0.1, 2.0.0.2, TTL 9, DSCP 10, ECT 2, DF true");
        let ip = Ipv4::new_checked(&packet).unwrap();
        assert_eq!((ip.protocol(), ip.ttl(), ip.tos()), (6, 9, 10 << 2 | 2));
        assert_eq!(
            (ip.src().octets(), ip.dst().octets()),
            ([1, 0, 0, 1], [2, 0, 0, 2])
        );
        assert!(ip.dont_fragment());
        assert_eq!(ip.payload(), b"data");
        let plain = made("4, 1.0.0.1, 2.0.0.2");
        let ip = Ipv4::new_checked(&plain).unwrap();
        assert_eq!(
            (ip.protocol(), ip.ttl(), ip.tos(), ip.ident()),
            (4, 250, 0, 0)
        );
        assert!(!ip.dont_fragment());
        assert_eq!(made("4, 1.0.0.1, 2.0.0.2, CE true, ECT false")[1], 3);
        assert_eq!(made("4, 1.0.0.1, 2.0.0.2, ECT yes")[1], 1);
        let text = "Idle -> IPEncap(4, 1.0.0.1, 2.0.0.2, CE true, ECT true) -> Discard";
        let errors = testkit::errors(crate::CLASSES, text);
        assert!(errors.contains("at most one ECN option"), "{errors}");
    }

    #[test]
    fn the_destination_can_come_from_the_packet_and_both_can_be_changed() {
        let text =
            "s :: SetIPAddress(9.9.9.9) -> e :: IPEncap(udp, 1.0.0.1, DST_ANNO) -> out :: Collect";
        let mut bench = Bench::click(crate::CLASSES, text);
        bench.push("s", &[b"a"]);
        assert_eq!(bench.read("e.dst"), "DST_ANNO");
        bench.write("e.dst", "8.8.8.8");
        bench.write("e.src", "7.7.7.7");
        bench.push("s", &[b"b"]);
        let out = bench.take_packets("out");
        assert_eq!(out[0].bytes[16..20], [9, 9, 9, 9]);
        assert_eq!(out[1].bytes[12..20], [7, 7, 7, 7, 8, 8, 8, 8]);
        assert_eq!(out[1].anno.dst4(), [8, 8, 8, 8]);
        assert_eq!(out[1].bytes[4..6], [0, 1], "identifications count up");
    }

    #[test]
    fn identifications_cannot_be_guessed_and_do_not_come_twice() {
        let text = "e :: IPEncap(4, 1.0.0.1, 2.0.0.2) -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        let mut idents = Vec::new();
        for _ in 0..256 {
            bench.push("e", &[b"data"; 256]);
            let out = bench.take("out").into_iter();
            idents.extend(out.map(|p| u16::from_be_bytes([p[4], p[5]])));
        }
        // Any given step occurs in about one of 65,536 random steps.
        let step = |by: u16| {
            idents
                .windows(2)
                .filter(|w| w[0].wrapping_add(by) == w[1])
                .count()
        };
        assert!((1..=300).all(|by| step(by) < 1000));
        idents.sort_unstable();
        idents.dedup();
        assert_eq!(idents.len(), 65_536);
    }

    #[test]
    fn no_encapsulator_tells_of_anothers_identifications() {
        let encaps = [
            "IPEncap(4, 1.0.0.1, 2.0.0.2)",
            "IPEncap(4, 1.0.0.1, 2.0.0.2)",
            "UDPIPEncap(1.0.0.1, 7, 2.0.0.2, 7)",
            "UDPIPEncap(1.0.0.1, 7, 2.0.0.2, 7)",
        ];
        let each = encaps.iter().enumerate();
        let text: String = each
            .map(|(n, encap)| format!("e{n} :: {encap} -> out{n} :: Collect;"))
            .collect();
        let mut bench = Bench::new(crate::CLASSES, &text);
        let mut seen: Vec<Vec<[u8; 2]>> = Vec::new();
        for n in 0..encaps.len() {
            bench.push(&format!("e{n}"), &[b"data"; 256]);
            let out = bench.take(&format!("out{n}")).into_iter();
            seen.push(out.map(|p| [p[4], p[5]]).collect());
        }
        for (n, one) in seen.iter().enumerate() {
            for other in &seen[..n] {
                let same = one.iter().zip(other).filter(|(a, b)| a == b).count();
                assert!(same < 8, "{same} of 256");
            }
        }
    }

    #[test]
    fn mistakes_are_told() {
        for wrong in [
            "beer, 1.0.0.1, 2.0.0.2",
            "4, 1.0.0.1",
            "4, 1.0.0.1, 2.0.0.2, DSCP 64",
            "4, 1.0.0.1, 2.0.0.2, TOS 1, CE true",
        ] {
            testkit::errors(
                crate::CLASSES,
                &format!("Idle -> IPEncap({wrong}) -> Discard"),
            );
        }
    }
}
