//! Reads a packet's deadline from its state header, and removes the header.
//!
//! ```click
//! // An edge, which knows flows, and the link to the next router ...
//! FromDevice(null:64, CORES 0) -> Strip(14) -> CheckIPHeader
//!     -> FlowTable(LINK 80Mbps) -> DeadlineQueue(1000) -> BandwidthShaper(80Mbps) -> DPSEncap(LINK 80Mbps)
//!     -> EtherEncap(0x88b5, 02:00:00:00:00:01, 02:00:00:00:00:02) -> Unqueue
//! // ... which knows none, and sends in the order of what packets say.
//!     -> Classifier(12/88b5) -> Strip(14) -> DPSDecap -> CheckIPHeader
//!     -> DeadlineQueue(1000) -> BandwidthShaper(80Mbps) -> DPSEncap(LINK 80Mbps) -> Unqueue -> Discard;
//! ```
//!
//! This is the input of a router in a core-stateless network. The packet begins with the 16 bytes that DPSEncap of
//! the previous router has prepended. The packet's deadline is the sum of three times: the time now, its lead over
//! its virtual time, and the time of a hop. A packet without a guarantee gets no deadline.
//!
//! IP packets leave by output 0, those with MPLS labels by output 1, or are dropped without it (`labels`). An invalid
//! state (another version, or a lead of more than a minute) is dropped (`bad_state`), and so are packets of another
//! protocol (`not_ip`).
//!
//! Routers trust this state. So use DPSDecap only after ports to other routers of the network. An edge router drops
//! packets from outside with Ethertype 0x88b5, as conf/core-stateless-edge.click does.

use crate::prelude::*;
use wire::{dps, ether};

drops! {
    BAD_STATE = "bad_state",
    NOT_IP = "not_ip",
    LABELS = "labels",
}

pub(super) struct DpsDecap;

impl Element for DpsDecap {
    const CONTRACT: Contract = Contract::new("DPSDecap", manual!())
        .ports(Ports::new(&["in"], &["ip", "labels?"]))
        .spoils(Facts::ALL)
        .drops(DROPS);

    type Config = ();

    fn configure(_: &mut Args) {}

    fn new(_: &Arc<()>, _: &Init) -> DpsDecap {
        DpsDecap
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let Some(state) = dps::State::read(packet.data()) else {
            return Verdict::drop(BAD_STATE);
        };
        if !packet.pull(dps::LEN) {
            return Verdict::drop(BAD_STATE);
        }
        packet.set_network_offset(0);
        let deadline = match state.hop {
            0 => 0,
            hop => cx
                .now()
                .0
                .saturating_add(state.lead)
                .saturating_add(hop.into()),
        };
        let cold = packet.cold_mut();
        cold.set_deadline(deadline);
        cold.set_hop_delay(state.hop);
        match state.payload {
            ether::IPV4 | ether::IPV6 => Verdict::ON,
            ether::MPLS => Verdict::reject(LABELS, 1),
            _ => Verdict::drop(NOT_IP),
        }
    }
}

#[cfg(test)]
mod tests {
    use testkit::{Bench, ip4};
    use wire::dps::{LEN, State};

    fn packet(payload: u16, hop: u32, lead: u64) -> Vec<u8> {
        let mut bytes = [0; LEN];
        State { payload, hop, lead }.write(&mut bytes);
        [&bytes[..], &ip4().bytes()].concat()
    }

    #[test]
    fn the_deadline_is_what_the_packet_says() {
        let mut bench = Bench::new(
            crate::CLASSES,
            "d :: DPSDecap -> out :: Collect; d[1] -> labels :: Collect",
        );
        let now = bench.graph().now().0;
        bench.push(
            "d",
            &[
                packet(0x0800, 3000, 500),
                packet(0x86dd, 0, 0),
                packet(0x8847, 9, 1),
            ],
        );
        let out = bench.take_packets("out");
        let deadlines: Vec<u64> = out.iter().map(|seen| seen.cold.deadline()).collect();
        assert_eq!(deadlines, [now + 3500, 0]);
        assert_eq!(out[0].bytes, ip4().bytes());
        assert_eq!(bench.take_packets("labels")[0].cold.deadline(), now + 10);
    }

    #[test]
    fn packets_without_a_state_header_are_dropped_by_name() {
        let mut bench = Bench::new(crate::CLASSES, "d :: DPSDecap -> out :: Collect");
        let mut version = packet(0x0800, 1, 1);
        version[0] = 2;
        let all = [
            packet(0x0800, 0, 1),
            packet(0x0800, 1, 1 << 40),
            version,
            vec![1; 15],
            vec![],
            packet(0x0806, 1, 1),
            packet(0x8847, 1, 1),
        ];
        bench.push("d", &all);
        let drops = ["bad_state", "not_ip", "labels"].map(|name| bench.drops("d", name));
        assert_eq!((drops, bench.take("out").len()), ([5, 1, 1], 0));
    }
}
