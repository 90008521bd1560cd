//! Takes IPv6 packets that have crossed the cluster to this node's external ports.
//!
//! ```click
//! vlb :: VLBNode(NODE a, NODES a 10Gbps b 10Gbps, LINKS a-b);
//! FromDevice(null:64) -> t :: VLBTransit(vlb) -> ToDevice(null:);
//! t[1] -> family :: Classifier(12/0800, 12/86dd);
//! family[0] -> out4 :: VLBOutput(vlb) -> Discard; out4[1] -> Discard;
//! family[1] -> out6 :: VLBOutput6(vlb, 0 fe80::9) -> Discard; out6[1] -> Discard;
//! t[2] -> Discard;
//! ```
//!
//! It does with IPv6 packets what VLBOutput does with IPv4 packets: what the input node decided stands in the Ethernet
//! header, which is removed; the destination annotation becomes the gateway's address if there is one, else the
//! packet's own destination; and the packet leaves by the output of its external port. The last output is that of
//! packets to this node itself.
//!
//! Dropped are packets to ports and gateways that do not exist (`wrong_port`, `unknown_gateway`) and what is no IPv6
//! packet (`malformed`).
//!
//! Arguments:
//!
//! - `VLB`: the VLBNode that it belongs to.
//! - `GATEWAYS`, any number of: a port's number and the addresses of its gateways. Input nodes name them by their
//!   place in this list, from 1.

use super::{ETHER_LEN, Member, gateways};
use crate::prelude::*;
use cluster::address::PORT_SELF;
use engine::anno::PacketType;
use std::net::Ipv6Addr;
use wire::ipv6;

const WRONG_PORT: u8 = 0;
const UNKNOWN_GATEWAY: u8 = 1;
const MALFORMED: u8 = 2;

pub(crate) struct Config {
    /// By port.
    gateways: Vec<Vec<Ipv6Addr>>,
}

pub(crate) struct VlbOutput6 {
    config: Arc<Config>,
    /// External ports.
    ports: u8,
}

impl Element for VlbOutput6 {
    const CLASS: &'static str = "VLBOutput6";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::coded(&["in"], &["port*"], "h/h");
    const NEEDS: &'static [Facts] = &[Facts::ETHER];
    const GIVES: &'static [Facts] = &[Facts::AT_NETWORK.and(Facts::IP6).and(Facts::DST6)];
    const SPOILS: Facts = Facts::ETHER;
    const DROPS: &'static [&'static str] = &["wrong_port", "unknown_gateway", "malformed"];

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        Member::named(args);
        Config {
            gateways: gateways(args),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> VlbOutput6 {
        VlbOutput6 {
            config: Arc::clone(config),
            ports: init.outputs.saturating_sub(1) as u8,
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let Some(&[_, _, _, port, g0, g1, _, _, _, _, _, _, 0x86, 0xdd]) =
            packet.data().first_chunk::<ETHER_LEN>()
        else {
            return Verdict::drop(MALFORMED);
        };
        let output = match port {
            PORT_SELF => self.ports,
            port if port < self.ports => port,
            _ => return Verdict::drop(WRONG_PORT),
        };
        if !packet.pull(ETHER_LEN) {
            return Verdict::drop(MALFORMED);
        }
        let Some(header) = packet.data().first_chunk::<{ ipv6::LEN }>() else {
            return Verdict::drop(MALFORMED);
        };
        let total = ipv6::LEN + usize::from(u16::from_be_bytes([header[4], header[5]]));
        let is_ip6 = header[0] >> 4 == 6;
        let next = match u16::from_be_bytes([g0, g1]) {
            0 => header[24..].first_chunk().copied(),
            number => {
                let gateways = self.config.gateways.get(usize::from(port));
                let gateway = gateways.and_then(|list| list.get(usize::from(number) - 1));
                gateway.map(Ipv6Addr::octets)
            }
        };
        if !is_ip6 || total > packet.len() {
            return Verdict::drop(MALFORMED);
        }
        let Some(next) = next else {
            return Verdict::drop(UNKNOWN_GATEWAY);
        };
        // An internal link may have padded it.
        packet.truncate(total);
        packet.set_network_offset(0);
        packet.set_transport_offset(ipv6::LEN);
        let anno = packet.anno_mut();
        anno.set_dst6(next);
        // To the port that took it from an internal link its frame was another station's.
        anno.packet_type = PacketType::Host;
        Verdict::out(output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::address::{Address, Kind, NO_NODE, PORT_SELF, cookie};
    use testkit::{Bench, ip6};

    fn bench() -> Bench {
        let text = "vlb :: VLBNode(NAME t, NODE b, NODES a 1Gbps b 1Gbps, LINKS a-b);
             out :: VLBOutput6(vlb, 1 fe80::1 fd00::9);
             out[0] -> zero :: Collect; out[1] -> one :: Collect; out[2] -> own :: Collect;";
        Bench::new(crate::CLASSES, text)
    }

    fn frame(port: u8, gateway: u16) -> Vec<u8> {
        let address = Address {
            kind: Kind::Data,
            hops: 3,
            node: 1,
            port,
            gateway,
            input: 0,
            via: NO_NODE,
            cookie: cookie("t"),
        };
        let mut frame = address.bytes().to_vec();
        frame.extend([0x86, 0xdd]);
        frame.extend(ip6().dst("fd00:7::7").udp(1, 2).bytes());
        frame
    }

    #[test]
    fn packets_leave_by_their_port_for_their_next_hop_as_they_came_in() {
        let mut bench = bench();
        let mut padded = frame(0, 0);
        padded.extend([0; 18]);
        for bytes in [padded, frame(1, 2), frame(PORT_SELF, 0)] {
            let mut packet = Packet::from_bytes(&bytes).expect("it fits");
            packet.anno_mut().packet_type = PacketType::OtherHost;
            bench.push_packets("out", 0, Batch::from_iter([packet]));
        }
        for (sink, next) in [
            ("zero", "fd00:7::7"),
            ("one", "fd00::9"),
            ("own", "fd00:7::7"),
        ] {
            let packets = bench.take_packets(sink);
            assert_eq!(packets.len(), 1, "{sink}");
            assert_eq!(packets[0].bytes, frame(0, 0)[14..]);
            assert_eq!(packets[0].anno.packet_type, PacketType::Host);
            let next: std::net::Ipv6Addr = next.parse().expect("an address");
            assert_eq!(packets[0].anno.dst6(), next.octets());
        }
    }

    #[test]
    fn what_leads_nowhere_is_dropped_by_name() {
        let mut bench = bench();
        bench.push("out", &[frame(2, 0), frame(254, 0)]);
        assert_eq!(bench.drops("out", "wrong_port"), 2);
        bench.push("out", &[frame(0, 1), frame(1, 3), frame(PORT_SELF, 1)]);
        assert_eq!(bench.drops("out", "unknown_gateway"), 3);
        let mut no_ip = frame(0, 0);
        no_ip[12..14].copy_from_slice(&[8, 0]);
        bench.push("out", &[&no_ip[..], &frame(0, 0)[..53], b""]);
        assert_eq!(bench.drops("out", "malformed"), 3);
        // Another version, and a packet that was cut.
        for (at, byte) in [(14, 0x45), (18, 0xff)] {
            let mut bytes = frame(0, 0);
            bytes[at] = byte;
            bench.push("out", &[bytes]);
        }
        assert_eq!(bench.drops("out", "malformed"), 5);
    }
}
