//! Rewrites ICMP errors about rewritten packets, so that the errors reach the packets' senders.
//!
//! An error quotes the beginning of the packet that it reports. If a mapping of one of the rewriters has rewritten
//! this packet, the error's addresses and the quoted packet are changed back to their original form, with all
//! checksums, and the error leaves by output 0. Other errors, and packets that are not ICMP errors, leave by output
//! 1, or are dropped if output 1 is not connected.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader
//!     -> nat :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1) -> Discard;
//! nat[1] -> Discard;
//! FromDevice(null:65) -> Strip(14) -> CheckIPHeader -> errors :: ICMPRewriter(nat) -> Discard;
//! errors[1] -> Discard;
//! ```
//!
//! Arguments:
//!
//! - `MAPS`: the rewriters, separated by spaces: IPRewriter, TCPRewriter, UDPRewriter, ICMPPingRewriter,
//!   IPAddrRewriter, IPAddrPairRewriter. The first with a mapping for the packet decides.
//!
//! Keyword arguments:
//!
//! - `DST_ANNO`: true if the destination annotation follows the rewritten destination. Default true.
//! - `REPLY_ANNO`: the annotation of the rewriters' `REPLY_ANNO`, to be set on errors, too.
//!
//! Three kinds of errors need this element: those from outside, those from inside, and those that ICMPError makes of
//! packets after a rewriter (conf/ip-nat.click). An error by a router inside keeps this router's address as its
//! source; put `StoreIPAddress(ADDR, src)` after to hide that (RFC 5508, REQ-5).
//!
//! Errors are destination unreachable, source quench, redirect, time exceeded and parameter problem. There is
//! one copy, on the worker of the rewriters.

use super::config;
use super::rewriter::{self, dst_key};
use crate::anno::Anno;
use crate::prelude::*;
use nat::key::{self, Key, Kind};
use nat::set::FlowSet;
use std::cell::RefCell;
use std::rc::Rc;
use tables::flows::Side;
use wire::{checksum, icmp, proto};

drops! {
    NOT_ERROR = "not_error",
    UNKNOWN = "unknown_flow",
}
/// Output of packets that are not rewritten.
const OTHER: u8 = 1;
/// Longest part of the embedded packet that may change, in bytes: IP header with options, and TCP header.
const HEAD: usize = 80;

/// A rewriter whose mappings this element uses, as its configuration describes it.
pub(super) struct Map {
    name: String,
    owner: String,
    kind: Kind,
}

pub(super) struct Config {
    maps: Vec<Map>,
    dst_anno: bool,
    reply_anno: Option<Anno<1>>,
}

pub(super) struct ICMPRewriter {
    config: Arc<Config>,
    maps: Vec<(Rc<RefCell<FlowSet>>, u16, Kind)>,
}

impl Element for ICMPRewriter {
    const CONTRACT: Contract = Contract::new("ICMPRewriter", manual!())
        .ports(Ports::coded(&["in"], &["out", "other?"], "h/h"))
        .needs(&[Facts::IP4])
        .drops(DROPS)
        .copies(Copies::Owner);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let maps: String = args.required("MAPS", "the rewriters whose packets errors are about");
        let mut config = Config {
            maps: Vec::new(),
            dst_anno: args.key(
                "DST_ANNO",
                true,
                "true if the destination annotation follows the destination address",
            ),
            reply_anno: args.key_maybe("REPLY_ANNO", "the annotation that replies are given"),
        };
        for name in maps.split_whitespace() {
            let peer = args.peer(name);
            match peer.and_then(|p| Some((p, config::kind_of(p.class())?))) {
                Some((peer, kind)) => config.maps.push(Map {
                    name: peer.name().to_owned(),
                    owner: config::Config::parse(kind, &mut peer.args(config::KEYWORDS)).owner,
                    kind,
                }),
                None => args.error_in_whole(
                    format!("MAPS: '{name}' is not an IP rewriter"),
                    "name elements such as IPRewriter, separated by spaces",
                ),
            }
        }
        config
    }

    fn new(config: &Arc<Config>, init: &Init) -> ICMPRewriter {
        let maps = config.maps.iter().map(|map| {
            let set = rewriter::flow_set(&map.owner, init.shared);
            let space = set.borrow_mut().space(&map.name);
            (set, space, map.kind)
        });
        ICMPRewriter {
            maps: maps.collect(),
            config: Arc::clone(config),
        }
    }

    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let datagram = crate::ip4::datagram(packet);
        let Some((at, length)) = embedded(datagram) else {
            return Verdict::reject(NOT_ERROR, OTHER);
        };
        let total = datagram.len();
        for (set, space, kind) in &self.maps {
            let mut set = set.borrow_mut();
            let Some((end, place, from)) =
                find_mapping(&set, &datagram[at..], (*space, *kind), cx.now())
            else {
                continue;
            };
            // The embedded packet's original flow is the reversed key of the mapping's other side.
            let to = set.rewritten(end).reversed();
            let datagram = &mut packet.network_mut()[..total];
            rewrite(datagram, at, length, |head| {
                if let Some(shifts) = &set.get(end.flow).shifts {
                    nat::tcp::unshift(head, place, 1 - end.side, shifts);
                }
                key::rewrite(head, place, &from, &to, *kind);
            });
            let dst = [datagram[16], datagram[17], datagram[18], datagram[19]];
            if self.config.dst_anno {
                packet.anno_mut().set_dst4(dst);
            }
            if let Some(anno) = self.config.reply_anno
                && end.side == 1
            {
                anno.set(packet, [set.get(end.flow).reply_anno]);
            }
            return Verdict::ON;
        }
        Verdict::reject(UNKNOWN, OTHER)
    }
}

/// Offset of the packet embedded in an ICMP error, and the number of its bytes that may be changed.
fn embedded(datagram: &[u8]) -> Option<(usize, usize)> {
    let outer = key::locate_transport(datagram)?;
    let at = outer.at + icmp::LEN;
    let is_error =
        outer.protocol == proto::ICMP && outer.first && icmp::is_error(*datagram.get(outer.at)?);
    if !is_error {
        return None;
    }
    let inner = key::locate_transport(datagram.get(at..)?)?;
    let length = (inner.at + wire::tcp::MIN_LEN).min(datagram.len() - at);
    inner.first.then_some((at, length.min(HEAD)))
}

/// Finds the mapping that produced an embedded packet. Returns the mapping's side that matches replies, and the
/// packet's key.
fn find_mapping(
    set: &FlowSet,
    packet: &[u8],
    (space, kind): (u16, Kind),
    now: Time,
) -> Option<(Side, key::TransportPosition, Key)> {
    let place = key::locate_transport(packet)?;
    let key = key::key(kind, packet, place, space)?;
    if let Some(end) = set.find(&key.reversed(), now) {
        return Some((end, place, key));
    }
    if kind != Kind::Address {
        return None;
    }
    let dst = dst_key(key, u32::from_be_bytes(*packet[16..].first_chunk()?));
    let end = set.find(&dst.reversed(), now)?;
    Some((end, place, dst))
}

/// Rewrites the embedded packet at `at`, then the equal outer addresses, and updates all checksums.
fn rewrite(datagram: &mut [u8], at: usize, length: usize, change: impl FnOnce(&mut [u8])) {
    let mut before = [0; HEAD];
    let before = &mut before[..length];
    before.copy_from_slice(&datagram[at..at + length]);
    change(&mut datagram[at..]);
    let sum = at - icmp::LEN + 2;
    let check = u16::from_be_bytes([datagram[sum], datagram[sum + 1]]);
    let check = checksum::update(check, before, &datagram[at..at + length]);
    datagram[sum..sum + 2].copy_from_slice(&check.to_be_bytes());
    // An ICMP error's destination is the embedded packet's source. Its source is the embedded destination, or a router
    // on the path.
    for (outer, inner) in [(16, 12), (12, 16)] {
        if datagram[outer..outer + 4] != before[inner..inner + 4] {
            continue;
        }
        let Some(&new) = datagram[at + inner..].first_chunk::<4>() else {
            continue;
        };
        let check = u16::from_be_bytes([datagram[10], datagram[11]]);
        let check = checksum::update(check, &before[inner..inner + 4], &new);
        datagram[outer..outer + 4].copy_from_slice(&new);
        datagram[10..12].copy_from_slice(&check.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use crate::rewrite::testing::{packet, show};
    use testkit::Bench;
    use wire::Ipv4;

    /// Packets are rewritten, complained of by a router, and the errors rewritten back.
    fn errors_about(rewriter: &str, line: &str) -> Vec<Vec<u8>> {
        let text = format!(
            "i :: CheckIPHeader -> rw :: {rewriter} -> ICMPError(19.19.19.19, timeexceeded)
                -> e :: ICMPRewriter(rw) -> out :: Collect;
            rw[1] -> out; e[1] -> other :: Collect"
        );
        let mut bench = Bench::new(crate::CLASSES, &text);
        bench.push("i", &[packet(line)]);
        assert!(bench.take("other").is_empty());
        bench.take("out")
    }

    #[test]
    fn an_error_is_about_the_packet_that_was_sent() {
        for (rewriter, line) in [
            (
                "IPRewriter(pattern 21.0.0.1 1024-65535# - - 0 1)",
                "T 18.26.4.44 20 10.0.0.8 80",
            ),
            (
                "IPRewriter(pattern 21.0.0.1 1024-65535# - - 0 1)",
                "U 18.26.4.44 20 10.0.0.8 80",
            ),
            (
                "UDPRewriter(pattern 21.0.0.1 1024-65535# 7.7.7.7 5 0 1)",
                "U 18.26.4.44 20 10.0.0.8 80",
            ),
            (
                "ICMPPingRewriter(pattern 21.0.0.1 - 100-65535# 0 1)",
                "I 18.26.4.44 10.0.0.8 9",
            ),
            (
                "IPAddrRewriter(pattern 21.0.0.1 - 0 1)",
                "T 18.26.4.44 20 10.0.0.8 80",
            ),
            (
                "IPAddrPairRewriter(pattern 21.0.0.1 7.7.7.7 0 1)",
                "I 18.26.4.44 10.0.0.8 9",
            ),
        ] {
            let errors = errors_about(rewriter, line);
            let error = errors.first().unwrap_or_else(|| panic!("{rewriter}"));
            let outer = Ipv4::new_checked(&error[..]).unwrap();
            assert!(outer.verify_checksum() && wire::checksum::verify(outer.payload()));
            assert_eq!(outer.src().to_string(), "19.19.19.19");
            assert_eq!(outer.dst().to_string(), "18.26.4.44");
            let sent = packet(line);
            let embedded = &outer.payload()[8..];
            assert_eq!(show(&embedded[..sent.len()]), show(&sent), "{rewriter}");
        }
    }

    #[test]
    fn errors_without_a_mapping_leave_by_the_other_output() {
        let text = "i :: CheckIPHeader -> ICMPError(19.19.19.19, unreachable) -> j :: Null
                -> e :: ICMPRewriter(rw) -> out :: Collect; e[1] -> other :: Collect;
            k :: CheckIPHeader -> rw :: UDPRewriter(drop); p :: CheckIPHeader -> e;";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("i", &[packet("U 1.1.1.1 2 3.3.3.3 4")]);
        bench.push(
            "p",
            &[
                packet("I 1.1.1.1 3.3.3.3 4"),
                packet("U 1.1.1.1 2 3.3.3.3 4"),
            ],
        );
        assert_eq!((bench.take("out").len(), bench.take("other").len()), (0, 3));
    }

    #[test]
    fn only_rewriters_may_be_named() {
        let text =
            "FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> ICMPRewriter(x) -> x :: Discard";
        let errors = testkit::errors(crate::CLASSES, text);
        assert!(errors.contains("'x' is not an IP rewriter"), "{errors}");
    }
}
