//! Stops packets that came as link-layer broadcast or multicast.
//!
//! A router must not forward them (RFC 1812, 5.3.4). The element reads the packet type annotation, which
//! FromDevice and HostEtherFilter set.
//!
//! ```click
//! FromDevice(eth0) -> DropBroadcasts -> Discard;
//! ```
//!
//! Such packets leave by output 1, or are dropped (`broadcast`).

use crate::prelude::*;
use engine::packet::anno::PacketType;

drops! {
    BROADCAST = "broadcast",
}
const FILTERED: u8 = 1;

pub(crate) struct DropBroadcasts {
    drops: u64,
}

fn is_stopped(packet: &Packet) -> bool {
    let packet_type = packet.anno().packet_type;
    matches!(packet_type, PacketType::Broadcast | PacketType::Multicast)
}

impl Element for DropBroadcasts {
    const CONTRACT: Contract = Contract::new("DropBroadcasts", manual!())
        .ports(Ports::new(&["in"], &["out", "broadcasts?"]))
        .drops(DROPS)
        .carries_super_frames();

    type Config = ();

    fn configure(_: &mut Args) {}

    fn new(_: &Arc<()>, _: &Init) -> DropBroadcasts {
        DropBroadcasts { drops: 0 }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        fused::step(self, packet, cx)
    }

    fn take(&mut self, old: DropBroadcasts) {
        *self = old;
    }

    const HANDLERS: &'static [Handler<DropBroadcasts>] =
        &[Handler::sum("drops", "packets stopped", |e| e.drops)];
}

impl Fuse for DropBroadcasts {
    #[inline]
    fn fast(&self, _: &Cx) -> impl Fn(&mut Packet) -> Option<Verdict> {
        #[inline(always)]
        |packet| (!is_stopped(packet)).then_some(Verdict::ON)
    }

    fn slow(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        if !is_stopped(packet) {
            return Verdict::ON;
        }
        self.drops += 1;
        Verdict::reject(BROADCAST, FILTERED)
    }
}

#[cfg(test)]
mod tests {
    use engine::packet::Packet;
    use engine::packet::anno::PacketType::{self, *};
    use testkit::Bench;

    fn packet(packet_type: PacketType) -> Packet {
        let mut packet = Packet::from_bytes(&[packet_type as u8]).expect("it fits");
        packet.anno_mut().packet_type = packet_type;
        packet
    }

    fn all() -> impl Iterator<Item = Packet> {
        [Host, Broadcast, Multicast, OtherHost]
            .into_iter()
            .map(packet)
    }

    #[test]
    fn broadcasts_and_multicasts_stop_here() {
        let mut bench = Bench::new(crate::CLASSES, "d :: DropBroadcasts -> out :: Collect");
        bench.push_packets("d", 0, all().collect());
        assert_eq!(bench.take("out"), [[Host as u8], [OtherHost as u8]]);
        assert_eq!(bench.drops("d", "broadcast"), 2);
        assert_eq!(bench.read("d.drops"), "2");
    }

    #[test]
    fn broadcasts_leave_by_output_1_if_it_is_connected() {
        let mut bench = Bench::new(
            crate::CLASSES,
            "d :: DropBroadcasts -> Discard; d[1] -> out :: Collect",
        );
        bench.push_packets("d", 0, all().collect());
        assert_eq!(bench.take("out"), [[Broadcast as u8], [Multicast as u8]]);
    }
}
