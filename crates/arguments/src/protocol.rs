//! IP protocols as arguments, by number or name.

use crate::Names;
use crate::units::FromArg;
use wire::proto;

/// IP protocol number, parsed from a number or name.
pub struct Protocol(pub u8);

impl FromArg for Protocol {
    const KIND: &'static str = "an IP protocol: a number from 0 to 255, or a name such as tcp";

    fn from_arg(raw: &str, names: &Names) -> Result<Protocol, String> {
        match proto::named(raw).or_else(|| u8::from_arg(raw, names).ok()) {
            Some(number) => Ok(Protocol(number)),
            None => Err(format!("must be {}, not `{raw}`", Self::KIND)),
        }
    }

    fn stand_in() -> Protocol {
        Protocol(0)
    }

    fn unparse(&self) -> String {
        self.0.to_string()
    }
}
