//! Sends packets that have crossed the cluster to this node's external ports.
//!
//! ```click
//! vlb :: VLBNode(NODE a, NODES a 10Gbps b 10Gbps, LINKS a-b);
//! FromDevice(null:64) -> t :: VLBTransit(vlb) -> ToDevice(null:);
//! t[1] -> out :: VLBOutput(vlb, 0 192.0.2.254);
//! out[0] -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> ToDevice(null:);  // external port 0
//! out[1] -> Discard;                                                          // to this node itself
//! t[2] -> Discard;
//! ```
//!
//! Takes IPv4 packets from VLBTransit and removes their Ethernet header, which has the decisions of the
//! input node. The destination annotation becomes the gateway's address, or the packet's own destination if
//! there is no gateway, and the packet leaves by the output of its external port. The last output gets packets
//! to this node itself. Nothing else is done here: the input node has checked the header and decremented the
//! TTL. For IPv6 use VLBOutput6.
//!
//! A packet is dropped if its port or gateway does not exist (`wrong_port`, `unknown_gateway`), or if it is not
//! an IPv4 packet (`malformed`).
//!
//! Arguments:
//!
//! - `VLB`: the VLBNode that it belongs to.
//! - `GATEWAYS`, any number of: a port's number and the addresses of its gateways. Input nodes name gateways by
//!   their number in this list, from 1.

use super::output::Family;
use crate::prelude::*;
use engine::packet::anno::Anno;
use std::net::Ipv4Addr;
use wire::ipv4::MIN_LEN;

pub(crate) struct VlbOutput;

impl Family for VlbOutput {
    const CLASS: &'static str = "VLBOutput";
    const MANUAL: &'static str = manual!();
    const GIVES: &'static [Facts] = &[Facts::AT_NETWORK.and(Facts::IP4).and(Facts::DST4)];
    const ETHERTYPE: [u8; 2] = [0x08, 0x00];

    type Address = Ipv4Addr;

    #[inline]
    fn read(packet: &[u8]) -> Option<(usize, usize, Ipv4Addr)> {
        let ip: &[u8; MIN_LEN] = packet.first_chunk()?;
        let (&[first, _, l0, l1], dst) = (ip.first_chunk()?, ip.last_chunk::<4>()?);
        let header = usize::from(first & 15) * 4;
        let total = usize::from(u16::from_be_bytes([l0, l1]));
        if first >> 4 != 4 || header < MIN_LEN || total < header {
            return None;
        }
        Some((header, total, Ipv4Addr::from(*dst)))
    }

    #[inline]
    fn set_dst(anno: &mut Anno, to: Ipv4Addr) {
        anno.set_dst4(to.octets());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::address::{Address, Kind, NO_NODE, PORT_SELF, cookie};
    use engine::packet::anno::PacketType;
    use testkit::{Bench, errors, ip4};

    const NODE: &str = "vlb :: VLBNode(NAME t, NODE b, NODES a 1Gbps b 1Gbps, LINKS a-b);";

    fn bench() -> Bench {
        let text = format!(
            "{NODE} out :: VLBOutput(vlb, 1 192.0.2.1 192.0.2.2);
             out[0] -> zero :: Collect; out[1] -> one :: Collect; out[2] -> own :: Collect;"
        );
        Bench::new(crate::with_basics(), &text)
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
        frame.extend([8, 0]);
        frame.extend(ip4().dst("198.51.100.7").udp(1, 2).bytes());
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
            ("zero", [198, 51, 100, 7]),
            ("one", [192, 0, 2, 2]),
            ("own", [198, 51, 100, 7]),
        ] {
            let packets = bench.take_packets(sink);
            assert_eq!(packets.len(), 1, "{sink}");
            assert_eq!(packets[0].bytes, frame(0, 0)[14..]);
            assert_eq!(packets[0].anno.packet_type, PacketType::Host);
            assert_eq!(packets[0].anno.dst4(), next);
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
        no_ip[13] = 6;
        bench.push("out", &[&no_ip[..], &frame(0, 0)[..33], b""]);
        assert_eq!(bench.drops("out", "malformed"), 3);
        // Another version, headers that are too short or longer than the packet, and a truncated packet.
        let wrong = [(14, 0x65), (14, 0x40), (14, 0x4f), (16, 0xff), (17, 19)];
        for (at, byte) in wrong {
            let mut bytes = frame(0, 0);
            bytes[at] = byte;
            bench.push("out", &[bytes]);
        }
        assert_eq!(bench.drops("out", "malformed"), 3 + wrong.len() as u64);
    }

    #[test]
    fn gateways_of_ports_without_output_are_a_mistake() {
        let text = format!("{NODE} Idle -> Strip(0) -> VLBOutput(vlb, 7 192.0.2.1) -> Discard;");
        let all = errors(crate::with_basics(), &text);
        assert!(all.contains("gateways of port 7"), "{all}");
    }
}
