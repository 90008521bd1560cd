//! Sets the VLAN_TCI annotation of packets.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> SetVLANAnno(VLAN_ID 7, VLAN_PCP 3) -> Discard;
//! ```
//!
//! VLANEncap(ANNO) reads this annotation.
//!
//! Arguments:
//!
//! - `VLAN_TCI`: the whole tag control information.
//! - `VLAN_PCP`: the priority, 0 to 7. Default 0.
//! - `VLAN_ID`: the VLAN identifier, instead of `VLAN_TCI`.

use super::tci::{Tci, arguments, part};
use crate::prelude::*;

pub(super) struct SetVlanAnno {
    tci: u16,
}

impl Element for SetVlanAnno {
    const CONTRACT: Contract =
        Contract::new("SetVLANAnno", manual!()).ports(Ports::new(&["in"], &["out"]));

    type Config = u16;

    fn configure(args: &mut Args) -> u16 {
        match arguments(args) {
            Tci::Fixed(tci) => tci,
            Tci::Anno => {
                args.error_in_whole(
                    "the VLAN annotation cannot be set from itself",
                    "give VLAN_TCI a number, or VLAN_ID",
                );
                0
            }
        }
    }

    fn new(tci: &Arc<u16>, _: &Init) -> SetVlanAnno {
        SetVlanAnno { tci: **tci }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        packet.set_vlan_tci(self.tci);
        Verdict::ON
    }

    const HANDLERS: &'static [Handler<SetVlanAnno>] = &[
        Handler::show("vlan_tci", "the tag", |e| &e.tci),
        Handler::text("vlan_id", "the identifier", |e, _| {
            Ok((e.tci & 0xfff).to_string())
        }),
        Handler::text("vlan_pcp", "the priority", |e, _| {
            Ok((e.tci >> 13).to_string())
        }),
        Handler::set("vlan_tci", "changes the tag", |e, value, _| {
            e.tci = part(value, u16::MAX)?;
            Ok(())
        }),
        Handler::set("vlan_id", "changes the identifier", |e, value, _| {
            e.tci = e.tci & 0xf000 | part(value, 0xfff)?;
            Ok(())
        }),
        Handler::set("vlan_pcp", "changes the priority", |e, value, _| {
            e.tci = e.tci & 0x1fff | part(value, 7)? << 13;
            Ok(())
        }),
    ];
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn the_tag_is_made_of_its_parts() {
        let mut bench = Bench::new(
            crate::CLASSES,
            "s :: SetVLANAnno(VLAN_ID 7, VLAN_PCP 3) -> Discard",
        );
        assert_eq!(bench.read("s.vlan_tci"), (7 | 3 << 13).to_string());
        bench.write("s.vlan_id", "100");
        bench.write("s.vlan_pcp", "5");
        assert_eq!(bench.read("s.vlan_id"), "100");
        assert_eq!(bench.read("s.vlan_pcp"), "5");
        assert!(bench.try_write("s.vlan_id", "4096").is_err());
    }

    #[test]
    fn a_tag_is_given_in_one_way() {
        for wrong in ["", "7, VLAN_ID 7", "VLAN_ID 4096", "7, 8", "ANNO"] {
            let text = format!("Idle -> SetVLANAnno({wrong}) -> Discard");
            assert!(testkit::errors(crate::CLASSES, &text).contains("VLAN"));
        }
    }
}
