//! Computes the checksum of UDP datagrams.
//!
//! ```click
//! FromDevice(null:64) -> MarkIPHeader(14) -> SetUDPChecksum -> Discard;
//! ```
//!
//! Fragments, and datagrams whose length field is larger than the packet, leave by output 1 or are dropped
//! (`bad_datagram`). The protocol field is not checked.

use crate::prelude::*;
use wire::{Udp, checksum, proto, udp};

drops! {
    BAD_DATAGRAM = "bad_datagram",
}
const BAD: u8 = 1;

pub(super) struct SetUDPChecksum;

fn set(packet: &mut Packet) -> Option<()> {
    let (start, len, src, dst) = super::upper(packet)?;
    let bytes = &mut packet.network_mut()[start..start + len];
    if len < udp::LEN {
        return None;
    }
    let mut udp = Udp::new_unchecked(bytes);
    if !(udp::LEN..=len).contains(&udp.len()) {
        return None;
    }
    let pseudo = checksum::pseudo4(src, dst, proto::UDP, udp.len());
    udp.fill_checksum(pseudo);
    Some(())
}

impl Element for SetUDPChecksum {
    const CONTRACT: Contract = Contract::new("SetUDPChecksum", manual!())
        .ports(Ports::new(&["in"], &["out", "bad?"]))
        .needs(&[Facts::IP4])
        .drops(DROPS)
        .ignores_annotations();

    type Config = ();

    fn configure(_: &mut Args) {}

    fn new(_: &Arc<()>, _: &Init) -> SetUDPChecksum {
        SetUDPChecksum
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        set(packet).map_or(Verdict::reject(BAD_DATAGRAM, BAD), |()| Verdict::ON)
    }
}

#[cfg(test)]
mod tests {
    use testkit::{Bench, ip4};

    #[test]
    fn a_missing_checksum_is_made_and_what_cannot_have_one_leaves() {
        let good = ip4().udp(1, 2).payload("data").bytes();
        let none = ip4().udp(1, 2).payload("data").no_udp_checksum().bytes();
        let mut long = none.clone();
        long[25] += 1;
        let piece = ip4().udp(1, 2).payload("data").fragment(0, true).bytes();
        let text =
            "m :: MarkIPHeader -> s :: SetUDPChecksum -> out :: Collect; s[1] -> bad :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("m", &[&none, &long, &piece]);
        assert_eq!(bench.take("out"), [good]);
        assert_eq!(bench.take("bad"), [long, piece]);
    }
}
