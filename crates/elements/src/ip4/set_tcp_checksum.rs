//! Computes the checksum of TCP segments.
//!
//! ```click
//! FromDevice(null:64) -> MarkIPHeader(14) -> SetTCPChecksum -> Discard;
//! ```
//!
//! A packet without a whole TCP header, or whose header length is larger than the segment, is dropped
//! (`bad_segment`). The protocol field is not checked.
//!
//! Arguments:
//!
//! - `FIXOFF`: true to reduce a header length that is too large, instead of dropping the packet. Default
//!   false.

use crate::prelude::*;
use wire::{Tcp, checksum, proto, tcp};

drops! {
    BAD_SEGMENT = "bad_segment",
}

pub(super) struct SetTCPChecksum {
    fix_offset: bool,
}

impl SetTCPChecksum {
    fn set(&self, packet: &mut Packet) -> Option<()> {
        let (start, segment, src, dst) = super::upper(packet)?;
        let mut tcp = Tcp::new_unchecked(&mut packet.network_mut()[start..start + segment]);
        if segment < tcp::MIN_LEN {
            return None;
        }
        if tcp.header_len() > segment {
            if !self.fix_offset {
                return None;
            }
            tcp.set_header_len(segment.min(60) / 4 * 4);
        }
        tcp.fill_checksum(checksum::pseudo4(src, dst, proto::TCP, segment));
        Some(())
    }
}

impl Element for SetTCPChecksum {
    const CONTRACT: Contract = Contract::new("SetTCPChecksum", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .needs(&[Facts::IP4])
        .drops(DROPS)
        .ignores_annotations();

    type Config = bool;

    fn configure(args: &mut Args) -> bool {
        args.optional("FIXOFF", false, "true to shorten header lengths")
    }

    fn new(fix_offset: &Arc<bool>, _: &Init) -> SetTCPChecksum {
        SetTCPChecksum {
            fix_offset: **fix_offset,
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        self.set(packet)
            .map_or(Verdict::drop(BAD_SEGMENT), |()| Verdict::ON)
    }
}

#[cfg(test)]
mod tests {
    use testkit::{Bench, ip4};

    #[test]
    fn a_wrong_checksum_becomes_right() {
        let good = ip4().tcp(1, 2).payload("data").bytes();
        let mut bad = good.clone();
        bad[36] ^= 0x55;
        let text = "m :: MarkIPHeader -> SetTCPChecksum -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("m", &[&bad]);
        assert_eq!(bench.take("out"), [good]);
    }

    #[test]
    fn a_header_that_is_too_long_is_cut_if_that_is_wanted() {
        let mut long = ip4().tcp(1, 2).bytes();
        long[32] = 0xf0;
        let text = "m :: MarkIPHeader -> t :: Tee -> s :: SetTCPChecksum -> Discard;
            t[1] -> SetTCPChecksum(true) -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("m", &[&long, &ip4().tcp(1, 2).bytes()[..39].to_vec()]);
        assert_eq!(bench.take("out").len(), 1);
        assert_eq!(bench.drops("s", "bad_segment"), 2);
    }
}
