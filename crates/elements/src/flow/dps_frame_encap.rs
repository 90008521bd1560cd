//! Writes each frame's deadline behind the Ethernet header, so that the next router need not know its flow.
//!
//! ```click
//! FromDevice(null:64, CORES 0) -> c :: Classifier(12/0806, 12/0800);
//! c[1] -> Strip(14) -> CheckIPHeader -> arp :: ARPQuerier(10.0.1.1, 02:00:00:00:00:01)
//!     -> flows :: FlowTable(LINK 80Mbps, MTU 1514) -> DeadlineQueue(1000) -> BandwidthShaper(80Mbps)
//!     -> DPSFrameEncap(LINK 80Mbps) -> Unqueue -> Discard;
//! c[0] -> [1] arp;
//! ```
//!
//! Does the same as DPSEncap where neighbours are found before packets are put in order, as by ARPQuerier. The state of
//! 16 bytes goes behind the Ethernet header. The frame's Ethertype becomes 0x88b5, and the state holds the former one.
//! Frames with another Ethertype than those of IPv4, IPv6 and MPLS, such as ARP, pass unchanged. A frame whose lead
//! would be more than a minute is dropped (`too_early`), and so is one without room before its data (`no_headroom`).
//!
//! `late` counts frames that left later than the router may take, as for DPSEncap.
//!
//! Keyword arguments:
//!
//! - `LINK`: bandwidth of the link downstream.
//! - `MTU`: maximum frame length of any flow. Default 1514.
//! - `BIN`: the `WIDTH` of the DeadlineQueue upstream, 0 if that is exact. Default 1ms.
//! - `OVERHEAD`: bytes that the link, and this element, add to each frame. Default 0; 40 on Ethernet.

use super::dps_encap::{Config, Downstream};
use crate::prelude::*;
use wire::{dps, ether};

drops! {
    TOO_EARLY = "too_early",
    NO_HEADROOM = "no_headroom",
}
/// Length of both addresses of an Ethernet header, in bytes.
const ADDRESSES: usize = ether::LEN - 2;

pub(super) struct DpsFrameEncap {
    departure: Downstream,
}

impl Element for DpsFrameEncap {
    const CONTRACT: Contract = Contract::new("DPSFrameEncap", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .needs(&[Facts::ETHER])
        .drops(DROPS);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        Config::of(args, 1514)
    }

    fn new(config: &Arc<Config>, _: &Init) -> DpsFrameEncap {
        DpsFrameEncap {
            departure: Downstream::new(config),
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let Some(header) = packet.data().first_chunk::<{ ether::LEN }>().copied() else {
            return Verdict::ON;
        };
        let payload = u16::from_be_bytes([header[ADDRESSES], header[ADDRESSES + 1]]);
        if !matches!(payload, ether::IPV4 | ether::IPV6 | ether::MPLS) {
            return Verdict::ON;
        }
        let Some((hop, lead)) = self.departure.state(packet, cx.now().0) else {
            return Verdict::drop(TOO_EARLY);
        };
        if packet.push(dps::LEN).is_none() {
            return Verdict::drop(NO_HEADROOM);
        }
        packet.set_mac_here();
        let (head, rest) = packet.data_mut().split_at_mut(ether::LEN);
        head[..ADDRESSES].copy_from_slice(&header[..ADDRESSES]);
        head[ADDRESSES..].copy_from_slice(&dps::ETHERTYPE.to_be_bytes());
        if let Some(room) = rest.first_chunk_mut() {
            dps::State { payload, hop, lead }.write(room);
        }
        Verdict::ON
    }

    const HANDLERS: &'static [Handler<DpsFrameEncap>] = &[counter!(
        "late",
        "frames that came later than the router may take",
        departure.late
    )];
}

#[cfg(test)]
mod tests {
    use engine::packet::Packet;
    use testkit::{Bench, ip4};
    use wire::dps::State;

    const TEXT: &str = "e :: DPSFrameEncap(LINK 8Mbps) -> out :: Collect";

    fn frame(kind: [u8; 2]) -> Vec<u8> {
        let addresses = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        [&addresses[..], &kind, &ip4().payload([0; 66]).bytes()].concat()
    }

    #[test]
    fn the_state_goes_behind_the_ethernet_header() {
        let mut bench = Bench::new(crate::CLASSES, TEXT);
        let now = bench.graph().now().0;
        let frames = [[8, 0], [0x86, 0xdd], [0x88, 0x47], [8, 6]].map(frame);
        let packets = frames.iter().map(|frame| {
            let mut packet = Packet::from_bytes(frame).unwrap();
            packet.cold_mut().set_deadline(now + 10_000_000);
            packet.cold_mut().set_hop_delay(7000);
            packet
        });
        bench.push_packets("e", 0, packets.collect());
        let out = bench.take("out");
        // 1 MB/s: 10 ms, 1.514 ms for the longest frame, 1 ms for a bin, less 0.1 ms for these 100 bytes.
        for (i, payload) in [0x0800, 0x86dd, 0x8847].into_iter().enumerate() {
            let (sent, was) = (&out[i], &frames[i]);
            let state = State {
                payload,
                hop: 7000,
                lead: 12_414_000,
            };
            assert_eq!(State::read(&sent[14..]), Some(state));
            assert_eq!(
                (&sent[..12], &sent[12..14]),
                (&was[..12], &[0x88, 0xb5][..])
            );
            assert_eq!(sent[30..], was[14..]);
        }
        assert_eq!(out[3], frames[3], "ARP");
    }

    #[test]
    fn frames_without_a_deadline_say_so_and_short_ones_pass() {
        let mut bench = Bench::new(crate::CLASSES, TEXT);
        bench.push("e", &[frame([8, 0]), b"short".to_vec()]);
        let out = bench.take("out");
        let state = State {
            payload: 0x0800,
            hop: 0,
            lead: 0,
        };
        assert_eq!(State::read(&out[0][14..]), Some(state));
        assert_eq!(out[1], b"short");
    }
}
