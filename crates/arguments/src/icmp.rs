//! Names of ICMP types and codes, as Click spells them.

use crate::Args;
use crate::units::whole_number;
use wire::icmp::{
    PARAMETER_PROBLEM, REDIRECT, SOURCE_QUENCH, TIME_EXCEEDED, UNREACHABLE, redirect,
    time_exceeded, unreachable,
};

/// ICMP types of errors, which ICMPError can send.
const TYPES: &[(&str, u8)] = &[
    ("unreachable", UNREACHABLE),
    ("sourcequench", SOURCE_QUENCH),
    ("redirect", REDIRECT),
    ("timeexceeded", TIME_EXCEEDED),
    ("parameterproblem", PARAMETER_PROBLEM),
];

/// ICMP types of queries and replies.
const QUERIES: &[(&str, u8)] = &[
    ("echo-reply", 0),
    ("echo", 8),
    ("routeradvert", 9),
    ("routersolicit", 10),
    ("timestamp", 13),
    ("timestamp-reply", 14),
    ("inforeq", 15),
    ("inforeq-reply", 16),
    ("maskreq", 17),
    ("maskreq-reply", 18),
];

fn types() -> impl Iterator<Item = &'static (&'static str, u8)> {
    TYPES.iter().chain(QUERIES)
}

/// Name of an ICMP type.
pub fn type_name(kind: u8) -> Option<&'static str> {
    types().find(|t| t.1 == kind).map(|t| t.0)
}

/// ICMP type with this name.
pub fn type_number(name: &str) -> Option<u8> {
    types().find(|t| t.0 == name).map(|t| t.1)
}

/// Name of a code of an ICMP type.
pub fn code_name(kind: u8, code: u8) -> Option<&'static str> {
    let row = CODES.iter().find(|c| c.0 == kind && c.2 == code);
    row.map(|c| c.1)
}

/// Code with this name, or with its name in older versions of Click.
pub fn code_number(kind: u8, name: &str) -> Option<u8> {
    let name = OLD_NAMES
        .iter()
        .find(|old| old.0 == name)
        .map_or(name, |old| old.1);
    let row = CODES.iter().find(|c| c.0 == kind && c.1 == name);
    row.map(|c| c.2)
}

const OLD_NAMES: &[(&str, &str)] = &[
    ("net_unknown", "netunknown"),
    ("host_unknown", "hostunknown"),
    ("host_isolated", "isolated"),
    ("net_prohib", "netprohibited"),
    ("host_prohib", "hostprohibited"),
    ("net_tos", "tosnet"),
    ("host_tos", "toshost"),
    ("filter_prohib", "filterprohibited"),
    ("host_precedence", "hostprecedence"),
    ("precedence_cutoff", "precedencecutoff"),
];

const CODES: &[(u8, &str, u8)] = &[
    (UNREACHABLE, "net", unreachable::NET),
    (UNREACHABLE, "host", unreachable::HOST),
    (UNREACHABLE, "protocol", unreachable::PROTOCOL),
    (UNREACHABLE, "port", unreachable::PORT),
    (UNREACHABLE, "needfrag", unreachable::FRAG_NEEDED),
    (UNREACHABLE, "srcroutefail", unreachable::SOURCE_ROUTE),
    (UNREACHABLE, "netunknown", unreachable::NET_UNKNOWN),
    (UNREACHABLE, "hostunknown", unreachable::HOST_UNKNOWN),
    (UNREACHABLE, "isolated", 8),
    (UNREACHABLE, "netprohibited", unreachable::NET_PROHIBITED),
    (UNREACHABLE, "hostprohibited", unreachable::HOST_PROHIBITED),
    (UNREACHABLE, "tosnet", 11),
    (UNREACHABLE, "toshost", 12),
    (UNREACHABLE, "filterprohibited", unreachable::PROHIBITED),
    (UNREACHABLE, "hostprecedence", 14),
    (UNREACHABLE, "precedencecutoff", 15),
    (REDIRECT, "net", redirect::NET),
    (REDIRECT, "host", redirect::HOST),
    (REDIRECT, "tosnet", 2),
    (REDIRECT, "toshost", 3),
    (TIME_EXCEEDED, "transit", time_exceeded::TRANSIT),
    (TIME_EXCEEDED, "reassembly", time_exceeded::REASSEMBLY),
    (PARAMETER_PROBLEM, "erroratptr", 0),
    (PARAMETER_PROBLEM, "missingopt", 1),
    (PARAMETER_PROBLEM, "length", 2),
];

/// Parses the arguments `TYPE` and `CODE`. Errors are recorded. A type is a number, or the name of an error; with
/// `queries`, also the name of a query.
pub fn kind_and_code(args: &mut Args, queries: bool) -> (u8, u8) {
    let kind: String = args.required("TYPE", "the message's type, a number or a name");
    let code: Option<String> = args.maybe("CODE", "its code, a number or a name. Default 0");
    let known = || types().take(if queries { usize::MAX } else { TYPES.len() });
    let named = known().find(|t| t.0 == kind).map(|t| t.1);
    let Some(number) = named.or_else(|| whole_number(&kind)) else {
        if !kind.is_empty() {
            let names: Vec<&str> = known().map(|t| t.0).collect();
            args.error_in_whole(
                format!("TYPE must be a number or a name, not `{kind}`"),
                format!("names are {}", names.join(", ")),
            );
        }
        return (UNREACHABLE, 0);
    };
    let Some(code) = code else {
        return (number, 0);
    };
    let code_known = code_number(number, &code).or_else(|| whole_number(&code));
    if code_known.is_none() {
        let own = CODES.iter().filter(|c| c.0 == number);
        let names: Vec<&str> = own.map(|c| c.1).collect();
        let help = match names.as_slice() {
            [] => "this type's codes have no names".to_owned(),
            names => format!("names for this type are {}", names.join(", ")),
        };
        args.error_in_whole(
            format!("CODE must be a number or a name, not `{code}`"),
            help,
        );
    }
    (number, code_known.unwrap_or(0))
}
