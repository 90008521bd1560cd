//! Translation of the kernel's IPsec into the types of crate `esp`. Settings without an equivalent are refused with a
//! reason, or become stricter.

use esp::outer::{Df, Tunnel};
use esp::policy::{Action, Net, Range};
use esp::{Direction, Keys, Lifetime, Limits, Spec, Suite};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use wire::netlink::xfrm::{
    Algorithm, DIR_FWD, DIR_OUT, DONT_ENCAP_DSCP, ESN, NOECN, NOPMTUDISC, Policy, Sa, Selector,
    TRANSPORT, TUNNEL, Template,
};
use wire::{Prefix4, Prefix6, proto};

/// Encapsulation type `UDP_ENCAP_ESPINUDP`.
const ESP_IN_UDP: u16 = 2;
/// Minimum replay window in packets, because several workers' packets arrive out of order. A window of 0 (no replay
/// protection) is kept.
const WINDOW_MIN: u32 = 1024;
/// Maximum padding length in bytes, which fits every link.
const PAD_MAX: u32 = 1400;
/// First association number that is not one of the kernel's `reqid`s.
const FIRST_OTHER_NUMBER: u32 = 1 << 31;

/// Reason why an association is not used.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The association is still being negotiated.
    Larval,
    /// The association applies to marked packets or an XFRM interface only.
    Selective,
    /// Another reason; a message.
    Cannot(String),
}

type Ends = (u8, IpAddr, IpAddr);

/// Numbers by which policies find associations. The kernel instead compares `reqid`, mode and addresses.
#[derive(Debug, Default)]
pub struct Numbers {
    all: HashMap<(u32, Ends), u32>,
    /// Addresses for which the `reqid` itself is the number.
    first: HashMap<u32, Ends>,
    /// Count of allocated numbers that are not `reqid`s; `free` holds the unused ones.
    others: u32,
    free: Vec<u32>,
    /// Numbers used since the last [`free_unused`](Self::free_unused).
    used: HashSet<u32>,
}

impl Numbers {
    fn of(&mut self, reqid: u32, mode: u8, src: IpAddr, dst: IpAddr) -> u32 {
        let known = self.all.entry((reqid, (mode, src, dst)));
        let number = *known.or_insert_with(|| {
            let first = self.first.entry(reqid).or_insert((mode, src, dst));
            // Both directions of a tunnel share a number: the `reqid`, if it is free.
            let is_first = *first == (mode, src, dst) || *first == (mode, dst, src);
            match is_first && (1..FIRST_OTHER_NUMBER).contains(&reqid) {
                true => reqid,
                false => self.free.pop().unwrap_or_else(|| {
                    self.others += 1;
                    FIRST_OTHER_NUMBER + (self.others - 1)
                }),
            }
        });
        self.used.insert(number);
        number
    }

    /// Frees unused numbers, since peers come and go with changing addresses.
    pub(super) fn free_unused(&mut self, in_use: impl Iterator<Item = u32>) {
        let mut stay = std::mem::take(&mut self.used);
        stay.extend(in_use);
        let gone = self.all.extract_if(|_, number| !stay.contains(number));
        let gone = gone.map(|(_, number)| number);
        self.free
            .extend(gone.filter(|number| *number >= FIRST_OTHER_NUMBER));
        self.first.retain(|reqid, _| stay.contains(reqid));
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.all.len().max(self.first.len())
    }
}

/// Cipher suite of an association, and its keys.
fn suite(sa: &Sa<'_>) -> Result<(Suite, Keys), Refusal> {
    let says = |algorithm: Option<Algorithm<'_>>| {
        algorithm.map_or(String::new(), |a| {
            format!("{}/{}", String::from_utf8_lossy(a.name), a.bits)
        })
    };
    let (aead, cipher, code) = (says(sa.aead), says(sa.cipher), says(sa.code));
    let (enc, auth) = match sa.aead {
        Some(aead) => (aead.key, &[][..]),
        None => (
            sa.cipher.map_or(&[][..], |cipher| cipher.key),
            sa.code.map_or(&[][..], |code| code.key),
        ),
    };
    let bits = 8 * match sa.aead {
        Some(_) => enc.len().saturating_sub(4),
        None => enc.len(),
    };
    let second = match &*code {
        "hmac(sha1)/96" | "hmac(sha1)/0" => "sha1",
        "hmac(sha256)/128" => "sha256",
        "hmac(sha512)/256" => "sha512",
        _ => "",
    };
    let name = match (&*aead, &*cipher) {
        ("rfc4106(gcm(aes))/128", _) => format!("aes{bits}gcm16"),
        ("rfc4543(gcm(aes))/128", _) => format!("aes{bits}gmac"),
        ("rfc7539esp(chacha20,poly1305)/128", _) => "chacha20poly1305".to_owned(),
        ("", "cbc(aes)/0") => format!("aes{bits}-{second}"),
        ("", "ecb(cipher_null)/0" | "cipher_null/0") => format!("null-{second}"),
        _ => String::new(),
    };
    let suite = name.parse().map_err(|_| {
        Refusal::Cannot(format!(
            "the suite `{aead}{cipher} {code}` is not one of Ashlar's"
        ))
    })?;
    if [enc, auth]
        .iter()
        .any(|key| !key.is_empty() && key.iter().all(|byte| *byte == 0))
    {
        let why = "the kernel does not tell its key (it is locked down)";
        return Err(Refusal::Cannot(why.to_owned()));
    }
    let keys = Keys {
        enc: enc.to_vec().into(),
        auth: auth.to_vec().into(),
    };
    Ok((suite, keys))
}

/// Converts an association for one direction.
pub fn association(
    sa: &Sa<'_>,
    direction: Direction,
    numbers: &mut Numbers,
) -> Result<(Spec, Keys), Refusal> {
    if sa.aead.is_none() && sa.cipher.is_none() && sa.code.is_none() && !sa.compresses {
        return Err(Refusal::Larval);
    }
    if sa.is_selective {
        return Err(Refusal::Selective);
    }
    let cannot = |why: String| Err(Refusal::Cannot(why));
    if sa.id.protocol != proto::ESP {
        return cannot(format!("its protocol is {}, not ESP", sa.id.protocol));
    }
    let (suite, keys) = suite(sa)?;
    let tunnel = match sa.mode {
        TRANSPORT => None,
        TUNNEL => Some(Tunnel {
            src: sa.src,
            dst: sa.id.dst,
            df: match sa.flags & NOPMTUDISC {
                0 => Df::Copy,
                _ => Df::Clear,
            },
            dscp: (sa.extra & DONT_ENCAP_DSCP != 0).then_some(0),
            ecn: sa.flags & NOECN == 0,
            ttl: 64,
        }),
        mode => return cannot(format!("its mode is {mode}, neither transport nor tunnel")),
    };
    let udp = match sa.udp {
        None => None,
        Some((ESP_IN_UDP, src, dst)) => Some((src, dst)),
        Some((kind, ..)) => return cannot(format!("its encapsulation is {kind}, not ESP in UDP")),
    };
    // An unlimited number is the maximum there, and 0 here. The kernel enforces time limits itself.
    let limit = |n: u64| if n == u64::MAX { 0 } else { n };
    let limits = |place: usize| Limits {
        packets: limit(sa.lifetime.packets[place]),
        bytes: limit(sa.lifetime.bytes[place]),
        seconds: 0,
    };
    let esn = sa.flags & ESN != 0;
    let window = match sa.replay.window {
        0 if !esn => 0,
        n => n.clamp(WINDOW_MIN, esp::window::MAX),
    };
    let spec = Spec {
        direction,
        spi: sa.id.spi,
        reqid: numbers.of(sa.reqid, sa.mode, sa.src, sa.id.dst),
        suite,
        tunnel,
        udp,
        esn,
        window,
        pad: match tunnel {
            Some(_) => sa.pad.min(PAD_MAX) as u16,
            None => 0,
        },
        lifetime: Lifetime {
            soft: limits(0),
            hard: limits(1),
        },
    };
    Ok((spec, keys))
}

/// Converts a policy. The flag is true if the result is exact; otherwise it drops all packets that may match.
pub fn policy(policy: &Policy<'_>, numbers: &mut Numbers) -> Option<(esp::policy::Policy, bool)> {
    if policy.direction > DIR_FWD || policy.is_selective {
        return None;
    }
    let selector = &policy.selector;
    let (src_ports, dst_ports) = (ports(selector.src_port), ports(selector.dst_port));
    let mut exact = src_ports.is_some() && dst_ports.is_some() && selector.interface == 0;
    let protocol = (selector.protocol != 0).then_some(selector.protocol);
    let (mut src_ports, mut dst_ports) = (src_ports.flatten(), dst_ports.flatten());
    if (src_ports, dst_ports) != (None, None) && protocol.is_some_and(|p| !has_ports(p)) {
        // For ICMP, the ports of a selector are type and code, which policies here do not match.
        (src_ports, dst_ports, exact) = (None, None, false);
    }
    let action = action(policy, numbers);
    exact &= action.is_some();
    let made = esp::policy::Policy {
        direction: match policy.direction {
            DIR_OUT => Direction::Out,
            _ => Direction::In,
        },
        src: net(selector.src),
        dst: net(selector.dst),
        protocol,
        src_ports,
        dst_ports,
        action: action.filter(|_| exact).unwrap_or(Action::Discard),
    };
    Some((made, exact))
}

/// Action of a policy. `None` for unsupported ones: AH, nested protection, or transport mode between more than two
/// hosts.
fn action(policy: &Policy<'_>, numbers: &mut Numbers) -> Option<Action> {
    if policy.blocks {
        return Some(Action::Discard);
    }
    let Some(wanted) = required_template(policy) else {
        return policy
            .templates
            .bytes()
            .is_empty()
            .then_some(Action::Bypass);
    };
    let (src, dst) = match wanted.mode {
        TUNNEL => (wanted.src, wanted.dst),
        _ => hosts(&policy.selector)?,
    };
    let number = numbers.of(wanted.reqid, wanted.mode, src, dst);
    Some(Action::Protect(number))
}

/// Both hosts of a selector; `None` if it contains more. In transport mode, the kernel finds associations by the
/// packet's hosts. Here a policy with more hosts would use one association for all of them.
fn hosts(selector: &Selector) -> Option<(IpAddr, IpAddr)> {
    let host = |(address, len): (IpAddr, u8)| {
        let whole = if address.is_ipv4() { 32 } else { 128 };
        (len == whole).then_some(address)
    };
    host(selector.src).zip(host(selector.dst))
}

/// Association that a policy requires; `None` if its kind is not supported.
pub fn required_template(policy: &Policy<'_>) -> Option<Template> {
    let mut templates = policy.templates;
    let first = templates.next()?;
    let can = first.protocol == proto::ESP && [TRANSPORT, TUNNEL].contains(&first.mode);
    (can && templates.next().is_none()).then_some(first)
}

/// Default policies, for packets that match none of the kernel's policies.
pub fn default_policies(direction: Direction, action: Action) -> [esp::policy::Policy; 2] {
    [Net::V4(Prefix4::ALL), Net::V6(Prefix6::ALL)].map(|net| esp::policy::Policy {
        direction,
        src: net,
        dst: net,
        protocol: None,
        src_ports: None,
        dst_ports: None,
        action,
    })
}

fn net((address, len): (IpAddr, u8)) -> Net {
    match address {
        IpAddr::V4(address) => Net::V4(Prefix4::new(address, len.min(32))),
        IpAddr::V6(address) => Net::V6(Prefix6::new(address, len.min(128))),
    }
}

/// Range of ports under a mask; `None` if the ports are not contiguous, `Some(None)` for all ports.
fn ports((port, mask): (u16, u16)) -> Option<Option<Range>> {
    let open = !mask;
    match open.wrapping_add(1) & open {
        0 if mask == 0 => Some(None),
        0 => Some(Some((port & mask, port | open))),
        _ => None,
    }
}

fn has_ports(protocol: u8) -> bool {
    let those = [
        proto::TCP,
        proto::UDP,
        proto::SCTP,
        proto::UDP_LITE,
        proto::DCCP,
    ];
    those.contains(&protocol)
}

/// Text form of a selector, for messages.
pub fn selector_text(selector: &Selector) -> String {
    let ((src, from), (dst, to)) = (selector.src, selector.dst);
    format!("src {src}/{from} dst {dst}/{to}")
}
