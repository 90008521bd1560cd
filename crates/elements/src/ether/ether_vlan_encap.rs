//! Prepends an Ethernet header with an IEEE 802.1Q tag to packets.
//!
//! ```click
//! InfiniteSource(LIMIT 3)
//!     -> EtherVLANEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02, VLAN_ID 7)
//!     -> Discard;
//! ```
//!
//! For frames that already have a header use VLANEncap. A packet without room before its data is dropped
//! (`no_headroom`).
//!
//! Arguments:
//!
//! - `ETHERTYPE`: such as 0x0800.
//! - `SRC`: the source address.
//! - `DST`: the destination address.
//! - `VLAN_TCI`: the whole tag control information; `ANNO` takes each packet's annotation.
//! - `VLAN_PCP`: the priority, 0 to 7. Default 0.
//! - `VLAN_ID`: the VLAN identifier, instead of `VLAN_TCI`.
//! - `NATIVE_VLAN`: frames with this VLAN identifier get no tag; -1 = all get one. Default 0.

use super::tci::{ID, PCP, Tci, arguments};
use crate::prelude::*;
use arguments::units::FromArg;
use wire::{EtherAddr, ether, vlan};

drops! {
    NO_HEADROOM = "no_headroom",
}

#[derive(Clone, Copy)]
pub(super) struct EtherVlanEncap {
    ethertype: u16,
    src: EtherAddr,
    dst: EtherAddr,
    tci: Tci,
    native: i32,
}

impl Element for EtherVlanEncap {
    const CONTRACT: Contract = Contract::new("EtherVLANEncap", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .gives(&[Facts::ETHER])
        .spoils(Facts::AT_NETWORK)
        .drops(DROPS);

    type Config = EtherVlanEncap;

    fn configure(args: &mut Args) -> EtherVlanEncap {
        EtherVlanEncap {
            ethertype: args.required("ETHERTYPE", "protocol behind the header"),
            src: args.required("SRC", "the source address"),
            dst: args.required("DST", "the destination address"),
            tci: arguments(args),
            native: args.key("NATIVE_VLAN", 0, "identifier that gets no tag"),
        }
    }

    fn new(config: &Arc<EtherVlanEncap>, _: &Init) -> EtherVlanEncap {
        **config
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let tci = self.tci.of(packet);
        let tagged = i32::from(tci & ID) != self.native;
        let len = ether::LEN + if tagged { vlan::LEN } else { 0 };
        let Some(head) = packet.push(len) else {
            return Verdict::drop(NO_HEADROOM);
        };
        let outer = if tagged { ether::VLAN } else { self.ethertype };
        head[..ether::LEN].copy_from_slice(&ether::header(self.dst, self.src, outer));
        if tagged {
            head[14..16].copy_from_slice(&tci.to_be_bytes());
            head[16..18].copy_from_slice(&self.ethertype.to_be_bytes());
        }
        packet.set_mac_here();
        Verdict::ON
    }

    const HANDLERS: &'static [Handler<EtherVlanEncap>] = &[
        Handler::text("src", "see SRC", |e, _| Ok(e.src.dashed().to_string())),
        Handler::assign("src", "changes SRC", |e| &mut e.src),
        Handler::text("dst", "see DST", |e, _| Ok(e.dst.dashed().to_string())),
        Handler::assign("dst", "changes DST", |e| &mut e.dst),
        Handler::show("ethertype", "see ETHERTYPE", |e| &e.ethertype),
        Handler::assign("ethertype", "changes ETHERTYPE", |e| &mut e.ethertype),
        Handler::text("vlan_tci", "see VLAN_TCI", |e, _| Ok(e.tci.unparse())),
        Handler::assign("vlan_tci", "changes VLAN_TCI", |e| &mut e.tci),
        Handler::text("vlan_id", "see VLAN_ID", |e, _| e.tci.part(ID, 0)),
        Handler::set("vlan_id", "changes VLAN_ID", |e, value, _| {
            e.tci.set_part(value, ID, 0)
        }),
        Handler::text("vlan_pcp", "see VLAN_PCP", |e, _| e.tci.part(PCP, 13)),
        Handler::set("vlan_pcp", "changes VLAN_PCP", |e, value, _| {
            e.tci.set_part(value, PCP, 13)
        }),
        Handler::show("native_vlan", "see NATIVE_VLAN", |e| &e.native),
        Handler::set("native_vlan", "changes NATIVE_VLAN", |e, value, _| {
            e.native = arguments::units::parse_in(value, -1..=4095)?;
            Ok(())
        }),
    ];
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn the_tag_stands_in_the_header_and_the_native_vlan_has_none() {
        let text = "e :: EtherVLANEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2, 1) -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("e", &[b"x"]);
        bench.write("e.native_vlan", "1");
        bench.push("e", &[b"y"]);
        assert_eq!(
            bench.take("out"),
            [
                &b"\x02\x02\x02\x02\x02\x02\x01\x01\x01\x01\x01\x01\x81\0\0\x01\x08\0x"[..],
                b"\x02\x02\x02\x02\x02\x02\x01\x01\x01\x01\x01\x01\x08\0y",
            ]
        );
    }

    #[test]
    fn parts_of_the_tag_can_be_changed_one_by_one() {
        let text = "e :: EtherVLANEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2, ANNO) -> Discard";
        let mut bench = Bench::new(crate::CLASSES, text);
        assert_eq!(bench.read("e.vlan_tci"), "ANNO");
        bench.write("e.vlan_id", "7");
        bench.write("e.vlan_pcp", "3");
        assert_eq!(bench.read("e.vlan_tci"), (3 << 13 | 7).to_string());
        assert_eq!(
            (bench.read("e.vlan_id"), bench.read("e.vlan_pcp")),
            ("7".to_owned(), "3".to_owned())
        );
        for (handler, wrong) in [
            ("vlan_id", "4096"),
            ("vlan_pcp", "8"),
            ("native_vlan", "-2"),
        ] {
            assert!(bench.try_write(&format!("e.{handler}"), wrong).is_err());
        }
        assert_eq!(bench.read("e.dst"), "02-02-02-02-02-02");
    }
}
