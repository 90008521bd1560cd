//! Sends redirects to hosts that have a better next hop on their own link.
//!
//! ```click
//! FromDevice(null:64) -> Paint(1) -> Strip(14) -> CheckIP6Header
//!   -> nd :: IP6NDSolicitor(fe80::1, 02:00:00:00:00:01)
//!   -> r :: ICMP6Redirect(1, fe80::1, 2001:db8:1::/64) -> Queue -> ToDevice(null:64);
//! r[1] -> nd;
//! Idle -> [1] nd;
//! ```
//!
//! Put it after the IP6NDSolicitor of an interface. It passes every frame on. A frame with the interface's own paint
//! is about to leave by the interface by which it came. If the frame's source is a host of the link (in one of the
//! prefixes), this host can reach the next hop directly. Then a redirect to the host (RFC 4861, 8.2) leaves by output
//! 1, as an IPv6 packet, to be sent by the same IP6NDSolicitor. It has the next hop's Ethernet address and quotes the
//! packet; together at most 1280 bytes.
//!
//! No redirect is sent about packets to groups or to the host itself, nor if the next hop is a router whose
//! link-local address is not known. So write routes with link-local gateways.
//!
//! Arguments:
//!
//! - `COLOR`: the interface's paint.
//! - `IP6`: the router's link-local address on the link.
//! - `PREFIX`: prefixes of the link; any number of them.
//!
//! Keyword arguments:
//!
//! - `RATE`: redirects per second, of the whole router; 0 = no limit. Default 10.
//! - `BURST`: redirects at once. Default 10. As many more are for hosts that want few, so that no host keeps redirects
//!   from others.

use super::nd;
use crate::prelude::*;
use crate::rate_limit::Limit;
use std::net::Ipv6Addr;
use wire::{Ether, EtherAddr, Ipv6, Prefix6, addr, ether, icmp6, ipv6};

/// Bytes before the quoted packet: type to destination, target's address, header of the quote.
const BEFORE: usize = 40 + 8 + 8;
/// The longest message.
const LONGEST: usize = ipv6::MIN_MTU - ipv6::LEN;

pub(super) struct Config {
    color: u8,
    ip: Ipv6Addr,
    prefixes: Vec<Prefix6>,
    limit: Limit,
}

pub(super) struct ICMP6Redirect {
    config: Arc<Config>,
    count: u64,
}

/// A host, and the redirect to send to it.
struct Advice {
    host: Ipv6Addr,
    destination: Ipv6Addr,
    target: Ipv6Addr,
    ether: EtherAddr,
}

/// The half of an address that identifies a host on its link.
fn word(host: Ipv6Addr) -> u64 {
    host.to_bits() as u64
}

impl Config {
    /// Redirect for the sender of a frame.
    fn advice(&self, packet: &Packet) -> Option<Advice> {
        let frame = Ether::new_checked(packet.data()).ok()?;
        if frame.ethertype() != ether::IPV6 || !frame.dst().is_unicast() {
            return None;
        }
        let ip = Ipv6::new_checked(frame.payload()).ok()?;
        let advice = Advice {
            host: ip.src(),
            destination: ip.dst(),
            target: Ipv6Addr::from(packet.anno().dst6()),
            ether: frame.dst(),
        };
        let of_link = |a: Ipv6Addr| self.prefixes.iter().any(|p| p.contains(a));
        let by_itself = advice.target == advice.destination;
        let good = of_link(advice.host)
            && advice.host != self.ip
            && advice.target != advice.host
            && !addr::is_multicast6(advice.destination)
            && (by_itself || addr::is_link_local6(advice.target));
        good.then_some(advice)
    }

    /// RFC 4861, 4.5, 4.6.1 and 4.6.3.
    fn redirect(&self, advice: &Advice, packet: &[u8]) -> Option<Packet> {
        let quoted = packet.len().min(LONGEST - BEFORE) & !7;
        let mut message = [0; LONGEST];
        message[0] = icmp6::REDIRECT;
        message[8..24].copy_from_slice(&advice.target.octets());
        message[24..40].copy_from_slice(&advice.destination.octets());
        message[40..42].copy_from_slice(&[wire::nd::OPT_TARGET, 1]);
        message[42..48].copy_from_slice(&advice.ether.0);
        message[48..50].copy_from_slice(&[4, (quoted / 8 + 1) as u8]);
        message[BEFORE..BEFORE + quoted].copy_from_slice(packet.get(..quoted)?);
        nd::packet(self.ip, advice.host, &message[..BEFORE + quoted])
    }
}

impl Element for ICMP6Redirect {
    const CONTRACT: Contract = Contract::new("ICMP6Redirect", manual!())
        .ports(Ports::coded(&["in"], &["out", "redirect?"], "h/h"))
        .needs(&[Facts::ETHER])
        .gives(&[
            Facts::NONE,
            Facts::IP6.and(Facts::DST6).and(Facts::AT_NETWORK),
        ])
        .carries_super_frames();

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let (color, ip) = (
            args.required("COLOR", "the interface's paint"),
            args.required("IP6", "the router's link-local address"),
        );
        let limit = Limit::own(args, 10, 10, crate::secret(cfg!(test)));
        let each = args.rest("PREFIX", "IPv6 prefixes", "prefixes of the link");
        let prefixes = each
            .iter()
            .filter_map(|arg| args.value("PREFIX", &arg.unquoted(), arg));
        Config {
            color,
            ip,
            prefixes: prefixes.collect(),
            limit,
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> ICMP6Redirect {
        ICMP6Redirect {
            config: Arc::clone(config),
            count: 0,
        }
    }

    #[inline]
    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        let config = &*self.config;
        for packet in batch.iter() {
            if packet.anno().paint != config.color {
                continue;
            }
            if let Some(advice) = config.advice(packet)
                && cx.connected(1)
                && config.limit.take(word(advice.host), cx)
                && let Some(frame) = packet.data().get(ether::LEN..)
                && let Some(redirect) = config.redirect(&advice, frame)
            {
                self.count += 1;
                cx.emit(1, redirect);
            }
        }
    }

    fn inherit(config: &mut Config, old: &Config) {
        config.limit.inherit(&old.limit);
    }

    const HANDLERS: &'static [Handler<ICMP6Redirect>] =
        &[counter!("count", "redirects sent", count)];
}

#[cfg(test)]
mod tests {
    use super::super::testing::{a, both, checksum_holds, ip6};
    use engine::packet::{Batch, Packet};
    use testkit::Bench;
    use wire::{EtherAddr, Ipv6, ether};

    const TEXT: &str = "r :: ICMP6Redirect(3, fe80::1, 2001:db8:1::/64, RATE 0) -> out :: Collect;
        r[1] -> told :: Collect";
    const NEXT: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 9]);

    fn frame(src: &str, dst: &str, data: &[u8]) -> Vec<u8> {
        let header = ether::header(NEXT, EtherAddr([2, 0, 0, 0, 0, 1]), ether::IPV6);
        [&header[..], &ip6(src, dst, 17, 63, data)].concat()
    }

    fn push(bench: &mut Bench, frame: &[u8], target: &str, paint: u8) {
        let mut packet = Packet::from_bytes(frame).unwrap();
        packet.anno_mut().set_dst6(a(target).octets());
        packet.anno_mut().paint = paint;
        let mut batch = Batch::new();
        batch.push(packet);
        bench.push_packets("r", 0, batch);
    }

    #[test]
    fn a_host_is_told_of_its_neighbour_and_of_a_better_router() {
        both(TEXT, |bench| {
            for (dst, target) in [
                ("2001:db8:1::9", "2001:db8:1::9"),
                ("2001:db8:7::7", "fe80::9"),
            ] {
                for len in [0, 3, 8, 1100, 1400] {
                    let frame = frame("2001:db8:1::5", dst, &vec![7; len]);
                    push(bench, &frame, target, 3);
                    assert_eq!(bench.take("out"), [&frame[..]]);
                    let told = bench.take_packets("told").remove(0);
                    let bytes = &told.bytes;
                    let ip = Ipv6::new_checked(&bytes[..]).unwrap();
                    assert_eq!((ip.src(), ip.dst()), (a("fe80::1"), a("2001:db8:1::5")));
                    assert_eq!((ip.hop_limit(), bytes[40], bytes[41]), (255, 137, 0));
                    assert_eq!(bytes[48..64], a(target).octets());
                    assert_eq!(bytes[64..80], a(dst).octets());
                    assert_eq!(bytes[80..88], [2, 1, 2, 0, 0, 0, 0, 9]);
                    let quoted = &bytes[96..];
                    assert_eq!(usize::from(bytes[89]) * 8, 8 + quoted.len());
                    assert_eq!(*quoted, frame[14..14 + quoted.len()]);
                    assert!(bytes.len() <= 1280 && checksum_holds(bytes));
                    assert_eq!(told.anno.dst6(), a("2001:db8:1::5").octets());
                }
            }
        });
    }

    #[test]
    fn other_packets_cause_no_redirect() {
        both(TEXT, |bench| {
            for (src, dst, target, paint) in [
                // This packet came by another interface.
                ("2001:db8:1::5", "2001:db8:1::9", "2001:db8:1::9", 1),
                // The source is no neighbour, the router itself, or the target.
                ("2001:db8:2::5", "2001:db8:1::9", "2001:db8:1::9", 3),
                ("fe80::1", "2001:db8:1::9", "2001:db8:1::9", 3),
                ("2001:db8:1::5", "2001:db8:1::5", "2001:db8:1::5", 3),
                // The better router's link-local address is not known.
                ("2001:db8:1::5", "2001:db8:7::7", "2001:db8:1::9", 3),
                ("2001:db8:1::5", "ff0e::1", "ff0e::1", 3),
            ] {
                push(bench, &frame(src, dst, b""), target, paint);
            }
            for len in 0..54 {
                let cut = &frame("2001:db8:1::5", "2001:db8:1::9", b"")[..len];
                push(bench, cut, "2001:db8:1::9", 3);
            }
            assert!(bench.take("told").is_empty());
            assert_eq!(bench.take("out").len(), 6 + 54);
        });
    }

    #[test]
    fn the_rate_is_limited_and_no_host_keeps_redirects_from_others() {
        let text = TEXT.replace("RATE 0", "RATE 1, BURST 2");
        both(&text, |bench| {
            let mut told = |host: u8, count: u8| {
                for _ in 0..count {
                    let frame = frame(&format!("2001:db8:1::{host}"), "2001:db8:1::9", b"");
                    push(bench, &frame, "2001:db8:1::9", 3);
                }
                bench.read("r.count")
            };
            // The burst, and the network's share of the reserve.
            assert_eq!(told(5, 10), "3");
            assert_eq!(told(6, 1), "4");
            assert_eq!(bench.take("out").len(), 11);
        });
    }
}
