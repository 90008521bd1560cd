//! Decrypts the IPsec packets for this router.
//!
//! ```click
//! ipsec :: IPsecTable(
//!     sa in spi 0x2001 reqid 1 suite aes128gcm16 tunnel 198.51.100.1 192.0.2.1
//!         ENC_KEY 2122232425262728292a2b2c2d2e2f3031323334,
//!     policy in src 10.2.0.0/16 dst 10.1.0.0/16 protect 1);
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader
//!     -> us :: IPClassifier(dst 192.0.2.1 and (ip proto 50 or dst udp port 4500), -);
//! us[0] -> IPReassembler -> open :: IPsecDecap(TABLE ipsec) -> Discard;
//! open[2] -> Discard;  // IKE
//! us[1] -> IPsecCheck(TABLE ipsec) -> Discard;
//! ```
//!
//! Packets of IPv4 come by input 0, those of IPv6 by input 1: ESP, or ESP in UDP (RFC 3948). The inner packet leaves
//! by output 0 as IPv4 or by output 1 as IPv6. Packets that are no ESP, such as those of IKE, which share a UDP port
//! with it, leave by output 2 or 3, unchanged. The SPI identifies the association. An inbound policy must protect the
//! inner packet with associations of the same number (RFC 4301, 5.2). DSCP stays that of the inner header; congestion
//! marked in the tunnel is copied to it (RFC 6040). The annotations are as after CheckIPHeader and CheckIP6Header. In
//! transport mode through UDP the checksums of TCP and UDP are recomputed, because a NAT has changed the addresses
//! that they cover (RFC 3948, 3.1.2).
//!
//! With `KERNEL true`, the other end of an association through UDP may come from another address or port than before,
//! because a NAT on the path has changed its mapping. Then an authentic packet is passed to the kernel, still
//! encrypted, by output 2 or 3. The kernel decrypts it, and reports the new address to the key exchange. This happens
//! to at most one packet of an association in a second.
//!
//! All others are dropped under a name, without an answer:
//!
//! - `no_sa`: there is no association with this SPI, or it came in UDP and should not have, or the other way round;
//! - `replayed`: it came before, or is older than the window;
//! - `forged`: its author does not have the key;
//! - `malformed`: its lengths, padding or inner header are wrong, or its SPI is one of the reserved (0 to 255);
//! - `expired`: the association has reached a limit;
//! - `policy`: no policy permits this packet from this association;
//! - `congested`: the tunnel met congestion and the inner packet's sender does not understand that;
//! - `fragment`: it is a fragment; put IPReassembler or IP6Reassembler before;
//! - `dummy`: it was sent to hide when there is no traffic (RFC 4303, 2.6);
//! - `keepalive`: it keeps a NAT's mapping alive.
//!
//! Keyword arguments:
//!
//! - `TABLE`: the IPsecTable with the associations and policies.

use super::{BurstLookup, TOGETHER, Table, at_network};
use crate::prelude::*;
use esp::outer::{Tunnel, ecn_after};
use esp::policy::Action;
use esp::{Ciphers, Database, Direction, Fault, Job, Opened, Sa, Tables};
use std::net::IpAddr;
use std::ptr;
use wire::{Ipv4, Ipv6, Tcp, Udp, ext, ipv4, ipv6, proto, tcp, udp};

drops! {
    NO_SA = "no_sa",
    REPLAYED = "replayed",
    FORGED = "forged",
    MALFORMED = "malformed",
    EXPIRED = "expired",
    POLICY = "policy",
    CONGESTED = "congested",
    FRAGMENT = "fragment",
    DUMMY = "dummy",
    KEEPALIVE = "keepalive",
}

const OUT4: u8 = 0;
const OUT6: u8 = 1;
const OTHER4: u8 = 2;
const OTHER6: u8 = 3;

/// Minimum SPI of an association.
const SPI_MIN: u32 = 256;
/// Payload of a NAT keepalive packet (RFC 3948, 2.3).
const ALIVE: &[u8] = &[0xff];

pub(super) struct IPsecDecap {
    database: Arc<Database>,
    ciphers: Ciphers,
    /// Verdicts for the packets of a batch.
    verdicts: Vec<Verdict>,
    /// Packets of a batch that are being decrypted.
    opening: Vec<Opening>,
}

impl Element for IPsecDecap {
    const CONTRACT: Contract = Contract::new("IPsecDecap", manual!())
        .ports(Ports::new(
            &["in4", "in6?"],
            &["out4", "out6?", "other4?", "other6?"],
        ))
        .needs(&[Facts::IP4, Facts::IP6])
        .gives(&[
            Facts::IP4.and(Facts::AT_NETWORK).and(Facts::DST4),
            Facts::IP6.and(Facts::AT_NETWORK).and(Facts::DST6),
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

    fn new(config: &Arc<Table>, init: &Init) -> IPsecDecap {
        IPsecDecap {
            database: config.database(init),
            ciphers: Ciphers::default(),
            verdicts: Vec::new(),
            opening: Vec::new(),
        }
    }

    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        self.verdicts.clear();
        self.opening.clear();
        let other = Verdict::out(if input == 0 { OTHER4 } else { OTHER6 });
        let now = cx.timestamp();
        let tables = self.database.read(cx.reader());
        let packets = batch.packets_mut();
        let shows = self.database.is_kernels();
        let mut jobs = self.ciphers.jobs();
        for packets in packets.chunks_mut(TOGETHER) {
            let mut found = [const { Ok(None) }; TOGETHER];
            look_up(tables, packets, &mut found);
            let mut last = None;
            for (packet, found) in packets.iter_mut().zip(found) {
                let at = self.verdicts.len();
                let admitted = found.and_then(|found| match found {
                    None => Ok(None),
                    Some((before, sa)) => {
                        admit(sa, packet, &before, (shows, now), &mut last, &mut jobs)
                            .map(|moved| Some((before, moved, sa)))
                    }
                });
                self.verdicts.push(match admitted {
                    Ok(None) => other,
                    Err(reason) => Verdict::drop(reason),
                    Ok(Some((outer, original, sa))) => {
                        let (reqid, is_tunnel) = (sa.spec().reqid, sa.outer().tunnel().is_some());
                        let inner = Err(Fault::Malformed);
                        self.opening.push(Opening {
                            at,
                            outer,
                            original,
                            reqid,
                            is_tunnel,
                            inner,
                        });
                        Verdict::drop(MALFORMED)
                    }
                });
            }
        }
        let mut opening = self.opening.iter_mut();
        self.ciphers.decrypt(jobs, now, |inner| {
            if let Some(opening) = opening.next() {
                opening.inner = inner;
            }
        });
        for opening in &self.opening {
            let place = (
                packets.get_mut(opening.at),
                self.verdicts.get_mut(opening.at),
            );
            if let (Some(packet), Some(verdict)) = place {
                *verdict =
                    decapsulate(tables, packet, opening, other, now).unwrap_or_else(Verdict::drop);
            }
        }
        super::sort(batch, &self.verdicts, cx);
    }
}

/// State of a packet during decryption.
struct Opening {
    /// Index of the packet in the batch.
    at: usize,
    outer: OuterHeaders,
    original: Option<OriginalPacket>,
    /// Number by which policies find the packet's association.
    reqid: u32,
    is_tunnel: bool,
    inner: Result<Opened, Fault>,
}

/// A packet in its form on arrival. Its source differs from the association's, so the kernel must see it.
struct OriginalPacket {
    spi: u32,
    headroom: usize,
    bytes: Vec<u8>,
}

/// Headers in front of ESP.
struct OuterHeaders {
    /// Length of the headers, in bytes.
    len: usize,
    /// Length of the headers without UDP, in bytes.
    ip_len: usize,
    /// Offset of the next-protocol field in the IP headers.
    next_at: usize,
    tos: u8,
    is_v4: bool,
}

/// Headers in front of ESP; `None` for other packets. The error is a drop reason.
#[inline]
fn headers_before_esp(packet: &mut Packet) -> Result<Option<OuterHeaders>, u8> {
    if !at_network(packet) {
        return Err(MALFORMED);
    }
    let data = packet.data();
    let is_v4 = data.first().ok_or(MALFORMED)? >> 4 == 4;
    let (ip_len, next_at, next, tos, total) = if is_v4 {
        if data.len() < ipv4::MIN_LEN {
            return Err(MALFORMED);
        }
        let ip = Ipv4::new_unchecked(data);
        if ip.is_fragment() {
            return Err(FRAGMENT);
        }
        (ip.header_len(), 9, ip.protocol(), ip.tos(), ip.total_len())
    } else {
        if data.len() < ipv6::LEN {
            return Err(MALFORMED);
        }
        let ip = Ipv6::new_unchecked(data);
        let walk = ext::walk(data).map_err(|_| MALFORMED)?;
        if walk.fragment.is_some_and(|f| !f.is_atomic()) {
            return Err(FRAGMENT);
        }
        let at = walk.per_fragment_next_at;
        // ESP follows the headers that each hop reads. Packets with other headers before it are not for IPsec in
        // transport mode.
        let (len, at) = match walk.offset == walk.per_fragment_len {
            true => (walk.offset, at),
            false => (walk.offset, usize::MAX),
        };
        (len, at, walk.protocol, ip.traffic_class(), ip.total_len())
    };
    let udp_len = match next {
        proto::ESP => 0,
        proto::UDP => {
            let payload = data
                .get(ip_len + udp::LEN..total.min(data.len()))
                .ok_or(MALFORMED)?;
            if payload == ALIVE {
                return Err(KEEPALIVE);
            }
            // Four zero bytes identify IKE (RFC 3948, 2.2).
            if payload.first_chunk() == Some(&[0; 4]) {
                return Ok(None);
            }
            udp::LEN
        }
        _ => return Ok(None),
    };
    packet.truncate(total);
    Ok(Some(OuterHeaders {
        len: ip_len + udp_len,
        ip_len,
        next_at,
        tos,
        is_v4,
    }))
}

fn reason(fault: Fault) -> u8 {
    match fault {
        Fault::Malformed => MALFORMED,
        Fault::Replayed => REPLAYED,
        Fault::Forged => FORGED,
        Fault::Expired => EXPIRED,
    }
}

/// Association that decrypts a packet, and the headers in front of ESP; `None` for other packets.
type Lookup<'t> = Result<Option<(OuterHeaders, &'t Sa)>, u8>;

/// Finds the association of each packet.
#[inline]
fn look_up<'t>(tables: &'t Tables, packets: &mut [Packet], found: &mut [Lookup<'t>]) {
    let mut ahead = BurstLookup::default();
    for (packet, found) in packets.iter_mut().zip(&mut *found) {
        *found = spi(packet).and_then(|esp| {
            let Some((before, spi)) = esp else {
                return Ok(None);
            };
            let sa = ahead.find(spi, || tables.inbound(spi)).ok_or(NO_SA)?;
            Ok(Some((before, sa)))
        });
    }
    ahead.end(found.iter().flatten().flatten().map(|(_, sa)| *sa));
}

/// Headers in front of ESP, and the SPI; `None` for other packets.
#[inline]
fn spi(packet: &mut Packet) -> Result<Option<(OuterHeaders, u32)>, u8> {
    let Some(before) = headers_before_esp(packet)? else {
        return Ok(None);
    };
    let sealed = packet.data().get(before.len..).ok_or(MALFORMED)?;
    let spi = u32::from_be_bytes(*sealed.first_chunk().ok_or(MALFORMED)?);
    if spi < SPI_MIN {
        return Err(MALFORMED);
    }
    Ok(Some((before, spi)))
}

/// Prepares a packet to be opened by an association; returns its former shape, if the kernel must see it.
#[inline]
fn admit<'p>(
    sa: &'p Sa,
    packet: &'p mut Packet,
    before: &OuterHeaders,
    (shows, now): (bool, u64),
    last: &mut Option<&'p Sa>,
    jobs: &mut Vec<Job<'p>>,
) -> Result<Option<OriginalPacket>, u8> {
    if !last.is_some_and(|last| ptr::eq(last, sa)) {
        if sa.is_hard_expired(now) {
            return Err(EXPIRED);
        }
        *last = Some(sa);
    }
    if sa.spec().udp.is_some() != (before.len != before.ip_len) {
        return Err(NO_SA);
    }
    let is_elsewhere = shows && has_moved(sa, packet.data(), before) && sa.may_show_move(now);
    let moved = is_elsewhere.then(|| OriginalPacket {
        spi: sa.spec().spi,
        headroom: packet.headroom(),
        bytes: packet.data().to_vec(),
    });
    let sealed = packet.data_mut().get_mut(before.len..).ok_or(MALFORMED)?;
    sa.admit(sealed, jobs).map_err(reason)?;
    Ok(moved)
}

/// Removes the outer headers of an opened packet, if a policy lets it pass.
#[inline]
fn decapsulate(
    tables: &Tables,
    packet: &mut Packet,
    opening: &Opening,
    other: Verdict,
    now: u64,
) -> Result<Verdict, u8> {
    let inner = opening.inner.map_err(reason)?;
    if inner.next == proto::NO_NEXT {
        return Err(DUMMY);
    }
    let verdict = match opening.is_tunnel {
        true => leave_tunnel(packet, &opening.outer, &inner)?,
        false => leave_transport(packet, &opening.outer, &inner)?,
    };
    let action = tables.policies().find(Direction::In, packet.data());
    if action != Some(Action::Protect(opening.reqid)) {
        return Err(POLICY);
    }
    if let Some(moved) = &opening.original
        && let Some(sa) = tables.inbound(moved.spi)
        && sa.may_show_move(now)
    {
        sa.show_move(now);
        restore(packet, moved, opening.outer.ip_len)?;
        return Ok(other);
    }
    Ok(verdict)
}

/// True if a packet in UDP has another source than the association; in transport mode only ports are known.
#[inline]
fn has_moved(sa: &Sa, data: &[u8], before: &OuterHeaders) -> bool {
    let Some((port, _)) = sa.spec().udp else {
        return false;
    };
    let came_by = data.get(before.ip_len..).and_then(<[u8]>::first_chunk);
    let is_elsewhere = |tunnel: &Tunnel| match tunnel.src {
        IpAddr::V4(src) => before.is_v4 && Ipv4::new_unchecked(data).src() != src,
        IpAddr::V6(src) => !before.is_v4 && Ipv6::new_unchecked(data).src() != src,
    };
    came_by.is_some_and(|by| u16::from_be_bytes(*by) != port)
        || sa.outer().tunnel().is_some_and(is_elsewhere)
}

/// Restores a packet's form on arrival.
fn restore(packet: &mut Packet, moved: &OriginalPacket, header_len: usize) -> Result<(), u8> {
    let front = packet.headroom().saturating_sub(moved.headroom);
    packet.push(front).ok_or(MALFORMED)?;
    packet.truncate(moved.bytes.len());
    packet
        .put(moved.bytes.len() - packet.len())
        .ok_or(MALFORMED)?;
    packet.data_mut().copy_from_slice(&moved.bytes);
    annotate(packet, header_len);
    Ok(())
}

/// Turns a decrypted packet into the inner packet of its tunnel.
#[inline]
fn leave_tunnel(packet: &mut Packet, before: &OuterHeaders, inner: &Opened) -> Result<Verdict, u8> {
    let end = before.len + inner.end;
    packet.truncate(end);
    if !packet.pull(before.len + inner.start) {
        return Err(MALFORMED);
    }
    match inner.next {
        proto::IPIP => {
            let checked = ipv4::check(packet.data()).map_err(|_| MALFORMED)?;
            packet.truncate(checked.total_len);
            let mut ip = Ipv4::new_unchecked(packet.data_mut());
            let (tos, dst) = (ip.tos(), ip.dst());
            let ecn = ecn_after(tos, before.tos).ok_or(CONGESTED)?;
            if tos & 3 != ecn {
                ip.patch_tos(tos & !3 | ecn);
            }
            packet.anno_mut().set_dst4(dst.octets());
            annotate(packet, checked.header_len);
            Ok(Verdict::out(OUT4))
        }
        proto::IPV6 => {
            let checked = ipv6::check(packet.data()).map_err(|_| MALFORMED)?;
            packet.truncate(checked.total_len);
            let mut ip = Ipv6::new_unchecked(packet.data_mut());
            let (class, dst) = (ip.traffic_class(), ip.dst());
            let ecn = ecn_after(class, before.tos).ok_or(CONGESTED)?;
            ip.set_traffic_class(class & !3 | ecn);
            packet.anno_mut().set_dst6(dst.octets());
            annotate(packet, ipv6::LEN);
            Ok(Verdict::out(OUT6))
        }
        _ => Err(MALFORMED),
    }
}

/// Removes ESP from a decrypted packet, which keeps its IP header.
fn leave_transport(
    packet: &mut Packet,
    before: &OuterHeaders,
    inner: &Opened,
) -> Result<Verdict, u8> {
    let (ip_len, start) = (before.ip_len, before.len + inner.start);
    if before.next_at >= ip_len {
        return Err(MALFORMED);
    }
    packet.truncate(before.len + inner.end);
    let moved = start - ip_len;
    packet.data_mut().copy_within(..ip_len, moved);
    if !packet.pull(moved) {
        return Err(MALFORMED);
    }
    let total = packet.len();
    let data = packet.data_mut();
    data[before.next_at] = inner.next;
    let upper = total - ip_len;
    let pseudo = if before.is_v4 {
        let mut ip = Ipv4::new_unchecked(&mut data[..]);
        ip.set_total_len(total as u16);
        ip.fill_checksum();
        let (dst, pseudo) = (ip.dst(), ip.pseudo(upper));
        packet.anno_mut().set_dst4(dst.octets());
        pseudo
    } else {
        let mut ip = Ipv6::new_unchecked(&mut data[..]);
        ip.set_payload_len((total - ipv6::LEN) as u16);
        let (dst, pseudo) = (ip.dst(), ip.pseudo(inner.next, upper));
        packet.anno_mut().set_dst6(dst.octets());
        pseudo
    };
    if before.len != before.ip_len {
        fill_checksum(&mut packet.data_mut()[ip_len..], inner.next, pseudo);
    }
    annotate(packet, ip_len);
    Ok(Verdict::out(if before.is_v4 { OUT4 } else { OUT6 }))
}

/// Recomputes the checksum of TCP or UDP. The packet is authentic: a wrong checksum was the other end's intention.
fn fill_checksum(upper: &mut [u8], protocol: u8, pseudo: u64) {
    match protocol {
        proto::TCP if upper.len() >= tcp::MIN_LEN => {
            Tcp::new_unchecked(upper).fill_checksum(pseudo);
        }
        proto::UDP => {
            let len = upper.len();
            if Udp::new_checked(&upper[..]).is_ok_and(|udp| udp.len() == len && udp.checksum() != 0)
            {
                Udp::new_unchecked(upper).fill_checksum(pseudo);
            }
        }
        _ => {}
    }
}

#[inline]
fn annotate(packet: &mut Packet, header_len: usize) {
    packet.set_network_offset(0);
    packet.set_transport_offset(header_len);
}
