//! One-byte annotations by name, for REPLY_ANNO.

use engine::args::Names;
use engine::packet::Packet;
use engine::units::FromArg;

/// A byte of a packet's annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anno {
    /// Click's PAINT, byte 16.
    Paint,
    /// A byte of the user annotations.
    User(u8),
}

const PAINT: u8 = 16;

impl FromArg for Anno {
    const KIND: &'static str = "PAINT or the number of an annotation byte, 0 to 47";

    fn from_arg(raw: &str, names: &Names) -> Result<Anno, String> {
        match raw {
            "PAINT" => Ok(Anno::Paint),
            _ => match u8::from_arg(raw, names) {
                Ok(PAINT) => Ok(Anno::Paint),
                Ok(byte @ 0..48) => Ok(Anno::User(byte)),
                _ => Err(format!("must be {}, not `{raw}`", Self::KIND)),
            },
        }
    }

    fn stand_in() -> Anno {
        Anno::Paint
    }

    fn show(&self) -> String {
        match self {
            Anno::Paint => "PAINT".to_owned(),
            Anno::User(byte) => byte.to_string(),
        }
    }
}

impl Anno {
    /// Its value.
    pub(super) fn get(self, packet: &Packet) -> u8 {
        match self {
            Anno::Paint => packet.anno().paint,
            Anno::User(byte) => packet.cold().user[usize::from(byte)],
        }
    }

    /// Sets it.
    pub(super) fn set(self, packet: &mut Packet, value: u8) {
        match self {
            Anno::Paint => packet.anno_mut().paint = value,
            Anno::User(byte) => packet.cold_mut().user[usize::from(byte)] = value,
        }
    }
}
