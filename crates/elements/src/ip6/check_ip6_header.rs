//! Checks IPv6 headers, marks them and removes padding.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> c :: CheckIP6Header -> Discard;
//! c[1] -> Discard;
//! ```
//!
//! Passes packets whose version and length are correct and whose addresses are allowed on a link. It sets the network
//! header annotation and the destination annotation, and removes padding after the packet. Other packets leave by
//! output 1, or are dropped if output 1 is not connected.
//!
//! A source must not be a multicast, loopback or IPv4-mapped address (RFC 4291, 2.5 and 2.7); the unspecified
//! address is allowed as source only of packets to a link-local group (RFC 4862, RFC 3810). A destination must
//! not be unspecified, loopback, IPv4-mapped or an interface-local group.
//!
//! Arguments:
//!
//! - `BADADDRS`: further addresses that must not be sources, as one argument.
//! - `OFFSET`: bytes before the header. Default 0.

use super::addresses::Addresses6;
use crate::prelude::*;
use std::net::Ipv6Addr;
use wire::{BadHeader, Ipv6, addr, ipv6};

drops! {
    TOO_SHORT = "too_short",
    BAD_VERSION = "bad_version",
    TRUNCATED = "truncated",
    BAD_SOURCE = "bad_source",
    BAD_DESTINATION = "bad_destination",
}

pub(crate) struct Config {
    bad: Vec<Ipv6Addr>,
    offset: usize,
    /// True if only BADADDRS are checked, as in Click.
    as_click: bool,
}

pub(crate) struct CheckIP6Header {
    config: Arc<Config>,
    refused: u64,
}

impl Config {
    /// Marks the headers of a valid packet. The error is a drop reason.
    fn mark_headers(&self, packet: &mut Packet) -> Result<(), u8> {
        let offset = self.offset;
        let (len, dst) = self.check(packet.data().get(offset..).unwrap_or(&[]))?;
        packet.truncate(offset + len);
        mark(packet, offset, dst);
        Ok(())
    }

    /// Length and destination of a valid packet. The error is a drop reason.
    #[inline]
    fn check(&self, bytes: &[u8]) -> Result<(usize, Ipv6Addr), u8> {
        let checked = ipv6::check(bytes).map_err(|why| match why {
            BadHeader::TooShort => TOO_SHORT,
            BadHeader::BadVersion => BAD_VERSION,
            _ => TRUNCATED,
        })?;
        let ip = Ipv6::new_unchecked(bytes);
        let (src, dst) = (ip.src(), ip.dst());
        let unspecified_ok =
            || src.is_unspecified() && addr::is_multicast6(dst) && addr::multicast_scope6(dst) == 2;
        let bad = &self.bad;
        if (addr::is_martian_source6(src) && !unspecified_ok() && !self.as_click)
            || (!bad.is_empty() && bad.contains(&src))
        {
            return Err(BAD_SOURCE);
        }
        if addr::is_martian_destination6(dst) && !self.as_click {
            return Err(BAD_DESTINATION);
        }
        Ok((checked.total_len, dst))
    }
}

/// Sets the annotations of a valid packet.
#[inline(always)]
fn mark(packet: &mut Packet, offset: usize, dst: Ipv6Addr) {
    packet.set_network_offset(offset);
    packet.set_transport_offset(offset + ipv6::LEN);
    packet.anno_mut().set_dst6(dst.octets());
}

impl Element for CheckIP6Header {
    const CONTRACT: Contract = Contract::new("CheckIP6Header", manual!())
        .ports(Ports::new(&["in"], &["out", "bad?"]))
        .gives(&[Facts::IP6.and(Facts::DST6), Facts::NONE])
        .spoils(Facts::IP4.and(Facts::DST4))
        .drops(DROPS)
        .carries_super_frames()
        .ignores_annotations();

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let bad: Option<Addresses6> = args.maybe("BADADDRS", "addresses that must not be sources");
        Config {
            bad: bad.unwrap_or_default().plain(),
            offset: args.optional("OFFSET", 0, "bytes before the header"),
            as_click: args.as_click,
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> CheckIP6Header {
        CheckIP6Header {
            config: Arc::clone(config),
            refused: 0,
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        fused::step(self, packet, cx)
    }

    const HANDLERS: &'static [Handler<CheckIP6Header>] = &[counter!(
        "drops",
        "packets refused: dropped, or sent by output 1",
        refused
    )];
}

impl Fuse for CheckIP6Header {
    /// Fast path for valid packets whose addresses need no further check.
    #[inline]
    fn fast(&self, _: &Cx) -> impl Fn(&mut Packet) -> Option<Verdict> {
        let (offset, none_listed) = (self.config.offset, self.config.bad.is_empty());
        #[inline(always)]
        move |packet| {
            let head: &[u8; ipv6::LEN] = packet.data().get(offset..)?.first_chunk()?;
            let came = packet.len() - offset;
            let total_len = ipv6::check_head(head, came)?;
            let ip = Ipv6::new_unchecked(head);
            let (src, dst) = (ip.src(), ip.dst());
            if !none_listed || addr::may_be_martian6(src) || addr::may_be_martian6(dst) {
                return None;
            }
            if total_len < came {
                packet.truncate(offset + total_len);
            }
            mark(packet, offset, dst);
            Some(Verdict::ON)
        }
    }

    fn slow(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        match self.config.mark_headers(packet) {
            Ok(()) => Verdict::ON,
            Err(why) => {
                self.refused += 1;
                Verdict::reject(why, 1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{a, both, ip6};

    const TEXT: &str = "c :: CheckIP6Header(2001:db8::bad) -> out :: Collect";

    #[test]
    fn a_good_packet_is_marked_and_loses_its_padding() {
        both(TEXT, |bench| {
            let packet = ip6("2001:db8::1", "2001:db8::2", 59, 64, b"abc");
            let padded = [&packet[..], &[0; 7]].concat();
            bench.push("c", &[padded]);
            let out = bench.take_packets("out");
            assert_eq!(out[0].bytes, packet);
            assert_eq!(out[0].anno.dst6(), a("2001:db8::2").octets());
            assert_eq!(out[0].network_offset, 0);
        });
    }

    #[test]
    fn every_fault_has_its_name() {
        both(TEXT, |bench| {
            let good = ip6("2001:db8::1", "2001:db8::2", 59, 64, b"abcdefgh");
            let cut: Vec<&[u8]> = (0..good.len()).map(|n| &good[..n]).collect();
            bench.push("c", &cut);
            assert_eq!(bench.drops("c", "too_short"), 40);
            assert_eq!(bench.drops("c", "truncated"), 8);
            let mut version = good.clone();
            version[0] = 0x45;
            bench.push("c", &[version]);
            assert_eq!(bench.drops("c", "bad_version"), 1);
            for source in ["ff02::1", "::1", "::ffff:1.2.3.4", "::", "2001:db8::bad"] {
                bench.push("c", &[ip6(source, "2001:db8::2", 59, 64, b"")]);
            }
            assert_eq!(bench.drops("c", "bad_source"), 5);
            for destination in ["::", "::1", "::ffff:1.2.3.4", "ff01::1", "ff00::1"] {
                bench.push("c", &[ip6("2001:db8::1", destination, 59, 64, b"")]);
            }
            assert_eq!(bench.drops("c", "bad_destination"), 5);
            assert_eq!(bench.read("c.drops"), "59");
            assert!(bench.take("out").is_empty());
        });
    }

    #[test]
    fn the_unspecified_source_speaks_to_groups_of_the_link_only() {
        both(TEXT, |bench| {
            bench.push("c", &[ip6("::", "ff02::1:ff00:1", 58, 255, b"")]);
            assert_eq!(bench.take("out").len(), 1);
            bench.push("c", &[ip6("::", "ff05::2", 58, 255, b"")]);
            assert_eq!(bench.drops("c", "bad_source"), 1);
        });
    }

    #[test]
    fn refused_packets_take_output_1_where_it_is_connected() {
        let text = "c :: CheckIP6Header(OFFSET 2) -> out :: Collect; c[1] -> bad :: Collect";
        both(text, |bench| {
            bench.push("c", &[b"zz short"]);
            let packet = [b"zz", &ip6("fe80::1", "fe80::2", 59, 64, b"x")[..]].concat();
            bench.push("c", &[&packet]);
            assert_eq!(bench.take("bad"), [b"zz short"]);
            assert_eq!(bench.take_packets("out")[0].network_offset, 2);
        });
    }
}
