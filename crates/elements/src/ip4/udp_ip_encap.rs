//! Puts UDP and IPv4 headers before packets.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> UDPIPEncap(192.0.2.1, 1234, 198.51.100.1, 53) -> Discard;
//! ```
//!
//! The IPv4 header is marked and the destination annotation set. A packet without room before it, or too
//! long for a datagram, is dropped (`no_room`).
//!
//! Arguments:
//!
//! - `SRC`, `SPORT`: source address and port.
//! - `DST`, `DPORT`: destination address and port; `DST_ANNO` takes the address from each packet's
//!   annotation.
//! - `CHECKSUM`: whether to compute the UDP checksum. Default true.

use super::encap::{Headed, Header, Idents, read_dst, read_src, write_dst, write_src};
use crate::prelude::*;
use wire::{Udp, proto, udp};

const NO_ROOM: u8 = 0;

#[derive(Clone, Copy)]
pub(super) struct Config {
    header: Header,
    src_port: u16,
    dst_port: u16,
    checksum: bool,
}

pub(super) struct UDPIPEncap {
    config: Config,
    idents: Idents,
}

impl Config {
    fn put(&self, packet: &mut Packet, ident: u16) -> Option<()> {
        let len = u16::try_from(packet.len() + udp::LEN).ok()?;
        let mut ip = self.header.put(packet, udp::LEN, ident)?;
        let pseudo = ip.pseudo(usize::from(len));
        let mut udp = Udp::new_unchecked(ip.payload_mut());
        udp.set_src_port(self.src_port);
        udp.set_dst_port(self.dst_port);
        udp.set_len(len);
        udp.set_checksum(0);
        if self.checksum {
            udp.fill_checksum(pseudo);
        }
        Some(())
    }
}

impl Element for UDPIPEncap {
    const CLASS: &'static str = "UDPIPEncap";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::new(&["in"], &["out"]);
    const GIVES: &'static [Facts] = &[Facts::IP4.and(Facts::AT_NETWORK).and(Facts::DST4)];
    const SPOILS: Facts = Facts::ETHER.and(Facts::IP6).and(Facts::DST6);
    const DROPS: &'static [&'static str] = &["no_room"];

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let src = args.required("SRC", "source address");
        let src_port = args.required("SPORT", "source port");
        let dst = args.required("DST", "destination address");
        Config {
            header: Header::new(src, dst, proto::UDP),
            src_port,
            dst_port: args.required("DPORT", "destination port"),
            checksum: args.optional("CHECKSUM", true, "whether to compute the UDP checksum"),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> UDPIPEncap {
        UDPIPEncap {
            config: **config,
            idents: Idents::new(0, init),
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let put = self.config.put(packet, self.idents.next());
        on_if(put.is_some(), NO_ROOM)
    }

    const HANDLERS: &'static [Handler<UDPIPEncap>] = &[
        read_src(),
        write_src(),
        Handler::text("sport", "see SPORT", |e, _| {
            Ok(e.config.src_port.to_string())
        }),
        Handler::set("sport", "changes SPORT", |e, value, _| {
            assign(&mut e.config.src_port, value)
        }),
        read_dst(),
        write_dst(),
        Handler::text("dport", "see DPORT", |e, _| {
            Ok(e.config.dst_port.to_string())
        }),
        Handler::set("dport", "changes DPORT", |e, value, _| {
            assign(&mut e.config.dst_port, value)
        }),
    ];
}

impl Headed for UDPIPEncap {
    fn header(&self) -> &Header {
        &self.config.header
    }

    fn header_mut(&mut self) -> &mut Header {
        &mut self.config.header
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;
    use wire::{Ipv4, Udp};

    #[test]
    fn both_headers_are_valid() {
        let text = "e :: UDPIPEncap(1.0.0.1, 1234, 2.0.0.2, 53) -> CheckIPHeader -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("e", &[&b"data!"[..], b""]);
        bench.write("e.sport", "9");
        bench.write("e.dport", "10");
        bench.write("e.dst", "3.0.0.3");
        bench.push("e", &[b"more"]);
        let out = bench.take("out");
        let seen = |packet: &[u8]| {
            let ip = Ipv4::new_checked(packet).unwrap();
            let udp = Udp::new_checked(ip.payload()).unwrap();
            assert!(udp.checksum() != 0 && udp.verify_checksum(ip.pseudo(udp.len())));
            (
                ip.dst().octets()[0],
                udp.src_port(),
                udp.dst_port(),
                udp.payload().to_vec(),
            )
        };
        assert_eq!(seen(&out[0]), (2, 1234, 53, b"data!".to_vec()));
        assert_eq!(seen(&out[1]), (2, 1234, 53, vec![]));
        assert_eq!(seen(&out[2]), (3, 9, 10, b"more".to_vec()));
    }

    #[test]
    fn the_checksum_can_be_left_out_and_without_room_there_is_no_packet() {
        let text = "u :: Unstrip(120) -> e :: UDPIPEncap(1.0.0.1, 1, 2.0.0.2, 2) -> Discard;
            f :: UDPIPEncap(1.0.0.1, 1, 2.0.0.2, 2, false) -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("f", &[b"x"]);
        assert_eq!(bench.take("out")[0][26..28], [0, 0]);
        bench.push("u", &[b"x"]);
        assert_eq!(bench.drops("e", "no_room"), 1);
    }
}
