//! Reassembles fragmented IPv4 packets.
//!
//! A router forwards fragments unchanged; only packets to the router itself need this element (RFC 791, 3.2; RFC
//! 1812, 4.2.1 and 4.3.3). Whole packets pass. Fragments wait until all fragments of their packet have arrived. Every
//! worker keeps its own fragments: devices put all fragments of a packet into one queue, because their hash ignores
//! the ports of fragments.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> r :: IPReassembler -> Discard;
//! r[1] -> ICMPError(10.0.0.1, timeexceeded, reassembly) -> Discard;
//! ```
//!
//! After `TIMEOUT` the first fragment leaves by output 1, if it has arrived and output 1 is connected (ICMPError
//! makes a message of it); the others are dropped. In `ashlar click` the time runs from the latest fragment, and all
//! fragments leave in one packet, at their offsets, with zeros between them. Fragments that overlap, or that disagree
//! about the end of the packet, are an attack or an error: the whole packet is dropped. (Of two that overlap `ashlar
//! click` keeps the first.) A repeated fragment does no harm. Fragments beyond the maximum packet length of 65,535
//! bytes are dropped as `too_long`. A packet that is longer than a buffer is reassembled in one of a few large
//! buffers. The fragments of a reassembled packet, except the first, are counted as `merged`.
//!
//! Keyword arguments:
//!
//! - `HIMEM`: bytes of waiting buffers, on each worker; above it the oldest packets are dropped until three
//!   quarters are left. Default 262144. `ashlar click` counts the bytes of the packets instead of the buffers.
//! - `MAX_MTU_ANNO`: number of the first of two annotation bytes, which get the length of the longest fragment
//!   of a reassembled packet, in host byte order. Default is none.
//! - `TIMEOUT`: time for which a packet waits after its first fragment has arrived. Default 60s (RFC 1122, 3.3.2), in
//!   `ashlar click` 30s.

use super::pending::{Added, Fragment, Key, Table};
use crate::anno::Anno;
use crate::prelude::*;
use engine::packet::pool;
use std::time::Duration;
use wire::Ipv4;

drops! {
    TIMEOUT = "timeout",
    OVERLAP = "overlap",
    DUPLICATE = "duplicate",
    BAD_FRAGMENT = "bad_fragment",
    TOO_LONG = "too_long",
    EVICTED = "evicted",
    NO_BUFFER = "no_buffer",
    MERGED = "merged",
}

pub(super) struct Config {
    himem: usize,
    longest: Option<Anno<2>>,
    timeout: Option<Duration>,
}

pub(super) struct IPReassembler {
    config: Arc<Config>,
    timeout: Duration,
    /// True if `HIMEM` limits the bytes of packets instead of their buffers.
    as_click: bool,
    table: Table,
    reassembled: u64,
}

impl Element for IPReassembler {
    const CONTRACT: Contract = Contract::new("IPReassembler", manual!())
        .ports(Ports::coded(&["in"], &["out", "timeout?"], "h/h"))
        .needs(&[Facts::IP4])
        .drops(DROPS);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        Config {
            himem: args.key("HIMEM", 256 * 1024, "bytes of buffers that may wait"),
            longest: args.key_maybe(
                "MAX_MTU_ANNO",
                "two bytes of annotations for the longest fragment",
            ),
            timeout: args.key_maybe(
                "TIMEOUT",
                "time for which the fragments of a packet wait. Default 60s",
            ),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> IPReassembler {
        let as_click = init.as_click();
        let usual = if as_click { 30 } else { 60 };
        IPReassembler {
            as_click,
            timeout: config.timeout.unwrap_or(Duration::from_secs(usual)),
            config: Arc::clone(config),
            table: Table::new(as_click),
            reassembled: 0,
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        let is_fragment = |p: &Packet| super::header(p).is_none_or(|ip| ip.is_fragment());
        if !batch.iter().any(is_fragment) {
            return;
        }
        let mut out = cx.spare();
        for packet in batch.drain() {
            if is_fragment(&packet) {
                out.extend(self.fragment(packet, cx));
            } else {
                out.push(packet);
            }
        }
        batch.append(&mut out);
        cx.keep_spare(out);
        self.limit(cx);
        self.set_timer(cx);
    }

    fn timer(&mut self, cx: &mut Cx) {
        let (now, timeout) = (cx.now(), self.timeout);
        let due = |since: Time| since + timeout <= now;
        while self.table.oldest().is_some_and(due)
            && let Some(mut fragments) = self.table.pop_oldest()
        {
            if self.as_click
                && cx.connected(1)
                && let Some(part) = reassemble(&fragments)
            {
                cx.emit(1, part);
                // The part takes over the first fragment.
                drop(fragments.swap_remove(0));
            }
            for fragment in fragments.drain(..) {
                if fragment.offset == 0 && cx.connected(1) {
                    cx.emit(1, fragment.packet);
                } else {
                    cx.drop(fragment.packet, TIMEOUT);
                }
            }
            self.table.recycle(fragments);
        }
        self.set_timer(cx);
    }

    fn held(&self) -> usize {
        self.table.packets()
    }

    fn take(&mut self, old: IPReassembler) {
        self.table = old.table;
    }

    const HANDLERS: &'static [Handler<IPReassembler>] = &[
        counter!("reassembled", "packets reassembled", reassembled),
        Handler::sum("waiting", "fragments that wait", |e| {
            e.table.packets() as u64
        }),
    ];
}

impl IPReassembler {
    /// Adds a fragment. Returns the packet that it completes.
    fn fragment(&mut self, packet: Packet, cx: &mut Cx) -> Option<Packet> {
        let (key, fragment) = match parse(packet) {
            Ok(parsed) => parsed,
            Err((packet, reason)) => {
                cx.drop(packet, reason);
                return None;
            }
        };
        match self.table.add(key, fragment, cx.now()) {
            Added::Held => None,
            Added::Duplicate(packet) => {
                cx.drop(packet, DUPLICATE);
                None
            }
            Added::Overlap(fragments) => {
                self.drop_all(fragments, OVERLAP, cx);
                None
            }
            Added::Complete(fragments) => self.join(fragments, cx),
        }
    }

    fn drop_all(&mut self, mut fragments: Vec<Fragment>, reason: u8, cx: &mut Cx) {
        for fragment in fragments.drain(..) {
            cx.drop(fragment.packet, reason);
        }
        self.table.recycle(fragments);
    }

    /// Joins fragments into a packet with the header of the first.
    fn join(&mut self, mut fragments: Vec<Fragment>, cx: &mut Cx) -> Option<Packet> {
        let Some(mut whole) = reassemble(&fragments) else {
            self.drop_all(fragments, NO_BUFFER, cx);
            return None;
        };
        if let Some(anno) = self.config.longest {
            let longest = fragments.iter().map(Fragment::total_len).max();
            anno.set(&mut whole, (longest.unwrap_or(0) as u16).to_ne_bytes());
        }
        self.reassembled += 1;
        // The whole packet takes over the first fragment.
        drop(fragments.swap_remove(0));
        self.drop_all(fragments, MERGED, cx);
        Some(whole)
    }

    /// Drops the oldest datagrams if more than HIMEM bytes wait, until at most three quarters of HIMEM remain.
    fn limit(&mut self, cx: &mut Cx) {
        let as_click = self.as_click;
        let bytes = |table: &Table| match as_click {
            true => table.bytes(),
            false => table.packets() * pool::data_bytes(),
        };
        if bytes(&self.table) <= self.config.himem {
            return;
        }
        while bytes(&self.table) > self.config.himem / 4 * 3
            && let Some(fragments) = self.table.pop_oldest()
        {
            self.drop_all(fragments, EVICTED, cx);
        }
    }

    fn set_timer(&self, cx: &mut Cx) {
        if let Some(since) = self.table.oldest() {
            cx.set_timer(since + self.timeout);
        }
    }
}

/// Parses a fragment and the key of its datagram.
///
/// # Errors
///
/// The packet and its drop reason.
fn parse(packet: Packet) -> Result<(Key, Fragment), (Packet, u8)> {
    let Some(ip) = super::header(&packet) else {
        return Err((packet, BAD_FRAGMENT));
    };
    let key = Key {
        src: ip.src(),
        dst: ip.dst(),
        protocol: ip.protocol(),
        ident: ip.ident(),
    };
    let (offset, last) = (ip.fragment_offset(), !ip.more_fragments());
    let header_len = ip.header_len();
    let payload = packet.network_offset() + header_len;
    let len = super::datagram(&packet).len() - header_len;
    // All fragments but the last end at a multiple of 8 bytes, since offsets count in such units.
    if len == 0 || !last && !len.is_multiple_of(8) {
        return Err((packet, BAD_FRAGMENT));
    }
    if payload + offset + len > usize::from(u16::MAX) {
        return Err((packet, TOO_LONG));
    }
    let fragment = Fragment {
        packet,
        payload,
        offset,
        len,
        last,
    };
    Ok((key, fragment))
}

/// Packet with the header of the first fragment and the payload of all. `None` without a free buffer or a first
/// fragment.
fn reassemble(fragments: &[Fragment]) -> Option<Packet> {
    let first = fragments.first().filter(|f| f.offset == 0)?;
    let len = first.payload + fragments.last().map_or(0, Fragment::end);
    let mut whole = first.packet.copy_with_room(len)?;
    whole.truncate(first.payload + first.len);
    for fragment in &fragments[1..] {
        let gap = (first.payload + fragment.offset).checked_sub(whole.len())?;
        whole.put(gap)?.fill(0);
        whole.put(fragment.len)?.copy_from_slice(fragment.bytes());
    }
    let total_len = whole.len() - whole.network_offset();
    let mut ip = Ipv4::new_unchecked(whole.network_mut());
    ip.set_total_len(total_len as u16);
    ip.set_fragment_word(0);
    ip.fill_checksum();
    Some(whole)
}

#[cfg(test)]
#[path = "ip_reassembler_tests.rs"]
mod tests;
