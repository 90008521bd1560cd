//! Reassembles fragmented packets to the router itself.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIP6Header -> r :: IP6Reassembler -> Discard;
//! r[1] -> ICMP6Error(2001:db8::1, timeexceeded, reassembly) -> Discard;
//! r[2] -> ICMP6Error(2001:db8::1, parameterproblem) -> Discard;
//! ```
//!
//! Use it only for packets to the router itself: a router never reassembles packets that it forwards. Packets
//! without fragment header pass. A fragment that is a whole packet loses its fragment header (RFC 6946). Other
//! fragments are kept until their packet is complete (RFC 8200, 4.5); it then leaves as if it had come whole.
//!
//! If a packet is not complete `TIMEOUT` after its first fragment has come, it is given up: the fragment with
//! offset 0, if it has come, leaves by output 1, or is dropped (`timeout`). If fragments overlap, all fragments
//! of the packet are dropped, also those that still come (`overlap`; RFC 5722); an exact copy of a fragment is
//! dropped (`duplicate`). Fragments with a fault that must be reported to the source leave by output 2,
//! annotated for ICMP6Error, or are dropped (`bad_fragment`). Such faults are: a length that is not a multiple
//! of 8 (except in the last fragment), a packet longer than 65,535 bytes, a first fragment without all headers
//! (RFC 7112). A packet that is longer than 65,535 bytes together with its header is dropped (`too_long`).
//!
//! The fragments of a reassembled packet, except the first, are counted as `merged`. When there are more than
//! `DATAGRAMS` incomplete packets, one is dropped (`evicted`). So memory is bounded: two buffers for each. One in
//! eight of them may be longer than a buffer: it has one of a few large buffers (64 KiB), and one such packet is
//! dropped when another needs its buffer. The dropped packet is the oldest of the source with most of them, where a
//! source is a network of 64 bits. So a source of many fragments takes no space from others.
//!
//! Keyword arguments:
//!
//! - `TIMEOUT`: time for which a packet waits for its fragments. Default 60s.
//! - `DATAGRAMS`: incomplete packets, on each worker. Default 64.

use super::fragments::{Added, FragmentInfo, PartialBody, bad_fragment};
use super::{fault, header_chain};
use crate::prelude::*;
use engine::packet::pool;
use std::collections::HashMap;
use std::time::Duration;
use wire::{Ipv6, ext, ipv6};

drops! {
    TIMEOUT = "timeout",
    OVERLAP = "overlap",
    DUPLICATE = "duplicate",
    BAD_FRAGMENT = "bad_fragment",
    UNREPORTED = "unreported",
    TOO_LONG = "too_long",
    MERGED = "merged",
    EVICTED = "evicted",
    NO_BUFFER = "no_buffer",
    ECN = "ecn",
}
/// Divisor for the number of incomplete packets that may have a large buffer.
const LARGE_SHARE: usize = 8;
/// Pseudo-verdict: the packet is a fragment.
const TAKE: Verdict = Verdict::out(254);

pub(super) struct Config {
    timeout: Duration,
    datagrams: usize,
}

/// Source, destination and identification.
type Id = ([u8; 32], u32);

/// The network that a packet comes from: one host may use all addresses of it.
fn source(id: &Id) -> &[u8] {
    &id.0[..8]
}

/// An incomplete packet.
struct Datagram {
    id: Id,
    until: Time,
    first: Option<(Packet, FragmentInfo)>,
    /// Received data; `None` after an overlap, when all further fragments are dropped.
    body: Option<PartialBody>,
}

pub(super) struct IP6Reassembler {
    config: Arc<Config>,
    /// Incomplete packets, oldest first.
    unfinished: Vec<Datagram>,
    /// Bitmaps of finished bodies, for reuse.
    spare: Vec<Vec<u64>>,
    whole: u64,
}

struct Hands<'a, 'b> {
    element: &'a mut IP6Reassembler,
    cx: &'a mut Cx<'b>,
}

/// Finds a fragment header, and removes it from an atomic fragment.
fn sort(packet: &mut Packet) -> Verdict {
    let whole = header_chain::whole(packet).unwrap_or(&[]);
    match FragmentInfo::of(whole) {
        Some(piece) if piece.is_atomic() => {
            let len = whole.len();
            match unwrap(packet, &piece, len) {
                Some(()) => Verdict::ON,
                None => Verdict::drop(TOO_LONG),
            }
        }
        Some(_) => TAKE,
        None => Verdict::ON,
    }
}

/// Removes the fragment header from a packet that ends after `len` bytes.
fn unwrap(packet: &mut Packet, piece: &FragmentInfo, len: usize) -> Option<()> {
    let offset = packet.network_offset();
    if !packet.pull(offset) {
        return None;
    }
    packet.truncate(len);
    let bytes = packet.data_mut();
    *bytes.get_mut(piece.named_at)? = piece.next;
    bytes.copy_within(..piece.at, ext::FRAGMENT_LEN);
    if !packet.pull(ext::FRAGMENT_LEN) {
        return None;
    }
    packet.set_network_offset(0);
    packet.set_transport_offset(ipv6::LEN);
    let payload = packet.len().checked_sub(ipv6::LEN)?;
    Ipv6::new_unchecked(packet.data_mut()).set_payload_len(payload as u16);
    Some(())
}

impl IP6Reassembler {
    fn fragment(&mut self, mut packet: Packet, cx: &mut Cx) {
        let whole = header_chain::whole(&packet).unwrap_or(&[]);
        let Some(piece) = FragmentInfo::of(whole) else {
            return;
        };
        if let Some(bad) = bad_fragment(whole, &piece) {
            let verdict = match fault::record(&mut packet, bad) {
                true => Verdict::reject(BAD_FRAGMENT, 2),
                false => Verdict::drop(UNREPORTED),
            };
            return cx.send(packet, verdict);
        }
        let at = self.datagram(whole, &piece, cx);
        let Some(at) = at.and_then(|at| self.make_room(at, &piece, cx)) else {
            return cx.drop(packet, NO_BUFFER);
        };
        let datagram = &mut self.unfinished[at];
        let added = match &mut datagram.body {
            Some(body) => body.add(whole, &piece),
            None => Added::Overlap,
        };
        match added {
            Added::New => self.hold_fragment(at, packet, piece, cx),
            Added::Duplicate => cx.drop(packet, DUPLICATE),
            Added::Overlap => {
                cx.drop(packet, OVERLAP);
                self.forbid(at, cx);
            }
        }
    }

    /// Index of the incomplete packet of a fragment, created on demand.
    fn datagram(&mut self, whole: &[u8], piece: &FragmentInfo, cx: &mut Cx) -> Option<usize> {
        let id = (*whole.get(8..)?.first_chunk()?, piece.ident);
        if let Some(at) = self.unfinished.iter().position(|d| d.id == id) {
            return Some(at);
        }
        if self.unfinished.len() >= self.config.datagrams
            && let Some(victim) = self.eviction_candidate(&id, |_| true)
        {
            self.evict(victim, cx);
        }
        let body = PartialBody::new(self.spare.pop().unwrap_or_default())?;
        let until = cx.now() + self.config.timeout;
        cx.set_timer(until);
        self.unfinished.push(Datagram {
            id,
            until,
            first: None,
            body: Some(body),
        });
        Some(self.unfinished.len() - 1)
    }

    /// Gives a body a large buffer if a piece reaches beyond a usual one. Few may have one: one of
    /// them goes. Returns where the unfinished packet is then.
    fn make_room(&mut self, mut at: usize, piece: &FragmentInfo, cx: &mut Cx) -> Option<usize> {
        let body = self.unfinished[at].body.as_ref();
        if body.is_none_or(|body| piece.end() <= body.end_max()) {
            return Some(at);
        }
        let is_large = |d: &Datagram| d.body.as_ref().is_some_and(PartialBody::is_large);
        let large = self.unfinished.iter().filter(|d| is_large(d)).count();
        if large >= (self.config.datagrams / LARGE_SHARE).max(1)
            && let Some(victim) = self.eviction_candidate(&self.unfinished[at].id, is_large)
        {
            self.evict(victim, cx);
            at -= usize::from(victim < at);
        }
        let grown = self.unfinished[at]
            .body
            .as_mut()
            .is_some_and(PartialBody::grow);
        grown.then_some(at)
    }

    /// Chooses an unfinished packet that makes room for a new one: the oldest of the source that then has most of them.
    fn eviction_candidate(
        &self,
        newcomer: &Id,
        is_one: impl Fn(&Datagram) -> bool,
    ) -> Option<usize> {
        let mut sources = HashMap::from([(source(newcomer), 1)]);
        let some = || {
            self.unfinished
                .iter()
                .enumerate()
                .filter(|(_, d)| is_one(d))
        };
        for (_, datagram) in some() {
            *sources.entry(source(&datagram.id)).or_insert(0usize) += 1;
        }
        let count = |(_, datagram): &(usize, &Datagram)| sources.get(source(&datagram.id));
        // The oldest of the sources with the most fragments.
        let most = some().max_by_key(|one| (count(one), std::cmp::Reverse(one.0)));
        most.map(|(at, _)| at)
    }

    fn evict(&mut self, at: usize, cx: &mut Cx) {
        let datagram = self.unfinished.remove(at);
        self.end(datagram, Verdict::drop(EVICTED), cx);
    }

    /// Holds a fragment whose bytes are in the body. Emits the packet if it is complete.
    fn hold_fragment(&mut self, at: usize, packet: Packet, piece: FragmentInfo, cx: &mut Cx) {
        let datagram = &mut self.unfinished[at];
        let complete = datagram.body.as_ref().is_some_and(PartialBody::is_complete);
        if piece.offset == 0 {
            datagram.first = Some((packet, piece));
        } else {
            cx.drop(packet, MERGED);
        }
        if complete {
            let Datagram { first, body, .. } = self.unfinished.remove(at);
            if let (Some(first), Some(body)) = (first, body) {
                self.finish(first, body, cx);
            }
        }
    }

    /// Turns the first fragment into the complete packet.
    fn finish(
        &mut self,
        (mut packet, piece): (Packet, FragmentInfo),
        body: PartialBody,
        cx: &mut Cx,
    ) {
        let len = piece.at + ext::FRAGMENT_LEN + piece.len;
        if piece.at + body.len().unwrap_or(0) > pool::LARGE_BYTES {
            self.spare.push(body.into_map());
            return cx.drop(packet, TOO_LONG);
        }
        let unwrapped = unwrap(&mut packet, &piece, len);
        match unwrapped.and_then(|()| body.append_to(&mut packet, piece.len)) {
            Some(true) => {
                self.whole += 1;
                cx.emit(0, packet);
            }
            // RFC 3168, 5.3: congestion was marked for a sender without ECN.
            Some(false) => cx.drop(packet, ECN),
            None => cx.drop(packet, NO_BUFFER),
        }
        self.spare.push(body.into_map());
    }

    /// Discards the known part of a packet, and drops its later fragments.
    fn forbid(&mut self, at: usize, cx: &mut Cx) {
        let datagram = &mut self.unfinished[at];
        if let Some((packet, _)) = datagram.first.take() {
            cx.drop(packet, OVERLAP);
        }
        if let Some(body) = datagram.body.take() {
            self.spare.push(body.into_map());
        }
    }

    fn end(&mut self, datagram: Datagram, verdict: Verdict, cx: &mut Cx) {
        if let Some((packet, _)) = datagram.first {
            cx.send(packet, verdict);
        }
        if let Some(body) = datagram.body {
            self.spare.push(body.into_map());
        }
    }
}

impl Element for IP6Reassembler {
    const CONTRACT: Contract = Contract::new("IP6Reassembler", manual!())
        .ports(Ports::coded(
            &["in"],
            &["out", "timeout?", "problem?"],
            "h/h",
        ))
        .needs(&[Facts::IP6])
        .spoils(Facts::ETHER)
        .drops(DROPS);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let minute = Duration::from_secs(60);
        Config {
            timeout: args.key("TIMEOUT", minute, "when an incomplete packet is given up"),
            datagrams: args
                .key(
                    "DATAGRAMS",
                    Capacity(64),
                    "incomplete packets on each worker",
                )
                .0,
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> IP6Reassembler {
        IP6Reassembler {
            config: Arc::clone(config),
            unfinished: Vec::new(),
            spare: Vec::new(),
            whole: 0,
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        batch.split(
            &mut Hands { element: self, cx },
            |packet, _| sort(packet),
            |packet, verdict, hands| match verdict {
                TAKE => hands.element.fragment(packet, hands.cx),
                other => hands.cx.send(packet, other),
            },
        );
    }

    fn timer(&mut self, cx: &mut Cx) {
        let now = cx.now();
        while self.unfinished.first().is_some_and(|d| d.until <= now) {
            let datagram = self.unfinished.remove(0);
            self.end(datagram, Verdict::reject(TIMEOUT, 1), cx);
        }
        if let Some(next) = self.unfinished.first() {
            cx.set_timer(next.until);
        }
    }

    fn held(&self) -> usize {
        // A body is a buffer, not a packet: the first fragment becomes the packet in the end.
        let held = |d: &Datagram| usize::from(d.first.is_some());
        self.unfinished.iter().map(held).sum()
    }

    fn take(&mut self, old: IP6Reassembler) {
        self.unfinished = old.unfinished;
    }

    const HANDLERS: &'static [Handler<IP6Reassembler>] = &[
        counter!("whole", "packets reassembled", whole),
        Handler::sum("length", "incomplete packets", |e| {
            e.unfinished.len() as u64
        }),
    ];
}

#[cfg(test)]
mod tests;
