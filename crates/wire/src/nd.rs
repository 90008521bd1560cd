//! Neighbour discovery (RFC 4861, 4): solicitations and advertisements of routers and neighbours.
//!
//! A view covers the whole ICMPv6 message. `new_checked` proves the RFC's conditions on the message alone: length,
//! code, target, and options that are not empty and lie within the message. [`Nd::check_received`] checks the
//! conditions that depend on the IPv6 header.

use core::net::Ipv6Addr;

use crate::bytes::{array, be32, put};
use crate::{BadHeader, EtherAddr, addr, icmp6};

/// Type: router solicitation.
pub const ROUTER_SOLICIT: u8 = 133;
/// Type: router advertisement.
pub const ROUTER_ADVERT: u8 = 134;
/// Type: neighbour solicitation.
pub const NEIGHBOR_SOLICIT: u8 = 135;
/// Type: neighbour advertisement.
pub const NEIGHBOR_ADVERT: u8 = 136;

/// Option: Ethernet address of the sender.
pub const OPT_SOURCE: u8 = 1;
/// Option: Ethernet address of the target.
pub const OPT_TARGET: u8 = 2;
/// Option: prefix information.
pub const OPT_PREFIX: u8 = 3;
/// Option: MTU.
pub const OPT_MTU: u8 = 5;

/// Flag of a neighbour advertisement: the sender is a router.
pub const ROUTER: u8 = 0x80;
/// Flag of a neighbour advertisement: it answers a solicitation.
pub const SOLICITED: u8 = 0x40;
/// Flag of a neighbour advertisement: it replaces a known address.
pub const OVERRIDE: u8 = 0x20;

/// Length of a neighbour solicitation or advertisement with one Ethernet address option.
pub const NEIGHBOR_LEN: usize = 32;

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opt {
    /// Ethernet address of the sender.
    Source(EtherAddr),
    /// Ethernet address of the target.
    Target(EtherAddr),
    /// MTU of the link.
    Mtu(u32),
    /// Prefix information.
    Prefix(PrefixInfo),
    /// Any other type, and known types with an unknown length; to be ignored.
    Other(u8),
}

/// A prefix information option (RFC 4861, 4.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixInfo {
    /// The prefix.
    pub prefix: crate::Prefix6,
    /// On-link flag: true if the prefix's addresses can be reached on the link directly.
    pub on_link: bool,
    /// Autonomous flag: true if hosts may form addresses from the prefix.
    pub autonomous: bool,
    /// Valid lifetime in seconds; all ones mean forever.
    pub valid_secs: u32,
    /// Preferred lifetime in seconds; all ones mean forever.
    pub preferred_secs: u32,
}

/// A neighbour discovery message.
#[derive(Clone, Copy, Debug)]
pub struct Nd<B>(B);

/// Offset of the options in a message of type `kind`.
#[inline]
const fn options_at(kind: u8) -> Option<usize> {
    match kind {
        ROUTER_SOLICIT => Some(8),
        ROUTER_ADVERT => Some(16),
        NEIGHBOR_SOLICIT | NEIGHBOR_ADVERT => Some(24),
        _ => None,
    }
}

fields! { Nd:
    /// Type of the message.
    kind: u8 at 0;
    /// Flags of a neighbour advertisement: [`ROUTER`], [`SOLICITED`], [`OVERRIDE`].
    flags: u8 at 4;
    /// Router advertisement: hop limit for hosts, 0 if unspecified.
    hop_limit: u8 at 4;
    /// Router advertisement: seconds for which the sender is a default router.
    router_lifetime_secs: u16 at 6;
}

impl<B: AsRef<[u8]>> Nd<B> {
    /// Checks that this is a whole message with valid options; other types are `BadField`.
    pub fn new_checked(bytes: B) -> Result<Self, BadHeader> {
        let b = bytes.as_ref();
        if b.len() < icmp6::LEN {
            return Err(BadHeader::TooShort);
        }
        let at = options_at(b[0]).ok_or(BadHeader::BadField)?;
        if b[1] != 0 {
            return Err(BadHeader::BadField);
        }
        let mut options = b.get(at..).ok_or(BadHeader::TooShort)?;
        while !options.is_empty() {
            let len = options.get(1).map_or(0, |&units| usize::from(units) * 8);
            options = match len {
                0 => return Err(BadHeader::BadOption),
                _ => options.get(len..).ok_or(BadHeader::BadOption)?,
            };
        }
        let nd = Nd(bytes);
        match nd.target() {
            Some(target) if addr::is_multicast6(target) => Err(BadHeader::BadField),
            _ => Ok(nd),
        }
    }

    /// The target address of a solicitation or advertisement; `None` in router messages.
    #[inline]
    pub fn target(&self) -> Option<Ipv6Addr> {
        match self.kind() {
            NEIGHBOR_SOLICIT | NEIGHBOR_ADVERT => Some(Ipv6Addr::from(array(self.0.as_ref(), 8))),
            _ => None,
        }
    }

    /// The options, in order.
    pub fn options(&self) -> impl Iterator<Item = Opt> + '_ {
        let bytes = self.0.as_ref();
        let mut rest = options_at(self.kind())
            .and_then(|at| bytes.get(at..))
            .unwrap_or(&[]);
        core::iter::from_fn(move || {
            let len = usize::from(*rest.get(1)?) * 8;
            let (one, behind) = rest.split_at_checked(len)?;
            rest = behind;
            option(one)
        })
    }

    /// Ethernet address of the sender, if the message has the option.
    pub fn source_ether(&self) -> Option<EtherAddr> {
        self.options().find_map(|o| match o {
            Opt::Source(ether) => Some(ether),
            _ => None,
        })
    }

    /// Ethernet address of the target, if the message has the option.
    pub fn target_ether(&self) -> Option<EtherAddr> {
        self.options().find_map(|o| match o {
            Opt::Target(ether) => Some(ether),
            _ => None,
        })
    }

    /// Checks the conditions on a received message that involve its IPv6 header (RFC 4861, 6.1 and 7.1).
    ///
    /// The caller must verify the ICMPv6 checksum.
    pub fn check_received(
        &self,
        src: Ipv6Addr,
        dst: Ipv6Addr,
        hop_limit: u8,
    ) -> Result<(), BadHeader> {
        let unspecified = src.is_unspecified();
        let good = hop_limit == 255
            && match self.kind() {
                NEIGHBOR_SOLICIT if unspecified => {
                    // Duplicate address detection: sent to the solicited-node address, without the sender's address.
                    self.target()
                        .is_some_and(|t| dst == addr::solicited_node(t))
                        && self.source_ether().is_none()
                }
                NEIGHBOR_ADVERT => !(addr::is_multicast6(dst) && self.flags() & SOLICITED != 0),
                ROUTER_SOLICIT => !(unspecified && self.source_ether().is_some()),
                ROUTER_ADVERT => addr::is_link_local6(src),
                _ => true,
            };
        match good {
            true => Ok(()),
            false => Err(BadHeader::BadField),
        }
    }
}

/// Parses one option, whose length byte is valid; `None` if it has no length byte.
fn option(bytes: &[u8]) -> Option<Opt> {
    Some(match (*bytes.first()?, bytes.len()) {
        (OPT_SOURCE, 8) => Opt::Source(EtherAddr(array(bytes, 2))),
        (OPT_TARGET, 8) => Opt::Target(EtherAddr(array(bytes, 2))),
        (OPT_MTU, 8) => Opt::Mtu(be32(bytes, 4)),
        (OPT_PREFIX, 32) => Opt::Prefix(PrefixInfo {
            prefix: crate::Prefix6::new(Ipv6Addr::from(array(bytes, 16)), bytes[2]),
            on_link: bytes[3] & 0x80 != 0,
            autonomous: bytes[3] & 0x40 != 0,
            valid_secs: be32(bytes, 4),
            preferred_secs: be32(bytes, 8),
        }),
        (kind, _) => Opt::Other(kind),
    })
}

/// A neighbour solicitation for `target` with the sender's Ethernet address; the checksum is zero.
#[inline]
pub fn solicit(target: Ipv6Addr, sender: EtherAddr) -> [u8; NEIGHBOR_LEN] {
    neighbor(NEIGHBOR_SOLICIT, 0, target, OPT_SOURCE, sender)
}

/// A neighbour advertisement that `target` has the Ethernet address `ether`; the checksum is zero.
#[inline]
pub fn advert(flags: u8, target: Ipv6Addr, ether: EtherAddr) -> [u8; NEIGHBOR_LEN] {
    neighbor(NEIGHBOR_ADVERT, flags, target, OPT_TARGET, ether)
}

#[inline]
fn neighbor(
    kind: u8,
    flags: u8,
    target: Ipv6Addr,
    option: u8,
    ether: EtherAddr,
) -> [u8; NEIGHBOR_LEN] {
    let mut bytes = [0; NEIGHBOR_LEN];
    (bytes[0], bytes[4]) = (kind, flags);
    put(&mut bytes, 8, target.octets());
    put(&mut bytes, 24, [option, 1]);
    put(&mut bytes, 26, ether.0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hammer;
    use std::vec::Vec;

    const MAC: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 1]);
    const SOLICIT_BYTES: [u8; 32] = [
        135, 0, 0, 0, 0, 0, 0, 0, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 1, 1, 2, 0,
        0, 0, 0, 1,
    ];

    fn a(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }

    /// A router advertisement with all supported options.
    fn router_advert() -> Vec<u8> {
        let mut b = std::vec![134, 0, 0, 0, 64, 0, 0x07, 0x08, 0, 0, 0, 0, 0, 0, 0, 0];
        b.extend([1, 1, 2, 0, 0, 0, 0, 1]);
        b.extend([5, 1, 0, 0, 0, 0, 5, 0xdc]);
        b.extend([
            3, 4, 64, 0xc0, 0, 1, 0x51, 0x80, 0, 0, 0x38, 0x40, 0, 0, 0, 0,
        ]);
        b.extend(a("2001:db8::").octets());
        b.extend([25, 1, 0, 0, 0, 0, 0, 0]);
        b
    }

    #[test]
    fn deconstructs() {
        let nd = Nd::new_checked(&SOLICIT_BYTES).unwrap();
        assert_eq!(
            (nd.kind(), nd.target()),
            (NEIGHBOR_SOLICIT, Some(a("fe80::9")))
        );
        assert_eq!((nd.source_ether(), nd.target_ether()), (Some(MAC), None));

        let bytes = router_advert();
        let nd = Nd::new_checked(&bytes).unwrap();
        assert_eq!(
            (nd.hop_limit(), nd.router_lifetime_secs(), nd.target()),
            (64, 1800, None)
        );
        let prefix = PrefixInfo {
            prefix: "2001:db8::/64".parse().unwrap(),
            on_link: true,
            autonomous: true,
            valid_secs: 86400,
            preferred_secs: 14400,
        };
        assert_eq!(
            nd.options().collect::<Vec<_>>(),
            [
                Opt::Source(MAC),
                Opt::Mtu(1500),
                Opt::Prefix(prefix),
                Opt::Other(25)
            ]
        );
    }

    #[test]
    fn constructs() {
        assert_eq!(solicit(a("fe80::9"), MAC), SOLICIT_BYTES);
        let bytes = advert(ROUTER | SOLICITED, a("fe80::9"), MAC);
        let nd = Nd::new_checked(&bytes).unwrap();
        assert_eq!((nd.kind(), nd.flags()), (NEIGHBOR_ADVERT, 0xc0));
        assert_eq!(
            (nd.target(), nd.target_ether()),
            (Some(a("fe80::9")), Some(MAC))
        );
    }

    #[test]
    fn each_fault_has_its_reason() {
        let fault = |edit: &dyn Fn(&mut Vec<u8>)| {
            let mut b = SOLICIT_BYTES.to_vec();
            edit(&mut b);
            Nd::new_checked(&b).err().map(BadHeader::name)
        };
        assert_eq!(fault(&|_| ()), None);
        assert_eq!(fault(&|b| b.truncate(24)), None);
        assert_eq!(fault(&|b| b.truncate(23)), Some("too_short"));
        assert_eq!(fault(&|b| b.truncate(7)), Some("too_short"));
        assert_eq!(fault(&|b| b[0] = 137), Some("bad_field"));
        assert_eq!(fault(&|b| b[1] = 1), Some("bad_field"));
        assert_eq!(fault(&|b| b[8] = 0xff), Some("bad_field"));
        assert_eq!(fault(&|b| b[25] = 0), Some("bad_option"));
        assert_eq!(fault(&|b| b[25] = 2), Some("bad_option"));
        assert_eq!(fault(&|b| b.push(1)), Some("bad_option"));
    }

    #[test]
    fn a_receiver_refuses_messages_as_rfc_4861_requires() {
        let (me, peer) = (a("fe80::9"), a("fe80::1"));
        let group = addr::solicited_node(me);
        let bytes = SOLICIT_BYTES;
        let ask = Nd::new_checked(&bytes).unwrap();
        assert!(ask.check_received(peer, group, 255).is_ok());
        assert!(ask.check_received(peer, me, 255).is_ok());
        assert!(ask.check_received(peer, group, 254).is_err());
        assert!(
            ask.check_received(a("::"), group, 255).is_err(),
            "tells a sender it has not"
        );
        let dad = Nd::new_checked(&bytes[..24]).unwrap();
        assert!(dad.check_received(a("::"), group, 255).is_ok());
        assert!(dad.check_received(a("::"), me, 255).is_err());

        let bytes = advert(SOLICITED, me, MAC);
        let tell = Nd::new_checked(&bytes).unwrap();
        assert!(tell.check_received(peer, me, 255).is_ok());
        assert!(tell.check_received(peer, addr::ALL_NODES, 255).is_err());

        let bytes = router_advert();
        let router = Nd::new_checked(&bytes).unwrap();
        assert!(router.check_received(peer, addr::ALL_NODES, 255).is_ok());
        assert!(
            router
                .check_received(a("2001:db8::1"), addr::ALL_NODES, 255)
                .is_err()
        );

        let bytes = [133, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 0, 0, 0, 0, 1];
        let seek = Nd::new_checked(&bytes).unwrap();
        assert!(seek.check_received(peer, addr::ALL_ROUTERS, 255).is_ok());
        assert!(
            seek.check_received(a("::"), addr::ALL_ROUTERS, 255)
                .is_err()
        );
    }

    #[test]
    fn no_bytes_make_it_panic() {
        for sample in [SOLICIT_BYTES.to_vec(), router_advert()] {
            hammer(&sample, |bytes| {
                if let Ok(nd) = Nd::new_checked(bytes) {
                    assert!(nd.options().count() * 8 <= bytes.len());
                    let _ = (nd.flags(), nd.hop_limit(), nd.router_lifetime_secs());
                    let _ = nd.check_received(a("::"), a("ff02::1"), 255);
                }
            });
        }
    }
}
