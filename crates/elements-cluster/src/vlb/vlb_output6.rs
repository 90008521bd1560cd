//! Sends IPv6 packets that have crossed the cluster to this node's external ports.
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
//! Does for IPv6 what VLBOutput does for IPv4. It removes the Ethernet header, which has the decisions of
//! the input node. The destination annotation becomes the gateway's address, or the packet's own destination if
//! there is no gateway, and the packet leaves by the output of its external port. The last output gets packets
//! to this node itself.
//!
//! A packet is dropped if its port or gateway does not exist (`wrong_port`, `unknown_gateway`), or if it is not
//! an IPv6 packet (`malformed`).
//!
//! Arguments:
//!
//! - `VLB`: the VLBNode that it belongs to.
//! - `GATEWAYS`, any number of: a port's number and the addresses of its gateways. Input nodes name gateways by
//!   their number in this list, from 1.

use super::output::Family;
use crate::prelude::*;
use engine::packet::anno::Anno;
use std::net::Ipv6Addr;
use wire::ipv6;

pub(crate) struct VlbOutput6;

impl Family for VlbOutput6 {
    const CLASS: &'static str = "VLBOutput6";
    const MANUAL: &'static str = manual!();
    const GIVES: &'static [Facts] = &[Facts::AT_NETWORK.and(Facts::IP6).and(Facts::DST6)];
    const ETHERTYPE: [u8; 2] = [0x86, 0xdd];

    type Address = Ipv6Addr;

    #[inline]
    fn read(packet: &[u8]) -> Option<(usize, usize, Ipv6Addr)> {
        let header = packet.first_chunk::<{ ipv6::LEN }>()?;
        let payload = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let dst = header.last_chunk::<16>().copied()?;
        if header[0] >> 4 != 6 {
            return None;
        }
        Some((ipv6::LEN, ipv6::LEN + payload, dst.into()))
    }

    #[inline]
    fn set_dst(anno: &mut Anno, to: Ipv6Addr) {
        anno.set_dst6(to.octets());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::address::{Address, Kind, NO_NODE, PORT_SELF, cookie};
    use engine::packet::anno::PacketType;
    use testkit::{Bench, ip6};

    fn bench() -> Bench {
        let text = "vlb :: VLBNode(NAME t, NODE b, NODES a 1Gbps b 1Gbps, LINKS a-b);
             out :: VLBOutput6(vlb, 1 fe80::1 fd00::9);
             out[0] -> zero :: Collect; out[1] -> one :: Collect; out[2] -> own :: Collect;";
        Bench::new(crate::with_basics(), text)
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
    fn unroutable_packets_are_dropped_by_name() {
        let mut bench = bench();
        bench.push("out", &[frame(2, 0), frame(254, 0)]);
        assert_eq!(bench.drops("out", "wrong_port"), 2);
        bench.push("out", &[frame(0, 1), frame(1, 3), frame(PORT_SELF, 1)]);
        assert_eq!(bench.drops("out", "unknown_gateway"), 3);
        let mut no_ip = frame(0, 0);
        no_ip[12..14].copy_from_slice(&[8, 0]);
        bench.push("out", &[&no_ip[..], &frame(0, 0)[..53], b""]);
        assert_eq!(bench.drops("out", "malformed"), 3);
        // Another version, and a truncated packet.
        for (at, byte) in [(14, 0x45), (18, 0xff)] {
            let mut bytes = frame(0, 0);
            bytes[at] = byte;
            bench.push("out", &[bytes]);
        }
        assert_eq!(bench.drops("out", "malformed"), 5);
    }
}
