//! Notation of associations and policies.

use super::key_file;
use esp::outer::{Df, Tunnel};
use esp::policy::{Action, Net, Policy, Range};
use esp::{Direction, Keys, Lifetime, Sa, Spec};
use std::fmt::Write;
use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;
use wire::proto;

/// An association or a policy.
pub(super) enum Line {
    Sa(Spec, Keys),
    Policy(Policy),
}

/// The lines of a text that say anything, in words.
pub(super) fn lines(text: &str) -> impl Iterator<Item = Vec<String>> {
    let words = |line: &str| {
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    text.lines().map(words).filter(|words| !words.is_empty())
}

/// Words, one after the other.
struct Words<'a>(std::slice::Iter<'a, String>);

impl<'a> Words<'a> {
    fn next(&mut self, what: &str) -> Result<&'a str, String> {
        let word = self.0.next().map(String::as_str);
        word.ok_or_else(|| format!("{what} is missing"))
    }

    /// The value behind a word.
    fn value<T: FromStr>(&mut self, what: &str) -> Result<T, String> {
        let word = self.next(&format!("the value of `{what}`"))?;
        word.parse()
            .map_err(|_| format!("`{what}` cannot be {}", quoted(word)))
    }

    fn number(&mut self, what: &str) -> Result<u32, String> {
        let word = self.next(&format!("the value of `{what}`"))?;
        number(word).ok_or_else(|| format!("`{what}` must be a number, not {}", quoted(word)))
    }

    /// A key. Error messages do not show it: it may be a key in spite of a mistake.
    fn key(&mut self, what: &str) -> Result<Vec<u8>, String> {
        let word = self.next(&format!("the value of `{what}`"))?;
        let wrong = || format!("{what} must be hexadecimal digits, two for each byte");
        key(word.as_bytes()).ok_or_else(wrong)
    }
}

/// Parses hexadecimal digits to bytes.
pub(super) fn key(word: &[u8]) -> Option<Vec<u8>> {
    let word = word.strip_prefix(b"0x").unwrap_or(word);
    let pairs = word.as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let byte = |[high, low]: &[u8; 2]| Some(digit(*high)? << 4 | digit(*low)?);
    let bytes: Option<Vec<u8>> = pairs.0.iter().map(byte).collect();
    bytes.filter(|_| pairs.1.is_empty())
}

/// A word for a message. A word that looks like a key is not shown, as a user may have mistaken its place.
fn quoted(word: &str) -> String {
    let digits = word.strip_prefix("0x").unwrap_or(word);
    match digits.len() > 15 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => "what seems to be a key".to_owned(),
        false => format!("`{word}`"),
    }
}

fn number(word: &str) -> Option<u32> {
    match word.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

fn direction(word: &str) -> Result<Direction, String> {
    match word {
        "in" => Ok(Direction::In),
        "out" => Ok(Direction::Out),
        _ => Err(format!(
            "the direction must be `in` or `out`, not {}",
            quoted(word)
        )),
    }
}

fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::In => "in",
        Direction::Out => "out",
    }
}

/// Name of an association in a handler's argument.
pub(super) fn direction_and_spi(text: &str) -> Result<(Direction, u32), String> {
    let words: Vec<_> = text.split_whitespace().collect();
    match words[..] {
        [way, spi] => {
            let spi = number(spi).ok_or_else(|| format!("`{spi}` is no SPI"))?;
            Ok((direction(way)?, spi))
        }
        _ => Err("write the direction and the SPI, such as `in 0x2001`".to_owned()),
    }
}

/// Reads a line.
pub(super) fn parse(words: &[String]) -> Result<Line, String> {
    let mut words = Words(words.iter());
    match words.next("`sa` or `policy`")? {
        "sa" => sa(&mut words).map(|(spec, keys)| Line::Sa(spec, keys)),
        "policy" => policy(&mut words).map(Line::Policy),
        other => Err(format!(
            "a line begins with `sa` or `policy`, not with {}",
            quoted(other)
        )),
    }
}

fn sa(words: &mut Words) -> Result<(Spec, Keys), String> {
    let direction = direction(words.next("the direction")?)?;
    let (mut spi, mut reqid, mut suite) = (None, None, None);
    let mut ends: Option<(IpAddr, IpAddr)> = None;
    let mut tunnel = Tunnel {
        src: IpAddr::from([0; 4]),
        dst: IpAddr::from([0; 4]),
        df: Df::Copy,
        dscp: None,
        ecn: true,
        ttl: 64,
    };
    let (mut udp, mut esn, mut window, mut pad) = (None, false, 64, 0);
    let (mut lifetime, mut keys) = (Lifetime::default(), Keys::default());
    let mut key_file = None;
    while let Some(word) = words.0.next() {
        match &**word {
            "spi" => spi = Some(words.number("spi")?),
            "reqid" => reqid = Some(words.number("reqid")?),
            "suite" => suite = Some(words.next("the suite")?.parse()?),
            "tunnel" => ends = Some((words.value("tunnel")?, words.value("tunnel")?)),
            "ENC_KEY" => keys.enc = words.key("ENC_KEY")?.into(),
            "AUTH_KEY" => keys.auth = words.key("AUTH_KEY")?.into(),
            "KEY_FILE" => key_file = Some(words.next("the file's name")?),
            "udp" => udp = Some((words.value("udp")?, words.value("udp")?)),
            "esn" => esn = true,
            "window" => window = words.number("window")?,
            "pad" => pad = words.value("pad")?,
            "df" => {
                tunnel.df = match words.next("the value of `df`")? {
                    "copy" => Df::Copy,
                    "set" => Df::Set,
                    "clear" => Df::Clear,
                    other => {
                        return Err(format!(
                            "`df` must be copy, set or clear, not {}",
                            quoted(other)
                        ));
                    }
                };
            }
            "dscp" => tunnel.dscp = Some(words.value("dscp")?),
            "ecn" => {
                tunnel.ecn = match words.next("the value of `ecn`")? {
                    "yes" => true,
                    "no" => false,
                    other => return Err(format!("`ecn` must be yes or no, not {}", quoted(other))),
                };
            }
            "ttl" => tunnel.ttl = words.value("ttl")?,
            "soft_packets" => lifetime.soft.packets = words.value("soft_packets")?,
            "soft_bytes" => lifetime.soft.bytes = words.value("soft_bytes")?,
            "soft_seconds" => lifetime.soft.seconds = words.value("soft_seconds")?,
            "hard_packets" => lifetime.hard.packets = words.value("hard_packets")?,
            "hard_bytes" => lifetime.hard.bytes = words.value("hard_bytes")?,
            "hard_seconds" => lifetime.hard.seconds = words.value("hard_seconds")?,
            other => return Err(format!("an association has no word {}", quoted(other))),
        }
    }
    if pad > PAD_MAX {
        return Err(format!("`pad` must be at most {PAD_MAX}"));
    }
    let missing = |what: &str| format!("`{what}` is missing");
    let spec = Spec {
        direction,
        spi: spi.ok_or_else(|| missing("spi"))?,
        reqid: reqid.ok_or_else(|| missing("reqid"))?,
        suite: suite.ok_or_else(|| missing("suite"))?,
        tunnel: ends.map(|(src, dst)| Tunnel { src, dst, ..tunnel }),
        udp,
        esn,
        window,
        pad,
        lifetime,
    };
    if let Some(file) = key_file {
        if !keys.enc.is_empty() || !keys.auth.is_empty() {
            return Err("`KEY_FILE` has all keys: leave ENC_KEY and AUTH_KEY out".to_owned());
        }
        keys = key_file::read(Path::new(file), spec.suite)?;
    }
    Ok((spec, keys))
}

/// Maximum padding length, which every link can carry.
const PAD_MAX: u16 = 1400;

fn net(words: &mut Words, what: &str) -> Result<Net, String> {
    let word = words.next(&format!("the value of `{what}`"))?;
    let four = word.parse().map(Net::V4);
    four.or_else(|_| word.parse().map(Net::V6))
        .map_err(|_| format!("`{what}` must be a prefix, not `{word}`"))
}

fn ports(words: &mut Words, what: &str) -> Result<Range, String> {
    let word = words.next(&format!("the value of `{what}`"))?;
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok((first, last)),
        _ => Err(format!(
            "`{what}` must be a port or ports such as 80-89, not `{word}`"
        )),
    }
}

fn policy(words: &mut Words) -> Result<Policy, String> {
    let direction = direction(words.next("the direction")?)?;
    let (mut src, mut dst, mut protocol, mut action) = (None, None, None, None);
    let (mut src_ports, mut dst_ports) = (None, None);
    while let Some(word) = words.0.next() {
        match &**word {
            "src" => src = Some(net(words, "src")?),
            "dst" => dst = Some(net(words, "dst")?),
            "proto" => {
                let word = words.next("the value of `proto`")?;
                let number = proto::named(word).or_else(|| word.parse().ok());
                protocol = Some(number.ok_or_else(|| format!("there is no protocol `{word}`"))?);
            }
            "sport" => src_ports = Some(ports(words, "sport")?),
            "dport" => dst_ports = Some(ports(words, "dport")?),
            "protect" => action = Some(Action::Protect(words.number("protect")?)),
            "bypass" => action = Some(Action::Bypass),
            "discard" => action = Some(Action::Discard),
            other => return Err(format!("a policy has no word {}", quoted(other))),
        }
    }
    let missing = |what: &str| format!("`{what}` is missing");
    let policy = Policy {
        direction,
        src: src.ok_or_else(|| missing("src"))?,
        dst: dst.ok_or_else(|| missing("dst"))?,
        protocol,
        src_ports,
        dst_ports,
        action: action.ok_or_else(|| missing("protect, bypass or discard"))?,
    };
    match policy.is_of_one_family() {
        true => Ok(policy),
        false => Err("`src` and `dst` must be of one family".to_owned()),
    }
}

/// An association without its keys, and how it is used.
pub(super) fn show_sa(sa: &Sa, now: u64) -> String {
    let spec = sa.spec();
    let mut line = format!(
        "{} spi {:#x} reqid {} suite {}",
        direction_name(spec.direction),
        spec.spi,
        spec.reqid,
        spec.suite.name()
    );
    // Writing to a String cannot fail.
    if let Some(tunnel) = &spec.tunnel {
        let _ = write!(line, " tunnel {} {}", tunnel.src, tunnel.dst);
    }
    if let Some((src, dst)) = spec.udp {
        let _ = write!(line, " udp {src} {dst}");
    }
    if spec.esn {
        line.push_str(" esn");
    }
    let (packets, bytes) = sa.counts();
    let (replayed, forged) = sa.refused();
    let state = match (sa.is_hard_expired(now), sa.is_soft_expired(now)) {
        (true, _) => "expired",
        (false, true) => "soft-expired",
        (false, false) => "valid",
    };
    let age = now.saturating_sub(sa.created_at()) / 1_000_000_000;
    let _ = writeln!(
        line,
        " number {} packets {packets} bytes {bytes} replayed {replayed} forged {forged} age {age} {state}",
        sa.number()
    );
    line
}

/// A policy as it is written.
pub(super) fn show_policy(policy: &Policy) -> String {
    let net = |net: Net| match net {
        Net::V4(net) => net.to_string(),
        Net::V6(net) => net.to_string(),
    };
    let mut line = format!(
        "policy {} src {} dst {}",
        direction_name(policy.direction),
        net(policy.src),
        net(policy.dst)
    );
    if let Some(protocol) = policy.protocol {
        let _ = write!(line, " proto {protocol}");
    }
    for (name, ports) in [("sport", policy.src_ports), ("dport", policy.dst_ports)] {
        match ports {
            Some((first, last)) if first == last => {
                let _ = write!(line, " {name} {first}");
            }
            Some((first, last)) => {
                let _ = write!(line, " {name} {first}-{last}");
            }
            None => {}
        }
    }
    let _ = match policy.action {
        Action::Protect(reqid) => writeln!(line, " protect {reqid}"),
        Action::Bypass => writeln!(line, " bypass"),
        Action::Discard => writeln!(line, " discard"),
    };
    line
}
