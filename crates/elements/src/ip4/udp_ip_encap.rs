//! Prepends UDP and IPv4 headers to packets.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> UDPIPEncap(192.0.2.1, 1234, 198.51.100.1, 53) -> Discard;
//! ```
//!
//! The network header and destination annotations are set. Identifications are those of IPEncap. A packet without room
//! before its data, or too long for a datagram, is dropped (`no_room`).
//!
//! Arguments:
//!
//! - `SRC`, `SPORT`: source address and port. With `FLOW` as the port, each packet gets one of the ports 49152 to
//!   65535 by its flow hash, which its device or an earlier element has set. Routers with several paths, and network
//!   cards with several queues, can then distinguish the flows of a tunnel by their ports.
//! - `DST`, `DPORT`: destination address and port; `DST_ANNO` takes the address from each packet's
//!   annotation. A port is a number or a name, see PortInfo.
//! - `CHECKSUM`: true to compute the UDP checksum. Default true.
//!
//! Keyword arguments:
//!
//! - `DF`: true if routers must not fragment. Default false.

use super::encap::{Headed, Header, Idents, Order, read_dst, read_src, write_dst, write_src};
use crate::prelude::*;
use arguments::Names;
use arguments::service::Port;
use arguments::units::FromArg;
use wire::{Udp, proto, udp};

drops! {
    NO_ROOM = "no_room",
}
/// First dynamic port (RFC 6335, 6), whose low bits vary.
const DYNAMIC: u16 = 0xc000;
const DYNAMIC_MASK: u16 = 0x3fff;

type UdpPort = Port<{ proto::UDP }>;

/// Source port of encapsulated packets.
#[derive(Clone, Copy)]
enum SourcePort {
    /// Fixed port for all packets.
    Fixed(u16),
    /// Separate port for each flow.
    Flow,
}

impl SourcePort {
    fn of(self, packet: &Packet) -> u16 {
        match self {
            SourcePort::Fixed(port) => port,
            SourcePort::Flow => {
                let hash = packet.hash();
                DYNAMIC | (hash ^ hash >> 16) as u16 & DYNAMIC_MASK
            }
        }
    }
}

impl FromArg for SourcePort {
    const KIND: &'static str = "a port, or FLOW";

    fn from_arg(raw: &str, names: &Names) -> Result<SourcePort, String> {
        match raw {
            "FLOW" => Ok(SourcePort::Flow),
            _ => UdpPort::from_arg(raw, names).map(|port| SourcePort::Fixed(port.0)),
        }
    }

    fn stand_in() -> SourcePort {
        SourcePort::Fixed(0)
    }

    fn unparse(&self) -> String {
        match self {
            SourcePort::Fixed(port) => port.to_string(),
            SourcePort::Flow => "FLOW".to_owned(),
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Config {
    header: Header,
    src_port: SourcePort,
    dst_port: UdpPort,
    checksum: bool,
}

pub(super) struct UDPIPEncap {
    config: Config,
    idents: Idents,
}

impl Config {
    fn put(&self, packet: &mut Packet, ident: u16) -> Option<()> {
        let len = u16::try_from(packet.len() + udp::LEN).ok()?;
        let src_port = self.src_port.of(packet);
        let mut ip = self.header.put(packet, udp::LEN, ident)?;
        let pseudo = ip.pseudo(usize::from(len));
        let mut udp = Udp::new_unchecked(ip.payload_mut());
        udp.set_src_port(src_port);
        udp.set_dst_port(self.dst_port.0);
        udp.set_len(len);
        udp.set_checksum(0);
        if self.checksum {
            udp.fill_checksum(pseudo);
        }
        Some(())
    }
}

impl Element for UDPIPEncap {
    const CONTRACT: Contract = Contract::new("UDPIPEncap", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .gives(&[Facts::IP4.and(Facts::AT_NETWORK).and(Facts::DST4)])
        .spoils(Facts::ETHER.and(Facts::IP6).and(Facts::DST6))
        .drops(DROPS);

    type Config = (Config, Arc<Order>);

    fn configure(args: &mut Args) -> (Config, Arc<Order>) {
        let src = args.required("SRC", "source address");
        let src_port = args.required("SPORT", "source port");
        let dst = args.required("DST", "destination address");
        let mut config = Config {
            header: Header::new(src, dst, proto::UDP),
            src_port,
            dst_port: args.required("DPORT", "destination port"),
            // Click computes no checksum by default, despite its manual.
            checksum: args.optional(
                "CHECKSUM",
                !args.as_click,
                "true to compute the UDP checksum",
            ),
        };
        config.header.dont_fragment = args.key("DF", false, "true if routers must not fragment");
        (config, Arc::default())
    }

    fn new(config: &Arc<(Config, Arc<Order>)>, init: &Init) -> UDPIPEncap {
        let (config, order) = &**config;
        UDPIPEncap {
            config: *config,
            idents: Idents::new(0, Some(order), init),
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let put = self.config.put(packet, self.idents.next(cx));
        on_if(put.is_some(), NO_ROOM)
    }

    const HANDLERS: &'static [Handler<UDPIPEncap>] = &[
        read_src(),
        write_src(),
        Handler::text("sport", "see SPORT", |e, _| Ok(e.config.src_port.unparse())),
        Handler::argument(Handler::set("sport", "changes SPORT", |e, value, _| {
            assign(&mut e.config.src_port, value)
        })),
        read_dst(),
        write_dst(),
        Handler::text("dport", "see DPORT", |e, _| Ok(e.config.dst_port.unparse())),
        Handler::argument(Handler::set("dport", "changes DPORT", |e, value, _| {
            assign(&mut e.config.dst_port, value)
        })),
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
    use engine::packet::Packet;
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
    fn source_ports_can_be_those_of_flows() {
        let text = "e :: UDPIPEncap(1.0.0.1, FLOW, 2.0.0.2, 53, false, DF true) -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        let packet = |hash| {
            let mut packet = Packet::from_bytes(b"x").expect("it fits");
            packet.set_hash(hash);
            packet
        };
        let packets = [0x1234_5678, 0, 0x0001_0000, 0x1234_5678].map(packet);
        bench.push_packets("e", 0, packets.into_iter().collect());
        let out = bench.take("out");
        let ports: Vec<_> = out.iter().map(|p| [p[20], p[21]]).collect();
        let port = 0xc000 | (0x1234 ^ 0x5678) & 0x3fff_u16;
        assert_eq!(ports[0], port.to_be_bytes());
        assert_eq!(ports[1..], [[0xc0, 0], [0xc0, 1], ports[0]]);
        assert!(out.iter().all(|packet| packet[6] == 0x40), "don't fragment");
        assert_eq!(bench.read("e.sport"), "FLOW");
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

    #[test]
    fn a_port_has_a_name_of_its_own_compound_element_or_a_well_known_one() {
        let text = "PortInfo(foo 10);
            c :: { PortInfo(bar 12/udp, foo 13 baz);
                Idle -> u :: UDPIPEncap(1.0.0.1, bar, 2.0.0.2, baz) -> output };
            c -> v :: UDPIPEncap(1.0.0.1, foo, 2.0.0.2, domain) -> Discard";
        let mut bench = Bench::new(crate::CLASSES, text);
        let ports = ["c/u.sport", "c/u.dport", "v.sport", "v.dport"].map(|path| bench.read(path));
        assert_eq!(ports, ["12", "13", "10", "53"]);
        bench.write("v.dport", "ntp");
        assert_eq!(bench.read("v.dport"), "123");
        let outside =
            "c :: { PortInfo(bar 12); Idle -> output } -> UDPIPEncap(1.0.0.1, bar, 2.0.0.2, 5)
            -> Discard";
        assert!(testkit::errors(crate::CLASSES, outside).contains("SPORT must be a port"));
        let other = "PortInfo(bar 12/tcp); Idle -> UDPIPEncap(1.0.0.1, 7, 2.0.0.2, bar) -> Discard";
        assert!(testkit::errors(crate::CLASSES, other).contains("DPORT must be a port"));
    }
}
