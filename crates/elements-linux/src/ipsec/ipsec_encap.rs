//! Seals packets as IPsec policies want it.
//!
//! ```click
//! ipsec :: IPsecTable(
//!     sa out spi 0x1001 reqid 1 suite aes128gcm16 tunnel 192.0.2.1 198.51.100.1
//!         ENC_KEY 0102030405060708090a0b0c0d0e0f1011121314,
//!     policy out src 10.1.0.0/16 dst 10.2.0.0/16 protect 1,
//!     policy out src 0.0.0.0/0 dst 0.0.0.0/0 bypass);
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader
//!     -> small :: IPFragmenter(1400, HONOR_DF true)
//!     -> seal :: IPsecEncap(TABLE ipsec) -> Discard;
//! small[1] -> ICMPError(10.1.0.1, unreachable, needfrag, PMTU 1400) -> Discard;
//! seal[2] -> Discard;
//! ```
//!
//! The first outbound policy for a packet decides its fate. Protected packets get the headers of ESP (RFC 4303) and
//! of the association in use: those of a tunnel (RFC 4301), or in transport mode only ESP's, after their own IP
//! header; and those of UDP, if the association has UDP encapsulation (RFC 3948). Packets of IPv4 come by input 0,
//! those of IPv6 by input 1. Encrypted packets leave by output 0 as IPv4 or by output 1 as IPv6, with their
//! destination annotation set. Packets to be bypassed leave by output 2 or 3, unchanged. All others are dropped under
//! a name: `policy` (it discards the packet, or there is none), `no_sa` (the policy's association does not exist),
//! `expired` (it has reached a limit), `fragment` (transport mode takes whole packets only), `too_long` (for a
//! buffer, or for IP), `path_mtu`.
//!
//! Encryption makes a packet longer, by up to some 100 bytes. Each association of a tunnel has a path MTU, which
//! IPsecMTU learns (RFC 4301, 8.2.1). A packet whose encrypted form would be longer, and must not be fragmented,
//! leaves by output 4 or 5, for IPv4 and IPv6, unchanged; without such an output it is dropped (`path_mtu`). An
//! annotation has the greatest length that fits:
//!
//! ```click
//! ipsec :: IPsecTable(policy out src 0.0.0.0/0 dst 0.0.0.0/0 bypass);
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> seal :: IPsecEncap(TABLE ipsec) -> Discard;
//! seal[2] -> Discard; Idle -> Strip(14) -> CheckIP6Header -> [1] seal; seal[1], seal[3] -> Discard;
//! seal[4] -> cut :: IPFragmenter(65535, ANNO true) -> seal;       // without DF: its pieces are sealed
//! cut[1] -> ICMPError(10.1.0.1, unreachable, needfrag, ANNO true) -> Discard;
//! seal[5] -> ICMP6Error(2001:db8::1, packettoobig, ANNO true) -> Discard;
//! ```
//!
//! If the tunnel's MTU is known, IPFragmenter before this element makes this unnecessary, with the MTU of the inner
//! packets. To fragment after encryption, put IPFragmenter after it, and let associations have `df clear`.
//!
//! Any number of workers encrypt packets of one association. Each reserves the sequence numbers of a burst at once.
//! So the packets of a flow, which one worker has, keep their order, and those of several workers mix within a few
//! bursts. The receiver's window should be some hundred packets.
//!
//! To keep a NAT's mapping alive, send a packet of one byte every 20 seconds:
//! `TimedSource(20, "\xff") -> UDPIPEncap(192.0.2.1, 4500, 198.51.100.1, 4500)`.
//!
//! Keyword arguments:
//!
//! - `TABLE`: the IPsecTable with the associations and policies.

use super::{BurstLookup, TOGETHER, Table, at_network};
use crate::prelude::*;
use esp::outer::{Tunnel, fill_checksum6};
use esp::policy::Action;
use esp::{Ciphers, Database, Direction, Job, Sa, Tables};
use std::net::IpAddr;
use std::ops::Range;
use wire::{Ipv4, Ipv6, ext, ipv4, ipv6, proto};

drops! {
    POLICY = "policy",
    NO_SA = "no_sa",
    EXPIRED = "expired",
    FRAGMENT = "fragment",
    TOO_LONG = "too_long",
    PATH_MTU = "path_mtu",
}

const OUT4: u8 = 0;
const OUT6: u8 = 1;
const BYPASS4: u8 = 2;
const BYPASS6: u8 = 3;
const LONG4: u8 = 4;
const LONG6: u8 = 5;

pub(super) struct IPsecEncap {
    database: Arc<Database>,
    ciphers: Ciphers,
    /// Verdicts for the packets of a batch.
    verdicts: Vec<Verdict>,
    /// Indices of packets in the batch that are encapsulated in UDP.
    in_udp: Vec<Range<usize>>,
}

impl Element for IPsecEncap {
    const CONTRACT: Contract = Contract::new("IPsecEncap", manual!())
        .ports(Ports::new(
            &["in4", "in6?"],
            &["out4", "out6?", "bypass4?", "bypass6?", "long4?", "long6?"],
        ))
        .needs(&[Facts::IP4, Facts::IP6])
        .gives(&[
            Facts::IP4.and(Facts::AT_NETWORK).and(Facts::DST4),
            Facts::IP6.and(Facts::AT_NETWORK).and(Facts::DST6),
            Facts::IP4.and(Facts::AT_NETWORK),
            Facts::IP6.and(Facts::AT_NETWORK),
            Facts::IP4.and(Facts::AT_NETWORK),
            Facts::IP6.and(Facts::AT_NETWORK),
        ])
        .spoils(
            Facts::ETHER
                .and(Facts::IP4)
                .and(Facts::IP6)
                .and(Facts::DST4)
                .and(Facts::DST6),
        )
        .drops(DROPS)
        .ignores_annotations();

    type Config = Table;

    fn configure(args: &mut Args) -> Table {
        Table::named(args)
    }

    fn new(config: &Arc<Table>, init: &Init) -> IPsecEncap {
        IPsecEncap {
            database: config.database(init),
            ciphers: Ciphers::default(),
            verdicts: Vec::new(),
            in_udp: Vec::new(),
        }
    }

    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        self.verdicts.clear();
        let bypass = Verdict::out(if input == 0 { BYPASS4 } else { BYPASS6 });
        let now = cx.timestamp();
        let tables = self.database.read(cx.reader());
        let mut jobs = self.ciphers.jobs();
        for packets in batch.packets_mut().chunks_mut(TOGETHER) {
            let mut all = [const { Err(Verdict::drop(POLICY)) }; TOGETHER];
            let found = &mut all[..packets.len()];
            look_up(&self.database, tables, bypass, packets, found);
            let mut packets = packets.iter_mut();
            // Consecutive packets of an association take their sequence numbers together.
            for run in found.chunk_by(is_same) {
                let (len, first) = (run.len(), self.verdicts.len());
                let run_of = packets.as_slice().get(..len).into_iter().flatten();
                let bytes = run_of.map(|packet| packet.len() as u64).sum();
                let taken = run[0].and_then(|sa| match sa.take(len as u64, bytes, now) {
                    Ok(number) => Ok((sa, number)),
                    Err(_) => Err(Verdict::drop(EXPIRED)),
                });
                let run = packets.by_ref().take(len);
                match taken {
                    Err(verdict) => self.verdicts.extend(run.map(|_| verdict)),
                    Ok((sa, number)) => {
                        let framed = run.zip(number..).map(|(packet, number)| {
                            let framed = match sa.outer().tunnel() {
                                Some(tunnel) => {
                                    frame_tunnel((sa, tunnel), packet, (number, now), &mut jobs)
                                }
                                None => frame_transport(sa, packet, number, &mut jobs),
                            };
                            framed.unwrap_or_else(|why| why)
                        });
                        self.verdicts.extend(framed);
                        if sa.outer().udp_len() > 0 {
                            self.in_udp.push(first..self.verdicts.len());
                        }
                    }
                }
            }
        }
        self.ciphers.encrypt(jobs);
        for places in self.in_udp.drain(..) {
            let verdicts = self.verdicts.get(places.clone()).into_iter().flatten();
            let packets = batch.packets_mut().get_mut(places).into_iter().flatten();
            let sealed6 = packets
                .zip(verdicts)
                .filter(|(_, v)| **v == Verdict::out(OUT6));
            for (packet, _) in sealed6 {
                let at = packet.len() - packet.transport().len();
                fill_checksum6(packet.data_mut(), at);
            }
        }
        super::sort(batch, &self.verdicts, cx);
    }
}

type Found<'t> = Result<&'t Sa, Verdict>;

#[inline]
fn is_same(one: &Found, other: &Found) -> bool {
    match (one, other) {
        (Ok(one), Ok(other)) => std::ptr::eq(*one, *other),
        (Err(one), Err(other)) => one == other,
        _ => false,
    }
}

/// Finds the association that encrypts each packet, or the packet's verdict. Trailing link padding is removed.
#[inline]
fn look_up<'t>(
    database: &Database,
    tables: &'t Tables,
    bypass: Verdict,
    packets: &mut [Packet],
    found: &mut [Found<'t>],
) {
    let mut wanted = [const { Err(Verdict::drop(POLICY)) }; TOGETHER];
    for (packet, wanted) in packets.iter_mut().zip(&mut wanted) {
        *wanted = policy(tables, bypass, packet);
    }
    let mut ahead = BurstLookup::default();
    for (wanted, found) in wanted.iter().zip(&mut *found) {
        *found = wanted.and_then(|reqid| {
            let sa = ahead.find(reqid, || tables.outbound(reqid));
            sa.ok_or_else(|| {
                database.record_miss(reqid);
                Verdict::drop(NO_SA)
            })
        });
    }
    ahead.end(found.iter().flatten().copied());
}

/// Number of the association that encrypts a packet, or the verdict without one.
#[inline]
fn policy(tables: &Tables, bypass: Verdict, packet: &mut Packet) -> Result<u32, Verdict> {
    if !at_network(packet) {
        return Err(Verdict::drop(POLICY));
    }
    let data = packet.data();
    let len = match data.first().map(|byte| byte >> 4) {
        Some(4) if data.len() >= ipv4::MIN_LEN => Ipv4::new_unchecked(data).total_len(),
        Some(6) if data.len() >= ipv6::LEN => Ipv6::new_unchecked(data).total_len(),
        _ => return Err(Verdict::drop(POLICY)),
    };
    match tables.policies().find(Direction::Out, data) {
        Some(Action::Protect(reqid)) => {
            packet.truncate(len);
            Ok(reqid)
        }
        Some(Action::Bypass) => Err(bypass),
        Some(Action::Discard) | None => Err(Verdict::drop(POLICY)),
    }
}

/// Puts a packet into a tunnel, ready to be sealed, and says where it goes then; or why it is dropped.
#[inline]
fn frame_tunnel<'p>(
    (sa, tunnel): (&'p Sa, &Tunnel),
    packet: &'p mut Packet,
    (number, now): (u64, u64),
    jobs: &mut Vec<Job<'p>>,
) -> Result<Verdict, Verdict> {
    let (outer, data) = (sa.outer(), packet.data());
    // `policy` has checked that the header is complete.
    let head = data
        .first_chunk::<{ ipv4::MIN_LEN }>()
        .ok_or(Verdict::drop(POLICY))?;
    let (tos, fragment, next) = if head[0] >> 4 == 4 {
        let ip = Ipv4::new_unchecked(head);
        (ip.tos(), ip.fragment_word(), proto::IPIP)
    } else {
        (
            Ipv6::new_unchecked(head).traffic_class(),
            ipv4::DF,
            proto::IPV6,
        )
    };
    let (len, before) = (data.len(), outer.tunnel_len());
    let (head, tail) = (sa.head(), sa.trailer_len(len));
    let sealed = before + head + len + tail;
    if sealed > sa.path_mtu() && outer.stays_whole(tunnel, fragment) {
        sa.forget_path_mtu(now);
        if sealed > sa.path_mtu() {
            return Err(too_long_for_path(sa, packet, next));
        }
    }
    if sealed > usize::from(u16::MAX) || packet.extend(before + head, tail).is_none() {
        return Err(Verdict::drop(TOO_LONG));
    }
    packet.set_network_offset(0);
    packet.set_transport_offset(before - outer.udp_len());
    let verdict = match tunnel.dst {
        IpAddr::V4(dst) => {
            packet.anno_mut().set_dst4(dst.octets());
            Verdict::out(OUT4)
        }
        IpAddr::V6(dst) => {
            packet.anno_mut().set_dst6(dst.octets());
            Verdict::out(OUT6)
        }
    };
    let data = packet.data_mut();
    // An observer of packets sees the sequence number, too, so it serves as the identification.
    outer.write(tunnel, data, tos, fragment, number as u16);
    sa.frame(&mut data[before..], len, next, number, jobs);
    Ok(verdict)
}

/// Handles a packet that exceeds the path MTU of its tunnel.
#[cold]
fn too_long_for_path(sa: &Sa, packet: &mut Packet, next: u8) -> Verdict {
    let longest = u32::try_from(sa.longest_inside()).unwrap_or(u32::MAX);
    // Every path carries this many bytes of IPv6 (RFC 8200, 5): the encrypted packet is lost, and no sender can make
    // shorter ones.
    let least = if next == proto::IPV6 {
        ipv6::MIN_MTU as u32
    } else {
        0
    };
    packet.cold_mut().set_path_mtu(longest.max(least));
    Verdict::reject(PATH_MTU, if next == proto::IPV6 { LONG6 } else { LONG4 })
}

/// Inserts ESP after a packet's own IP header.
#[inline(never)] // so that registers are for tunnels
fn frame_transport<'p>(
    sa: &'p Sa,
    packet: &'p mut Packet,
    number: u64,
    jobs: &mut Vec<Job<'p>>,
) -> Result<Verdict, Verdict> {
    let data = packet.data();
    let is_v4 = data[0] >> 4 == 4;
    // Length of the headers before ESP, the offset of their next header field, and its value.
    let (header, next_at, next) = if is_v4 {
        let ip = Ipv4::new_unchecked(data);
        if ip.is_fragment() {
            return Err(Verdict::drop(FRAGMENT));
        }
        (ip.header_len(), 9, ip.protocol())
    } else {
        let walk = ext::walk(data).map_err(|_| Verdict::drop(POLICY))?;
        if walk.fragment.is_some() {
            return Err(Verdict::drop(FRAGMENT));
        }
        let at = walk.per_fragment_next_at;
        (
            walk.per_fragment_len,
            at,
            data.get(at).copied().ok_or(Verdict::drop(POLICY))?,
        )
    };
    let len = data
        .len()
        .checked_sub(header)
        .ok_or(Verdict::drop(POLICY))?;
    let (tail, udp) = (sa.trailer_len(len), sa.outer().udp_len());
    let front = sa.head() + udp;
    let fits = data.len() + front + tail <= usize::from(u16::MAX);
    if !fits || packet.extend(front, tail).is_none() {
        return Err(Verdict::drop(TOO_LONG));
    }
    packet.set_network_offset(0);
    packet.set_transport_offset(header);
    let data = packet.data_mut();
    data.copy_within(front..front + header, 0);
    sa.outer().write_udp(&mut data[header..]);
    data[next_at] = if udp > 0 { proto::UDP } else { proto::ESP };
    let total = data.len();
    let verdict = if is_v4 {
        let mut ip = Ipv4::new_unchecked(data);
        ip.set_total_len(total as u16);
        ip.fill_checksum();
        let dst = ip.dst();
        packet.anno_mut().set_dst4(dst.octets());
        Verdict::out(OUT4)
    } else {
        let mut ip = Ipv6::new_unchecked(&mut data[..]);
        ip.set_payload_len((total - ipv6::LEN) as u16);
        let dst = ip.dst();
        packet.anno_mut().set_dst6(dst.octets());
        Verdict::out(OUT6)
    };
    let sealed = &mut packet.data_mut()[header + udp..];
    sa.frame(sealed, len, next, number, jobs);
    Ok(verdict)
}
