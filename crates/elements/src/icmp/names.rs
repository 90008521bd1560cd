//! Names of ICMP types and codes, as Click spells them.

use engine::args::Args;
use wire::icmp::{
    PARAMETER_PROBLEM, REDIRECT, SOURCE_QUENCH, TIME_EXCEEDED, UNREACHABLE, redirect,
    time_exceeded, unreachable,
};

const TYPES: &[(&str, u8)] = &[
    ("unreachable", UNREACHABLE),
    ("sourcequench", SOURCE_QUENCH),
    ("redirect", REDIRECT),
    ("timeexceeded", TIME_EXCEEDED),
    ("parameterproblem", PARAMETER_PROBLEM),
];

const CODES: &[(u8, &str, u8)] = &[
    (UNREACHABLE, "net", unreachable::NET),
    (UNREACHABLE, "host", unreachable::HOST),
    (UNREACHABLE, "protocol", unreachable::PROTOCOL),
    (UNREACHABLE, "port", unreachable::PORT),
    (UNREACHABLE, "needfrag", unreachable::FRAG_NEEDED),
    (UNREACHABLE, "srcroutefail", unreachable::SOURCE_ROUTE),
    (UNREACHABLE, "filter_prohib", unreachable::PROHIBITED),
    (REDIRECT, "net", redirect::NET),
    (REDIRECT, "host", redirect::HOST),
    (TIME_EXCEEDED, "transit", time_exceeded::TRANSIT),
    (TIME_EXCEEDED, "reassembly", time_exceeded::REASSEMBLY),
    (PARAMETER_PROBLEM, "erroratptr", 0),
    (PARAMETER_PROBLEM, "missingopt", 1),
    (PARAMETER_PROBLEM, "length", 2),
];

/// Type and code of an error message; mistakes are recorded.
pub(super) fn parse(args: &mut Args, kind: &str, code: Option<&str>) -> (u8, u8) {
    let named = TYPES.iter().find(|t| t.0 == kind);
    let kind = match named.map(|t| t.1).or_else(|| kind.parse().ok()) {
        Some(kind) => kind,
        None => {
            let names: Vec<&str> = TYPES.iter().map(|t| t.0).collect();
            if !kind.is_empty() {
                args.error_in_whole(
                    format!("TYPE must be a number or a name, not `{kind}`"),
                    format!("names are {}", names.join(", ")),
                );
            }
            return (UNREACHABLE, 0);
        }
    };
    let Some(code) = code else {
        return (kind, 0);
    };
    let own = || CODES.iter().filter(|c| c.0 == kind);
    let named = own().find(|c| c.1 == code).map(|c| c.2);
    match named.or_else(|| code.parse().ok()) {
        Some(code) => (kind, code),
        None => {
            let names: Vec<&str> = own().map(|c| c.1).collect();
            let help = match names.as_slice() {
                [] => "this type's codes have no names".to_owned(),
                names => format!("names for this type are {}", names.join(", ")),
            };
            args.error_in_whole(
                format!("CODE must be a number or a name, not `{code}`"),
                help,
            );
            (kind, 0)
        }
    }
}
