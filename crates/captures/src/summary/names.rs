//! Names of protocols, TCP flags, ECN codepoints and ICMP types in summary dumps.

use wire::proto;

/// Letters of the TCP flags, from the lowest bit (FIN) on.
const FLAGS: &[u8; 9] = b"FSRPAUECN";
const ECN: [&str; 4] = ["no", "ect1", "ect2", "ce"];

/// A protocol by number, letter or name.
pub(super) fn protocol(word: &str) -> Option<u8> {
    match word {
        "T" | "t" => Some(proto::TCP),
        "U" | "u" => Some(proto::UDP),
        "I" | "i" => Some(proto::ICMP),
        _ => {
            let mut names = proto::NAMES.iter();
            let named = names.find(|p| p.0.eq_ignore_ascii_case(word));
            named.map(|p| p.1).or_else(|| word.parse().ok())
        }
    }
}

/// The letters of a set of TCP flags; `.` if there is none.
pub(super) fn push_flags(flags: u16, out: &mut Vec<u8>) {
    let from = out.len();
    let set = FLAGS
        .iter()
        .enumerate()
        .filter(|(i, _)| flags >> i & 1 == 1);
    out.extend(set.map(|(_, letter)| letter));
    if out.len() == from {
        out.push(b'.');
    }
}

/// TCP flags by letters, or by number as in old dumps.
pub(super) fn flags(word: &str) -> Option<u16> {
    if word == "." {
        return Some(0);
    }
    if let Ok(number) = word.parse::<u16>() {
        return Some(number).filter(|n| *n < 1 << 9);
    }
    word.bytes().try_fold(0, |flags, letter| {
        let bit = match letter {
            b'X' => Some(6),
            b'Y' | b'W' => Some(7),
            _ => FLAGS.iter().position(|f| *f == letter),
        };
        Some(flags | 1 << bit?)
    })
}

/// The name of an ECN codepoint.
pub(super) fn ecn_name(bits: u8) -> &'static str {
    ECN[usize::from(bits & 3)]
}

/// An ECN codepoint by name or number.
pub(super) fn ecn(word: &str) -> Option<u8> {
    let named = ECN.iter().position(|name| *name == word);
    named
        .and_then(|i| u8::try_from(i).ok())
        .or_else(|| word.parse().ok().filter(|n| *n < 4))
}
