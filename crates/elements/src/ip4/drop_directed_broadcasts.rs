//! Drops packets to the broadcast address of an attached network.
//!
//! A directed broadcast is a packet to a network's last address, or, from very old hosts, to its first. A
//! router must not forward it unless configured to (RFC 2644, which changes RFC 1812, 5.3.5.2). Put this
//! element before the network's link; leave it out to allow directed broadcasts. Networks of 31 and 32 bits
//! have no broadcast addresses (RFC 3021).
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader
//!     -> DropDirectedBroadcasts(10.0.0.1/24) -> Discard;
//! ```
//!
//! Such packets leave by output 1 if that is connected.
//!
//! Arguments:
//!
//! - `INTERFACES`: addresses of interfaces with prefix lengths, separated by spaces.

use crate::ip4::Interfaces;
use crate::prelude::*;
use forwarding::Listed;

drops! {
    DIRECTED_BROADCAST = "directed_broadcast",
    NO_HEADER = "no_header",
}

pub(crate) struct DropDirectedBroadcasts {
    /// Directed broadcast addresses of the attached networks.
    broadcasts: Listed,
}

impl Element for DropDirectedBroadcasts {
    const CONTRACT: Contract = Contract::new("DropDirectedBroadcasts", manual!())
        .ports(Ports::new(&["in"], &["out", "broadcast?"]))
        .needs(&[Facts::IP4])
        .drops(DROPS)
        .carries_super_frames();

    type Config = Interfaces;

    fn configure(args: &mut Args) -> Interfaces {
        args.required("INTERFACES", "addresses of interfaces with prefix lengths")
    }

    fn new(interfaces: &Arc<Interfaces>, _: &Init) -> DropDirectedBroadcasts {
        let mut broadcasts = Listed::default();
        broadcasts.extend(interfaces.broadcasts());
        DropDirectedBroadcasts { broadcasts }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        fused::step(self, packet, cx)
    }
}

impl Fuse for DropDirectedBroadcasts {
    #[inline]
    fn fast(&self, _: &Cx) -> impl Fn(&mut Packet) -> Option<Verdict> {
        let broadcasts = &self.broadcasts;
        #[inline(always)]
        |packet| {
            let dst = super::plain(packet)?.dst();
            (!broadcasts.contains(dst)).then_some(Verdict::ON)
        }
    }

    #[cold]
    fn slow(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        match super::header(packet) {
            None => Verdict::drop(NO_HEADER),
            Some(ip) if self.broadcasts.contains(ip.dst()) => {
                Verdict::reject(DIRECTED_BROADCAST, 1)
            }
            Some(_) => Verdict::ON,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ip4::tests::ip;
    use testkit::Bench;

    #[test]
    fn only_broadcasts_of_the_networks_are_dropped() {
        let text = "c :: CheckIPHeader
            -> d :: DropDirectedBroadcasts(10.0.0.1/25 192.0.2.1/31) -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        let to = |dst| ip([1, 1, 1, 1], dst, b"");
        let pass = [
            to([10, 0, 0, 126]),
            to([10, 0, 0, 128]),
            to([10, 0, 0, 255]),
            to([192, 0, 2, 0]),
            to([192, 0, 2, 1]),
        ];
        bench.push("c", &pass);
        bench.push("c", &[to([10, 0, 0, 127]), to([10, 0, 0, 0])]);
        assert_eq!(bench.take("out"), pass);
        assert_eq!(bench.drops("d", "directed_broadcast"), 2);
    }
}
