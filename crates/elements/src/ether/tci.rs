//! Arguments for the tag of VLAN elements.

use arguments::units::FromArg;
use arguments::{Args, Names};
use engine::packet::Packet;
use wire::vlan;

/// Source of a packet's tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tci {
    /// The VLAN_TCI annotation.
    Anno,
    /// A fixed tag.
    Fixed(u16),
}

impl Tci {
    /// The tag of a packet.
    #[inline]
    pub(super) fn of(self, packet: &Packet) -> u16 {
        match self {
            Tci::Anno => packet.vlan_tci(),
            Tci::Fixed(tci) => tci,
        }
    }

    /// A part of a fixed tag as text: the bits of `mask`, shifted.
    pub(super) fn part(self, mask: u16, shift: u16) -> Result<String, String> {
        Ok(match self {
            Tci::Anno => self.unparse(),
            Tci::Fixed(tci) => ((tci & mask) >> shift).to_string(),
        })
    }

    /// Changes a part of the tag, from a handler's text.
    pub(super) fn set_part(&mut self, value: &str, mask: u16, shift: u16) -> Result<(), String> {
        let new = part(value, mask >> shift)?;
        let rest = match *self {
            Tci::Anno => 0,
            Tci::Fixed(tci) => tci & !mask,
        };
        *self = Tci::Fixed(rest | new << shift);
        Ok(())
    }
}

/// The bits of a tag that hold the identifier.
pub(super) const ID: u16 = 0x0fff;
/// Bits of the priority.
pub(super) const PCP: u16 = 0xe000;

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

    fn unparse(&self) -> String {
        match self {
            Tci::Anno => "ANNO".to_owned(),
            Tci::Fixed(tci) => tci.to_string(),
        }
    }
}

/// Parses VLAN_TCI, VLAN_PCP and VLAN_ID.
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
        (None, None) => Tci::Anno,
        (None, Some(id)) => Tci::Fixed(vlan::tci(pcp, false, id)),
        _ => {
            args.error_in_whole(
                "VLAN_TCI and VLAN_ID are both given",
                "give VLAN_TCI (a number or ANNO) or VLAN_ID, not both",
            );
            Tci::Anno
        }
    }
}

/// Parses a handler's value for a part of a fixed tag.
pub(super) fn part(value: &str, limit: u16) -> Result<u16, String> {
    arguments::units::parse_in(value, 0..=limit)
}
