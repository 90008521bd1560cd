//! Prepends an Ethernet header to IP packets that have none.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader
//!     -> EnsureEther(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02) -> Discard;
//! ```
//!
//! A packet without network header annotation stays as it is, and so does a packet with an Ethernet header
//! right before its network header. If such a header was stripped, it is restored; otherwise a new header is
//! made. A packet without room before its data is dropped (`no_headroom`).
//!
//! Arguments:
//!
//! - `ETHERTYPE`: ethertype of new headers. Default 0x0800.
//! - `SRC`: the source address. Default 01:01:01:01:01:01.
//! - `DST`: the destination address. Default 02:02:02:02:02:02.

use crate::prelude::*;
use wire::{EtherAddr, ether};

drops! {
    NO_HEADROOM = "no_headroom",
}

pub(super) struct EnsureEther {
    header: [u8; ether::LEN],
}

/// True if the header's packet is IP.
fn is_ip(header: &[u8]) -> bool {
    let ethertype = header.get(12..14);
    ethertype == Some(&ether::IPV4.to_be_bytes()) || ethertype == Some(&ether::IPV6.to_be_bytes())
}

impl Element for EnsureEther {
    const CONTRACT: Contract = Contract::new("EnsureEther", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .gives(&[Facts::ETHER])
        .spoils(Facts::AT_NETWORK)
        .drops(DROPS);

    type Config = [u8; ether::LEN];

    fn configure(args: &mut Args) -> [u8; ether::LEN] {
        let ethertype = args.optional("ETHERTYPE", ether::IPV4, "ethertype of new headers");
        let src = args.optional("SRC", EtherAddr([1; 6]), "the source address");
        let dst = args.optional("DST", EtherAddr([2; 6]), "the destination address");
        ether::header(dst, src, ethertype)
    }

    fn new(header: &Arc<[u8; ether::LEN]>, _: &Init) -> EnsureEther {
        EnsureEther { header: **header }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let place = usize::from(packet.anno().network);
        let offset = packet.network_offset();
        if place == 0 || (offset >= ether::LEN && is_ip(&packet.data()[offset - ether::LEN..])) {
            return Verdict::ON;
        }
        let had_one = place >= ether::LEN && usize::from(packet.anno().mac) == place - ether::LEN;
        if offset < ether::LEN && had_one {
            let Some(_) = packet.push(ether::LEN - offset) else {
                return Verdict::drop(NO_HEADROOM);
            };
            if is_ip(packet.data()) {
                return Verdict::ON;
            }
            if !packet.pull(ether::LEN - offset) {
                return Verdict::drop(NO_HEADROOM);
            }
        }
        match packet.push(ether::LEN) {
            Some(head) => {
                head.copy_from_slice(&self.header);
                packet.set_mac_here();
                Verdict::ON
            }
            None => Verdict::drop(NO_HEADROOM),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ip4::tests::ip;
    use testkit::Bench;

    const MADE: &[u8] = b"\x02\x02\x02\x02\x02\x02\x01\x01\x01\x01\x01\x01\x08\0";

    #[test]
    fn a_header_is_kept_brought_back_or_made() {
        let packet = ip([1, 1, 1, 1], [2, 2, 2, 2], b"data");
        let frame = [b"ddddddssssss\x08\0", &packet[..]].concat();
        let text = "a :: MarkIPHeader(14) -> e :: EnsureEther -> out :: Collect;
            b :: MarkMACHeader(0, 14) -> MarkIPHeader(14) -> Strip(14) -> e;
            c :: MarkIPHeader -> e;
            d :: Null -> e";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("a", &[&frame]);
        bench.push("b", &[&frame]);
        bench.push("c", &[&packet]);
        bench.push("d", &[b"no IP"]);
        let made = [MADE, &packet[..]].concat();
        assert_eq!(bench.take("out"), [&frame[..], &frame, &made, b"no IP"]);
    }
}
