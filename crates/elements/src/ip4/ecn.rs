//! The two bits of explicit congestion notification (RFC 3168, 5).

use arguments::Names;
use arguments::units::FromArg;

/// Congestion experienced.
pub(super) const CE: u8 = 3;

/// Value of the ECN field, 0 to 3.
#[derive(Clone, Copy)]
pub(super) struct Ecn(pub(super) u8);

impl FromArg for Ecn {
    const KIND: &'static str = "no, ect1, ect2, ce or a number from 0 to 3";

    fn from_arg(raw: &str, _: &Names) -> Result<Ecn, String> {
        match raw {
            "no" | "0" | "-" => Ok(Ecn(0)),
            "ect1" | "ECT(1)" | "1" => Ok(Ecn(1)),
            "ect2" | "ECT(0)" | "2" => Ok(Ecn(2)),
            "ce" | "CE" | "3" => Ok(Ecn(CE)),
            _ => Err(format!("must be {}, not `{raw}`", Self::KIND)),
        }
    }

    fn stand_in() -> Ecn {
        Ecn(0)
    }

    fn unparse(&self) -> String {
        self.0.to_string()
    }
}
