//! Prepends a VXLAN header to Ethernet frames (RFC 7348, 5).
//!
//! ```click
//! FromDevice(null:64)
//!     -> VXLANEncap(7)
//!     -> UDPIPEncap(192.0.2.1, FLOW, 192.0.2.2, 4789, false, DF true)
//!     -> arp :: ARPQuerier(192.0.2.1/24, 02:00:00:00:00:01)
//!     -> ToDevice(null:);
//! Idle -> [1]arp;
//! ```
//!
//! UDPIPEncap makes the rest of the outer header: UDP port 4789 without checksum, as in RFC 7348. Packets
//! without a flow hash get one from their inner headers (from the Ethernet header if there is no IP packet).
//! With `FLOW`, UDPIPEncap then gives the flows of a tunnel different source ports, by which routers and
//! network cards can spread them.
//!
//! A frame without a whole Ethernet header is dropped (`too_short`), and so is a frame without room before its
//! data (`no_headroom`).
//!
//! Arguments:
//!
//! - `VNI`: number of the network that the frame belongs to, 0 to 16777215.

use super::vxlan::{LEN, VALID, vni};
use crate::prelude::*;
use wire::tunnel;
use wire::{FlowKey, ether};

drops! {
    TOO_SHORT = "too_short",
    NO_HEADROOM = "no_headroom",
}

pub(super) struct VxlanEncap {
    header: [u8; LEN],
}

impl Element for VxlanEncap {
    const CONTRACT: Contract = Contract::new("VXLANEncap", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .needs(&[Facts::ETHER])
        .spoils(Facts::ETHER.and(Facts::IP4).and(Facts::IP6))
        .drops(DROPS)
        .ignores_annotations();

    type Config = u32;

    fn configure(args: &mut Args) -> u32 {
        vni(args)
    }

    fn new(vni: &Arc<u32>, _: &Init) -> VxlanEncap {
        let [_, a, b, c] = vni.to_be_bytes();
        VxlanEncap {
            header: [VALID, 0, 0, 0, a, b, c, 0],
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        if packet.len() < ether::LEN {
            return Verdict::drop(TOO_SHORT);
        }
        if packet.hash() == 0 {
            packet.set_hash(flow_hash(packet.data()));
        }
        let Some(room) = packet.push(LEN) else {
            return Verdict::drop(NO_HEADROOM);
        };
        room.copy_from_slice(&self.header);
        Verdict::ON
    }
}

/// Hash of the inner packet's flow or, without an IP packet, of the Ethernet header.
fn flow_hash(frame: &[u8]) -> u32 {
    let flow = tunnel::ip_of_ether(frame).and_then(FlowKey::of_ip_or_quoted);
    flow.map_or_else(
        || {
            let header = frame.iter().take(ether::LEN);
            header.fold(0x811c_9dc5, |hash: u32, byte| {
                (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193) // FNV-1a
            })
        },
        |flow| flow.hash(0),
    )
}

#[cfg(test)]
mod tests {
    use testkit::{Bench, errors, ip4};
    use wire::{Ipv4, Udp};

    const OUTER: &str = "e :: VXLANEncap(0x123456)
        -> UDPIPEncap(1.0.0.1, FLOW, 2.0.0.2, 4789, false, DF true) -> CheckIPHeader -> out :: Collect";

    fn frame(port: u16) -> Vec<u8> {
        let mut frame = b"ddddddssssss\x08\0".to_vec();
        frame.extend(ip4().udp(port, 2).bytes());
        frame
    }

    #[test]
    fn frames_travel_whole_in_datagrams_that_must_not_be_cut() {
        let mut bench = Bench::new(crate::CLASSES, OUTER);
        bench.push("e", &[&frame(1)[..], &frame(1), &frame(2), b"no frame"]);
        let out = bench.take("out");
        assert_eq!((out.len(), bench.drops("e", "too_short")), (3, 1));
        let port = |packet: &[u8]| {
            let ip = Ipv4::new_checked(packet).expect("it is checked");
            assert_eq!(ip.fragment_word(), wire::ipv4::DF);
            let udp = Udp::new_checked(ip.payload()).expect("it is UDP");
            assert_eq!((udp.dst_port(), udp.checksum()), (4789, 0));
            assert_eq!(udp.payload()[..8], [8, 0, 0, 0, 0x12, 0x34, 0x56, 0]);
            assert!(udp.payload()[8..] == frame(1) || udp.payload()[8..] == frame(2));
            udp.src_port()
        };
        let ports: Vec<u16> = out.iter().map(|packet| port(packet)).collect();
        assert!(ports.iter().all(|port| *port >= 49152), "{ports:?}");
        assert!(ports[0] == ports[1] && ports[1] != ports[2], "{ports:?}");
    }

    #[test]
    fn frames_of_other_protocols_are_told_apart_by_their_header() {
        let mut bench = Bench::new(crate::CLASSES, OUTER);
        bench.push(
            "e",
            &[&b"ddddddssssss\x08\x06arp"[..], b"ddddddsssss2\x08\x06arp"],
        );
        let out = bench.take("out");
        assert_ne!(out[0][20..22], out[1][20..22]);
    }

    #[test]
    fn networks_have_24_bits() {
        let all = errors(crate::CLASSES, "Idle -> VXLANEncap(16777216) -> Discard");
        assert!(all.contains("VNI"), "{all}");
    }
}
