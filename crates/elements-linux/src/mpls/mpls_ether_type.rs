//! Sets the Ethertype of frames by what follows the Ethernet header: MPLS labels, or an IP packet.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> mpls :: MPLSLookup(100 swap 200 10.0.1.2 0, 101 pop 10.0.1.2 0)
//!     -> MPLSNextHop -> arp :: ARPQuerier(10.0.1.1, 02:00:00:00:00:01) -> MPLSEtherType -> Discard;
//! Idle -> [1] arp;
//! ```
//!
//! ARPQuerier and IP6NDSolicitor make frames of IPv4 and IPv6 packets. Behind MPLSLookup or MPLSEncap a packet may
//! begin with labels, or be an IPv6 packet whose next hop is an IPv4 address. The network header annotation marks the
//! IP header. If labels stand before it, the Ethertype becomes 0x8847; if not, the IP version decides between 0x0800
//! and 0x86dd. Frames without that annotation, such as ARP queries, pass unchanged.

use crate::prelude::*;
use wire::ether;

pub(super) struct MplsEtherType;

impl Element for MplsEtherType {
    const CONTRACT: Contract = Contract::new("MPLSEtherType", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .needs(&[Facts::ETHER]);

    type Config = ();

    fn configure(_: &mut Args) {}

    fn new(_: &Arc<()>, _: &Init) -> MplsEtherType {
        MplsEtherType
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let offset = packet.network_offset();
        let version = packet.data().get(ether::LEN).map(|first| first >> 4);
        let ethertype = match (offset.checked_sub(ether::LEN), version) {
            (Some(1..), _) => ether::MPLS,
            (Some(0), Some(4)) => ether::IPV4,
            (Some(0), Some(6)) => ether::IPV6,
            _ => return Verdict::ON,
        };
        if let Some(place) = packet.data_mut().get_mut(ether::LEN - 2..ether::LEN) {
            place.copy_from_slice(&ethertype.to_be_bytes());
        }
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use testkit::{Bench, ip4, ip6, labelled};

    #[test]
    fn labels_and_ip_packets_get_their_ethertypes_and_other_frames_keep_theirs() {
        let text = "m :: MPLSLookup(100 swap 200 10.0.0.2 0, 101 pop 10.0.0.2 0) -> MPLSNextHop
            -> a :: ARPQuerier(10.0.0.1, 02:00:00:00:00:01) -> e :: MPLSEtherType -> out :: Collect; Idle -> [1] a";
        let mut bench = Bench::new(crate::with_basics(), text);
        bench.write("a.insert", "10.0.0.2 02:00:00:00:00:02");
        let (four, six) = (ip4().bytes(), ip6().bytes());
        bench.push(
            "m",
            &[
                labelled(&[(100, 0, 9)], &four),
                labelled(&[(101, 0, 9), (7, 0, 9)], &four),
                labelled(&[(101, 0, 9)], &four),
                labelled(&[(101, 0, 9)], &six),
            ],
        );
        let mut arp = [2_u8; 42];
        arp[12..14].copy_from_slice(&[8, 6]);
        bench.push("e", &[&arp[..], b"short"]);
        let mut out = bench.take("out");
        assert_eq!(out.pop_if(|last| last == b"short"), Some(b"short".to_vec()));
        let kinds: Vec<_> = out.iter().map(|frame| [frame[12], frame[13]]).collect();
        let labels = [0x88, 0x47];
        assert_eq!(kinds, [labels, labels, [8, 0], [0x86, 0xdd], [8, 6]]);
        assert!(
            out[..4]
                .iter()
                .all(|frame| frame[..6] == [2, 0, 0, 0, 0, 2])
        );
    }
}
