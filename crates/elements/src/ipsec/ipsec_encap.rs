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
//! The first outbound policy for a packet says what becomes of it. Protected packets get the headers of ESP (RFC 4303) and
//! of the association that is in use: those of a tunnel (RFC 4301), or in transport mode only ESP's, behind their own IP header;
//! and those of UDP, if the association says so (RFC 3948). Packets of IPv4 come by input 0, those of IPv6 by input 1; what
//! is sealed leaves by output 0 as IPv4 or by output 1 as IPv6, with its destination annotation set; what is to be bypassed
//! leaves by output 2 or 3, unchanged. All others are dropped under a name: `policy` (it discards the packet, or there is
//! none), `no_sa` (the policy's association is not there), `expired` (it has reached a limit), `fragment` (transport mode takes
//! whole packets only), `too_long` (for a buffer, or for IP).
//!
//! What is sealed is longer, by up to some 100 bytes. To fragment before sealing, put IPFragmenter before this element, with the
//! MTU of the inner packets, and let an ICMPError name the same MTU; to fragment after it, put IPFragmenter behind, and let
//! associations say `df clear`.
//!
//! Any number of workers seal packets of one association. Each takes the sequence numbers of a burst at once, so the packets
//! of a flow, which one worker has, keep their order, and those of several workers mix within a few bursts: the receiver's
//! window should be some hundred packets.
//!
//! To keep a NAT's mapping alive, send a packet of one byte every 20 seconds:
//! `TimedSource(20, "\xff") -> UDPIPEncap(192.0.2.1, 4500, 198.51.100.1, 4500)`.
//!
//! Keyword arguments:
//!
//! - `TABLE`: the IPsecTable with the associations and policies.

use super::{Table, at_network};
use crate::prelude::*;
use esp::policy::Action;
use esp::{Database, Direction, Sa, Tables};
use std::net::IpAddr;
use wire::{Ipv4, Ipv6, ext, ipv4, ipv6, proto};

const POLICY: u8 = 0;
const NO_SA: u8 = 1;
const EXPIRED: u8 = 2;
const FRAGMENT: u8 = 3;
const TOO_LONG: u8 = 4;

const OUT4: u8 = 0;
const OUT6: u8 = 1;
const BYPASS4: u8 = 2;
const BYPASS6: u8 = 3;

pub(super) struct IPsecEncap {
    database: Arc<Database>,
    /// Of the packets of a batch.
    verdicts: Vec<Verdict>,
}

impl Element for IPsecEncap {
    const CLASS: &'static str = "IPsecEncap";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::new(&["in4", "in6?"], &["out4", "out6?", "bypass4?", "bypass6?"]);
    const NEEDS: &'static [Facts] = &[Facts::IP4, Facts::IP6];
    const GIVES: &'static [Facts] = &[
        Facts::IP4.and(Facts::AT_NETWORK).and(Facts::DST4),
        Facts::IP6.and(Facts::AT_NETWORK).and(Facts::DST6),
        Facts::IP4.and(Facts::AT_NETWORK),
        Facts::IP6.and(Facts::AT_NETWORK),
    ];
    const SPOILS: Facts = Facts::ETHER
        .and(Facts::IP4)
        .and(Facts::IP6)
        .and(Facts::DST4)
        .and(Facts::DST6);
    const DROPS: &'static [&'static str] = &["policy", "no_sa", "expired", "fragment", "too_long"];
    const READS_ANNOTATIONS: bool = true;

    type Config = Table;

    fn configure(args: &mut Args) -> Table {
        Table::named(args)
    }

    fn new(config: &Arc<Table>, init: &Init) -> IPsecEncap {
        IPsecEncap {
            database: config.database(init),
            verdicts: Vec::new(),
        }
    }

    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        self.verdicts.clear();
        let bypass = Verdict::out(if input == 0 { BYPASS4 } else { BYPASS6 });
        let (now, tables) = (cx.timestamp(), self.database.read(cx.reader()));
        let packets = batch.changing();
        let mut at = 0;
        let mut found = packets
            .first_mut()
            .map(|packet| look_up(&self.database, tables, packet, bypass));
        // Neighbours with one association are sealed together.
        while let Some(one) = found.take() {
            let (first, mut bytes) = (at, 0);
            while let Some(packet) = packets.get(at) {
                bytes += packet.len() as u64;
                at += 1;
                let next = packets
                    .get_mut(at)
                    .map(|next| look_up(&self.database, tables, next, bypass));
                if !next.as_ref().is_some_and(|next| is_same(next, &one)) {
                    found = next;
                    break;
                }
            }
            let run = &mut packets[first..at];
            match one {
                Err(verdict) => self.verdicts.extend(run.iter().map(|_| verdict)),
                Ok(sa) => match sa.take(run.len() as u64, bytes, now) {
                    Err(_) => {
                        let expired = Verdict::drop(EXPIRED);
                        self.verdicts.extend(run.iter().map(|_| expired));
                    }
                    Ok(number) => {
                        let sealed = run
                            .iter_mut()
                            .zip(number..)
                            .map(|(packet, number)| seal(sa, packet, number));
                        self.verdicts.extend(sealed);
                    }
                },
            }
        }
        let mut verdicts = self.verdicts.iter().copied();
        cx.sort(batch, |_, _| {
            verdicts.next().unwrap_or(Verdict::drop(POLICY))
        });
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

/// By which association a packet is sealed, or what becomes of it. What a link has added behind it is taken off.
#[inline]
fn look_up<'t>(
    database: &Database,
    tables: &'t Tables,
    packet: &mut Packet,
    bypass: Verdict,
) -> Found<'t> {
    if !at_network(packet) {
        return Err(Verdict::drop(POLICY));
    }
    let data = packet.data();
    let action = tables.policies().find(Direction::Out, data);
    let len = match data.first().map(|byte| byte >> 4) {
        Some(4) if data.len() >= ipv4::MIN_LEN => Ipv4::new_unchecked(data).total_len(),
        Some(6) if data.len() >= ipv6::LEN => Ipv6::new_unchecked(data).total_len(),
        _ => return Err(Verdict::drop(POLICY)),
    };
    match action {
        Some(Action::Protect(reqid)) => {
            packet.truncate(len);
            let sa = tables.outbound(reqid);
            sa.map(|sa| &**sa).ok_or_else(|| {
                database.miss(reqid);
                Verdict::drop(NO_SA)
            })
        }
        Some(Action::Bypass) => Err(bypass),
        Some(Action::Discard) | None => Err(Verdict::drop(POLICY)),
    }
}

#[inline]
fn seal(sa: &Sa, packet: &mut Packet, number: u64) -> Verdict {
    let sealed = match sa.outer().tunnel() {
        Some(_) => tunnel(sa, packet, number),
        None => transport(sa, packet, number),
    };
    sealed.unwrap_or_else(Verdict::drop)
}

/// Puts a packet into a tunnel.
#[inline]
fn tunnel(sa: &Sa, packet: &mut Packet, number: u64) -> Result<Verdict, u8> {
    let (outer, data) = (sa.outer(), packet.data());
    let Some(tunnel) = outer.tunnel() else {
        return Err(NO_SA);
    };
    let is_v4 = data[0] >> 4 == 4;
    let (tos, df, next) = if is_v4 {
        let ip = Ipv4::new_unchecked(data);
        (ip.tos(), ip.dont_fragment(), proto::IPIP)
    } else {
        (Ipv6::new_unchecked(data).traffic_class(), true, proto::IPV6)
    };
    let (len, before) = (data.len(), outer.len(tunnel));
    let tail = sa.tail(len);
    let total = before + sa.head() + len + tail;
    let fits = total <= usize::from(u16::MAX);
    if !fits || packet.put(tail).is_none() || packet.push(before + sa.head()).is_none() {
        return Err(TOO_LONG);
    }
    let data = packet.data_mut();
    sa.seal(&mut data[before..], len, next, number);
    // Who can see packets sees the sequence number, too: it does as well as an identification.
    outer.write(tunnel, data, tos, df, number as u16);
    packet.set_network_offset(0);
    packet.set_transport_offset(before - outer.udp_len());
    Ok(match tunnel.dst {
        IpAddr::V4(dst) => {
            packet.anno_mut().set_dst4(dst.octets());
            Verdict::out(OUT4)
        }
        IpAddr::V6(dst) => {
            packet.anno_mut().set_dst6(dst.octets());
            Verdict::out(OUT6)
        }
    })
}

/// Puts ESP behind a packet's own IP header.
fn transport(sa: &Sa, packet: &mut Packet, number: u64) -> Result<Verdict, u8> {
    let data = packet.data();
    let is_v4 = data[0] >> 4 == 4;
    // How long the headers before ESP are, where they name what follows, and what that is.
    let (header, next_at, next) = if is_v4 {
        let ip = Ipv4::new_unchecked(data);
        if ip.is_fragment() {
            return Err(FRAGMENT);
        }
        (ip.header_len(), 9, ip.protocol())
    } else {
        let walk = ext::walk(data).map_err(|_| POLICY)?;
        if walk.fragment.is_some() {
            return Err(FRAGMENT);
        }
        let at = walk.per_fragment_next_at;
        (
            walk.per_fragment_len,
            at,
            data.get(at).copied().ok_or(POLICY)?,
        )
    };
    let len = data.len().checked_sub(header).ok_or(POLICY)?;
    let (tail, udp) = (sa.tail(len), sa.outer().udp_len());
    let front = sa.head() + udp;
    let fits = data.len() + front + tail <= usize::from(u16::MAX);
    if !fits || packet.put(tail).is_none() || packet.push(front).is_none() {
        return Err(TOO_LONG);
    }
    let data = packet.data_mut();
    data.copy_within(front..front + header, 0);
    sa.seal(&mut data[header + udp..], len, next, number);
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
        sa.outer().fill_checksum6(data, header);
        packet.anno_mut().set_dst6(dst.octets());
        Verdict::out(OUT6)
    };
    packet.set_network_offset(0);
    packet.set_transport_offset(header);
    Ok(verdict)
}
