//! XFRM: notifications of Linux about IPsec's security associations and policies (`linux/xfrm.h`).
//!
//! Keys stay in the message: nothing here copies or shows them. These message types have the same numbers as those of
//! routes. So parse them by [`event`], not by [`Message::event`].

use super::attr::{Attribute, Attributes, ne16, ne32};
use super::{AF_INET, AF_INET6, BadHeader, Message};
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Type: an association exists.
pub const NEWSA: u16 = 0x10;
/// Type: an association was deleted.
pub const DELSA: u16 = 0x11;
/// Type: request for associations.
pub const GETSA: u16 = 0x12;
/// Type: a policy exists.
pub const NEWPOLICY: u16 = 0x13;
/// Type: a policy was deleted.
pub const DELPOLICY: u16 = 0x14;
/// Type: request for policies.
pub const GETPOLICY: u16 = 0x15;
/// Type: a packet needs an association that does not exist.
pub const ACQUIRE: u16 = 0x17;
/// Type: an association has reached a limit.
pub const EXPIRE: u16 = 0x18;
/// Type: a policy has changed.
pub const UPDPOLICY: u16 = 0x19;
/// Type: an association has changed.
pub const UPDSA: u16 = 0x1a;
/// Type: a policy has reached a limit.
pub const POLEXPIRE: u16 = 0x1b;
/// Type: all associations of a protocol were deleted.
pub const FLUSHSA: u16 = 0x1c;
/// Type: all policies were deleted.
pub const FLUSHPOLICY: u16 = 0x1d;
/// Type: counters of an association.
pub const NEWAE: u16 = 0x1e;
/// Type: addresses of associations and policies have changed.
pub const MIGRATE: u16 = 0x21;
/// Type: the default action for packets without a matching policy has changed.
pub const SETDEFAULT: u16 = 0x27;
/// Type: request for the default action.
pub const GETDEFAULT: u16 = 0x28;

pub(super) const XFRMA_ALG_AUTH: u16 = 1;
pub(super) const XFRMA_ALG_CRYPT: u16 = 2;
pub(super) const XFRMA_ALG_COMP: u16 = 3;
pub(super) const XFRMA_ENCAP: u16 = 4;
pub(super) const XFRMA_TMPL: u16 = 5;
pub(super) const XFRMA_LTIME_VAL: u16 = 9;
pub(super) const XFRMA_REPLAY_VAL: u16 = 10;
pub(super) const XFRMA_POLICY_TYPE: u16 = 16;
pub(super) const XFRMA_ALG_AEAD: u16 = 18;
pub(super) const XFRMA_ALG_AUTH_TRUNC: u16 = 20;
pub(super) const XFRMA_MARK: u16 = 21;
pub(super) const XFRMA_TFCPAD: u16 = 22;
pub(super) const XFRMA_REPLAY_ESN_VAL: u16 = 23;
pub(super) const XFRMA_SA_EXTRA_FLAGS: u16 = 24;
pub(super) const XFRMA_IF_ID: u16 = 31;
pub(super) const XFRMA_SA_DIR: u16 = 33;

/// Transport mode: ESP follows the packet's own IP header.
pub const TRANSPORT: u8 = 0;
/// Tunnel mode: ESP contains a whole packet.
pub const TUNNEL: u8 = 1;

/// Flag of an association: ECN is not copied to the outer header.
pub const NOECN: u8 = 1;
/// Flag of an association: the outer header never has "don't fragment".
pub const NOPMTUDISC: u8 = 4;
/// Flag of an association: sequence numbers of 64 bits.
pub const ESN: u8 = 128;
/// Extra flag of an association: DSCP is not copied to the outer header.
pub const DONT_ENCAP_DSCP: u32 = 1;

/// Direction of a policy: packets for this machine.
pub const DIR_IN: u8 = 0;
/// Direction of a policy: packets that leave this machine.
pub const DIR_OUT: u8 = 1;
/// Direction of a policy: packets that this machine forwards.
pub const DIR_FWD: u8 = 2;

/// Length of `struct xfrm_selector`.
pub const SELECTOR: usize = 56;
/// Lengths of `struct xfrm_usersa_info` and `xfrm_user_tmpl`.
pub(super) const SA: usize = 224;
/// Length of a policy (`struct xfrm_userpolicy_info`).
pub const POLICY: usize = 168;
const TEMPLATE: usize = 64;
/// Length of an algorithm's name.
const NAME: usize = 64;

fn be16<const N: usize>(bytes: &[u8; N], at: usize) -> u16 {
    u16::from_be(ne16(bytes, at))
}

fn ne64<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    let halves = [ne32(bytes, at), ne32(bytes, at + 4)];
    match cfg!(target_endian = "little") {
        true => u64::from(halves[1]) << 32 | u64::from(halves[0]),
        false => u64::from(halves[0]) << 32 | u64::from(halves[1]),
    }
}

/// Parses an address of `family`. Any other family than IPv4 is parsed as IPv6.
fn address<const N: usize>(family: u16, bytes: &[u8; N], at: usize) -> IpAddr {
    let mut all = [0; 16];
    all.copy_from_slice(&bytes[at..at + 16]);
    match family == u16::from(AF_INET) {
        true => Ipv4Addr::new(all[0], all[1], all[2], all[3]).into(),
        false => Ipv6Addr::from(all).into(),
    }
}

fn known_family(family: u16) -> Result<u16, BadHeader> {
    let known = [AF_INET, AF_INET6].map(u16::from).contains(&family);
    known.then_some(family).ok_or(BadHeader::BadField)
}

/// Filter that selects packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Source, and the length of its prefix.
    pub src: (IpAddr, u8),
    /// Destination, and the length of its prefix.
    pub dst: (IpAddr, u8),
    /// Source port and its mask.
    pub src_port: (u16, u16),
    /// Destination port.
    pub dst_port: (u16, u16),
    /// Protocol; 0 = any.
    pub protocol: u8,
    /// Interface; 0 = any.
    pub interface: u32,
    /// `AF_INET`, `AF_INET6`, or 0.
    pub family: u16,
}

impl Selector {
    fn read<const N: usize>(bytes: &[u8; N], at: usize) -> Selector {
        let family = ne16(bytes, at + 40);
        Selector {
            dst: (address(family, bytes, at), bytes[at + 42]),
            src: (address(family, bytes, at + 16), bytes[at + 43]),
            dst_port: (be16(bytes, at + 32), be16(bytes, at + 34)),
            src_port: (be16(bytes, at + 36), be16(bytes, at + 38)),
            protocol: bytes[at + 44],
            interface: ne32(bytes, at + 48),
            family,
        }
    }
}

/// Identity of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    /// Destination address of the association.
    pub dst: IpAddr,
    /// SPI of the association.
    pub spi: u32,
    /// ESP, AH or IPComp.
    pub protocol: u8,
}

/// Limits of an association; `u64::MAX` = none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// Bytes, soft and hard.
    pub bytes: [u64; 2],
    /// Packets, soft and hard.
    pub packets: [u64; 2],
}

/// Traffic that an association has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Current {
    /// Number of bytes.
    pub bytes: u64,
    /// Number of packets.
    pub packets: u64,
    /// Time of creation, in seconds since the Unix epoch.
    pub added: u64,
    /// Time of first use, in seconds since the Unix epoch; 0 = never.
    pub used: u64,
}

/// Sequence numbers of an association, and how the kernel keeps them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// Last sequence number that was sent.
    pub sent: u64,
    /// Greatest sequence number that was received.
    pub seen: u64,
    /// Size of the window.
    pub window: u32,
    /// Words of the long form's bit map; none: the short form.
    pub words: Option<u32>,
}

/// An algorithm's name and key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Algorithm<'a> {
    /// The kernel's name, without zeros.
    pub name: &'a [u8],
    /// The key.
    pub key: &'a [u8],
    /// Number of bits of the check value; 0 if the message does not give it.
    pub bits: u32,
}

impl fmt::Debug for Algorithm<'_> {
    /// Prints nothing of the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Algorithm")
    }
}

impl<'a> Algorithm<'a> {
    /// Parses an algorithm. If `bits` is true, a further length in bits stands after the key's length.
    fn read(value: &'a [u8], bits: bool) -> Result<Algorithm<'a>, BadHeader> {
        let (name, rest) = value
            .split_first_chunk::<NAME>()
            .ok_or(BadHeader::BadOption)?;
        let (len, mut rest) = rest.split_first_chunk::<4>().ok_or(BadHeader::BadOption)?;
        let mut check = 0;
        if bits {
            let (said, key) = rest.split_first_chunk().ok_or(BadHeader::BadOption)?;
            (check, rest) = (u32::from_ne_bytes(*said), key);
        }
        let len = u32::from_ne_bytes(*len).div_ceil(8) as usize;
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(NAME);
        Ok(Algorithm {
            name: name.get(..end).unwrap_or(name),
            key: rest.get(..len).ok_or(BadHeader::BadOption)?,
            bits: check,
        })
    }
}

/// An association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sa<'a> {
    /// `struct xfrm_selector`: packets that the association is for.
    pub selector: &'a [u8; SELECTOR],
    /// Identity of the association.
    pub id: Id,
    /// Source address of the association.
    pub src: IpAddr,
    /// Identifier by which policies refer to the association; 0 = none.
    pub reqid: u32,
    /// `TRANSPORT`, `TUNNEL` or another.
    pub mode: u8,
    /// `NOECN` and others.
    pub flags: u8,
    /// `DONT_ENCAP_DSCP` and others.
    pub extra: u32,
    /// Limits.
    pub lifetime: Lifetime,
    /// Traffic that the association has carried.
    pub current: Current,
    /// Sequence numbers.
    pub replay: Replay,
    /// Cipher that also authenticates.
    pub aead: Option<Algorithm<'a>>,
    /// Cipher that only encrypts.
    pub cipher: Option<Algorithm<'a>>,
    /// Authentication code beside such a cipher.
    pub code: Option<Algorithm<'a>>,
    /// True if packets are compressed.
    pub compresses: bool,
    /// Encapsulation in UDP: its type, source port and destination port.
    pub udp: Option<(u16, u16, u16)>,
    /// Alignment of payloads, in bytes.
    pub pad: u32,
    /// True if the association is for packets with a mark, or of an XFRM interface.
    pub is_selective: bool,
    /// Direction, if the kernel reports it: true for outbound packets.
    pub is_out: Option<bool>,
}

impl<'a> Sa<'a> {
    /// Decodes a body that begins with `struct xfrm_usersa_info`.
    fn parse(body: &'a [u8]) -> Result<Sa<'a>, BadHeader> {
        let (head, rest) = body.split_first_chunk::<SA>().ok_or(BadHeader::TooShort)?;
        let family = known_family(ne16(head, 212))?;
        let mut sa = Sa {
            selector: head.first_chunk().ok_or(BadHeader::TooShort)?,
            id: Id {
                dst: address(family, head, SELECTOR),
                spi: u32::from_be(ne32(head, 72)),
                protocol: head[76],
            },
            src: address(family, head, 80),
            reqid: ne32(head, 208),
            mode: head[214],
            flags: head[216],
            extra: 0,
            lifetime: Lifetime {
                bytes: [ne64(head, 96), ne64(head, 104)],
                packets: [ne64(head, 112), ne64(head, 120)],
            },
            current: current(head, 160),
            replay: Replay {
                window: u32::from(head[215]),
                ..Replay::default()
            },
            aead: None,
            cipher: None,
            code: None,
            compresses: false,
            udp: None,
            pad: 0,
            is_selective: false,
            is_out: None,
        };
        for attribute in Attributes::new(rest) {
            sa.attribute(&attribute?)?;
        }
        Ok(sa)
    }

    fn attribute(&mut self, attribute: &Attribute<'a>) -> Result<(), BadHeader> {
        let value = attribute.value;
        match attribute.kind {
            XFRMA_ALG_AEAD => self.aead = Some(Algorithm::read(value, true)?),
            XFRMA_ALG_CRYPT => self.cipher = Some(Algorithm::read(value, false)?),
            XFRMA_ALG_AUTH_TRUNC => self.code = Some(Algorithm::read(value, true)?),
            // XFRMA_ALG_AUTH_TRUNC also has the truncated length.
            XFRMA_ALG_AUTH if self.code.is_none() => {
                self.code = Some(Algorithm::read(value, false)?);
            }
            XFRMA_ALG_COMP => self.compresses = true,
            XFRMA_ENCAP => {
                let head = value.first_chunk::<6>().ok_or(BadHeader::BadOption)?;
                self.udp = Some((ne16(head, 0), be16(head, 2), be16(head, 4)));
            }
            XFRMA_TFCPAD => self.pad = attribute.u32()?,
            XFRMA_SA_EXTRA_FLAGS => self.extra = attribute.u32()?,
            XFRMA_IF_ID => self.is_selective |= attribute.u32()? != 0,
            XFRMA_MARK => self.is_selective |= mask(value)? != 0,
            XFRMA_SA_DIR => self.is_out = Some(attribute.u8()? == 2),
            XFRMA_REPLAY_VAL => {
                let head = value.first_chunk::<12>().ok_or(BadHeader::BadOption)?;
                self.replay.sent = ne32(head, 0).into();
                self.replay.seen = ne32(head, 4).into();
            }
            XFRMA_REPLAY_ESN_VAL => {
                let head = value.first_chunk::<24>().ok_or(BadHeader::BadOption)?;
                let number =
                    |low, high| u64::from(ne32(head, high)) << 32 | u64::from(ne32(head, low));
                self.replay = Replay {
                    sent: number(4, 12),
                    seen: number(8, 16),
                    window: ne32(head, 20),
                    words: Some(ne32(head, 0)),
                };
            }
            _ => {}
        }
        Ok(())
    }
}

fn current<const N: usize>(bytes: &[u8; N], at: usize) -> Current {
    Current {
        bytes: ne64(bytes, at),
        packets: ne64(bytes, at + 8),
        added: ne64(bytes, at + 16),
        used: ne64(bytes, at + 24),
    }
}

/// Mask of the bits of a mark that are compared.
fn mask(mark: &[u8]) -> Result<u32, BadHeader> {
    let mark = mark.first_chunk::<8>().ok_or(BadHeader::BadOption)?;
    Ok(ne32(mark, 4))
}

/// A policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy<'a> {
    /// Filter that selects the policy's packets.
    pub selector: Selector,
    /// Priority; the policy with the lowest comes first.
    pub priority: u32,
    /// Index of the policy.
    pub index: u32,
    /// `DIR_IN`, `DIR_OUT` or `DIR_FWD`; higher numbers are policies of a socket.
    pub direction: u8,
    /// True if packets are dropped.
    pub blocks: bool,
    /// Associations that packets need.
    pub templates: Templates<'a>,
    /// True if the policy is for packets with a mark, or of an XFRM interface, or is not of the main type.
    pub is_selective: bool,
    /// Raw `struct xfrm_userpolicy_info`, to be repeated in messages.
    pub raw: &'a [u8; POLICY],
}

impl<'a> Policy<'a> {
    fn parse(body: &'a [u8]) -> Result<Policy<'a>, BadHeader> {
        let (head, rest) = body
            .split_first_chunk::<POLICY>()
            .ok_or(BadHeader::TooShort)?;
        let mut policy = Policy {
            selector: Selector::read(head, 0),
            priority: ne32(head, 152),
            index: ne32(head, 156),
            direction: head[160],
            blocks: head[161] != 0,
            templates: Templates(&[]),
            is_selective: false,
            raw: head,
        };
        known_family(policy.selector.family)?;
        for attribute in Attributes::new(rest) {
            let attribute = attribute?;
            match attribute.kind {
                XFRMA_TMPL => {
                    if !attribute.value.len().is_multiple_of(TEMPLATE) {
                        return Err(BadHeader::BadOption);
                    }
                    policy.templates = Templates(attribute.value);
                }
                XFRMA_POLICY_TYPE => {
                    policy.is_selective |= attribute.value.first().is_some_and(|kind| *kind != 0);
                }
                XFRMA_IF_ID => policy.is_selective |= attribute.u32()? != 0,
                XFRMA_MARK => policy.is_selective |= mask(attribute.value)? != 0,
                _ => {}
            }
        }
        Ok(policy)
    }
}

/// The templates of a policy, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Templates<'a>(&'a [u8]);

impl<'a> Templates<'a> {
    /// The templates as encoded in the message (`struct xfrm_user_tmpl`).
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }
}

impl Iterator for Templates<'_> {
    type Item = Template;

    fn next(&mut self) -> Option<Template> {
        let (head, rest) = self.0.split_first_chunk::<TEMPLATE>()?;
        self.0 = rest;
        let family = ne16(head, 24);
        Some(Template {
            src: address(family, head, 28),
            dst: address(family, head, 0),
            protocol: head[20],
            reqid: ne32(head, 44),
            mode: head[48],
            is_optional: head[50] != 0,
        })
    }
}

/// An association that a policy asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Template {
    /// Source address of the association.
    pub src: IpAddr,
    /// Destination address of the association.
    pub dst: IpAddr,
    /// ESP, AH or IPComp.
    pub protocol: u8,
    /// Identifier of the association; 0 = any.
    pub reqid: u32,
    /// `TRANSPORT`, `TUNNEL` or another.
    pub mode: u8,
    /// True if packets may do without.
    pub is_optional: bool,
}

/// Meaning of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one at a time, while its message is read"
)]
pub enum Event<'a> {
    /// An association exists, or has changed.
    Sa(Sa<'a>),
    /// An association was deleted.
    SaGone(Id),
    /// All associations of this protocol were deleted; 0 means all protocols.
    SasGone(u8),
    /// A policy exists.
    Policy(Policy<'a>),
    /// Policies have changed: all must be requested again.
    Policies,
    /// Default for packets in, forwarded and out that match no policy: true if they are dropped.
    Default([bool; 3]),
    /// Associations have changed: all must be requested again.
    Everything,
    /// Something else.
    Other,
}

/// Decodes a message of the kernel: an answer if `is_dump`, otherwise an announcement to all.
pub fn event<'a>(message: &Message<'a>, is_dump: bool) -> Result<Event<'a>, BadHeader> {
    let body = message.body;
    Ok(match message.kind {
        NEWSA | UPDSA => Event::Sa(Sa::parse(body)?),
        DELSA => {
            let head = body.first_chunk::<24>().ok_or(BadHeader::TooShort)?;
            let family = known_family(ne16(head, 20))?;
            Event::SaGone(Id {
                dst: address(family, head, 0),
                spi: u32::from_be(ne32(head, 16)),
                protocol: head[22],
            })
        }
        EXPIRE => {
            let sa = Sa::parse(body.get(..SA).ok_or(BadHeader::TooShort)?)?;
            match body.get(SA).ok_or(BadHeader::TooShort)? {
                0 => Event::Other,
                // An expired association is deleted without a further message.
                _ => Event::SaGone(sa.id),
            }
        }
        FLUSHSA => Event::SasGone(*body.first().ok_or(BadHeader::TooShort)?),
        NEWPOLICY if is_dump => Event::Policy(Policy::parse(body)?),
        NEWPOLICY | UPDPOLICY | DELPOLICY | FLUSHPOLICY | POLEXPIRE | SETDEFAULT => Event::Policies,
        GETDEFAULT => {
            let [inward, forward, out] = *body.first_chunk::<3>().ok_or(BadHeader::TooShort)?;
            Event::Default([inward, forward, out].map(|what| what == 1))
        }
        MIGRATE => Event::Everything,
        _ => Event::Other,
    })
}
