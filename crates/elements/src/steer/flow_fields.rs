//! Key of BucketByFlow: bytes of frames at chosen places, or the five-tuple.

use std::fmt::Write;
use std::net::IpAddr;
use tables::exact::{KEY_BYTES, Key, WORDS};
use wire::plain_frame::Plain;
use wire::{FlowKey, tunnel};

/// A field of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    offset: usize,
    len: usize,
    /// Mask of the significant bits, from the field's first byte on.
    mask: [u8; 16],
}

/// Fields that form a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fields {
    /// Protocol, addresses and ports (five-tuple).
    Tuple,
    /// Configured fields.
    Chosen(Vec<Chosen>),
}

/// A configured field, opaque to other modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chosen(Field);

impl Fields {
    /// Parses `tuple`, or fields `OFFSET/LENGTH[%MASK]`.
    ///
    /// # Errors
    ///
    /// A message that describes the mistake.
    pub(super) fn parse(text: &str) -> Result<Fields, String> {
        if text.trim() == "tuple" {
            return Ok(Fields::Tuple);
        }
        let fields: Vec<Chosen> = text
            .split_whitespace()
            .map(field)
            .collect::<Result<_, _>>()?;
        let bytes: usize = fields.iter().map(|field| field.0.len).sum();
        match bytes {
            0 => Err("FIELDS is empty".into()),
            1..=KEY_BYTES => Ok(Fields::Chosen(fields)),
            _ => Err(format!(
                "FIELDS have {bytes} bytes, and {KEY_BYTES} are the most"
            )),
        }
    }

    /// Number of words in a key.
    pub(super) fn words(&self) -> usize {
        match self {
            Fields::Tuple => WORDS,
            Fields::Chosen(fields) => {
                let bytes: usize = fields.iter().map(|field| field.0.len).sum();
                bytes.div_ceil(8)
            }
        }
    }

    /// Key of a frame; `None` if the frame is too short. [`of_plain`] is faster for plain frames.
    #[inline(never)]
    pub(super) fn key(&self, frame: &[u8], is_inner: bool) -> Option<Key> {
        match self {
            Fields::Tuple => {
                let packet = tunnel::ip_of_ether(frame)?;
                let flow = match is_inner {
                    true => tunnel::innermost(packet),
                    false => FlowKey::of_ip_or_quoted(packet),
                };
                Some(of_tuple(&flow?))
            }
            Fields::Chosen(fields) => {
                let (mut bytes, mut at) = ([0; KEY_BYTES], 0);
                for Chosen(field) in fields {
                    let own = frame.get(field.offset..field.offset + field.len)?;
                    let room = bytes.get_mut(at..at + field.len)?;
                    for ((to, from), mask) in room.iter_mut().zip(own).zip(&field.mask) {
                        *to = from & mask;
                    }
                    at += field.len;
                }
                Some(tables::exact::key_of(&bytes))
            }
        }
    }

    /// Parses the key of a rule: a value for each field, or `PROTOCOL SRC SRCPORT DST DSTPORT`, separated by `/` or
    /// white space.
    ///
    /// # Errors
    ///
    /// The number of values is wrong, or a word is no value of its field; a message.
    pub(super) fn rule(&self, text: &str) -> Result<Key, String> {
        let words: Vec<&str> = text
            .split(['/', ' ', '\t'])
            .filter(|word| !word.is_empty())
            .collect();
        match self {
            Fields::Tuple => tuple(&words)
                .ok_or_else(|| format!("`{text}` should be `PROTOCOL SRC SRCPORT DST DSTPORT`")),
            Fields::Chosen(fields) if fields.len() == words.len() => {
                let (mut bytes, mut at) = ([0; KEY_BYTES], 0);
                for (Chosen(field), word) in fields.iter().zip(&words) {
                    let value = value(word, field.len)
                        .ok_or_else(|| format!("`{word}` is no value of {} bytes", field.len))?;
                    for (i, byte) in value.iter().enumerate() {
                        bytes[at + i] = byte & field.mask[i];
                    }
                    at += field.len;
                }
                Ok(tables::exact::key_of(&bytes))
            }
            Fields::Chosen(fields) => Err(format!(
                "`{text}` has {} values, but there are {} fields",
                words.len(),
                fields.len()
            )),
        }
    }

    /// Flow of a key; `None` unless keys are five-tuples.
    pub(super) fn flow(&self, key: &Key) -> Option<FlowKey> {
        (*self == Fields::Tuple).then(|| flow_of(key))
    }

    /// Text form of a key, as in a rule.
    pub(super) fn show(&self, key: &Key) -> String {
        let bytes: Vec<u8> = key.iter().flat_map(|word| word.to_be_bytes()).collect();
        match self {
            Fields::Tuple => show_tuple(&flow_of(key)),
            Fields::Chosen(fields) => {
                let (mut text, mut rest) = (String::new(), &bytes[..]);
                for Chosen(field) in fields {
                    let (own, behind) = rest.split_at(field.len);
                    if !text.is_empty() {
                        text.push(' ');
                    }
                    // Writing to a string cannot fail.
                    own.iter().for_each(|byte| _ = write!(text, "{byte:02x}"));
                    rest = behind;
                }
                text
            }
        }
    }
}

fn field(text: &str) -> Result<Chosen, String> {
    let wrong = || format!("`{text}` should be OFFSET/LENGTH or OFFSET/LENGTH%MASK");
    let (place, mask) = match text.split_once('%') {
        Some((place, mask)) => (place, Some(mask)),
        None => (text, None),
    };
    let (offset, len) = place.split_once('/').ok_or_else(wrong)?;
    let offset: usize = offset.parse().map_err(|_| wrong())?;
    let len: usize = len.parse().map_err(|_| wrong())?;
    if offset > 2000 || !(1..=16).contains(&len) {
        return Err(format!(
            "`{text}`: fields have 1 to 16 bytes in the first 2000"
        ));
    }
    let mut bits = [0xff; 16];
    if let Some(mask) = mask {
        let given = hex(mask, len).ok_or_else(|| format!("`{mask}` is no mask of {len} bytes"))?;
        bits[..len].copy_from_slice(&given);
    }
    Ok(Chosen(Field {
        offset,
        len,
        mask: bits,
    }))
}

fn hex(text: &str, len: usize) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|c| c.to_digit(16).map(|digit| digit as u8))
        .collect();
    let digits = digits.filter(|digits| digits.len() == 2 * len)?;
    Some(
        digits
            .chunks(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect(),
    )
}

/// Parses a value in hexadecimal digits, or as an address if the field has an address's length.
fn value(text: &str, len: usize) -> Option<Vec<u8>> {
    let address = || match text.parse().ok()? {
        IpAddr::V4(ip) if len == 4 => Some(ip.octets().to_vec()),
        IpAddr::V6(ip) if len == 16 => Some(ip.octets().to_vec()),
        _ => None,
    };
    let ether = || {
        let ether = text.parse::<wire::EtherAddr>().ok()?;
        (len == 6).then(|| ether.0.to_vec())
    };
    hex(text, len).or_else(address).or_else(ether)
}

/// Key of a five-tuple. The first word holds version, protocol and ports; the addresses follow.
#[inline]
pub(super) fn of_tuple(flow: &FlowKey) -> Key {
    let head = |version: u64, protocol: u8, src: u16, dst: u16| {
        version << 40 | u64::from(protocol) << 32 | u64::from(src) << 16 | u64::from(dst)
    };
    match flow {
        FlowKey::V4(f) => {
            let first = head(4, f.protocol, f.src_port, f.dst_port);
            let addresses = u64::from(f.src.to_bits()) << 32 | u64::from(f.dst.to_bits());
            [first, addresses, 0, 0, 0, 0]
        }
        FlowKey::V6(f) => {
            let first = head(6, f.protocol, f.src_port, f.dst_port);
            let (src, dst) = (f.src.to_bits(), f.dst.to_bits());
            let halves = |bits: u128| [(bits >> 64) as u64, bits as u64];
            let ([a, b], [c, d]) = (halves(src), halves(dst));
            [first, a, b, c, d, 0]
        }
    }
}

/// Five-tuple of a key made by [`of_tuple`].
fn flow_of(&[first, a, b, c, d, _]: &Key) -> FlowKey {
    let halves = |high: u64, low: u64| (u128::from(high) << 64 | u128::from(low)).into();
    macro_rules! flow {
        ($src:expr, $dst:expr) => {
            wire::flow::Flow {
                src: $src,
                dst: $dst,
                src_port: (first >> 16) as u16,
                dst_port: first as u16,
                protocol: (first >> 32) as u8,
            }
        };
    }
    match first >> 40 {
        6 => FlowKey::V6(flow!(halves(a, b), halves(c, d))),
        _ => FlowKey::V4(flow!(((a >> 32) as u32).into(), (a as u32).into())),
    }
}

/// Key of a plain frame's five-tuple, equal to the result of [`Fields::key`].
#[inline]
pub(super) fn of_plain(plain: &Plain) -> Key {
    let first = 4 << 40 | u64::from(plain.protocol) << 32 | u64::from(plain.ports);
    let addresses = u64::from(plain.src) << 32 | u64::from(plain.dst);
    [first, addresses, 0, 0, 0, 0]
}

fn tuple(words: &[&str]) -> Option<Key> {
    let [protocol, src, src_port, dst, dst_port] = words else {
        return None;
    };
    let named = wire::proto::NAMES.iter().find(|(name, _)| name == protocol);
    let protocol: u8 = named.map_or_else(|| protocol.parse().ok(), |(_, number)| Some(*number))?;
    let (src_port, dst_port) = (src_port.parse().ok()?, dst_port.parse().ok()?);
    macro_rules! flow {
        ($src:ident $dst:ident) => {
            wire::flow::Flow {
                src: $src,
                dst: $dst,
                src_port,
                dst_port,
                protocol,
            }
        };
    }
    match (src.parse().ok()?, dst.parse().ok()?) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Some(of_tuple(&FlowKey::V4(flow!(src dst)))),
        (IpAddr::V6(src), IpAddr::V6(dst)) => Some(of_tuple(&FlowKey::V6(flow!(src dst)))),
        _ => None,
    }
}

fn show_tuple(flow: &FlowKey) -> String {
    let (src, dst) = (flow.src(), flow.dst());
    let (protocol, src_port, dst_port) = match flow {
        FlowKey::V4(f) => (f.protocol, f.src_port, f.dst_port),
        FlowKey::V6(f) => (f.protocol, f.src_port, f.dst_port),
    };
    let named = wire::proto::NAMES.iter().find(|name| name.1 == protocol);
    let protocol = named.map_or_else(|| protocol.to_string(), |name| name.0.to_owned());
    format!("{protocol} {src} {src_port} {dst} {dst_port}")
}
