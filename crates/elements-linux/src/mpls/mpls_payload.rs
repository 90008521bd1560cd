//! Checks the IP packet below MPLS labels, and separates IPv4 from IPv6.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> mpls :: MPLSLookup(100 swap 200 10.0.1.2 0, EXPIRED 1) -> Discard;
//! mpls[1] -> p :: MPLSPayload -> ICMPError(10.0.1.1, timeexceeded, MPLS true) -> Discard;
//! p[1] -> ICMP6Error(2001:db8::1, timeexceeded, MPLS true) -> Discard;
//! ```
//!
//! The packet begins with its label stack and keeps it; the network header annotation marks the IP header below, and
//! the destination address annotation is set. IPv4 packets leave by output 0, IPv6 packets by output 1. All others
//! leave by output 2 if that is connected; otherwise they are dropped (`not_ip`), and so is what has no end of its
//! stack or whose IP header is broken (`bad_stack`, `bad_header`).

use crate::prelude::*;
use wire::{Ipv4, Ipv6, ipv4, ipv6, mpls};

drops! {
    NOT_IP = "not_ip",
    BAD_STACK = "bad_stack",
    BAD_HEADER = "bad_header",
}

pub(super) struct MplsPayload;

impl Element for MplsPayload {
    const CONTRACT: Contract = Contract::new("MPLSPayload", manual!())
        .ports(Ports::new(&["in"], &["ip4", "ip6?", "other?"]))
        .gives(&[
            Facts::IP4.and(Facts::DST4),
            Facts::IP6.and(Facts::DST6),
            Facts::NONE,
        ])
        .spoils(Facts::ALL)
        .drops(DROPS)
        .ignores_annotations();

    type Config = ();

    fn configure(_: &mut Args) {}

    fn new(_: &Arc<()>, _: &Init) -> MplsPayload {
        MplsPayload
    }

    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let Ok(stack) = mpls::stack_len(packet.data()) else {
            return Verdict::drop(BAD_STACK);
        };
        let payload = &packet.data()[stack..];
        let (output, len, transport) = match payload.first().map(|first| first >> 4) {
            Some(4) => match ipv4::check(payload) {
                Ok(checked) => (0, checked.total_len, checked.header_len),
                Err(_) => return Verdict::drop(BAD_HEADER),
            },
            Some(6) => match ipv6::check(payload) {
                Ok(checked) => (1, checked.total_len, ipv6::LEN),
                Err(_) => return Verdict::drop(BAD_HEADER),
            },
            _ => return Verdict::reject(NOT_IP, 2),
        };
        match output {
            0 => {
                let dst = Ipv4::new_unchecked(payload).dst();
                packet.anno_mut().set_dst4(dst.octets());
            }
            _ => {
                let dst = Ipv6::new_unchecked(payload).dst();
                packet.anno_mut().set_dst6(dst.octets());
            }
        }
        packet.truncate(stack + len);
        packet.set_network_offset(stack);
        packet.set_transport_offset(stack + transport);
        Verdict::reject(NOT_IP, output)
    }
}

#[cfg(test)]
mod tests {
    use testkit::{Bench, ip4, ip6};
    use wire::checksum;

    const STACK: [u8; 8] = [0, 0x3e, 0x80, 1, 0, 1, 1, 1]; // labels 1000 and 16

    fn below(packet: &[u8]) -> Vec<u8> {
        [&STACK[..], packet].concat()
    }

    #[test]
    fn packets_are_told_apart_and_keep_their_labels() {
        let text = "p :: MPLSPayload -> four :: Collect; p[1] -> six :: Collect";
        let mut bench = Bench::new(crate::with_basics(), text);
        let (four, six) = (below(&ip4().bytes()), below(&ip6().bytes()));
        let padded = [&four[..], &[0; 5]].concat();
        let broken = below(&ip4().bad_checksum().bytes());
        bench.push(
            "p",
            &[
                &padded,
                &six,
                &broken,
                &below(b"\0\0"),
                &STACK[..4].to_vec(),
            ],
        );
        let (a, b) = (bench.take_packets("four"), bench.take_packets("six"));
        assert_eq!((&a[0].bytes, a[0].network_offset), (&four, 8));
        assert_eq!((&b[0].bytes, b[0].network_offset), (&six, 8));
        let drops = ["not_ip", "bad_stack", "bad_header"].map(|name| bench.drops("p", name));
        assert_eq!(drops, [1, 1, 1]);
    }

    #[test]
    fn errors_quote_the_labels_as_rfc_4950_says() {
        let text =
            "p :: MPLSPayload -> ICMPError(10.9.9.9, timeexceeded, MPLS true) -> four :: Collect;
            p[1] -> ICMP6Error(2001:db8::9, timeexceeded, MPLS true) -> six :: Collect";
        let mut bench = Bench::new(crate::with_basics(), text);
        for payload in [b"hello".to_vec(), vec![7; 1300]] {
            let (four, six) = (ip4().payload(&payload), ip6().payload(&payload));
            let (four, six) = (four.bytes(), six.bytes());
            bench.push("p", &[below(&four), below(&six)]);
            let extension = [&[0, 12, 1, 1][..], &STACK].concat();
            for (sink, header, original, unit) in [("four", 20, four, 4), ("six", 40, six, 8)] {
                let out = bench.take(sink).remove(0);
                let message = &out[header..];
                let quoted = usize::from(message[if unit == 4 { 5 } else { 4 }]) * unit;
                assert!(quoted >= 128 && (out.len() <= 576 || unit == 8 && out.len() <= 1280));
                let mut whole = original.clone();
                whole.resize(quoted.max(original.len()), 0);
                assert_eq!(message[8..8 + quoted], whole[..quoted]);
                let structure = &message[8 + quoted..];
                assert_eq!((structure[0], &structure[4..]), (0x20, &extension[..]));
                assert!(checksum::verify(structure));
                match unit {
                    4 => assert!(checksum::verify(message) && checksum::verify(&out[..20])),
                    _ => assert!(wire::Icmp6::new_checked(message).is_ok()),
                }
            }
        }
    }

    #[test]
    fn errors_about_packets_without_labels_say_nothing_of_any() {
        let text =
            "c :: CheckIPHeader -> ICMPError(10.9.9.9, timeexceeded, MPLS true) -> out :: Collect";
        let mut bench = Bench::new(crate::with_basics(), text);
        bench.push("c", &[ip4().bytes()]);
        assert_eq!(bench.take("out").remove(0).len(), 20 + 8 + 20);
    }
}
