//! The bucket of a packet: the header fields that choose its back end.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wire::flow::{Flow, FlowKey, Start};
use wire::{Ipv4, ext, ipv4, ipv6, proto};

/// Header fields by which packets are distributed to back ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Key {
    /// Addresses, ports and protocol.
    Flow,
    /// Addresses, ports and protocol, with the same bucket for both directions.
    #[default]
    Symmetric,
    /// IP address of the outside host.
    Outside,
}

/// Function from packets to buckets.
pub(super) struct Sorter {
    pub(super) key: Key,
    pub(super) seed: u32,
    /// Seeded initial state of the symmetric IPv4 hash.
    start: Start,
    fragments: Fragments,
}

/// IPv4 or IPv6 address.
trait Address: Copy {
    const NONE: Self;
    fn hash(flow: &Flow<Self>, seed: u32) -> u32;
    /// Hash that is the same for both directions of a flow.
    fn symmetric_hash(flow: &Flow<Self>, seed: u32) -> u32;
}

impl Address for Ipv4Addr {
    const NONE: Self = Ipv4Addr::UNSPECIFIED;

    #[inline]
    fn hash(flow: &Flow<Self>, seed: u32) -> u32 {
        flow.hash(seed)
    }

    #[inline]
    fn symmetric_hash(flow: &Flow<Self>, seed: u32) -> u32 {
        flow.symmetric_hash(seed)
    }
}

impl Address for Ipv6Addr {
    const NONE: Self = Ipv6Addr::UNSPECIFIED;

    #[inline]
    fn hash(flow: &Flow<Self>, seed: u32) -> u32 {
        flow.hash(seed)
    }

    #[inline]
    fn symmetric_hash(flow: &Flow<Self>, seed: u32) -> u32 {
        flow.symmetric_hash(seed)
    }
}

impl Sorter {
    pub(super) fn new(key: Key, seed: u32) -> Sorter {
        Sorter {
            key,
            seed,
            start: Start::new(seed),
            fragments: Fragments::new(),
        }
    }

    #[inline(always)]
    fn bucket<A: Address>(&self, flow: Flow<A>, from_outside: bool) -> u16 {
        let hash = match self.key {
            Key::Flow => A::hash(&flow, self.seed),
            Key::Symmetric => A::symmetric_hash(&flow, self.seed),
            Key::Outside => {
                let host = Flow {
                    src: if from_outside { flow.src } else { flow.dst },
                    dst: A::NONE,
                    src_port: 0,
                    dst_port: 0,
                    protocol: 0,
                };
                A::hash(&host, self.seed)
            }
        };
        bucket_of(hash)
    }

    /// Bucket of an IPv4 packet; `None` if the packet is malformed. `from_outside` is true if the packet arrived on a
    /// front port.
    #[inline]
    pub(super) fn bucket4(&self, packet: &[u8], from_outside: bool, now: u64) -> Option<u16> {
        let plain = self.plain4(packet.first_chunk()?, from_outside);
        plain.or_else(|| self.odd4(packet, from_outside, now))
    }

    /// Bucket of an unfragmented TCP or UDP packet without IP options, from its first 24 bytes.
    #[inline(always)]
    pub(super) fn plain4(&self, head: &[u8; 24], from_outside: bool) -> Option<u16> {
        if self.key == Key::Symmetric {
            return self.symmetric4(head);
        }
        let protocol = plain_protocol(head)?;
        let ip = Ipv4::new_unchecked(head);
        let flow = Flow {
            src: ip.src(),
            dst: ip.dst(),
            src_port: u16::from_be_bytes([head[20], head[21]]),
            dst_port: u16::from_be_bytes([head[22], head[23]]),
            protocol,
        };
        Some(self.bucket(flow, from_outside))
    }

    /// Like [`plain4`](Self::plain4), if the key is symmetric.
    #[inline(always)]
    pub(super) fn symmetric4(&self, head: &[u8; 24]) -> Option<u16> {
        let protocol = plain_protocol(head)?;
        let [.., a, b, c, d, e, f, g, h, i, j, k, l] = *head;
        let (src, dst) = (([a, b, c, d], [i, j]), ([e, f, g, h], [k, l]));
        Some(bucket_of(self.start.symmetric_hash(src, dst, protocol)))
    }

    #[cold]
    fn odd4(&self, packet: &[u8], from_outside: bool, now: u64) -> Option<u16> {
        let flow = flow4(packet)?;
        let ip = Ipv4::new_unchecked(packet.first_chunk::<{ ipv4::MIN_LEN }>()?);
        if !ip.is_fragment() {
            let quoted = match flow.protocol {
                proto::ICMP => {
                    quoted(packet.get(ip.header_len()..)?, &[3, 4, 5, 11, 12]).and_then(flow4)
                }
                _ => None,
            };
            return Some(self.bucket(quoted.map_or(flow, Flow::reversed), from_outside));
        }
        let piece = Flow {
            src_port: ip.ident(),
            ..flow
        };
        let first = (ip.fragment_offset() == 0).then(|| with_ports(flow, packet, ip.header_len()));
        Some(self.piece(piece, flow, first, from_outside, now))
    }

    /// Bucket of an IPv6 packet; `None` if the packet is malformed.
    #[inline]
    pub(super) fn bucket6(&self, packet: &[u8], from_outside: bool, now: u64) -> Option<u16> {
        let head: &[u8; ipv6::LEN] = packet.first_chunk()?;
        match head[6] {
            proto::TCP | proto::UDP => Some(self.bucket(flow6(packet)?, from_outside)),
            _ => self.odd6(packet, from_outside, now),
        }
    }

    #[cold]
    fn odd6(&self, packet: &[u8], from_outside: bool, now: u64) -> Option<u16> {
        let flow = flow6(packet)?;
        let Ok(walk) = ext::walk(packet) else {
            return Some(self.bucket(flow, from_outside));
        };
        let Some(fragment) = walk.fragment.filter(|piece| !piece.is_atomic()) else {
            let quoted = match walk.protocol {
                proto::ICMP6 => quoted(packet.get(walk.offset..)?, &[1, 2, 3, 4]).and_then(flow6),
                _ => None,
            };
            return Some(self.bucket(quoted.map_or(flow, Flow::reversed), from_outside));
        };
        let piece = Flow {
            src_port: (fragment.ident >> 16) as u16,
            dst_port: fragment.ident as u16,
            ..flow
        };
        let of = Flow {
            protocol: walk.protocol,
            ..flow
        };
        let first = (fragment.offset == 0).then(|| with_ports(of, packet, walk.offset));
        Some(self.piece(piece, flow, first, from_outside, now))
    }

    /// Bucket of a fragment: the bucket of its flow, as recorded from the first fragment. A fragment that overtakes the
    /// first one is distributed by its addresses.
    fn piece<A: Address>(
        &self,
        piece: Flow<A>,
        addresses: Flow<A>,
        first: Option<Flow<A>>,
        from_outside: bool,
        now: u64,
    ) -> u16 {
        let datagram = A::hash(&piece, self.seed);
        if let Some(flow) = first {
            let bucket = self.bucket(flow, from_outside);
            self.fragments.note(datagram, bucket, now);
            return bucket;
        }
        let known = self.fragments.find(datagram, now);
        known.unwrap_or_else(|| self.bucket(addresses, from_outside))
    }
}

#[inline(always)]
fn bucket_of(hash: u32) -> u16 {
    (hash >> 16) as u16
}

/// Protocol of a TCP or UDP packet that is no fragment and has no IP options.
#[inline(always)]
fn plain_protocol(head: &[u8; 24]) -> Option<u8> {
    let protocol = head[9];
    let is_plain = head[0] == 0x45 && u16::from_be_bytes([head[6], head[7]]) & 0x3fff == 0;
    (is_plain && matches!(protocol, proto::TCP | proto::UDP)).then_some(protocol)
}

fn flow4(packet: &[u8]) -> Option<Flow<Ipv4Addr>> {
    match FlowKey::of_ip(packet)? {
        FlowKey::V4(flow) => Some(flow),
        FlowKey::V6(_) => None,
    }
}

fn flow6(packet: &[u8]) -> Option<Flow<Ipv6Addr>> {
    match FlowKey::of_ip(packet)? {
        FlowKey::V6(flow) => Some(flow),
        FlowKey::V4(_) => None,
    }
}

/// Packet quoted in an ICMP error; `None` if the message is not an error.
fn quoted<'a>(message: &'a [u8], errors: &[u8]) -> Option<&'a [u8]> {
    errors
        .contains(message.first()?)
        .then(|| message.get(8..))
        .flatten()
}

/// Adds the ports at offset `at` to a flow.
fn with_ports<A>(flow: Flow<A>, packet: &[u8], at: usize) -> Flow<A> {
    let has_ports = matches!(
        flow.protocol,
        proto::TCP | proto::UDP | proto::SCTP | proto::DCCP | proto::UDP_LITE
    );
    match packet.get(at..at + 4) {
        Some(&[a, b, c, d]) if has_ports => Flow {
            src_port: u16::from_be_bytes([a, b]),
            dst_port: u16::from_be_bytes([c, d]),
            ..flow
        },
        _ => flow,
    }
}

/// Buckets of fragmented datagrams, shared by all workers.
#[derive(Default)]
struct Fragments(Box<[AtomicU64]>);

/// Number of remembered datagrams.
const DATAGRAMS: usize = 4096;
/// Right shift that converts nanoseconds to ticks of 1.07 seconds.
const TICK_BITS: u32 = 30;
/// Number of ticks for which a datagram is remembered. Hosts wait half a minute for its fragments (RFC 1122, 3.3.2).
const REMEMBERED: u16 = 30;

impl Fragments {
    fn new() -> Fragments {
        Fragments((0..DATAGRAMS).map(|_| AtomicU64::new(0)).collect())
    }

    fn note(&self, datagram: u32, bucket: u16, now: u64) {
        let tick = (now >> TICK_BITS) as u16;
        let entry = u64::from(datagram) << 32 | u64::from(tick) << 16 | u64::from(bucket);
        if let Some(slot) = self.0.get(datagram as usize % DATAGRAMS) {
            slot.store(entry, Relaxed);
        }
    }

    fn find(&self, datagram: u32, now: u64) -> Option<u16> {
        let slot = self.0.get(datagram as usize % DATAGRAMS)?;
        let entry = slot.load(Relaxed);
        let age = ((now >> TICK_BITS) as u16).wrapping_sub((entry >> 16) as u16);
        let is_it = (entry >> 32) as u32 == datagram && age <= REMEMBERED;
        is_it.then_some(entry as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::{Rng, ip4, ip6};

    fn sorter(key: Key) -> Sorter {
        Sorter::new(key, 0)
    }

    fn bucket(sorter: &Sorter, packet: &[u8], from_outside: bool) -> u16 {
        let bucket = match packet[0] >> 4 {
            4 => sorter.bucket4(packet, from_outside, 0),
            _ => sorter.bucket6(packet, from_outside, 0),
        };
        bucket.expect("it is a packet")
    }

    #[test]
    fn both_directions_of_a_flow_have_one_bucket() {
        let sorter = sorter(Key::Symmetric);
        let mut rng = Rng::seed(1);
        let mut buckets = std::collections::HashSet::new();
        for _ in 0..200 {
            let (a, b) = (Ipv4Addr::from(rng.u32()), Ipv4Addr::from(rng.u32()));
            let (p, q) = (rng.u16(), rng.u16());
            let there = bucket(&sorter, &ip4().src(a).dst(b).udp(p, q).bytes(), false);
            assert_eq!(
                there,
                bucket(&sorter, &ip4().src(b).dst(a).udp(q, p).bytes(), true)
            );
            buckets.insert(there);
            let (a, b) = (
                Ipv6Addr::from_bits(rng.u64().into()),
                Ipv6Addr::from_bits(rng.u64().into()),
            );
            let there = bucket(&sorter, &ip6().src(a).dst(b).tcp(p, q).bytes(), false);
            assert_eq!(
                there,
                bucket(&sorter, &ip6().src(b).dst(a).tcp(q, p).bytes(), true)
            );
        }
        assert!(buckets.len() > 190, "flows are spread");
    }

    #[test]
    fn all_packets_of_a_host_outside_have_one_bucket() {
        let sorter = sorter(Key::Outside);
        let out = |dst: &str, port| ip4().src("10.0.0.5").dst(dst).udp(1, port).bytes();
        let back = |src: &str, port| ip4().src(src).dst("203.0.113.9").tcp(port, 7).bytes();
        let host = bucket(&sorter, &out("198.51.100.1", 1), false);
        assert_eq!(host, bucket(&sorter, &out("198.51.100.1", 2), false));
        assert_eq!(host, bucket(&sorter, &back("198.51.100.1", 80), true));
        assert_ne!(host, bucket(&sorter, &back("198.51.100.2", 80), true));
    }

    #[test]
    fn pieces_of_a_datagram_go_where_its_flow_goes() {
        for key in [Key::Flow, Key::Symmetric, Key::Outside] {
            let sorter = sorter(key);
            for ident in 1..50 {
                let v4 = ip4()
                    .src("10.0.0.9")
                    .dst("10.0.0.1")
                    .ident(ident)
                    .udp(4000, 53)
                    .payload_len(3000);
                let v6 = ip6()
                    .src("fd00::9")
                    .dst("fd00::1")
                    .ident(ident)
                    .udp(4000, 53)
                    .payload_len(3000);
                for whole in [v4, v6] {
                    let flow = bucket(&sorter, &whole.bytes(), false);
                    let pieces = whole.fragments(1000);
                    assert!(pieces.len() > 2);
                    for piece in pieces {
                        assert_eq!(bucket(&sorter, &piece, false), flow);
                    }
                }
            }
        }
    }

    #[test]
    fn a_piece_whose_first_is_not_known_goes_by_its_addresses() {
        let sorter = sorter(Key::Symmetric);
        let piece = |ident| {
            let whole = ip4().ident(ident).udp(9, 10).payload_len(3000);
            bucket(&sorter, &whole.fragments(1000)[1], false)
        };
        assert_eq!(piece(1), piece(2));
    }

    #[test]
    fn a_datagram_is_forgotten() {
        let fragments = Fragments::new();
        fragments.note(77, 5, 0);
        assert_eq!(fragments.find(77, 30 << TICK_BITS), Some(5));
        assert_eq!(fragments.find(77, 31 << TICK_BITS), None);
        assert_eq!(fragments.find(77 + DATAGRAMS as u32, 0), None);
    }

    #[test]
    fn an_error_goes_where_the_packets_go_to_whose_sender_it_goes() {
        for key in [Key::Flow, Key::Symmetric, Key::Outside] {
            let sorter = sorter(key);
            let sent = ip4()
                .src("10.0.0.5")
                .dst("198.51.100.1")
                .tcp(1000, 80)
                .bytes();
            let answer = ip4()
                .src("198.51.100.1")
                .dst("10.0.0.5")
                .tcp(80, 1000)
                .bytes();
            // A router on the path, with an unknown address, sends an error to 10.0.0.5.
            for kind in [3, 11, 12] {
                let error = ip4()
                    .src("192.0.2.77")
                    .dst("10.0.0.5")
                    .icmp(kind, 0, 0)
                    .payload(&sent)
                    .bytes();
                assert_eq!(
                    bucket(&sorter, &error, true),
                    bucket(&sorter, &answer, true),
                    "{key:?} {kind}"
                );
            }
            let sent = ip6()
                .src("fd00::5")
                .dst("2001:db8::1")
                .udp(1000, 53)
                .bytes();
            let answer = ip6()
                .src("2001:db8::1")
                .dst("fd00::5")
                .udp(53, 1000)
                .bytes();
            let error = ip6()
                .src("fe80::7")
                .dst("fd00::5")
                .icmp(2, 0, 1280)
                .payload(&sent)
                .bytes();
            assert_eq!(
                bucket(&sorter, &error, true),
                bucket(&sorter, &answer, true),
                "{key:?}"
            );
        }
    }

    #[test]
    fn no_bytes_panic() {
        let mut rng = Rng::seed(3);
        let sorter = sorter(Key::Symmetric);
        let good = [
            ip4().icmp(3, 1, 0).payload(ip4().udp(1, 2).bytes()).bytes(),
            ip6().icmp(1, 0, 0).bytes(),
        ];
        for _ in 0..20_000 {
            let mut bytes = rng.pick(&good).clone();
            for _ in 0..rng.below(6) {
                let at = rng.below(bytes.len());
                bytes[at] = rng.u8();
            }
            bytes.truncate(rng.below(bytes.len() + 1));
            let _ = sorter.bucket4(&bytes, false, 0);
            let _ = sorter.bucket6(&bytes, true, 0);
        }
    }
}
