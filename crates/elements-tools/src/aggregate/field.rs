//! Fields of packets by name or by position, in the notation of AggregateIP: `ip src/8`, `tcp[13]`, `ip{96-103}`,
//! `ip[8:2] & 0x3F0`.

use arguments::Names;
use arguments::units::FromArg;
use engine::packet::Packet;
use wire::proto;

/// Origin of a field's offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    Ip,
    /// The transport header.
    Transp,
    /// Bytes after a TCP or UDP header.
    Payload,
}

/// Field of up to 32 bits in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) base: Base,
    /// IP protocols whose packets contain the field; empty for all.
    protocols: &'static [u8],
    /// Offset of the field in bits.
    pub(super) offset: u32,
    /// Length in bits.
    pub(super) length: u32,
}

const TCP: &[u8] = &[proto::TCP];
const UDP: &[u8] = &[proto::UDP];
const ICMP: &[u8] = &[proto::ICMP];
const PORTS: &[u8] = &[proto::TCP, proto::UDP];

/// Offset of the source address in an IP header, in bits.
const SRC: u32 = 96;
const DST: u32 = 128;

/// Named fields: header, name, offset and length in bits.
#[rustfmt::skip]
const FIELDS: &[(&str, &str, u32, u32)] = &[
    ("ip", "vers", 0, 4), ("ip", "hl", 4, 4), ("ip", "tos", 8, 8), ("ip", "dscp", 8, 6),
    ("ip", "ecn", 14, 2), ("ip", "len", 16, 16), ("ip", "id", 32, 16), ("ip", "off", 48, 16),
    ("ip", "rf", 48, 1), ("ip", "df", 49, 1), ("ip", "mf", 50, 1), ("ip", "fragoff", 51, 13),
    ("ip", "ttl", 64, 8), ("ip", "proto", 72, 8), ("ip", "sum", 80, 16), ("ip", "src", SRC, 32),
    ("ip", "dst", DST, 32),
    ("udp", "sport", 0, 16), ("udp", "dport", 16, 16), ("udp", "len", 32, 16),
    ("udp", "sum", 48, 16),
    ("tcp", "sport", 0, 16), ("tcp", "dport", 16, 16), ("tcp", "seq", 32, 32),
    ("tcp", "ack", 64, 32), ("tcp", "hl", 96, 4), ("tcp", "flags", 104, 8),
    ("tcp", "urg", 106, 1), ("tcp", "ackf", 107, 1), ("tcp", "psh", 108, 1),
    ("tcp", "rst", 109, 1), ("tcp", "syn", 110, 1), ("tcp", "fin", 111, 1),
    ("tcp", "win", 112, 16), ("tcp", "sum", 128, 16), ("tcp", "urp", 144, 16),
    ("icmp", "type", 0, 8), ("icmp", "code", 8, 8), ("icmp", "sum", 16, 16),
    ("", "sport", 0, 16), ("", "dport", 16, 16),
];

/// Base of a header's fields, and the IP protocols with that header.
fn header(name: &str) -> Option<(Base, &'static [u8])> {
    Some(match name {
        "ip" => (Base::Ip, &[]),
        "transp" => (Base::Transp, &[]),
        "tcp" => (Base::Transp, TCP),
        "udp" => (Base::Transp, UDP),
        "icmp" => (Base::Transp, ICMP),
        "data" | "payload" => (Base::Payload, PORTS),
        "" => (Base::Transp, PORTS),
        _ => return None,
    })
}

impl Field {
    /// Parses a field.
    ///
    /// # Errors
    ///
    /// A message that describes the mistake.
    pub(super) fn parse(text: &str) -> Result<Field, String> {
        let text = text.trim();
        let (place, mask) = match text.find(['/', '&']) {
            Some(at) => (text[..at].trim(), Some(text[at..].trim())),
            None => (text, None),
        };
        let field = match place.find(['[', '{']) {
            Some(at) => Field::by_place(&place[..at], &place[at..]),
            None => Field::by_name(place),
        };
        let field = field.ok_or_else(|| format!("bad field `{place}`"))?;
        match mask {
            Some(mask) => field
                .masked(mask)
                .ok_or_else(|| format!("bad mask `{mask}`")),
            None => Ok(field),
        }
    }

    fn by_name(place: &str) -> Option<Field> {
        let mut words = place.split_whitespace();
        let (head, name) = match (words.next()?, words.next()) {
            (head, Some(name)) => (head, name),
            (name, None) => ("", name),
        };
        let row = FIELDS.iter().find(|row| (row.0, row.1) == (head, name));
        let &(_, _, offset, length) = row.filter(|_| words.next().is_none())?;
        let (base, protocols) = header(head)?;
        Some(Field {
            base,
            protocols,
            offset,
            length,
        })
    }

    /// Parses a field by position: `[8:2]`, `[8, 2]`, `[8-9]`, `[8]` in bytes, or the same in braces in bits.
    fn by_place(head: &str, place: &str) -> Option<Field> {
        let (inner, unit) = match place.strip_prefix('[') {
            Some(rest) => (rest.strip_suffix(']')?, 8),
            None => (place.strip_prefix('{')?.strip_suffix('}')?, 1),
        };
        let number = |word: &str| word.trim().parse::<u32>().ok();
        let (offset, length) = if let Some((from, n)) = inner.split_once([':', ',']) {
            (number(from)?, number(n)?)
        } else if let Some((from, to)) = inner.split_once('-') {
            let from = number(from)?;
            (from, number(to)?.checked_sub(from)?.checked_add(1)?)
        } else {
            (number(inner)?, 1)
        };
        let head = head.trim();
        let (base, protocols) = header(head).filter(|_| !head.is_empty())?;
        let (offset, length) = (offset.checked_mul(unit)?, length.checked_mul(unit)?);
        let fits = (1..=32).contains(&length) && offset < 1 << 19;
        fits.then_some(Field {
            base,
            protocols,
            offset,
            length,
        })
    }

    /// Restricts the field: `/8` to its high bits, `& 0xff` to those of a contiguous mask.
    fn masked(self, mask: &str) -> Option<Field> {
        if let Some(top) = mask.strip_prefix('/') {
            let length = top.trim().parse().ok()?;
            let fits = (1..=self.length).contains(&length);
            return fits.then_some(Field { length, ..self });
        }
        let text = mask.strip_prefix('&')?.trim();
        let bits = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
            Some(digits) => u32::from_str_radix(digits, 16).ok()?,
            None => text.parse().ok()?,
        };
        let (low, ones) = (bits.trailing_zeros(), bits.count_ones());
        let high = 32 - bits.leading_zeros();
        let together = bits != 0 && high - low == ones && high <= self.length;
        together.then_some(Field {
            offset: self.offset + self.length - high,
            length: ones,
            ..self
        })
    }

    /// Value of the field in a packet whose network header annotation is set; `None` if the packet lacks it.
    pub(super) fn value(&self, packet: &Packet) -> Option<u32> {
        let (ip, bytes) = (super::header(packet)?, packet.network());
        let from = match self.base {
            Base::Ip => 0,
            _ if ip.fragment_offset() > 0 => return None,
            _ if !self.protocols.is_empty() && !self.protocols.contains(&ip.protocol()) => {
                return None;
            }
            Base::Transp => ip.header_len(),
            Base::Payload if ip.protocol() == proto::TCP => {
                let offset = bytes.get(ip.header_len() + 12)?;
                ip.header_len() + usize::from(offset >> 4) * 4
            }
            Base::Payload => ip.header_len() + 8,
        };
        let first = from + self.offset as usize / 8;
        let end = from + (self.offset + self.length).div_ceil(8) as usize;
        let window = bytes.get(first..end)?;
        let value = window.iter().fold(0u64, |n, b| n << 8 | u64::from(*b));
        let behind = (8 - (self.offset + self.length) % 8) % 8;
        let mask = u32::MAX >> (32 - self.length);
        Some((value >> behind) as u32 & mask)
    }

    /// Shift that aligns the value with its position in an address; `None` for fields outside of addresses.
    pub(super) fn in_address(&self) -> Option<u32> {
        let end = self.offset + self.length;
        let inside = |from: u32| self.offset >= from && end <= from + 32;
        let from = [SRC, DST].into_iter().find(|&from| inside(from))?;
        (self.base == Base::Ip).then(|| from + 32 - end)
    }
}

impl FromArg for Field {
    const KIND: &'static str = "a field such as ip src/8, tcp dport or ip[8:2]";

    fn from_arg(raw: &str, _: &Names) -> Result<Field, String> {
        Field::parse(raw)
    }

    fn stand_in() -> Field {
        Field {
            base: Base::Ip,
            protocols: &[],
            offset: 0,
            length: 8,
        }
    }

    fn unparse(&self) -> String {
        let base = match self.base {
            Base::Ip => "ip",
            Base::Transp => "transp",
            Base::Payload => "data",
        };
        format!("{base}{{{}:{}}}", self.offset, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_field_has_many_names() {
        let wanted = Field::parse("ip src/8").expect("it is a field");
        for text in [
            "ip src & 0xFF000000",
            "ip[12]",
            "ip[12, 1]",
            "ip{96, 8}",
            "ip{96-103}",
            "ip[12-15] / 8",
        ] {
            assert_eq!(Field::parse(text), Ok(wanted), "{text}");
        }
        let middle = Field::parse("ip[8:2] & 0x3F0").map(|f| (f.offset, f.length));
        assert_eq!(middle, Ok((70, 6)));
        assert_eq!(wanted.in_address(), Some(24));
        let whole = Field::parse("ip dst").expect("it is a field");
        assert_eq!(whole.in_address(), Some(0));
        let tos = Field::parse("ip tos").expect("it is a field");
        assert_eq!(tos.in_address(), None);
    }

    #[test]
    fn unknown_fields_are_refused() {
        for text in [
            "",
            "ip",
            "ip nose",
            "ip src dst",
            "[3]",
            "ip[3",
            "ip[3:0]",
            "ip[3-2]",
            "ip[0:5]",
            "ip src/33",
            "ip src/0",
            "ip tos & 0x101",
            "ip tos & 0x100",
            "ip tos &",
            "ipx[1]",
        ] {
            assert!(Field::parse(text).is_err(), "{text}");
        }
    }
}
