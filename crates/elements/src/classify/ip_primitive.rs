//! What the primitives of IP patterns ask of a packet.

use super::expr::{Base, Expr, Field, Op, Within, address_is, bytes_are};
use super::ip_names;
use arguments::units::FromArg;
use arguments::{Kind as Name, Names};
use std::net::Ipv4Addr;
use wire::{EtherAddr, Prefix4, proto};

/// What a primitive looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
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
    Ect,
    Ce,
    Fragment,
    Unfragmented,
    Bytes(Field),
}

impl Kind {
    /// The kind that a word of the language names.
    pub(super) fn named(word: &str) -> Option<Kind> {
        Some(match word {
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

    /// Whether something is compared.
    pub(super) fn has_value(self) -> bool {
        use Kind::{Ce, Ect, False, Fragment, True, Unfragmented};
        !matches!(self, True | False | Ect | Ce | Fragment | Unfragmented)
    }

    /// The field that holds the number of such a primitive; of ports, the source.
    fn field(self) -> Option<Field> {
        use Base::{Start, Transport};
        Some(match self {
            Kind::Proto => Field::new(Start, 9, 1),
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

/// Which of two addresses or ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dir {
    Src,
    Dst,
    Either,
    Both,
}

/// The words before the value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: Option<Kind>,
    pub(super) dir: Option<Dir>,
    /// A protocol by name.
    pub(super) proto: Option<u8>,
    pub(super) ip: bool,
    pub(super) transp: bool,
}

impl Head {
    pub(super) fn is_empty(&self) -> bool {
        *self == Head::default()
    }

    pub(super) fn is_empty_but_kind(&self) -> bool {
        Head {
            kind: None,
            ..*self
        }
        .is_empty()
    }
}

/// What is compared with: one number or a range, or an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Number(u32, u32),
    /// Address and mask.
    Net(Ipv4Addr, Ipv4Addr),
    Ether(EtherAddr),
}

impl Value {
    pub(super) fn zero(head: &Head) -> Value {
        match head.kind {
            Some(Kind::Host | Kind::Net) => Value::Net(Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST),
            _ => Value::Number(0, 0),
        }
    }

    /// `10.0.0.0 mask 255.0.0.0`.
    pub(super) fn with_mask(self, mask: &str) -> Result<Value, String> {
        match (self, mask.parse()) {
            (Value::Net(address, _), Ok(mask)) => Ok(Value::Net(address, mask)),
            _ => Err(format!("`{mask}` is no netmask")),
        }
    }
}

/// What kind of primitive a word is alone: `www`, `syn`, `10.0.0.0/24`.
pub(super) fn guess(word: &str, head: &Head, names: &Names) -> Option<Kind> {
    let tcp = head.proto.is_none_or(|p| p == proto::TCP);
    let is = |kind| value(Some(kind), word, head, names).is_ok();
    if head.proto == Some(proto::ICMP) && is(Kind::IcmpType) {
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
    let addresses = [Kind::Host, Kind::Net, Kind::EtherHost];
    addresses.into_iter().find(|&kind| !numeric && is(kind))
}

/// Parses a word as the value of a primitive.
pub(super) fn value(
    kind: Option<Kind>,
    word: &str,
    head: &Head,
    names: &Names,
) -> Result<Value, String> {
    let wrong = |what: &str| Err(format!("`{word}` is no {what}"));
    match kind {
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
        Some(kind) => number(kind, word, head, names),
        None => wrong("value"),
    }
}

fn number(kind: Kind, word: &str, head: &Head, names: &Names) -> Result<Value, String> {
    let named = match kind {
        Kind::Port => port(word, head.proto, names).map(u32::from),
        Kind::Proto => ip_names::protocol(word).map(u32::from),
        Kind::IcmpType => ip_names::icmp_type(word).map(u32::from),
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
    let most = kind.field().map_or(u32::MAX, |f| f.mask);
    match (lo, hi) {
        (Some(lo), Some(hi)) if lo > hi => Err(format!("`{word}` is an empty range")),
        (Some(_), Some(hi)) if hi > most => {
            Err(format!("value {hi} out of range (at most {most})"))
        }
        (Some(lo), Some(hi)) => Ok(Value::Number(lo, hi)),
        _ => Err(format!("`{word}` is no {what}")),
    }
}

/// A port's number: PortInfo's names come before the well-known ones, and these before those of the machine.
pub(crate) fn port(word: &str, protocol: Option<u8>, names: &Names) -> Option<u16> {
    let kinds: &[Name] = match protocol {
        Some(proto::TCP) => &[Name::TcpPort],
        Some(proto::UDP) => &[Name::UdpPort],
        _ => &[Name::TcpPort, Name::UdpPort],
    };
    let own = |names: &Names| kinds.iter().find_map(|&k| names.get(word, k)?.parse().ok());
    own(names)
        .or_else(|| ip_names::port(word))
        .or_else(|| own(ip_names::services()))
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

/// A primitive, all its parts given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Primitive {
    pub(super) head: Head,
    pub(super) mask: Option<Value>,
    pub(super) op: Op,
    pub(super) value: Option<Value>,
}

fn protocol_is(number: u8) -> Expr<Within> {
    let number = number.into();
    Field::new(Base::Start, 9, 1).compare(Op::Eq, number, number)
}

/// Ports and the like are in the first fragment only.
fn first_fragment() -> Expr<Within> {
    let offset = Field::new(Base::Start, 6, 2).masked(0x1fff);
    offset.compare(Op::Eq, 0, 0)
}

impl Primitive {
    /// One without a value.
    pub(super) fn bare(head: Head) -> Primitive {
        Primitive {
            head,
            mask: None,
            op: Op::Eq,
            value: None,
        }
    }

    /// What it asks of the packet.
    pub(super) fn expr(&self) -> Result<Expr<Within>, String> {
        let Head {
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
            Kind::IcmpType => Some(proto::ICMP),
            _ => None,
        };
        if let (Some(expected), Some(given)) = (expected, proto)
            && expected != given
        {
            return Err("the protocol has no such field".to_owned());
        }
        let protocol = match (expected.or(proto), kind) {
            (Some(number), _) => protocol_is(number),
            (None, Kind::Port) => Expr::any([protocol_is(proto::TCP), protocol_is(proto::UDP)]),
            _ => Expr::TRUE,
        };
        let in_transport = expected.is_some()
            || kind == Kind::Port
            || matches!(kind, Kind::Bytes(f) if f.base == Base::Transport);
        if transp && !in_transport {
            return Err("`transp` goes with `[POS:LEN]`".to_owned());
        }
        let fragment = match in_transport {
            true => first_fragment(),
            false => Expr::TRUE,
        };
        Ok(Expr::all([protocol, fragment, self.own(kind)?]))
    }

    /// What it asks beside protocol and fragment.
    fn own(&self, kind: Kind) -> Result<Expr<Within>, String> {
        let fragments = Field::new(Base::Start, 6, 2).masked(0x3fff);
        let ecn = Field::bits(Base::Start, 1, 3, 0);
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
            (_, Some(Value::Ether(address))) => self.ether(address)?,
            (Kind::Port, Some(Value::Number(lo, hi))) => self.sides([0, 2], |offset| {
                self.number(Field::new(Base::Transport, offset, 2), lo, hi)
            }),
            (_, Some(Value::Number(lo, hi))) => match kind.field() {
                Some(field) => self.number(field, lo, hi),
                None => Expr::TRUE,
            },
            _ => Expr::TRUE,
        })
    }

    fn number(&self, field: Field, lo: u32, hi: u32) -> Expr<Within> {
        match self.mask {
            Some(Value::Number(mask, _)) if field.mask & mask == 0 => {
                // Nothing is left of the field: it is 0.
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

    /// The same of source, destination, either or both, of which the offsets are given. `!=` denies
    /// what `==` says, so either and both change places.
    fn sides(&self, offsets: [u16; 2], of: impl Fn(u16) -> Expr<Within>) -> Expr<Within> {
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

    fn addresses(&self, address: Ipv4Addr, mask: Ipv4Addr) -> Result<Expr<Within>, String> {
        self.only_equal()?;
        let mask = match self.mask {
            Some(Value::Net(given, _)) => given & mask,
            _ => mask,
        };
        Ok(self.sides([12, 16], |offset| {
            address_is(offset, self.op, address, mask)
        }))
    }

    fn ether(&self, address: EtherAddr) -> Result<Expr<Within>, String> {
        self.only_equal()?;
        if self.mask.is_some() {
            return Err("Ethernet addresses are compared as a whole".to_owned());
        }
        // `!=` fails as well where there is no Ethernet header.
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
