//! Bytes of an IPv6 packet for patterns: its header, the transport header at any offset, and the end of the chain of
//! extension headers.
//!
//! The last is four bytes that are not in the packet ([`Base::CHAIN`]): the transport protocol, then flags. The chain
//! is followed for as many headers as [`ext::walk`] follows.

use super::compiled::Headers;
use super::expr::{Base, Expr, Field, Op, RangeTest, View};
use packet::Packet;
use wire::{ext, proto};

/// A fragment, and one other than the first.
pub(crate) const FRAGMENT: u8 = 1;
pub(crate) const LATER: u8 = 2;
/// Flag: the packet's content cannot be determined.
const UNREADABLE: u8 = 4;

/// The bytes beside packets, by flags and protocol.
static CHAINS: [[u8; 4]; 8 * 256] = {
    let mut all = [[0; 4]; 8 * 256];
    let mut n = 0;
    while n < all.len() {
        all[n] = [n as u8, (n >> 8) as u8, 0, 0];
        n += 1;
    }
    all
};

/// Matches packets whose content cannot be determined.
pub(crate) fn unreadable() -> Expr<RangeTest> {
    let flag = Field::new(Base::CHAIN, 1, 1).masked(UNREADABLE.into());
    flag.compare(Op::Ne, 0, 0)
}

/// A packet whose network header is of IPv6.
#[derive(Clone, Copy)]
pub struct Ip6<'a>(pub(crate) &'a Packet);

impl<'a> Headers<'a> for Ip6<'a> {
    const FIXED_TRANSPORT: bool = false;

    #[inline]
    fn start(self) -> &'a [u8] {
        self.0.network()
    }

    fn header_words(_: &[[u8; 4]]) -> usize {
        0
    }

    #[inline]
    fn view(self) -> View<'a> {
        view(self.start())
    }
}

/// Bytes of a packet for patterns.
#[inline]
pub(crate) fn view(packet: &[u8]) -> View<'_> {
    let seen = |protocol: u8, flags: u8, transport| {
        let chain = &CHAINS[usize::from(flags & 7) << 8 | usize::from(protocol)];
        View([packet, transport, chain])
    };
    let unreadable = seen(0, UNREADABLE, &[]);
    let Ok(walk) = ext::walk(packet) else {
        return unreadable;
    };
    let rest = packet.get(walk.offset..).unwrap_or(&[]);
    let transport = match walk.protocol {
        proto::NO_NEXT => &[],
        _ => rest,
    };
    match walk.fragment {
        None => seen(walk.protocol, 0, transport),
        // In a later fragment, data follows.
        Some(fragment) if fragment.offset > 0 => match packet.get(fragment.at) {
            Some(&proto::FRAGMENT) => unreadable,
            _ => seen(walk.protocol, FRAGMENT | LATER, &[]),
        },
        Some(fragment) if fragmented_again(packet, fragment.at) => unreadable,
        Some(fragment) if fragment.is_atomic() => seen(walk.protocol, 0, transport),
        // The first fragment has all headers (RFC 7112): otherwise rules about ports would not match.
        Some(_) if transport.len() < min_len(walk.protocol) => unreadable,
        Some(_) => seen(walk.protocol, FRAGMENT, transport),
    }
}

/// True if fragments of a packet were cut again, which no host does: the pieces could not be told from one.
fn fragmented_again(packet: &[u8], mut at: usize) -> bool {
    let mut len = ext::FRAGMENT_LEN;
    for _ in 0..ext::MAX_HEADERS {
        let Some(&next) = packet.get(at) else {
            return true;
        };
        at += len;
        let units = || packet.get(at + 1).map(|&units| usize::from(units));
        len = match next {
            proto::FRAGMENT => return true,
            proto::HOP_BY_HOP | proto::ROUTING | proto::DEST_OPTS => match units() {
                Some(units) => (units + 1) * 8,
                None => return false,
            },
            proto::AH => match units() {
                Some(units) => (units + 2) * 4,
                None => return false,
            },
            _ => return false,
        };
    }
    false
}

/// The least length of a transport header.
pub fn min_len(protocol: u8) -> usize {
    match protocol {
        proto::TCP => wire::tcp::MIN_LEN,
        proto::UDP | proto::UDP_LITE | proto::ICMP6 | proto::ESP => 8,
        proto::SCTP | proto::DCCP => 12,
        proto::IPV6 => wire::ipv6::LEN,
        proto::NO_NEXT => 0,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::Family;
    use crate::ip_pattern;
    use arguments::Names;
    use std::net::Ipv6Addr;
    use testkit::Rng;

    fn header(next: u8, rest: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x6a, 0xb1, 0x23, 0x45, 0, rest.len() as u8, next, 64];
        packet.extend("2001:db8:1::5".parse::<Ipv6Addr>().expect("right").octets());
        packet.extend("2001:db8:2::9".parse::<Ipv6Addr>().expect("right").octets());
        packet.extend(rest);
        packet
    }

    /// 1024 to 80, SYN.
    const TCP: [u8; 20] = [
        4, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 2, 0x12, 0x34, 0, 0, 0, 0,
    ];

    fn parse(pattern: &str) -> Expr<RangeTest> {
        let expr = ip_pattern::parse(pattern, &Names::default(), Family::V6);
        expr.unwrap_or_else(|wrong| panic!("{pattern}: {wrong}"))
    }

    fn matches(pattern: &str, packet: &[u8]) -> bool {
        parse(pattern).matches(&view(packet))
    }

    #[test]
    fn patterns_mean_the_same_for_ipv6_as_for_ipv4() {
        let tcp = header(proto::TCP, &TCP);
        for (pattern, expected) in [
            ("src host 2001:db8:1::5", true),
            ("dst host 2001:db8:1::5", false),
            ("host 2001:db8:2::9", true),
            ("2001:db8:2::9", true),
            ("src net 2001:db8::/32", true),
            ("src net 2001:db8:0::/48", false),
            ("src 2001:db8:1::/48 and dst 2001:db8:2::/48", true),
            ("src and dst net 2001:db8:1::/48", false),
            ("src net != 2001:db8:1::/48", false),
            ("net != 2001:db8:1::/48", false),
            ("host != 2001:db8::7", true),
            ("src net ::/0", true),
            ("src host & ffff:ffff:: == 2001:db8::", true),
            ("ip6 proto tcp", true),
            ("ip6 proto 17", false),
            ("tcp", true),
            ("udp", false),
            ("ip6", true),
            ("ip6 vers 6", true),
            ("ip6 tc 171", true),
            ("ip6 dscp 42", true),
            ("ip6 ce", true),
            ("ip6 flow 0x12345", true),
            ("ip6 flow 0x12344", false),
            ("ip6 len 20", true),
            ("ip6 hlim < 65", true),
            ("ip6[6] 6", true),
            ("ip6[22:2] 5", true),
            ("transp[2:2] 80", true),
            ("dst tcp port www", true),
            ("src port 1024-2000", true),
            ("www or https", true),
            ("tcp opt syn", true),
            ("syn and not ack", true),
            ("tcp win 0x1234", true),
            ("icmp6 type echo", false),
            ("ip6 frag", false),
            ("ip6 unfrag", true),
            ("true", true),
            ("none", false),
        ] {
            assert_eq!(matches(pattern, &tcp), expected, "{pattern}");
        }
        let ping = header(proto::ICMP6, &[128, 0, 0, 0, 0, 0, 0, 0]);
        for pattern in ["icmp6 type echo", "icmp6 echo", "icmp6 type 128", "icmp6"] {
            assert!(matches(pattern, &ping), "{pattern}");
        }
        for (pattern, part) in [
            ("ip proto tcp", "write `ip6`"),
            ("ip6 ttl 3", "unknown word `ttl`"),
            (
                "src net 10.0.0.0/8",
                "`10.0.0.0/8` is no IPv6 network address",
            ),
            ("ether host 2:0:0:0:0:1", "put a Classifier before"),
            ("src net 2001:: mask 2001::", "ADDRESS/LENGTH"),
            ("icmp type echo", "the protocol has no such field"),
        ] {
            let wrong = ip_pattern::parse(pattern, &Names::default(), Family::V6).unwrap_err();
            assert!(wrong.contains(part), "{pattern}: {wrong}");
        }
    }

    fn fragment(next: u8, offset: u16, more: bool) -> [u8; 8] {
        let [high, low] = (offset | u16::from(more)).to_be_bytes();
        [next, 0, high, low, 0, 0, 0, 7]
    }

    #[test]
    fn extension_headers_are_followed_and_hidden_fields_are_unreadable() {
        let options = |next: u8| [next, 0, 1, 4, 0, 0, 0, 0];
        let chain = |count: usize| {
            let mut rest = Vec::new();
            for n in 0..count {
                rest.extend(options(if n + 1 == count {
                    proto::TCP
                } else {
                    proto::DEST_OPTS
                }));
            }
            rest.extend(TCP);
            header(
                if count == 0 {
                    proto::TCP
                } else {
                    proto::DEST_OPTS
                },
                &rest,
            )
        };
        let seen = |packet: &[u8]| {
            let view = view(packet);
            (
                unreadable().matches(&view),
                parse("tcp dst port 80").matches(&view),
                parse("tcp").matches(&view),
                parse("ip6 frag").matches(&view),
            )
        };
        for count in 0..=ext::MAX_HEADERS {
            assert_eq!(seen(&chain(count)), (false, true, true, false), "{count}");
        }
        let hidden = (true, false, false, false);
        for count in ext::MAX_HEADERS + 1..30 {
            assert_eq!(seen(&chain(count)), hidden, "{count}");
        }
        let mut cut = chain(2);
        cut.truncate(50);
        assert_eq!(seen(&cut), hidden);
        let with = |fragment: [u8; 8], rest: &[u8]| {
            header(proto::FRAGMENT, &[&fragment[..], rest].concat())
        };
        let tcp = proto::TCP;
        assert_eq!(
            seen(&with(fragment(tcp, 0, false), &TCP)),
            (false, true, true, false)
        );
        assert_eq!(
            seen(&with(fragment(tcp, 0, true), &TCP)),
            (false, true, true, true)
        );
        assert_eq!(
            seen(&with(fragment(tcp, 8, true), &TCP)),
            (false, false, true, true)
        );
        // Without the ports; and fragments of fragments.
        assert_eq!(seen(&with(fragment(tcp, 0, true), &TCP[..2])), hidden);
        assert_eq!(seen(&with(fragment(tcp, 0, true), &TCP[..19])), hidden);
        let again = [&fragment(tcp, 0, true)[..], &TCP].concat();
        assert_eq!(
            seen(&with(fragment(proto::FRAGMENT, 0, false), &again)),
            hidden
        );
        let between = [&options(proto::FRAGMENT)[..], &again].concat();
        assert_eq!(
            seen(&with(fragment(proto::DEST_OPTS, 0, false), &between)),
            hidden
        );
        assert_eq!(
            seen(&header(proto::NO_NEXT, &TCP)),
            (false, false, false, false)
        );
    }

    /// A chain as a human reads it: protocol, place of the transport header, fragment, later fragment; `None`:
    /// unreadable.
    fn read(packet: &[u8]) -> Option<(u8, usize, bool, bool)> {
        let (mut next, mut at, mut fragmented) = (*packet.get(6)?, 40, None);
        for headers in 0.. {
            let units = |n: usize| Some(usize::from(*packet.get(at + 1)?) * n);
            let len = match next {
                proto::HOP_BY_HOP if at != 40 => return None,
                proto::HOP_BY_HOP | proto::ROUTING | proto::DEST_OPTS => units(8)? + 8,
                proto::AH => units(4)? + 8,
                proto::FRAGMENT => 8,
                _ => break,
            };
            if at + len > packet.len() || headers == ext::MAX_HEADERS {
                return None;
            }
            let header = &packet[at..];
            let this = next;
            next = header[0];
            at += len;
            if this == proto::FRAGMENT {
                if fragmented.is_some() {
                    return None;
                }
                let word = u16::from_be_bytes([header[2], header[3]]);
                fragmented = Some(word);
                if word >= 8 {
                    // A fragment of a fragment is not examined further.
                    return (next != proto::FRAGMENT).then_some((next, packet.len(), true, true));
                }
            }
        }
        let first = fragmented.is_some_and(|word| word & 1 != 0);
        let short = first && packet.len() - at < min_len(next);
        (!short).then_some((next, at, first, false))
    }

    #[test]
    fn random_chains_match_a_reader_that_goes_header_by_header() {
        let mut rng = Rng::seed(30);
        let kinds = [0, 43, 44, 44, 51, 60, 6, 17, 58, 59, 50];
        let (mut readable, mut fragments) = (0, 0);
        for _ in 0..200_000 {
            let mut rest = vec![0; rng.below(120)];
            rest.iter_mut().for_each(|byte| {
                *byte = match rng.below(3) {
                    0 => 0,
                    1 => *rng.pick(&kinds),
                    _ => rng.below(4) as u8,
                }
            });
            let packet = header(*rng.pick(&kinds), &rest);
            let view = view(&packet);
            match read(&packet) {
                None => assert!(unreadable().matches(&view), "{packet:x?}"),
                Some((protocol, at, fragment, later)) => {
                    let next = packet.get(at..).filter(|_| protocol != 59).unwrap_or(&[]);
                    let flags = u8::from(fragment) * FRAGMENT + u8::from(later) * LATER;
                    assert_eq!(view.0[2], [protocol, flags, 0, 0], "{packet:x?}");
                    assert_eq!(view.0[1], next, "{packet:x?}");
                    readable += 1;
                    fragments += u32::from(fragment);
                }
            }
        }
        assert!(
            readable > 20_000 && fragments > 1000,
            "{readable} {fragments}"
        );
    }

    #[derive(Clone, Copy)]
    struct Bytes<'a>(&'a [u8]);

    impl<'a> Headers<'a> for Bytes<'a> {
        const FIXED_TRANSPORT: bool = false;

        fn start(self) -> &'a [u8] {
            self.0
        }

        fn header_words(_: &[[u8; 4]]) -> usize {
            0
        }

        fn view(self) -> View<'a> {
            view(self.0)
        }
    }

    fn pattern(rng: &mut Rng, depth: usize) -> String {
        let inner = |rng: &mut Rng| pattern(rng, depth.saturating_sub(1));
        match rng.below(if depth == 0 { 8 } else { 11 }) {
            0 => format!("src net 2001:db8:{}::/48", rng.below(3)),
            1 => format!("dst host 2001:db8:2::{}", rng.below(3) + 8),
            2 => format!(
                "{} port {}",
                rng.pick(&["src", "dst tcp", "udp"]),
                rng.below(4)
            ),
            3 => format!("ip6 proto {}", rng.pick(&[6, 17, 58])),
            4 => rng.pick(&["ip6 frag", "ip6 unfrag", "syn"]).to_string(),
            5 => format!(
                "ip6 hlim {} {}",
                rng.pick(&["<", "=", ">"]),
                62 + rng.below(4)
            ),
            6 => format!("src port != {}", rng.below(4)),
            7 => format!("net != 2001:db8:{}::/48", rng.below(3)),
            8 => format!("not ({})", inner(rng)),
            9 => format!("({}) and ({})", inner(rng), inner(rng)),
            _ => format!("({}) or ({})", inner(rng), inner(rng)),
        }
    }

    #[test]
    fn compiled_rules_decide_as_the_patterns_one_by_one() {
        use crate::ip_rules::compile;
        let mut rng = Rng::seed(31);
        for _ in 0..60 {
            let rules: Vec<_> = (0..rng.range(1..40))
                .map(|n| (Some(n as u32), parse(&pattern(&mut rng, 2))))
                .collect();
            let compiled = compile(&rules, Family::V6, 256);
            for _ in 0..200 {
                let mut rest: Vec<u8> = match rng.below(5) {
                    0 => vec![proto::TCP, 0, 1, 4, 0, 0, 0, 0],
                    1 => fragment(proto::UDP, 8 * rng.below(2) as u16, rng.one_in(2)).to_vec(),
                    _ => Vec::new(),
                };
                let first = match rest.len() {
                    0 => *rng.pick(&[proto::TCP, proto::UDP, proto::ICMP6]),
                    _ if rest[0] == proto::TCP => proto::DEST_OPTS,
                    _ => proto::FRAGMENT,
                };
                rest.extend(TCP);
                let ports = rest.len() - 20;
                (rest[ports + 1], rest[ports + 3]) = (rng.below(4) as u8, rng.below(4) as u8);
                rest[ports] = 0;
                let mut packet = header(first, &rest);
                (packet[7], packet[13]) = (62 + rng.below(5) as u8, rng.below(4) as u8);
                packet.truncate(packet.len() - rng.below(3) * rng.below(12));
                let view = view(&packet);
                let expected = match unreadable().matches(&view) {
                    true => Some(256),
                    false => rules
                        .iter()
                        .find(|(_, e)| e.matches(&view))
                        .and_then(|(n, _)| *n),
                };
                let mut outcomes = Vec::new();
                compiled.run([Bytes(&packet)].into_iter(), &mut outcomes, |outcome| {
                    outcome
                });
                assert_eq!(outcomes, [expected], "{rules:?} {packet:x?}");
            }
        }
    }
}
