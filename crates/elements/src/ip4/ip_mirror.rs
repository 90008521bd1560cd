//! Swaps source and destination of IPv4 packets.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> IPMirror -> Discard;
//! ```
//!
//! In the first or only fragment of TCP and UDP packets the ports are swapped too, and the sequence and
//! acknowledgement numbers of TCP. Checksums stay correct without a change. A packet without a whole header is
//! dropped (`no_header`).
//!
//! Arguments:
//!
//! - `DST_ANNO`: true to set the destination annotation. Default true.

use crate::prelude::*;
use wire::{proto, udp};

/// Bytes of a TCP header with ports and sequence numbers, of which more may be cut off, as in Click.
const TCP_LEAST: usize = 12;

drops! {
    NO_HEADER = "no_header",
}

pub(super) struct IPMirror {
    annotate: bool,
}

impl Element for IPMirror {
    const CONTRACT: Contract = Contract::new("IPMirror", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .needs(&[Facts::IP4])
        .drops(DROPS);

    type Config = bool;

    fn configure(args: &mut Args) -> bool {
        args.optional("DST_ANNO", true, "true to set the destination annotation")
    }

    fn new(annotate: &Arc<bool>, _: &Init) -> IPMirror {
        IPMirror {
            annotate: **annotate,
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let Some(mut ip) = super::header_mut(packet) else {
            return Verdict::drop(NO_HEADER);
        };
        let (src, dst) = (ip.src(), ip.dst());
        ip.set_src(dst);
        ip.set_dst(src);
        let (start, protocol) = (ip.header_len(), ip.protocol());
        if ip.fragment_offset() == 0 {
            let upper = &mut packet.network_mut()[start..];
            let least = match protocol {
                proto::TCP => TCP_LEAST,
                proto::UDP => udp::LEN,
                _ => usize::MAX,
            };
            if upper.len() >= least {
                upper[..4].rotate_left(2);
                if protocol == proto::TCP {
                    upper[4..12].rotate_left(4);
                }
            }
        }
        if self.annotate {
            packet.anno_mut().set_dst4(src.octets());
        }
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use testkit::{Bench, ip4};

    #[test]
    fn addresses_ports_and_numbers_change_places() {
        let forth = ip4().src("1.0.0.1").dst("2.0.0.2").payload("data");
        let back = ip4().src("2.0.0.2").dst("1.0.0.1").payload("data");
        let text = "c :: CheckIPHeader -> IPMirror -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push(
            "c",
            &[
                forth.clone().tcp(5, 80).seq_ack(11, 22).bytes(),
                forth.clone().udp(5, 53).bytes(),
                forth.clone().icmp_echo(1, 2).bytes(),
            ],
        );
        let out = bench.take_packets("out");
        assert_eq!(
            out[0].bytes,
            back.clone().tcp(80, 5).seq_ack(22, 11).bytes()
        );
        assert_eq!(out[1].bytes, back.clone().udp(53, 5).bytes());
        assert_eq!(out[2].bytes, back.icmp_echo(1, 2).bytes());
        assert_eq!(out[0].anno.dst4(), [1, 0, 0, 1]);
    }

    #[test]
    fn a_tcp_header_may_be_cut_off_behind_its_numbers() {
        let text = "c :: CheckIPHeader -> IPMirror -> StripIPHeader -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        let cut = |bytes: &[u8]| ip4().payload(bytes).proto(6).bytes();
        bench.push(
            "c",
            &[
                cut(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]),
                cut(&[1, 2, 3, 4, 5, 6]),
            ],
        );
        let turned = vec![3, 4, 1, 2, 9, 10, 11, 12, 5, 6, 7, 8, 13];
        assert_eq!(
            bench.take("out"),
            [turned, vec![1, 2, 3, 4, 5, 6]],
            "as in Click"
        );
    }

    #[test]
    fn the_annotation_can_stay() {
        let text = "c :: CheckIPHeader -> IPMirror(false) -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push(
            "c",
            &[ip4().src("1.0.0.1").dst("2.0.0.2").udp(1, 2).bytes()],
        );
        assert_eq!(bench.take_packets("out")[0].anno.dst4(), [2, 0, 0, 2]);
    }
}
