//! Types and codes of ICMPv6 errors as arguments (RFC 4443, 3).

use arguments::Names;
use arguments::units::FromArg;
use wire::icmp6::{PACKET_TOO_BIG, PARAMETER_PROBLEM, TIME_EXCEEDED, UNREACHABLE};

/// A type by number or name.
pub(super) struct Kind(pub(super) u8);

const KINDS: [(&str, u8); 6] = [
    ("unreachable", UNREACHABLE),
    ("packettoobig", PACKET_TOO_BIG),
    ("toobig", PACKET_TOO_BIG),
    ("timeexceeded", TIME_EXCEEDED),
    ("parameterproblem", PARAMETER_PROBLEM),
    ("paramprob", PARAMETER_PROBLEM),
];

impl FromArg for Kind {
    const KIND: &'static str =
        "unreachable, packettoobig, timeexceeded, parameterproblem or a number from 1 to 4";

    fn from_arg(raw: &str, names: &Names) -> Result<Kind, String> {
        let named = KINDS.iter().find(|k| k.0 == raw).map(|k| k.1);
        let number = || u8::from_arg(raw, names).ok();
        let known = |kind: &u8| (UNREACHABLE..=PARAMETER_PROBLEM).contains(kind);
        let kind = named.or_else(number).filter(known);
        kind.map(Kind)
            .ok_or_else(|| format!("must be {}, not `{raw}`", Self::KIND))
    }

    fn stand_in() -> Kind {
        Kind(UNREACHABLE)
    }

    fn unparse(&self) -> String {
        self.0.to_string()
    }
}

/// A code by number, or by name and then of one type only.
pub(super) struct Code(pub(super) Option<u8>, pub(super) u8);

const CODES: [(&str, u8, u8); 13] = [
    ("noroute", UNREACHABLE, 0),
    ("prohibited", UNREACHABLE, 1),
    ("scope", UNREACHABLE, 2),
    ("address", UNREACHABLE, 3),
    ("port", UNREACHABLE, 4),
    ("policy", UNREACHABLE, 5),
    ("reject", UNREACHABLE, 6),
    ("transit", TIME_EXCEEDED, 0),
    ("reassembly", TIME_EXCEEDED, 1),
    ("field", PARAMETER_PROBLEM, 0),
    ("nextheader", PARAMETER_PROBLEM, 1),
    ("option", PARAMETER_PROBLEM, 2),
    ("chain", PARAMETER_PROBLEM, 3),
];

impl FromArg for Code {
    const KIND: &'static str = "a code such as noroute, transit or 3";

    fn from_arg(raw: &str, names: &Names) -> Result<Code, String> {
        let named = CODES.iter().find(|c| c.0 == raw);
        named
            .map(|c| Code(Some(c.1), c.2))
            .or_else(|| u8::from_arg(raw, names).ok().map(|n| Code(None, n)))
            .ok_or_else(|| format!("must be {}, not `{raw}`", Self::KIND))
    }

    fn stand_in() -> Code {
        Code(None, 0)
    }

    fn unparse(&self) -> String {
        self.1.to_string()
    }
}
