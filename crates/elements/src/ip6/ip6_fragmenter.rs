//! Fragments packets that the router itself sends.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIP6Header -> ICMP6PingResponder
//!   -> IP6Fragmenter(1500) -> Discard;
//! ```
//!
//! Use it only for packets of the router itself, such as long echo replies. In IPv6 a router never fragments
//! packets that it forwards (RFC 8200, 5), but answers them with Packet Too Big. A packet longer than `MTU`
//! leaves as fragments, each with all headers up to the fragment header (4.5) and the packet's annotations; the
//! identification is random (RFC 7739). A packet that is already a fragment, or whose headers leave no room, is
//! dropped (`cannot`).
//!
//! Arguments:
//!
//! - `MTU`: bytes, 1280 or more.

use super::header_chain;
use crate::prelude::*;
use engine::element::AnyConfig;
use planner::LimitsLength;
use wire::ext::{FRAGMENT_LEN, Walk};
use wire::{Ipv6, ext, ipv6};

drops! {
    CANNOT = "cannot",
    NO_BUFFER = "no_buffer",
}

pub(super) struct IP6Fragmenter {
    mtu: usize,
    fragments: u64,
    made: u64,
}

/// A fragment of a packet: the bytes `piece` after the repeated headers.
fn fragment(
    packet: &Packet,
    whole: &[u8],
    walk: &Walk,
    piece: std::ops::Range<usize>,
    ident: u32,
) -> Option<Packet> {
    let (headers, body) = whole.split_at_checked(walk.per_fragment_len)?;
    let mut part = Packet::new()?;
    *part.anno_mut() = *packet.anno();
    let bytes = part.put(headers.len() + FRAGMENT_LEN + piece.len())?;
    let more = piece.end < body.len();
    let next = *headers.get(walk.per_fragment_next_at)?;
    let (head, rest) = bytes.split_at_mut_checked(headers.len())?;
    head.copy_from_slice(headers);
    *head.get_mut(walk.per_fragment_next_at)? = wire::proto::FRAGMENT;
    let payload = headers.len() - ipv6::LEN + FRAGMENT_LEN + piece.len();
    Ipv6::new_unchecked(head).set_payload_len(payload as u16);
    let (header, place) = rest.split_at_mut_checked(FRAGMENT_LEN)?;
    header.copy_from_slice(&ext::fragment_header(next, piece.start, more, ident));
    place.copy_from_slice(body.get(piece)?);
    part.anno_mut().mac = 0;
    part.set_network_offset(0);
    part.set_transport_offset(ipv6::LEN);
    Some(part)
}

impl IP6Fragmenter {
    fn fragment(&mut self, packet: &Packet, cx: &mut Cx) -> Result<(), u8> {
        let whole = header_chain::whole(packet).ok_or(CANNOT)?;
        let walk = ext::walk(whole).map_err(|_| CANNOT)?;
        let headers = walk.per_fragment_len + FRAGMENT_LEN;
        let room = self.mtu.saturating_sub(headers) & !7;
        if walk.fragment.is_some() || room == 0 {
            return Err(CANNOT);
        }
        let ident = cx.random();
        let len = whole.len() - walk.per_fragment_len;
        let mut parts = cx.spare();
        for start in (0..len).step_by(room) {
            let piece = start..(start + room).min(len);
            match fragment(packet, whole, &walk, piece, ident) {
                Some(part) => parts.push(part),
                None => {
                    cx.keep_spare(parts);
                    return Err(NO_BUFFER);
                }
            }
        }
        self.fragments += parts.len() as u64;
        self.made += parts.len() as u64 - 1;
        cx.emit_batch(0, &mut parts);
        cx.keep_spare(parts);
        Ok(())
    }
}

fn longest(config: &AnyConfig) -> Option<usize> {
    Some(*config_of::<IP6Fragmenter>(config))
}

impl Element for IP6Fragmenter {
    const CONTRACT: Contract = Contract::new("IP6Fragmenter", manual!())
        .ports(Ports::coded(&["in"], &["out"], "h/h"))
        .needs(&[Facts::IP6])
        .spoils(Facts::ETHER)
        .drops(DROPS)
        .extensions(&[&LimitsLength(longest)]);

    type Config = usize;

    fn configure(args: &mut Args) -> usize {
        // Every IPv6 link carries packets of 1280 bytes (RFC 8200, 5).
        args.required_in("MTU", Mtu::of(ipv6::MIN_MTU)..=Mtu::of(SIZE_MAX), "bytes")
            .bytes
    }

    fn new(mtu: &Arc<usize>, _: &Init) -> IP6Fragmenter {
        IP6Fragmenter {
            mtu: **mtu,
            fragments: 0,
            made: 0,
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        if batch.iter().all(|p| p.network().len() <= self.mtu) {
            return;
        }
        for packet in batch.drain() {
            if packet.network().len() <= self.mtu {
                cx.emit(0, packet);
            } else if let Err(why) = self.fragment(&packet, cx) {
                cx.drop(packet, why);
            }
        }
    }

    const HANDLERS: &'static [Handler<IP6Fragmenter>] = &[
        counter!("fragments", "fragments sent", fragments),
        counter!("made", "packets that left, less those that came", made),
    ];
}

#[cfg(test)]
mod tests {
    use super::super::testing::{both, ip6};
    use wire::{Ipv6, ext};

    #[test]
    fn short_packets_pass_and_long_ones_leave_in_pieces_in_order() {
        both("f :: IP6Fragmenter(1280) -> out :: Collect", |bench| {
            let data: Vec<u8> = (0..1900).map(|n| n as u8).collect();
            let sizes = [0, 1240, 1241, 1900];
            let packets = sizes.map(|n| ip6("fe80::1", "fe80::2", 17, 64, &data[..n]));
            bench.push("f", &packets);
            let out = bench.take("out");
            assert_eq!(out[..2], packets[..2]);
            let mut rebuilt: Vec<u8> = Vec::new();
            for (part, offset, more) in [
                (&out[2], 0, true),
                (&out[3], 1232, false),
                (&out[4], 0, true),
                (&out[5], 1232, false),
            ] {
                assert!(part.len() <= 1280);
                let ip = Ipv6::new_checked(&part[..]).unwrap();
                let fragment = ext::walk(ip.packet()).unwrap().fragment.unwrap();
                assert_eq!((fragment.offset, fragment.more_fragments), (offset, more));
                if offset == 0 {
                    rebuilt.clear();
                }
                rebuilt.extend(&part[48..]);
                assert_eq!(rebuilt, data[..rebuilt.len()]);
            }
            assert_eq!(rebuilt, data);
            assert_eq!(bench.read("f.fragments"), "4");
        });
    }

    #[test]
    fn a_fragment_is_not_cut_again() {
        both("f :: IP6Fragmenter(1280) -> out :: Collect", |bench| {
            let payload = [&[17, 0, 0, 1, 0, 0, 0, 1][..], &[0; 1600]].concat();
            bench.push("f", &[ip6("fe80::1", "fe80::2", 44, 64, &payload)]);
            assert_eq!(bench.drops("f", "cannot"), 1);
        });
    }

    #[test]
    fn a_link_carries_1280_bytes() {
        let errors = testkit::errors(crate::CLASSES, "Idle -> IP6Fragmenter(1279) -> Discard");
        assert!(errors.contains("MTU must lie between 1280"), "{errors}");
    }
}
