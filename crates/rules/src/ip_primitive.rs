//! Tests of a packet by the primitives of IP patterns.

use super::expr::{Base, Expr, Field, Op, RangeTest, address_is, bytes_are};
use super::family::Family;
use super::{ip_names, ip6_headers};
use arguments::Names;
use arguments::service::port;
use arguments::units::FromArg;
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::{EtherAddr, Prefix4, Prefix6, proto};

impl Family {
    /// The word that begins primitives about the header.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Family::V4 => "ip",
            Family::V6 => "ip6",
        }
    }

    fn icmp(self) -> u8 {
        match self {
            Family::V4 => proto::ICMP,
            Family::V6 => proto::ICMP6,
        }
    }

    /// Offsets of the source and destination addresses.
    fn addresses(self) -> [u16; 2] {
        match self {
            Family::V4 => [12, 16],
            Family::V6 => [8, 24],
        }
    }

    fn protocol(self) -> Field {
        match self {
            Family::V4 => Field::new(Base::Start, 9, 1),
            Family::V6 => Field::new(Base::CHAIN, 0, 1),
        }
    }

    /// A field that is not zero in fragments.
    fn fragment(self) -> Field {
        match self {
            Family::V4 => Field::new(Base::Start, 6, 2).masked(0x3fff),
            Family::V6 => Field::new(Base::CHAIN, 1, 1).masked(ip6_headers::FRAGMENT.into()),
        }
    }

    /// Set in all fragments but the first.
    fn later_fragment(self) -> Field {
        match self {
            Family::V4 => Field::new(Base::Start, 6, 2).masked(0x1fff),
            Family::V6 => Field::new(Base::CHAIN, 1, 1).masked(ip6_headers::LATER.into()),
        }
    }

    /// The bits of ECN.
    fn ecn(self) -> Field {
        match self {
            Family::V4 => Field::bits(Base::Start, 1, 3, 0),
            Family::V6 => traffic_class(3, 0),
        }
    }
}

/// Bits of the traffic class, which lies across the first two bytes of an IPv6 header.
fn traffic_class(mask: u32, shift: u32) -> Field {
    Field {
        base: Base::Start,
        offset: 0,
        len: 2,
        mask,
        shift: 4 + shift,
    }
}

/// Kind of a primitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    True,
    False,
    Host,
    Net,
    EtherHost,
    Proto,
    Port,
    TcpFlag,
    TcpWindow,
    IcmpType,
    Version,
    HeaderLength,
    TotalLength,
    Id,
    Tos,
    Dscp,
    Ttl,
    Flow,
    Ect,
    Ce,
    Fragment,
    Unfragmented,
    Bytes(Field),
}

impl Kind {
    /// The kind that a word of the language names.
    pub(crate) fn named(word: &str, family: Family) -> Option<Kind> {
        Some(match word {
            "tc" if family == Family::V6 => Kind::Tos,
            "hlim" if family == Family::V6 => Kind::Ttl,
            "flow" if family == Family::V6 => Kind::Flow,
            "hl" | "id" | "tos" | "ttl" if family == Family::V6 => return None,
            "host" => Kind::Host,
            "net" => Kind::Net,
            "proto" => Kind::Proto,
            "port" => Kind::Port,
            "opt" => Kind::TcpFlag,
            "win" => Kind::TcpWindow,
            "type" => Kind::IcmpType,
            "vers" => Kind::Version,
            "hl" => Kind::HeaderLength,
            "len" => Kind::TotalLength,
            "id" => Kind::Id,
            "tos" => Kind::Tos,
            "dscp" => Kind::Dscp,
            "ttl" => Kind::Ttl,
            "ect" => Kind::Ect,
            "ce" => Kind::Ce,
            "frag" => Kind::Fragment,
            "unfrag" => Kind::Unfragmented,
            _ => return None,
        })
    }

    /// True if something is compared.
    pub(crate) fn has_value(self) -> bool {
        use Kind::{Ce, Ect, False, Fragment, True, Unfragmented};
        !matches!(self, True | False | Ect | Ce | Fragment | Unfragmented)
    }

    /// Field with the number of such a primitive; for ports, the source.
    fn field(self, family: Family) -> Option<Field> {
        use Base::{Start, Transport};
        Some(match self {
            Kind::Proto => family.protocol(),
            Kind::TotalLength if family == Family::V6 => Field::new(Start, 4, 2),
            Kind::Tos if family == Family::V6 => traffic_class(0xff, 0),
            Kind::Dscp if family == Family::V6 => traffic_class(0x3f, 2),
            Kind::Ttl if family == Family::V6 => Field::new(Start, 7, 1),
            Kind::Flow => Field::new(Start, 1, 3).masked(0xf_ffff),
            Kind::Port => Field::new(Transport, 0, 2),
            Kind::TcpWindow => Field::new(Transport, 14, 2),
            Kind::IcmpType => Field::new(Transport, 0, 1),
            Kind::Version => Field::bits(Start, 0, 0xf, 4),
            Kind::HeaderLength => Field::bits(Start, 0, 0xf, 0),
            Kind::TotalLength => Field::new(Start, 2, 2),
            Kind::Id => Field::new(Start, 4, 2),
            Kind::Tos => Field::new(Start, 1, 1),
            Kind::Dscp => Field::bits(Start, 1, 0x3f, 2),
            Kind::Ttl => Field::new(Start, 8, 1),
            Kind::Bytes(field) => field,
            _ => return None,
        })
    }
}

/// Choice between two addresses or ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dir {
    Src,
    Dst,
    Either,
    Both,
}

/// The words of a primitive before its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Qualifiers {
    pub(crate) kind: Option<Kind>,
    pub(crate) dir: Option<Dir>,
    /// A protocol by name.
    pub(crate) proto: Option<u8>,
    pub(crate) ip: bool,
    pub(crate) transp: bool,
}

impl Qualifiers {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Qualifiers::default()
    }

    pub(crate) fn is_empty_but_kind(&self) -> bool {
        Qualifiers {
            kind: None,
            ..*self
        }
        .is_empty()
    }
}

/// Value for a comparison: one number or a range, or an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Number(u32, u32),
    /// Address and mask.
    Net(Ipv4Addr, Ipv4Addr),
    /// An IPv6 network.
    Net6(Ipv6Addr, Ipv6Addr),
    Ether(EtherAddr),
}

impl Value {
    pub(crate) fn zero(head: &Qualifiers, family: Family) -> Value {
        match head.kind {
            Some(Kind::Host | Kind::Net) if family == Family::V6 => {
                Value::Net6(Ipv6Addr::UNSPECIFIED, mask6(128))
            }
            Some(Kind::Host | Kind::Net) => Value::Net(Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST),
            _ => Value::Number(0, 0),
        }
    }

    /// `10.0.0.0 mask 255.0.0.0`.
    pub(crate) fn with_mask(self, mask: &str) -> Result<Value, String> {
        match (self, mask.parse()) {
            (Value::Net(address, _), Ok(mask)) => Ok(Value::Net(address, mask)),
            (Value::Net6(..), _) => Err("an IPv6 network is written ADDRESS/LENGTH".to_owned()),
            _ => Err(format!("`{mask}` is no netmask")),
        }
    }
}

/// Kind of primitive of a single word: `www`, `syn`, `10.0.0.0/24`.
pub(crate) fn infer_kind(
    word: &str,
    head: &Qualifiers,
    names: &Names,
    family: Family,
) -> Option<Kind> {
    let tcp = head.proto.is_none_or(|p| p == proto::TCP);
    let is = |kind| value(Some(kind), word, head, names, family).is_ok();
    if head.proto == Some(family.icmp()) && is(Kind::IcmpType) {
        return Some(Kind::IcmpType);
    }
    if tcp && head.dir.is_none() && is(Kind::TcpFlag) {
        return Some(Kind::TcpFlag);
    }
    let numeric = word.starts_with(|c: char| c.is_ascii_digit()) && !word.contains(['.', '/', ':']);
    let qualified = head.dir.is_some() || head.proto.is_some();
    let ports = [proto::TCP, proto::UDP];
    if head.proto.is_none_or(|p| ports.contains(&p)) && (!numeric || qualified) && is(Kind::Port) {
        return Some(Kind::Port);
    }
    let addresses: &[Kind] = match family {
        Family::V4 => &[Kind::Host, Kind::Net, Kind::EtherHost],
        Family::V6 => &[Kind::Host, Kind::Net],
    };
    addresses.iter().copied().find(|&kind| !numeric && is(kind))
}

/// Parses a word as the value of a primitive.
pub(crate) fn value(
    kind: Option<Kind>,
    word: &str,
    head: &Qualifiers,
    names: &Names,
    family: Family,
) -> Result<Value, String> {
    let wrong = |what: &str| Err(format!("`{word}` is no {what}"));
    match kind {
        Some(Kind::Host) if family == Family::V6 => match Ipv6Addr::from_arg(word, names) {
            Ok(address) => Ok(Value::Net6(address, mask6(128))),
            Err(_) => wrong("IPv6 address"),
        },
        Some(Kind::Net) if family == Family::V6 => match net6(word, names) {
            Some((address, mask)) => Ok(Value::Net6(address, mask)),
            None => wrong("IPv6 network address"),
        },
        Some(Kind::Host) => match Ipv4Addr::from_arg(word, names) {
            Ok(address) => Ok(Value::Net(address, Ipv4Addr::BROADCAST)),
            Err(_) => wrong("IP address"),
        },
        Some(Kind::Net) => match net(word, names) {
            Some((address, mask)) => Ok(Value::Net(address, mask)),
            None => wrong("IP network address"),
        },
        Some(Kind::EtherHost) => match EtherAddr::from_arg(word, names) {
            Ok(address) => Ok(Value::Ether(address)),
            Err(_) => wrong("Ethernet address"),
        },
        Some(Kind::TcpFlag) => match ip_names::tcp_flag(word) {
            Some(flag) => Ok(Value::Number(flag.into(), flag.into())),
            None => wrong("TCP option"),
        },
        Some(kind) => number(kind, word, head, names, family),
        None => wrong("value"),
    }
}

fn number(
    kind: Kind,
    word: &str,
    head: &Qualifiers,
    names: &Names,
    family: Family,
) -> Result<Value, String> {
    let named = match kind {
        Kind::Port => port(word, head.proto, names).map(u32::from),
        Kind::Proto => ip_names::protocol(word).map(u32::from),
        Kind::IcmpType => ip_names::icmp_type(word, family).map(u32::from),
        _ => None,
    };
    let parse = |text: &str| u32::from_arg(text, names).ok();
    let (lo, hi) = match (named, word.split_once('-')) {
        (Some(number), _) => (Some(number), Some(number)),
        (None, Some((lo, hi))) => (parse(lo), parse(hi)),
        (None, None) => (parse(word), parse(word)),
    };
    let what = match kind {
        Kind::Port => "port",
        Kind::Proto => "protocol",
        Kind::IcmpType => "ICMP type",
        _ => "number",
    };
    let most = kind.field(family).map_or(u32::MAX, |f| f.mask);
    match (lo, hi) {
        (Some(lo), Some(hi)) if lo > hi => Err(format!("`{word}` is an empty range")),
        (Some(_), Some(hi)) if hi > most => {
            Err(format!("value {hi} out of range (at most {most})"))
        }
        (Some(lo), Some(hi)) => Ok(Value::Number(lo, hi)),
        _ => Err(format!("`{word}` is no {what}")),
    }
}

/// `10.0.0.0/8`, `10.0.0.0/255.0.0.0`, `10.0.0.1`, or a name of AddressInfo.
fn net(word: &str, names: &Names) -> Option<(Ipv4Addr, Ipv4Addr)> {
    if let Some((address, mask)) = word.split_once('/')
        && let Ok(mask) = mask.parse::<Ipv4Addr>()
    {
        return Some((Ipv4Addr::from_arg(address, names).ok()?, mask));
    }
    if let Ok(prefix) = Prefix4::from_arg(word, names) {
        let mask = u32::MAX
            .checked_shl(32 - u32::from(prefix.len()))
            .unwrap_or(0);
        return Some((prefix.addr(), Ipv4Addr::from(mask)));
    }
    let address = Ipv4Addr::from_arg(word, names).ok()?;
    Some((address, Ipv4Addr::BROADCAST))
}

/// `2001:db8::/32`, `2001:db8::1`, or a name of AddressInfo.
fn net6(word: &str, names: &Names) -> Option<(Ipv6Addr, Ipv6Addr)> {
    if let Ok(prefix) = Prefix6::from_arg(word, names) {
        return Some((prefix.addr(), mask6(prefix.len())));
    }
    let address = Ipv6Addr::from_arg(word, names).ok()?;
    Some((address, mask6(128)))
}

/// Mask of `len` bits.
fn mask6(len: u8) -> Ipv6Addr {
    let hosts = u128::MAX.checked_shr(len.into()).unwrap_or(0);
    Ipv6Addr::from_bits(!hosts)
}

/// A complete primitive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Primitive {
    pub(crate) head: Qualifiers,
    pub(crate) mask: Option<Value>,
    pub(crate) op: Op,
    pub(crate) value: Option<Value>,
}

fn protocol_is(number: u8, family: Family) -> Expr<RangeTest> {
    let number = number.into();
    family.protocol().compare(Op::Eq, number, number)
}

/// Ports and the like are in the first fragment only.
fn first_fragment(family: Family) -> Expr<RangeTest> {
    family.later_fragment().compare(Op::Eq, 0, 0)
}

impl Primitive {
    /// A primitive without a value.
    pub(crate) fn bare(head: Qualifiers) -> Primitive {
        Primitive {
            head,
            mask: None,
            op: Op::Eq,
            value: None,
        }
    }

    /// Test of the packet.
    pub(crate) fn expr(&self, family: Family) -> Result<Expr<RangeTest>, String> {
        let Qualifiers {
            kind,
            dir,
            proto,
            transp,
            ..
        } = self.head;
        let kind = kind.unwrap_or(Kind::True);
        let sided = matches!(kind, Kind::Host | Kind::Net | Kind::EtherHost | Kind::Port);
        if dir.is_some() && !sided {
            return Err(
                "`src` and `dst` go with `host`, `net`, `ether host` and `port`".to_owned(),
            );
        }
        let expected = match kind {
            Kind::TcpFlag | Kind::TcpWindow => Some(proto::TCP),
            Kind::IcmpType => Some(family.icmp()),
            _ => None,
        };
        if let (Some(expected), Some(given)) = (expected, proto)
            && expected != given
        {
            return Err("the protocol has no such field".to_owned());
        }
        let protocol = match (expected.or(proto), kind) {
            (Some(number), _) => protocol_is(number, family),
            (None, Kind::Port) => {
                Expr::any([proto::TCP, proto::UDP].map(|p| protocol_is(p, family)))
            }
            _ => Expr::TRUE,
        };
        let in_transport = expected.is_some()
            || kind == Kind::Port
            || matches!(kind, Kind::Bytes(f) if f.base == Base::Transport);
        if transp && !in_transport {
            return Err("`transp` goes with `[POS:LEN]`".to_owned());
        }
        let fragment = match in_transport {
            true => first_fragment(family),
            false => Expr::TRUE,
        };
        Ok(Expr::all([protocol, fragment, self.own(kind, family)?]))
    }

    /// Test beside protocol and fragment.
    fn own(&self, kind: Kind, family: Family) -> Result<Expr<RangeTest>, String> {
        let (fragments, ecn) = (family.fragment(), family.ecn());
        Ok(match (kind, self.value) {
            (Kind::False, _) => Expr::FALSE,
            (Kind::Fragment, _) => fragments.compare(Op::Ne, 0, 0),
            (Kind::Unfragmented, _) => fragments.compare(Op::Eq, 0, 0),
            (Kind::Ect, _) => ecn.compare(Op::Ne, 0, 0),
            (Kind::Ce, _) => ecn.compare(Op::Eq, 3, 3),
            (Kind::TcpFlag, Some(Value::Number(flag, _))) => {
                let flags = Field::new(Base::Transport, 13, 1).masked(flag);
                flags.compare(Op::Ne, 0, 0)
            }
            (_, Some(Value::Net(address, mask))) => self.addresses(address, mask)?,
            (_, Some(Value::Net6(address, mask))) => self.addresses6(address, mask)?,
            (_, Some(Value::Ether(address))) => self.ether(address)?,
            (Kind::Port, Some(Value::Number(lo, hi))) => self.sides([0, 2], |offset| {
                self.number(Field::new(Base::Transport, offset, 2), lo, hi)
            }),
            (_, Some(Value::Number(lo, hi))) => match kind.field(family) {
                Some(field) => self.number(field, lo, hi),
                None => Expr::TRUE,
            },
            _ => Expr::TRUE,
        })
    }

    fn number(&self, field: Field, lo: u32, hi: u32) -> Expr<RangeTest> {
        match self.mask {
            Some(Value::Number(mask, _)) if field.mask & mask == 0 => {
                // The mask removes all bits of the field: its value is 0.
                let holds = match self.op {
                    Op::Eq | Op::Ge => lo == 0,
                    Op::Ne | Op::Lt => hi > 0,
                    Op::Le => true,
                    Op::Gt => false,
                };
                if holds { Expr::TRUE } else { Expr::FALSE }
            }
            Some(Value::Number(mask, _)) => field.masked(mask).compare(self.op, lo, hi),
            _ => field.compare(self.op, lo, hi),
        }
    }

    /// Combines a test of source and destination at the given offsets: one of them, either or both. `!=` negates `==`,
    /// so either and both change places.
    fn sides(&self, offsets: [u16; 2], of: impl Fn(u16) -> Expr<RangeTest>) -> Expr<RangeTest> {
        let [src, dst] = offsets;
        let denied = self.op == Op::Ne;
        match self.head.dir.unwrap_or(Dir::Either) {
            Dir::Src => of(src),
            Dir::Dst => of(dst),
            Dir::Either if denied => Expr::all([of(src), of(dst)]),
            Dir::Both if denied => Expr::any([of(src), of(dst)]),
            Dir::Either => Expr::any([of(src), of(dst)]),
            Dir::Both => Expr::all([of(src), of(dst)]),
        }
    }

    fn only_equal(&self) -> Result<(), String> {
        match self.op {
            Op::Eq | Op::Ne => Ok(()),
            _ => Err("addresses are compared with `==` and `!=` only".to_owned()),
        }
    }

    fn addresses(&self, address: Ipv4Addr, mask: Ipv4Addr) -> Result<Expr<RangeTest>, String> {
        self.only_equal()?;
        let mask = match self.mask {
            Some(Value::Net(given, _)) => given & mask,
            _ => mask,
        };
        Ok(self.sides(Family::V4.addresses(), |offset| {
            address_is(offset, self.op, address, mask)
        }))
    }

    fn addresses6(&self, address: Ipv6Addr, mask: Ipv6Addr) -> Result<Expr<RangeTest>, String> {
        self.only_equal()?;
        let mask = match self.mask {
            Some(Value::Net6(given, _)) => given & mask,
            _ => mask,
        };
        let (value, mask) = ((address & mask).octets(), mask.octets());
        Ok(self.sides(Family::V6.addresses(), |offset| {
            let same = bytes_are(Base::Start, offset, &value, &mask);
            match self.op {
                Op::Ne => same.negate(),
                _ => same,
            }
        }))
    }

    fn ether(&self, address: EtherAddr) -> Result<Expr<RangeTest>, String> {
        self.only_equal()?;
        if self.mask.is_some() {
            return Err("Ethernet addresses are compared as a whole".to_owned());
        }
        // `!=` also fails if there is no Ethernet header.
        let there = |offset| Field::new(Base::Mac, offset + 5, 1).compare(Op::Ge, 0, 0);
        Ok(self.sides([6, 0], |offset| {
            let same = bytes_are(Base::Mac, offset, &address.0, &[0xff; 6]);
            match self.op {
                Op::Ne => Expr::all([there(offset), same.negate()]),
                _ => same,
            }
        }))
    }
}
