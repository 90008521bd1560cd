//! Parsers for fields that several tables have.

use crate::description::cluster::description::Description;
use crate::description::cluster::generate::is_plain;
use crate::description::reader::{Fields, Reader, Word};
use arguments::units::Bandwidth;
use cluster::auth::{KEYS_MAX, Key, Keys};
use lang::Span;
use std::time::Duration;

/// Help text for a missing rate.
pub(super) const RATE_HELP: &str = "write rate = \"10Gbps\" here, or in [cluster] for all ports";
/// Default MTU of links and ports, in bytes.
pub(super) const MTU_DEFAULT: u16 = 1500;
/// Maximum rate of a port or link, in bits per second, so that sums cannot overflow.
const RATE_MAX: u64 = 1_000_000_000_000_000;
const TIME_MAX: Duration = Duration::from_secs(60);

/// Parses a name of letters, digits, `-`, `_` and `.`, which is valid in file names and in configurations.
pub(super) fn named(word: Option<Word>, r: &mut Reader) -> Option<String> {
    let word = word?;
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let first = word.text.chars().next();
    if word.text.chars().all(fits) && first.is_some_and(|c| c.is_ascii_alphanumeric()) {
        return Some(word.text);
    }
    let wrong = format!("`{}` is no name", word.text);
    let help = "names are of letters, digits, `-`, `_` and `.`, and begin with a letter or digit";
    r.wrong("cluster-name", word.span, wrong, help);
    None
}

/// Parses a device that can be a single argument of a configuration.
pub(super) fn port_spelling(r: &mut Reader, word: Word) -> Option<String> {
    let odd = |c: char| c.is_control() || c.is_whitespace() || "()[]{}\"\\;$".contains(c);
    if !word.text.is_empty() && !word.text.contains(odd) {
        return Some(word.text);
    }
    let wrong = format!("`{}` is no port", word.text);
    r.wrong(
        "cluster-value",
        word.span,
        wrong,
        "write it as FromDevice takes it, such as eth0",
    );
    None
}

/// Parses an external device that is also a valid element name, since its address is an AddressInfo entry.
pub(super) fn external(r: &mut Reader, word: Word) -> Option<String> {
    let span = word.span;
    let device = port_spelling(r, word)?;
    if is_plain(&device) {
        return Some(device);
    }
    let wrong = format!("`{device}` cannot be an external port");
    let help = "external ports are named by letters, digits and `_-./:@` only; internal links may have others";
    r.wrong("cluster-value", span, wrong, help);
    None
}

pub(super) fn server(r: &mut Reader, description: &Description, word: &Word) -> Option<usize> {
    let found = description.server(&word.text);
    if found.is_none() {
        let names = || description.servers.iter().map(|server| &*server.name);
        let help = match arguments::near::nearest(&word.text, names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
        };
        let wrong = format!("there is no server `{}`", word.text);
        r.wrong("cluster-unknown", word.span, wrong, &help);
    }
    found
}

/// Parses a rate in bits per second.
pub(super) fn rate(fields: &mut Fields, r: &mut Reader) -> Option<u64> {
    let (rate, place): (Bandwidth, _) = fields.value(r, "rate")?;
    let bytes = rate.0;
    if bytes == 0 {
        r.wrong(
            "cluster-value",
            place,
            "a rate of nothing".to_owned(),
            "write rate = \"10Gbps\"",
        );
        return None;
    }
    if bytes > RATE_MAX / 8 {
        let wrong = "a rate of more than 1000 Tbit/s".to_owned();
        r.wrong("cluster-value", place, wrong, "write rate = \"10Gbps\"");
        return None;
    }
    Some(8 * bytes)
}

/// Parses a time in the range that elements accept, so that sums cannot overflow.
pub(super) fn time(
    fields: &mut Fields,
    r: &mut Reader,
    key: &'static str,
) -> Option<(Duration, Span)> {
    let (time, place) = fields.value::<Duration>(r, key)?;
    if time > TIME_MAX {
        let wrong = format!("`{key}` is more than a minute");
        let help = "write a shorter time, such as 40ms";
        r.wrong("cluster-value", place, wrong, help);
        return None;
    }
    Some((time, place))
}

/// Parses the cluster's key, and a second accepted key for key changes.
pub(super) fn keys(fields: &mut Fields, r: &mut Reader) -> Option<Keys> {
    let (place, before) = (fields.span, r.mistakes.len());
    let words = fields.word_or_words(r, "key");
    let mut keys = Vec::new();
    for word in &words {
        let key = Key::parse(&word.text);
        if key.is_none() {
            let wrong = "the key is none of 32 hexadecimal digits".to_owned();
            let help = "make one: openssl rand -hex 16";
            r.wrong("cluster-value", word.span, wrong, help);
        }
        keys.extend(key);
    }
    let some = fields.has("key") && r.mistakes.len() == before;
    if some && !(1..=KEYS_MAX).contains(&words.len()) {
        let wrong = format!(
            "`key` must be one key, or two while it changes, not {}",
            words.len()
        );
        let help = "write the one that servers send with, then one that they accept: key = [\"...\", \"...\"]";
        r.wrong("cluster-value", place, wrong, help);
        return None;
    }
    let mut keys = keys.into_iter();
    let first = keys.next()?;
    Some(Keys::new(first, keys.next()))
}

/// Parses the number of a server's workers.
pub(super) fn workers(fields: &mut Fields, r: &mut Reader) -> Option<u8> {
    let (count, place) = fields.value::<u16>(r, "workers")?;
    let found = u8::try_from(count).ok().filter(|n| (1..=64).contains(n));
    if found.is_none() {
        let wrong = format!("a router cannot have {count} workers");
        r.wrong("cluster-value", place, wrong, "write 1 to 64");
    }
    found
}

pub(super) fn mtu(fields: &mut Fields, r: &mut Reader) -> Option<(u16, Span)> {
    let (mtu, place) = fields.value::<u16>(r, "mtu")?;
    if mtu < 68 {
        let wrong = format!("IPv4 needs links of 68 bytes, and this one takes {mtu}");
        r.wrong(
            "cluster-mtu",
            place,
            wrong,
            "write the link's MTU (RFC 791, 3.2)",
        );
    }
    Some((mtu, place))
}

pub(super) fn pair(
    fields: &mut Fields,
    r: &mut Reader,
    key: &'static str,
    help: &str,
) -> Option<[Word; 2]> {
    let (place, count) = (fields.span, r.mistakes.len());
    let words = fields.words(r, key);
    let found = words.len();
    words.try_into().ok().or_else(|| {
        if r.mistakes.len() == count {
            let wrong = format!("`{key}` must name two, not {found}");
            r.wrong("cluster-link", place, wrong, &format!("write {help}"));
        }
        None
    })
}
