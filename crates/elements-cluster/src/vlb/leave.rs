//! Frames that leave the cluster here become frames to neighbours, if the neighbour's address is confirmed.
//!
//! Only the addresses of a frame change; its ethertype stays, and so does the padding of a short frame. So only the 14
//! bytes of its Ethernet header are read, and the destination address of a packet to a station of the port's own
//! network. If the address is not confirmed, the frame goes through VLBOutput and the element that finds neighbours.
//! Later frames wait until the batch on this path has left, so that they do not overtake it.

use super::ETHER_LEN;
use super::memory::Next;
use super::output::{self, Family};
use super::vlb_output::VlbOutput;
use super::vlb_output6::VlbOutput6;
use crate::prelude::*;
use cluster::address::{LEN, PORT_SELF};
use elements::{arp, ip6};
use forwarding::neighbour::Face;
use tables::neighbours::Key;
use wire::{ether, ipv6};

/// Number of cached hosts on attached networks, per address family.
const HOSTS: usize = 1024;
const SHIFT: u32 = u64::BITS - HOSTS.trailing_zeros();

/// Egress of an address family: a VLBOutput, and the neighbour resolver of each of its outputs.
pub(super) struct Outward {
    output: String,
    finders: Vec<Option<String>>,
}

impl Outward {
    /// Parses a keyword's value: the VLBOutput, then the neighbour resolver of each port, or `-` for none.
    pub(super) fn read(
        args: &mut Args,
        (keyword, doc): (&'static str, &'static str),
        classes: [&'static str; 2],
    ) -> Option<Outward> {
        let text: String = args.key_maybe(keyword, doc)?;
        let mut wrong = Vec::new();
        let mut full = |name: &str, class: &str| {
            let peer = args.peer(name).filter(|peer| peer.class() == class);
            if peer.is_none() {
                wrong.push(format!("{keyword}: `{name}` is no {class}"));
            }
            peer.map(|peer| peer.name().to_owned())
        };
        let mut words = text.split_whitespace();
        let output = words.next().and_then(|name| full(name, classes[0]));
        let finders = words.map(|name| match name {
            "-" => None,
            name => full(name, classes[1]),
        });
        let finders = finders.collect();
        for wrong in wrong {
            let [output, finder] = classes;
            let help =
                format!("name a {output}, then the {finder} behind each of its ports, or `-`");
            args.error_in_whole(wrong, help);
        }
        Some(Outward {
            output: output?,
            finders,
        })
    }

    /// Number of external ports.
    pub(super) fn ports(&self) -> usize {
        self.finders.len()
    }
}

/// Forwarding decision for frames at their output node, by their Ethernet addresses.
pub(super) enum Ready {
    /// The frames take the slow path.
    Not,
    /// The frames take the fast path from the next batch on.
    Soon(Next),
    /// The IPv4 destination decides; the value is the port key for [`Leave::host4`].
    ByDst4(u64),
    /// The IPv6 destination decides; the value is the port key.
    ByDst6(u64),
}

/// External ports of an address family.
struct Side<K> {
    /// Neighbour caches by port; `None` for a port without a resolver.
    faces: Vec<Option<Face<K>>>,
    gateways: Vec<Vec<K>>,
    /// VLBTransit's output for port 0.
    first: usize,
}

impl<K: Key> Side<K> {
    fn none() -> Side<K> {
        Side {
            faces: Vec::new(),
            gateways: Vec::new(),
            first: 0,
        }
    }

    fn new<F: Family>(
        outward: &Outward,
        (first, init): (usize, &Init),
        face: fn(&Init, &str) -> Option<Face<K>>,
        key: fn(&F::Address) -> K,
    ) -> Side<K> {
        let named = outward.finders.iter().map(Option::as_deref);
        let output = init.shared_by::<output::Config<F>>(&outward.output);
        let gateways = output.iter().flat_map(|output| &output.gateways);
        Side {
            faces: named.map(|name| face(init, name?)).collect(),
            gateways: gateways
                .map(|port| port.iter().map(key).collect())
                .collect(),
            first,
        }
    }

    fn changes(&self) -> u64 {
        let faces = self.faces.iter().flatten();
        faces.fold(0, |sum, face| sum.wrapping_add(face.changes()))
    }

    /// Ethernet addresses and verdict of frames to a neighbour; `None` if it is not resolved.
    fn next(&self, port: usize, key: K) -> Option<Next> {
        let addresses = self.faces.get(port)?.as_ref()?.addresses(key)?;
        let verdict = Verdict::out((self.first + port) as u8);
        Some(Next::new(&addresses, verdict))
    }

    /// Decision for frames to gateway number `gateway`, from 1. With 0, the destination is on the port's own network,
    /// and `by_dst` decides.
    fn ready(&self, port: usize, gateway: usize, by_dst: fn(u64) -> Ready) -> Ready {
        if !matches!(self.faces.get(port), Some(Some(_))) {
            return Ready::Not;
        }
        let Some(number) = gateway.checked_sub(1) else {
            return by_dst((port as u64 + 1) << 32);
        };
        let gateways = self.gateways.get(port);
        let next = gateways.and_then(|all| self.next(port, *all.get(number)?));
        next.map_or(Ready::Not, Ready::Soon)
    }
}

/// Cache key: a port and an IP address.
trait Place: Copy + Eq + Default {
    fn hash(self) -> u64;
}

impl Place for u64 {
    #[inline]
    fn hash(self) -> u64 {
        self.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

impl Place for [u64; 3] {
    fn hash(self) -> u64 {
        let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.into_iter()
            .fold(0, |sum, word| mix(sum ^ sum >> 32, word))
    }
}

#[derive(Clone, Copy)]
#[repr(align(32))] // a power of two: the index is a shift
struct Host<P> {
    place: P,
    next: Next,
}

/// Cache of hosts on attached networks.
struct Hosts<P> {
    slots: [Host<P>; HOSTS],
    /// Entries that become valid with the next batch.
    soon: Vec<Host<P>>,
}

impl<P: Place> Hosts<P> {
    /// Empty entry. Its key matches no packet, since keys count ports from 1.
    fn nobody() -> Host<P> {
        Host {
            place: P::default(),
            next: Next::new(&[0; LEN], Verdict::ON),
        }
    }

    fn new() -> Hosts<P> {
        Hosts {
            slots: [Self::nobody(); HOSTS],
            soon: Vec::new(),
        }
    }

    #[inline(always)]
    fn get(&self, place: P) -> Option<&Next> {
        let host = &self.slots[(place.hash() >> SHIFT) as usize];
        (host.place == place).then_some(&host.next)
    }

    /// Looks up a host like [`get`](Self::get). A missing host is added for the next batch, if its address is
    /// confirmed.
    fn find(&mut self, place: P, next: impl FnOnce() -> Option<Next>) -> Option<Next> {
        let found = self.get(place).copied();
        if found.is_none()
            && self.soon.iter().all(|host| host.place != place)
            && let Some(next) = next()
        {
            self.soon.push(Host { place, next });
        }
        found
    }

    fn begin(&mut self) {
        for host in self.soon.drain(..) {
            self.slots[(host.place.hash() >> SHIFT) as usize] = host;
        }
    }

    /// Removes entries whose neighbour has changed or expired.
    fn review(&mut self, next: impl Fn(P) -> Option<Next>) {
        self.soon.clear();
        for host in self.slots.iter_mut() {
            if host.place != P::default() && next(host.place) != Some(host.next) {
                *host = Self::nobody();
            }
        }
    }
}

/// Neighbours of this node, cached by one clone of VLBTransit.
pub(super) struct Leave {
    side4: Side<u32>,
    side6: Side<[u8; 16]>,
    hosts4: Hosts<u64>,
    hosts6: Hosts<[u64; 3]>,
    /// Number of neighbour changes already handled.
    seen: u64,
}

impl Leave {
    /// An empty cache. `first` is VLBTransit's output for port 0.
    pub(super) fn new(
        four: Option<&Outward>,
        six: Option<&Outward>,
        first: usize,
        init: &Init,
    ) -> Leave {
        let place = (first, init);
        let four = four.map(|four| {
            Side::new::<VlbOutput>(four, place, arp::face, |address| address.to_bits())
        });
        let six = six
            .map(|six| Side::new::<VlbOutput6>(six, place, ip6::face, |address| address.octets()));
        let mut leave = Leave {
            side4: four.unwrap_or_else(Side::none),
            side6: six.unwrap_or_else(Side::none),
            hosts4: Hosts::new(),
            hosts6: Hosts::new(),
            seen: 0,
        };
        leave.seen = leave.changes();
        leave
    }

    fn changes(&self) -> u64 {
        self.side4.changes().wrapping_add(self.side6.changes())
    }

    /// Removes outdated entries if neighbours have changed. Call it before the look-ups of each batch. Returns true if
    /// [`ready`](Self::ready) may have another answer now.
    #[inline]
    pub(super) fn follow(&mut self) -> bool {
        let changes = self.changes();
        let changed = changes != self.seen;
        if changed {
            self.seen = changes;
            self.review();
        } else if !(self.hosts4.soon.is_empty() && self.hosts6.soon.is_empty()) {
            self.begin();
        }
        changed
    }

    #[cold]
    fn begin(&mut self) {
        self.hosts4.begin();
        self.hosts6.begin();
    }

    #[cold]
    fn review(&mut self) {
        let Leave { side4, side6, .. } = self;
        self.hosts4.review(|place| {
            let dst = u32::from_be_bytes((place as u32).to_ne_bytes());
            side4.next((place >> 32) as usize - 1, dst)
        });
        self.hosts6.review(|[port, high, low]| {
            let key = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
            side6.next((port >> 32) as usize - 1, key)
        });
    }

    /// Decision for frames with this Ethernet header at their output node.
    pub(super) fn ready(&self, head: &[u8; ETHER_LEN]) -> Ready {
        let &[_, _, _, port, g0, g1, .., t0, t1] = head;
        if port == PORT_SELF {
            return Ready::Not;
        }
        let (port, gateway) = (usize::from(port), usize::from(u16::from_be_bytes([g0, g1])));
        match u16::from_be_bytes([t0, t1]) {
            ether::IPV4 => self.side4.ready(port, gateway, Ready::ByDst4),
            ether::IPV6 => self.side6.ready(port, gateway, Ready::ByDst6),
            _ => Ready::Not,
        }
    }

    /// Ethernet addresses and verdict of a frame to an IPv4 host on a port's own network, if cached.
    #[inline(always)]
    pub(super) fn host4(&self, port: u64, dst: [u8; 4]) -> Option<&Next> {
        self.hosts4.get(place4(port, dst))
    }

    /// Looks up the destination of an IPv4 frame like [`host4`](Self::host4). A missing host may be added for the next
    /// batch.
    pub(super) fn find4(&mut self, port: u64, frame: &[u8]) -> Option<Next> {
        let dst = frame.get(DST4..)?.first_chunk().copied()?;
        let side = &self.side4;
        let next = || side.next((port >> 32) as usize - 1, u32::from_be_bytes(dst));
        self.hosts4.find(place4(port, dst), next)
    }

    /// Looks up the destination of an IPv6 frame like [`find4`](Self::find4).
    pub(super) fn find6(&mut self, port: u64, frame: &[u8]) -> Option<Next> {
        let dst: [u8; 16] = frame.get(DST6..)?.first_chunk().copied()?;
        let (side, words) = (&self.side6, u128::from_be_bytes(dst));
        let next = || side.next((port >> 32) as usize - 1, dst);
        let place = [port, (words >> 64) as u64, words as u64];
        self.hosts6.find(place, next)
    }
}

/// Cache key of a port and an IPv4 address in network byte order.
#[inline(always)]
fn place4(port: u64, dst: [u8; 4]) -> u64 {
    port | u64::from(u32::from_ne_bytes(dst))
}

/// Offset of the IPv4 destination address in a frame, in bytes.
const DST4: usize = ETHER_LEN + 16;
const DST6: usize = ETHER_LEN + ipv6::LEN - 16;
