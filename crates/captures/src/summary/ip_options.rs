//! IP options as text: `rr{10.0.0.1}+5`, `ssrr{1.0.0.1^1.0.0.3}`, `ts.ip{1.0.0.1=1}+2++3`.

use super::options::{Opt, append, parse_plain, push_plain, word32};
use std::io::Write as _;
use std::net::Ipv4Addr;
use wire::ipv4_options::{LSRR, RR, SSRR, TS};

/// A bit of a timestamp that is not in milliseconds since midnight (RFC 791).
const NONSTANDARD: u32 = 1 << 31;

/// Writes the options of an IP header.
pub(super) fn push(bytes: &[u8], out: &mut Vec<u8>) {
    super::options::push(bytes, out, |option, out| {
        push_one(option, out).map(|()| true)
    });
}

fn push_one(option: &Opt<'_>, out: &mut Vec<u8>) -> Option<()> {
    match option.kind {
        RR | SSRR | LSRR => push_route(option, out),
        TS => push_times(option, out),
        _ => {
            push_plain(option, out);
            Some(())
        }
    }
}

/// Bytes of `slots` before the pointer, which counts from 1 at the option's type.
fn filled(pointer: u8, head: usize, slots: &[u8], size: usize) -> Option<usize> {
    let at = usize::from(pointer).checked_sub(head + 1)?;
    let fits = at.is_multiple_of(size) && slots.len().is_multiple_of(size);
    (fits || at >= slots.len()).then_some(at.min(slots.len()))
}

fn push_route(option: &Opt<'_>, out: &mut Vec<u8>) -> Option<()> {
    let (&pointer, slots) = option.data.split_first()?;
    let at = filled(pointer, 3, slots, 4)?;
    let (name, shown) = match option.kind {
        RR => ("rr{", &slots[..at]),
        SSRR => ("ssrr{", slots),
        _ => ("lsrr{", slots),
    };
    out.extend(name.as_bytes());
    for (i, slot) in shown.chunks_exact(4).enumerate() {
        push_gap(i, i * 4 == at && option.kind != RR, out);
        // Writing to a vector cannot fail, here and below.
        let _ = write!(out, "{}", Ipv4Addr::from(word32(slot)));
    }
    out.push(b'}');
    let left = (slots.len() - at) / 4;
    if option.kind == RR && left > 0 {
        let _ = write!(out, "+{left}");
    }
    Some(())
}

fn push_gap(index: usize, pointer: bool, out: &mut Vec<u8>) {
    if pointer {
        out.push(b'^');
    } else if index > 0 {
        out.push(b',');
    }
}

fn push_time(time: u32, out: &mut Vec<u8>) {
    let mark = if time & NONSTANDARD != 0 { "!" } else { "" };
    let _ = write!(out, "{mark}{}", time & !NONSTANDARD);
}

fn push_times(option: &Opt<'_>, out: &mut Vec<u8>) -> Option<()> {
    let &[pointer, flags, ref slots @ ..] = option.data else {
        return None;
    };
    let (name, size) = match flags & 0xf {
        0 => ("ts{", 4),
        1 => ("ts.ip{", 8),
        3 => ("ts.preip{", 8),
        _ => return None,
    };
    let at = filled(pointer, 4, slots, size)?;
    let prespecified = flags & 0xf == 3;
    let shown = if prespecified { slots } else { &slots[..at] };
    out.extend(name.as_bytes());
    for (i, slot) in shown.chunks_exact(size).enumerate() {
        push_gap(i, i * size == at && prespecified, out);
        if size == 8 {
            let _ = write!(out, "{}", Ipv4Addr::from(word32(&slot[..4])));
        }
        if i * size < at {
            if size == 8 {
                out.push(b'=');
            }
            push_time(word32(&slot[size - 4..]), out);
        }
    }
    out.push(b'}');
    let left = (slots.len() - at) / size;
    if !prespecified && left > 0 {
        let _ = write!(out, "+{left}");
    }
    if flags >> 4 > 0 {
        let _ = write!(out, "++{}", flags >> 4);
    }
    Some(())
}

/// Reads options into the bytes of a header.
pub(super) fn parse(text: &str) -> Option<Vec<u8>> {
    super::options::parse(text, parse_one)
}

fn parse_one(word: &str, bytes: &mut Vec<u8>) -> Option<()> {
    let Some((name, rest)) = word.split_once('{') else {
        return parse_plain(word, bytes);
    };
    let (list, tail) = rest.split_once('}')?;
    match name {
        "rr" => parse_route(RR, list, tail, bytes),
        "ssrr" => parse_route(SSRR, list, tail, bytes),
        "lsrr" => parse_route(LSRR, list, tail, bytes),
        "ts" => parse_times(0, list, tail, bytes),
        "ts.ip" => parse_times(1, list, tail, bytes),
        "ts.preip" => parse_times(3, list, tail, bytes),
        _ => None,
    }
}

/// Slots of a list, and how many of them stand before the `^`, or all.
fn slots(list: &str) -> (Vec<&str>, usize) {
    let (before, behind) = list.split_once('^').unwrap_or((list, ""));
    let mut all: Vec<&str> = before.split(',').filter(|w| !w.is_empty()).collect();
    let at = all.len();
    all.extend(behind.split(',').filter(|w| !w.is_empty()));
    (all, at)
}

/// A number of further slots, and an overflow count: `+2++3`.
fn tail(text: &str) -> Option<(usize, u8)> {
    let (room, overflow) = match text.split_once("++") {
        Some((room, overflow)) => (room, overflow.parse().ok().filter(|n| *n < 16)?),
        None => (text, 0),
    };
    let room = match room.strip_prefix('+') {
        Some(room) => room.parse().ok().filter(|n| *n < 10)?,
        None if room.is_empty() => 0,
        None => return None,
    };
    Some((room, overflow))
}

fn parse_route(kind: u8, list: &str, rest: &str, bytes: &mut Vec<u8>) -> Option<()> {
    let (words, at) = slots(list);
    let (room, overflow) = tail(rest)?;
    if overflow > 0 {
        return None;
    }
    let mut data = vec![u8::try_from(4 + at * 4).ok()?];
    for word in words {
        data.extend(word.parse::<Ipv4Addr>().ok()?.octets());
    }
    data.resize(data.len() + room * 4, 0);
    append(bytes, kind, &data)
}

fn parse_times(kind: u8, list: &str, rest: &str, bytes: &mut Vec<u8>) -> Option<()> {
    let (words, at) = slots(list);
    let (room, overflow) = tail(rest)?;
    let size = if kind == 0 { 4 } else { 8 };
    let mut data = vec![u8::try_from(5 + at * size).ok()?, overflow << 4 | kind];
    for word in words {
        let time = if kind == 0 {
            word
        } else {
            let (address, time) = word.split_once('=').unwrap_or((word, "0"));
            data.extend(address.parse::<Ipv4Addr>().ok()?.octets());
            time
        };
        let (mark, digits) = match time.strip_prefix('!') {
            Some(digits) => (NONSTANDARD, digits),
            None => (0, time),
        };
        data.extend((digits.parse::<u32>().ok()? | mark).to_be_bytes());
    }
    data.resize(data.len() + room * size, 0);
    append(bytes, TS, &data)
}
