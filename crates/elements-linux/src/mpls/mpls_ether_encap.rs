//! Prepends Ethernet headers to packets that leave an MPLS router, with labels or without.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> mpls :: MPLSLookup(100 swap 200 10.0.1.2 0, 101 pop 10.0.1.2 0)
//!     -> MPLSEtherEncap(02:00:00:00:00:01, 02:00:00:00:01:02) -> Discard;
//! ```
//!
//! The Ethertype is 0x8847 before labels, and 0x0800 or 0x86dd before an IP packet whose last label was popped.
//! MPLSLookup and MPLSEncap record the kind in the network header annotation. A packet that is none of these is
//! dropped (`not_ip`), and so is one without room before its data (`no_headroom`).
//!
//! Arguments:
//!
//! - `SRC`: the source address.
//! - `DST`: the address of the router at the other end of the link.

use crate::prelude::*;
use wire::{EtherAddr, ether};

drops! {
    NOT_IP = "not_ip",
    NO_HEADROOM = "no_headroom",
}

#[derive(Clone, Copy)]
pub(crate) struct MplsEtherEncap {
    src: EtherAddr,
    dst: EtherAddr,
    /// Header of packets with labels.
    labelled: [u8; ether::LEN],
}

impl MplsEtherEncap {
    fn new(src: EtherAddr, dst: EtherAddr) -> MplsEtherEncap {
        MplsEtherEncap {
            src,
            dst,
            labelled: ether::header(dst, src, ether::MPLS),
        }
    }
}

impl Element for MplsEtherEncap {
    const CONTRACT: Contract = Contract::new("MPLSEtherEncap", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .needs(&[Facts::NETWORK])
        .gives(&[Facts::ETHER])
        .spoils(Facts::AT_NETWORK)
        .drops(DROPS)
        .ignores_annotations();

    type Config = MplsEtherEncap;

    fn configure(args: &mut Args) -> MplsEtherEncap {
        let src = args.required("SRC", "the source address");
        let dst = args.required("DST", "the router at the other end of the link");
        MplsEtherEncap::new(src, dst)
    }

    fn new(config: &Arc<MplsEtherEncap>, _: &Init) -> MplsEtherEncap {
        **config
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        fused::step(self, packet, cx)
    }

    const HANDLERS: &'static [Handler<MplsEtherEncap>] = &[
        Handler::text("dst", "see DST", |e, _| Ok(e.dst.dashed().to_string())),
        Handler::set("dst", "changes DST", |e, value, _| {
            let mut dst = e.dst;
            assign(&mut dst, value)?;
            *e = MplsEtherEncap::new(e.src, dst);
            Ok(())
        }),
    ];
}

impl Fuse for MplsEtherEncap {
    /// Packets with labels.
    #[inline]
    fn fast(&self, _: &Cx) -> impl Fn(&mut Packet) -> Option<Verdict> {
        let header = self.labelled;
        #[inline(always)]
        move |packet| {
            (packet.network_offset() > 0 && packet.push_mac(&header)).then_some(Verdict::ON)
        }
    }

    fn slow(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let version = packet.data().first().map(|first| first >> 4);
        let ethertype = match (packet.network_offset(), version) {
            (1.., _) => ether::MPLS,
            (0, Some(4)) => ether::IPV4,
            (0, Some(6)) => ether::IPV6,
            _ => return Verdict::drop(NOT_IP),
        };
        let header = ether::header(self.dst, self.src, ethertype);
        on_if(packet.push_mac(&header), NO_HEADROOM)
    }
}

#[cfg(test)]
mod tests {
    use testkit::{Bench, ip4, ip6};

    #[test]
    fn the_ethertype_is_the_packets_protocol() {
        let text = "e :: MPLSEncap(16) -> x :: MPLSEtherEncap(02:00:00:00:00:01, 02:00:00:00:00:02)
            -> out :: Collect";
        let mut bench = Bench::new(crate::with_basics(), text);
        let (four, six) = (ip4().bytes(), ip6().bytes());
        bench.push("e", std::slice::from_ref(&four));
        bench.push("x", &[&four, &six, &b"?".to_vec(), &Vec::new()]);
        let out = bench.take("out");
        let head = |frame: &[u8]| (frame[..12].to_vec(), [frame[12], frame[13]]);
        let addresses = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1].to_vec();
        let kinds: Vec<_> = out.iter().map(|frame| head(frame)).collect();
        let expected = [[0x88, 0x47], [0x08, 0x00], [0x86, 0xdd]];
        assert_eq!(kinds, expected.map(|kind| (addresses.clone(), kind)));
        assert_eq!(bench.drops("x", "not_ip"), 2);
    }
}
