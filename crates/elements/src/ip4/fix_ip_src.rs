//! Fills in the source address of packets that the router itself made.
//!
//! ICMPError does not know by which interface its messages will leave, and they must carry that interface's
//! address (RFC 1812, 4.3.2.4). It sets the FIX_IP_SRC annotation instead. FixIPSrc, on the output path, writes
//! the address into packets with this annotation, updates the header's checksum and clears the annotation.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> FixIPSrc(10.0.0.1) -> Discard;
//! ```
//!
//! Arguments:
//!
//! - `IPADDR`: the interface's address.

use crate::prelude::*;
use std::net::Ipv4Addr;

pub(crate) struct FixIPSrc {
    address: Ipv4Addr,
}

impl Element for FixIPSrc {
    const CONTRACT: Contract = Contract::new("FixIPSrc", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .needs(&[Facts::IP4])
        .carries_super_frames();

    type Config = Ipv4Addr;

    fn configure(args: &mut Args) -> Ipv4Addr {
        args.required("IPADDR", "the interface's address")
    }

    fn new(address: &Arc<Ipv4Addr>, _: &Init) -> FixIPSrc {
        FixIPSrc { address: **address }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        fused::step(self, packet, cx)
    }
}

impl Fuse for FixIPSrc {
    #[inline]
    fn fast(&self, _: &Cx) -> impl Fn(&mut Packet) -> Option<Verdict> {
        let address = self.address;
        #[inline(always)]
        move |packet| {
            fix(packet, address);
            Some(Verdict::ON)
        }
    }
}

/// Writes the source address into a packet whose annotation requests it.
#[inline]
pub(super) fn fix(packet: &mut Packet, address: Ipv4Addr) {
    if packet.anno().fix_ip_src() {
        packet.anno_mut().set_fix_ip_src(false);
        if let Some(mut ip) = super::header_mut(packet) {
            ip.patch_src(address);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ip4::tests::ip;
    use engine::packet::{Batch, Packet};
    use testkit::Bench;
    use wire::Ipv4;

    #[test]
    fn annotated_packets_get_the_address_once_and_others_stay() {
        let text =
            "c :: CheckIPHeader -> FixIPSrc(10.0.0.1) -> FixIPSrc(10.0.1.1) -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        let packet = ip([1, 1, 1, 1], [2, 2, 2, 2], b"data");
        let mut marked = Packet::from_bytes(&packet).unwrap();
        marked.anno_mut().set_fix_ip_src(true);
        let plain = Packet::from_bytes(&packet).unwrap();
        bench.push_packets("c", 0, Batch::from_iter([marked, plain]));
        let out = bench.take_packets("out");
        let fixed = Ipv4::new_checked(&out[0].bytes).unwrap();
        assert_eq!(fixed.src().octets(), [10, 0, 0, 1]);
        assert!(fixed.verify_checksum() && !out[0].anno.fix_ip_src());
        assert_eq!(out[1].bytes, packet);
    }
}
