//! A packet's line of a dump, parsed.

use super::{Field, Stamp, ip_options, names, tcp_options};
use arguments::icmp;
use std::net::Ipv4Addr;
use wire::{EtherAddr, proto};

/// The values of a line; missing ones are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub(super) timestamp: Option<i64>,
    pub(super) first_timestamp: Option<i64>,
    pub(super) src: Option<Ipv4Addr>,
    pub(super) dst: Option<Ipv4Addr>,
    /// Flags and offset as in the header.
    pub(super) fragment: Option<u16>,
    /// The same by `ip_frag`; an offset takes precedence.
    pub(super) fragment_mark: Option<u16>,
    pub(super) ip_len: Option<u32>,
    pub(super) protocol: Option<u8>,
    pub(super) ip_hl: Option<u8>,
    pub(super) ip_id: Option<u16>,
    pub(super) tos: Option<u8>,
    pub(super) ttl: Option<u8>,
    pub(super) ip_sum: Option<u16>,
    pub(super) ip_opt: Vec<u8>,
    pub(super) sport: Option<u16>,
    pub(super) dport: Option<u16>,
    pub(super) seq: Option<u32>,
    pub(super) ack: Option<u32>,
    pub(super) tcp_off: Option<u8>,
    pub(super) flags: Option<u16>,
    pub(super) tcp_opt: Vec<u8>,
    pub(super) window: Option<u16>,
    pub(super) urgent: Option<u16>,
    pub(super) udp_len: Option<u16>,
    pub(super) icmp_type: Option<u8>,
    pub(super) icmp_code: Option<IcmpCode>,
    pub(super) icmp_id: Option<u16>,
    pub(super) icmp_seq: Option<u16>,
    pub(super) icmp_mtu: Option<u16>,
    pub(super) payload: Vec<u8>,
    pub(super) payload_len: Option<u32>,
    pub(super) wire_len: Option<u32>,
    pub(super) count: Option<u32>,
    pub(super) paint: Option<u8>,
    pub(super) aggregate: Option<u32>,
    pub(super) eth_src: Option<EtherAddr>,
    pub(super) eth_dst: Option<EtherAddr>,
}

/// The name of an ICMP code means something only with the type, which may stand behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum IcmpCode {
    Number(u8),
    Name(String),
}

impl Record {
    /// Number of packets of the line.
    pub fn count(&self) -> u32 {
        self.count.unwrap_or(1)
    }

    /// Empties the record for the next line, keeping its memory.
    pub fn clear(&mut self) {
        let mut lists = [&mut self.ip_opt, &mut self.tcp_opt, &mut self.payload].map(|list| {
            list.clear();
            std::mem::take(list)
        });
        *self = Record::default();
        let [ip_opt, tcp_opt, payload] = &mut lists;
        self.ip_opt = std::mem::take(ip_opt);
        self.tcp_opt = std::mem::take(tcp_opt);
        self.payload = std::mem::take(payload);
    }

    /// True if the record has a field of this transport protocol alone for which Click makes a complete header.
    pub(super) fn tells_header(&self, protocol: u8) -> bool {
        match protocol {
            proto::TCP => !self.tcp_opt.is_empty(),
            proto::UDP => self.udp_len.is_some(),
            proto::ICMP => {
                let fields = [self.icmp_id, self.icmp_seq, self.icmp_mtu];
                let typed = self.icmp_type.is_some() || self.icmp_code.is_some();
                typed || fields.iter().any(Option::is_some)
            }
            _ => false,
        }
    }

    /// Times of a line's last and first packet, in nanoseconds.
    pub fn times(&self) -> (i64, Option<i64>) {
        (self.timestamp.unwrap_or(0), self.first_timestamp)
    }

    /// Sets a field from its text. `old_offsets`: fragment offsets count 8-byte units, as in version
    /// 1.0. `None` if the text is no value of the field.
    pub(super) fn set(&mut self, field: Field, word: &[u8], old_offsets: bool) -> Option<()> {
        if field == Field::Payload {
            unquote(word, &mut self.payload);
            return Some(());
        }
        let word = std::str::from_utf8(word).ok()?;
        self.set_annotation(field, word)
            .or_else(|| self.set_ip(field, word, old_offsets))
            .or_else(|| self.set_transport(field, word))
    }

    fn set_annotation(&mut self, field: Field, word: &str) -> Option<()> {
        match field {
            Field::Timestamp(_) => self.timestamp = Some(time(word)?),
            Field::FirstTimestamp(_) => self.first_timestamp = Some(time(word)?),
            Field::TsSec => {
                let seconds: i64 = word.parse().ok()?;
                let rest = self.timestamp.unwrap_or(0) % SECOND;
                self.timestamp = Some(seconds.checked_mul(SECOND)?.checked_add(rest)?);
            }
            Field::TsUsec => {
                let micros: i64 = word.parse().ok().filter(|m| (0..1_000_000).contains(m))?;
                let before = self.timestamp.unwrap_or(0);
                self.timestamp = Some(before - before % SECOND + micros * 1000);
            }
            Field::TsUsec1 => {
                self.timestamp = Some(word.parse::<i64>().ok()?.checked_mul(1000)?);
            }
            Field::Count => self.count = Some(word.parse().ok()?),
            Field::Direction | Field::Link | Field::Paint => self.paint = Some(link(word)?),
            Field::Aggregate => self.aggregate = Some(word.parse().ok()?),
            Field::EthSrc => self.eth_src = Some(ether(word)?),
            Field::EthDst => self.eth_dst = Some(ether(word)?),
            // A packet is IPv4, whatever its Ethernet type was.
            Field::EthType => {}
            Field::WireLen => self.wire_len = Some(word.parse().ok()?),
            Field::PayloadLen => self.payload_len = Some(word.parse().ok()?),
            // These fields describe the original packet, which cannot be rebuilt from them.
            Field::PayloadMd5 | Field::PayloadMd5Hex | Field::IpCaptureLen => {}
            _ => return None,
        }
        Some(())
    }

    fn set_ip(&mut self, field: Field, word: &str, old_offsets: bool) -> Option<()> {
        match field {
            Field::IpSrc => self.src = Some(word.parse().ok()?),
            Field::IpDst => self.dst = Some(word.parse().ok()?),
            Field::IpFrag => self.fragment_mark = Some(fragment_mark(word)?),
            Field::IpFragoff => self.fragment = Some(fragment(word, old_offsets)?),
            Field::IpLen => self.ip_len = Some(word.parse().ok()?),
            Field::IpProto => self.protocol = Some(names::protocol(word)?),
            Field::IpHl => self.ip_hl = Some(header_len(word)?),
            Field::IpId => self.ip_id = Some(word.parse().ok()?),
            Field::IpTos => self.tos = Some(word.parse().ok()?),
            // Parts of the type of service; of several columns the last one counts.
            Field::IpDscp => {
                let dscp: u8 = word.parse().ok().filter(|n| *n < 64)?;
                self.tos = Some(dscp << 2 | self.tos.unwrap_or(0) & 3);
            }
            Field::IpEcn => self.tos = Some(names::ecn(word)? | self.tos.unwrap_or(0) & 0xfc),
            Field::IpTtl => self.ttl = Some(word.parse().ok()?),
            Field::IpSum => self.ip_sum = Some(word.parse().ok()?),
            Field::IpOpt => self.ip_opt = ip_options::parse(word)?,
            _ => return None,
        }
        Some(())
    }

    fn set_transport(&mut self, field: Field, word: &str) -> Option<()> {
        match field {
            Field::Sport => self.sport = Some(word.parse().ok()?),
            Field::Dport => self.dport = Some(word.parse().ok()?),
            Field::TcpSeq => self.seq = Some(word.parse().ok()?),
            Field::TcpAck => self.ack = Some(word.parse().ok()?),
            Field::TcpOff => self.tcp_off = Some(header_len(word)?),
            Field::TcpFlags => self.flags = Some(names::flags(word)?),
            Field::TcpOpt => {
                let all = tcp_options::parse(word)?;
                if !all.is_empty() {
                    self.tcp_opt = all;
                }
            }
            // These columns have some options only; a column with all options takes precedence.
            Field::TcpNtopt | Field::TcpSack => {
                let some = tcp_options::parse(word)?;
                if self.tcp_opt.is_empty() {
                    self.tcp_opt = some;
                }
            }
            Field::TcpWindow => self.window = Some(word.parse().ok()?),
            Field::TcpUrp => self.urgent = Some(word.parse().ok()?),
            Field::UdpLen => self.udp_len = Some(word.parse().ok()?),
            Field::IcmpType | Field::IcmpTypeName => {
                self.icmp_type = Some(icmp::type_number(word).or_else(|| word.parse().ok())?);
            }
            Field::IcmpCode | Field::IcmpCodeName => {
                self.icmp_code = Some(match word.parse() {
                    Ok(number) => IcmpCode::Number(number),
                    Err(_) => IcmpCode::Name(word.to_owned()),
                });
            }
            Field::IcmpFlowid => self.icmp_id = Some(word.parse().ok()?),
            Field::IcmpSeq => self.icmp_seq = Some(word.parse().ok()?),
            Field::IcmpNextmtu => self.icmp_mtu = Some(word.parse().ok()?),
            _ => return None,
        }
        Some(())
    }
}

const SECOND: i64 = 1_000_000_000;

/// Seconds with up to nine digits behind the point, as nanoseconds.
pub fn time(word: &str) -> Option<i64> {
    let (negative, digits) = match word.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, word),
    };
    let (seconds, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if seconds.is_empty() && fraction.is_empty() {
        return None;
    }
    let all_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if !all_digits(seconds) || !all_digits(fraction) {
        return None;
    }
    let seconds: i64 = match seconds {
        "" => 0,
        _ => seconds.parse().ok()?,
    };
    let shown = &fraction[..fraction.len().min(9)];
    let nanos: i64 = match shown {
        "" => 0,
        _ => shown.parse::<i64>().ok()? * 10i64.pow(9 - shown.len() as u32),
    };
    let total = seconds.checked_mul(SECOND)?.checked_add(nanos)?;
    Some(if negative { -total } else { total })
}

/// A timestamp as text, with six or nine digits behind the point.
///
/// Click gives nine digits to times that are no whole microseconds, and six to all others.
pub fn push_time(nanos: i64, stamp: Stamp, out: &mut Vec<u8>) {
    use std::io::Write as _;
    if nanos < 0 {
        out.push(b'-');
    }
    let (seconds, rest) = (
        nanos.unsigned_abs() / SECOND as u64,
        nanos.unsigned_abs() % SECOND as u64,
    );
    // Writing to a vector cannot fail.
    let _ = match stamp {
        Stamp::Exact if rest % 1000 != 0 => write!(out, "{seconds}.{rest:09}"),
        Stamp::Exact | Stamp::Micro => write!(out, "{seconds}.{:06}", rest / 1000),
        Stamp::Nano => write!(out, "{seconds}.{rest:09}"),
    };
}

/// A link number: `>` and `L` are 0, `<`, `R` and `X` are 1.
fn link(word: &str) -> Option<u8> {
    match word {
        ">" | "L" => Some(0),
        "<" | "R" | "X" => Some(1),
        _ => word.parse().ok(),
    }
}

fn ether(word: &str) -> Option<EtherAddr> {
    word.replace('-', ":").parse().ok()
}

/// A header's length in bytes.
fn header_len(word: &str) -> Option<u8> {
    let len: u8 = word.parse().ok()?;
    ((20..=60).contains(&len) && len.is_multiple_of(4)).then_some(len)
}

const DF: u16 = 0x4000;
const MF: u16 = 0x2000;

fn fragment_mark(word: &str) -> Option<u16> {
    match word {
        "." => Some(0),
        "!" => Some(DF),
        "F" => Some(MF),
        // Any offset but 0 will do: the dump does not have the fragment's offset.
        "f" => Some(100),
        _ => None,
    }
}

/// An offset in bytes, with `+` for more fragments and `!` for "do not fragment".
fn fragment(word: &str, old_offsets: bool) -> Option<u16> {
    let digits = word.trim_end_matches(['+', '!']);
    let offset: u32 = digits.parse().ok()?;
    let units = if old_offsets {
        offset
    } else {
        // Bytes that are no multiple of 8 are rounded down, as in Click.
        offset / 8
    };
    let marks = &word[digits.len()..];
    let flags = if marks.contains('+') { MF } else { 0 } | if marks.contains('!') { DF } else { 0 };
    Some(u16::try_from(units).ok().filter(|n| *n < 1 << 13)? | flags)
}

/// Appends a word without its quotes, escapes resolved.
fn unquote(word: &[u8], out: &mut Vec<u8>) {
    match word {
        [b'"', ..] => match std::str::from_utf8(word) {
            Ok(text) => out.extend(lang::args::unquote_bytes(text).iter()),
            Err(_) => out.extend(word),
        },
        _ => out.extend(word),
    }
}

impl Record {
    /// Sets a field from its binary form.
    pub(super) fn set_binary(&mut self, field: Field, bytes: &[u8]) {
        use super::Size;
        use std::io::Write as _;
        let list = |bytes: &[u8]| {
            let mut list = bytes.get(1..).unwrap_or(&[]).to_vec();
            list.truncate(40);
            list.resize(list.len().next_multiple_of(4), 0);
            list
        };
        let number = bytes
            .iter()
            .take(8)
            .fold(0u64, |n, b| n << 8 | u64::from(*b));
        let time = |stamp: Stamp| {
            let (seconds, rest) = ((number >> 32) as i64, (number & 0xffff_ffff) as i64);
            Some(seconds * SECOND + rest * i64::from(stamp.unit()))
        };
        match field {
            Field::Timestamp(stamp) => self.timestamp = time(stamp),
            Field::FirstTimestamp(stamp) => self.first_timestamp = time(stamp),
            Field::IpSrc => self.src = Some(Ipv4Addr::from(number as u32)),
            Field::IpDst => self.dst = Some(Ipv4Addr::from(number as u32)),
            Field::IpFragoff => self.fragment = Some(number as u16),
            Field::IpFrag => self.fragment_mark = fragment_mark(&char::from(bytes[0]).to_string()),
            Field::IpOpt => self.ip_opt = list(bytes),
            Field::TcpOpt => self.tcp_opt = list(bytes),
            Field::TcpNtopt | Field::TcpSack if self.tcp_opt.is_empty() => {
                self.tcp_opt = list(bytes);
            }
            Field::EthSrc => self.eth_src = bytes.try_into().ok().map(EtherAddr),
            Field::EthDst => self.eth_dst = bytes.try_into().ok().map(EtherAddr),
            _ if field.size() != Size::Bytes(16) => {
                // The other fields are plain numbers; so is their text.
                let mut text = [0; 20];
                let mut left = &mut text[..];
                // Twenty digits hold any number.
                let _ = write!(left, "{number}");
                let len = 20 - left.len();
                let _ = self.set(field, &text[..len], false);
            }
            _ => {}
        }
    }
}
