//! Offsets of Ethernet addresses in a frame.

use arguments::Names;
use arguments::units::FromArg;

/// A place in bytes from the start.
#[derive(Clone, Copy)]
pub(super) struct Offset(pub(super) usize);

impl FromArg for Offset {
    const KIND: &'static str = "a number, src or dst";

    fn from_arg(raw: &str, names: &Names) -> Result<Offset, String> {
        match raw {
            "src" => Ok(Offset(6)),
            "dst" => Ok(Offset(0)),
            _ => match usize::from_arg(raw, names) {
                Ok(offset) => Ok(Offset(offset)),
                Err(_) => Err(format!("must be {}, not `{raw}`", Self::KIND)),
            },
        }
    }

    fn stand_in() -> Offset {
        Offset(0)
    }

    fn unparse(&self) -> String {
        self.0.to_string()
    }
}
