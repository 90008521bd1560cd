//! The arguments by which VLAN elements are told a tag.

use engine::args::{Args, Names};
use engine::units::FromArg;
use wire::vlan;

/// Where a packet's tag comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tci {
    /// The VLAN_TCI annotation.
    Anno,
    /// The same for all packets.
    Fixed(u16),
}

impl FromArg for Tci {
    const KIND: &'static str = "a number from 0 to 65535 or ANNO";

    fn from_arg(raw: &str, names: &Names) -> Result<Tci, String> {
        match raw {
            "ANNO" => Ok(Tci::Anno),
            _ => u16::from_arg(raw, names).map(Tci::Fixed),
        }
    }

    fn stand_in() -> Tci {
        Tci::Anno
    }

    fn show(&self) -> String {
        match self {
            Tci::Anno => "ANNO".to_owned(),
            Tci::Fixed(tci) => tci.to_string(),
        }
    }
}

/// Asks for VLAN_TCI, VLAN_PCP and VLAN_ID.
pub(super) fn arguments(args: &mut Args) -> Tci {
    let tci = args.maybe::<Tci>("VLAN_TCI", "the whole tag, or ANNO");
    let pcp: u8 = args.optional("VLAN_PCP", 0, "priority, 0 to 7");
    let id: Option<u16> = args.key_maybe("VLAN_ID", "identifier, 0 to 4095");
    if pcp > 7 || id.is_some_and(|id| id > 0xfff) {
        args.error_in_whole(
            "the VLAN tag cannot be written",
            "VLAN_PCP goes from 0 to 7, VLAN_ID from 0 to 4095",
        );
    }
    match (tci, id) {
        (Some(Tci::Anno), None) => Tci::Anno,
        (Some(Tci::Fixed(tci)), None) => Tci::Fixed(tci | vlan::tci(pcp, false, 0)),
        (None, Some(id)) => Tci::Fixed(vlan::tci(pcp, false, id)),
        _ => {
            args.error_in_whole(
                "the VLAN is not clear",
                "give either VLAN_TCI (a number or ANNO) or VLAN_ID",
            );
            Tci::Anno
        }
    }
}

/// Parses a handler's value for a part of a fixed tag.
pub(super) fn part(value: &str, most: u16) -> Result<u16, String> {
    engine::units::parse_in(value, 0..=most)
}
