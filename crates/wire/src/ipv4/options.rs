//! IPv4 options (RFC 791, 3.1; RFC 2113), walked with strict bounds.
//!
//! Offsets are counted from the first byte of the IP header, so that they serve as the pointer of an ICMP
//! Parameter Problem (RFC 792). A fault in an option's length is reported at the length byte.

use core::net::Ipv4Addr;

use crate::bytes::array;
use crate::ipv4::{MAX_LEN, MIN_LEN};

/// End of the list.
pub const EOL: u8 = 0;
/// No operation.
pub const NOP: u8 = 1;
/// Record route.
pub const RR: u8 = 7;
/// Internet timestamp.
pub const TS: u8 = 68;
/// Loose source and record route.
pub const LSRR: u8 = 131;
/// Strict source and record route.
pub const SSRR: u8 = 137;
/// Router alert (RFC 2113).
pub const RA: u8 = 148;

/// A malformed option, with its offset from the first byte of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadOption {
    /// The pointer of the Parameter Problem message.
    pub pointer: u8,
}

/// One well-formed option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// Offset of the type byte in the header.
    pub at: usize,
    /// The whole option: type, length, data.
    pub bytes: &'a [u8],
    /// Decoded option.
    pub option: Opt,
}

/// The options that routers act on. Offsets are counted from the first byte of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opt {
    /// No operation.
    Nop,
    /// Record route.
    RecordRoute(Route),
    /// Loose source route.
    LooseRoute(Route),
    /// Strict source route.
    StrictRoute(Route),
    /// Timestamp.
    Timestamp(Timestamp),
    /// Router alert with its value; 0 requests every router to examine the packet.
    RouterAlert(u16),
    /// Any other option, to be left unchanged.
    Other(u8),
}

/// A list of addresses that is being read (source routes) or filled (record route).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Offset of the pointer byte; add 4 to it after use of the slot.
    pub pointer_at: usize,
    /// Offset of the next address, 4 bytes; `None` at the end of the list.
    pub slot: Option<usize>,
}

/// Times, with or without addresses, that routers fill in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp {
    /// Offset of the pointer byte; add the size of the slot after use.
    pub pointer_at: usize,
    /// Offset of the next slot; `None` when full.
    pub slot: Option<usize>,
    /// Kind of data in a slot.
    pub kind: TimestampKind,
    /// Number of routers that found no room, 0 to 15 (high half of the byte after the pointer).
    pub overflow: u8,
}

/// The forms of the timestamp option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampKind {
    /// A slot is 4 bytes of time.
    Time,
    /// A slot is an address and a time, 8 bytes; every router writes both.
    AddrTime,
    /// A slot is an address given by the sender, and a time that only its owner writes.
    Prespecified,
}

impl TimestampKind {
    /// Size of a slot in bytes.
    #[inline]
    pub const fn slot_len(self) -> usize {
        match self {
            TimestampKind::Time => 4,
            TimestampKind::AddrTime | TimestampKind::Prespecified => 8,
        }
    }
}

/// True if every fragment carries an option of this type (RFC 791: the copied flag).
#[inline]
pub const fn is_copied(kind: u8) -> bool {
    kind & 0x80 != 0
}

/// The address in a slot of `header`. Panics unless the slot comes from the same header.
#[inline]
pub fn slot_addr(header: &[u8], slot: usize) -> Ipv4Addr {
    Ipv4Addr::from(array(header, slot))
}

/// Final destination of an unfinished source route; `None` if the header's destination is the final one.
pub fn final_dst(header: &[u8]) -> Option<Ipv4Addr> {
    let mut at = MIN_LEN;
    // Other options count by their length only: a fault in one of them does not hide the route.
    loop {
        let kind = *header.get(at)?;
        at += match kind {
            EOL => return None,
            NOP => 1,
            LSRR | SSRR => {
                let item = sized(header, at, kind).ok()?;
                if let Opt::LooseRoute(r) | Opt::StrictRoute(r) = item.option
                    && let Some(slot) = r.slot
                {
                    let left = at + item.bytes.len() - slot;
                    return Some(slot_addr(header, slot + left / 4 * 4 - 4));
                }
                item.bytes.len()
            }
            _ => usize::from(*header.get(at + 1)?).max(2),
        };
    }
}

/// The options of a header, in order. Ends after EOL, at the header's end, or after the first fault.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    header: &'a [u8],
    at: usize,
}

impl<'a> Options<'a> {
    /// Walks the options of `header`, which runs from the version to the last option byte.
    #[inline]
    pub fn new(header: &'a [u8]) -> Self {
        Options {
            header: &header[..header.len().min(MAX_LEN)],
            at: MIN_LEN,
        }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Item<'a>, BadOption>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        let kind = *self.header.get(at)?;
        let item = match kind {
            EOL => None,
            NOP => Some(Ok(Item {
                at,
                bytes: &self.header[at..=at],
                option: Opt::Nop,
            })),
            _ => Some(sized(self.header, at, kind)),
        };
        self.at = match &item {
            Some(Ok(item)) => at + item.bytes.len(),
            _ => self.header.len(),
        };
        item
    }
}

/// The option with a length byte at `at`.
fn sized(header: &[u8], at: usize, kind: u8) -> Result<Item<'_>, BadOption> {
    let fault = |offset: usize| BadOption {
        pointer: (at + offset) as u8,
    };
    // An option without a length byte has only its type byte, so the pointer names that byte.
    let len = usize::from(*header.get(at + 1).ok_or(fault(0))?);
    let bytes = match len {
        0 | 1 => return Err(fault(1)),
        _ => header.get(at..at + len).ok_or(fault(1))?,
    };
    let option = match kind {
        RR => Opt::RecordRoute(route(bytes, at)?),
        LSRR => Opt::LooseRoute(route(bytes, at)?),
        SSRR => Opt::StrictRoute(route(bytes, at)?),
        TS => Opt::Timestamp(timestamp(bytes, at)?),
        RA if len == 4 => Opt::RouterAlert(u16::from_be_bytes([bytes[2], bytes[3]])),
        RA => return Err(fault(1)),
        other => Opt::Other(other),
    };
    Ok(Item { at, bytes, option })
}

/// Parses a list of addresses (RFC 791): type, length, pointer (from 1, at least 4), addresses. A remainder shorter
/// than an address is a fault.
fn route(bytes: &[u8], at: usize) -> Result<Route, BadOption> {
    let slot = slot(bytes, at, 4, 4)?;
    Ok(Route {
        pointer_at: at + 2,
        slot,
    })
}

/// Parses a timestamp option (RFC 791): type, length, pointer (from 1, at least 5), overflow and flag, slots.
fn timestamp(bytes: &[u8], at: usize) -> Result<Timestamp, BadOption> {
    let fault = |offset: usize| BadOption {
        pointer: (at + offset) as u8,
    };
    let flags = *bytes.get(3).ok_or(fault(1))?;
    let kind = match flags & 0xf {
        0 => TimestampKind::Time,
        1 => TimestampKind::AddrTime,
        3 => TimestampKind::Prespecified,
        _ => return Err(fault(3)),
    };
    Ok(Timestamp {
        pointer_at: at + 2,
        slot: slot(bytes, at, 5, kind.slot_len())?,
        kind,
        overflow: flags >> 4,
    })
}

/// Offset of the slot to which an option's pointer points, if there is one.
fn slot(bytes: &[u8], at: usize, first: usize, size: usize) -> Result<Option<usize>, BadOption> {
    let fault = |offset: usize| BadOption {
        pointer: (at + offset) as u8,
    };
    let pointer = usize::from(*bytes.get(2).ok_or(fault(1))?);
    if pointer < first {
        return Err(fault(2));
    }
    match bytes.len() {
        len if pointer > len => Ok(None),
        len if pointer - 1 + size > len => Err(fault(2)),
        _ => Ok(Some(at + pointer - 1)),
    }
}

/// Copies the options that later fragments carry into `out`, and returns their length, a multiple of 4 (RFC 791,
/// 3.2). Stops at a fault.
pub fn copied(header: &[u8], out: &mut [u8; MAX_LEN - MIN_LEN]) -> usize {
    let mut len = 0;
    for item in Options::new(header).map_while(Result::ok) {
        if is_copied(item.bytes[0]) {
            out[len..len + item.bytes.len()].copy_from_slice(item.bytes);
            len += item.bytes.len();
        }
    }
    let padded = len.next_multiple_of(4);
    out[len..padded].fill(EOL);
    padded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hammer;
    use std::vec;
    use std::vec::Vec;

    fn header(options: &[u8]) -> Vec<u8> {
        let mut h = vec![0; 20];
        h.extend(options);
        h
    }

    fn walk(options: &[u8]) -> Vec<Result<Opt, u8>> {
        let h = header(options);
        Options::new(&h)
            .map(|r| r.map(|i| i.option).map_err(|e| e.pointer))
            .collect()
    }

    #[test]
    fn well_formed_options_are_told_with_their_places() {
        let route = |slot| Route {
            pointer_at: 22,
            slot,
        };
        assert_eq!(walk(&[]), []);
        assert_eq!(walk(&[0, 7, 7, 7]), []);
        assert_eq!(walk(&[1, 1, 0, 1]), [Ok(Opt::Nop), Ok(Opt::Nop)]);
        assert_eq!(
            walk(&[7, 7, 4, 0, 0, 0, 0, 0]),
            [Ok(Opt::RecordRoute(route(Some(23))))]
        );
        assert_eq!(
            walk(&[7, 7, 8, 1, 2, 3, 4, 0]),
            [Ok(Opt::RecordRoute(route(None)))]
        );
        assert_eq!(walk(&[7, 3, 4, 0]), [Ok(Opt::RecordRoute(route(None)))]);
        assert_eq!(
            walk(&[131, 11, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0]),
            [Ok(Opt::LooseRoute(route(Some(27))))]
        );
        assert_eq!(
            walk(&[137, 7, 4, 1, 2, 3, 4, 0]),
            [Ok(Opt::StrictRoute(route(Some(23))))]
        );
        assert_eq!(walk(&[148, 4, 0, 9]), [Ok(Opt::RouterAlert(9))]);
        assert_eq!(walk(&[130, 3, 0, 1]), [Ok(Opt::Other(130)), Ok(Opt::Nop)]);
        let ts = |slot, kind, overflow| {
            Opt::Timestamp(Timestamp {
                pointer_at: 22,
                slot,
                kind,
                overflow,
            })
        };
        assert_eq!(
            walk(&[68, 8, 5, 0, 0, 0, 0, 0]),
            [Ok(ts(Some(24), TimestampKind::Time, 0))]
        );
        assert_eq!(
            walk(&[68, 8, 9, 0xf0, 0, 0, 0, 0]),
            [Ok(ts(None, TimestampKind::Time, 15))]
        );
        assert_eq!(
            walk(&[68, 12, 5, 0x21, 0, 0, 0, 0, 0, 0, 0, 0]),
            [Ok(ts(Some(24), TimestampKind::AddrTime, 2))]
        );
        assert_eq!(
            walk(&[68, 12, 5, 3, 0, 0, 0, 0, 0, 0, 0, 0]),
            [Ok(ts(Some(24), TimestampKind::Prespecified, 0))]
        );
        let h = header(&[137, 7, 4, 9, 8, 7, 6, 0]);
        assert_eq!(slot_addr(&h, 23), Ipv4Addr::new(9, 8, 7, 6));
    }

    #[test]
    fn every_malformed_option_points_at_the_offending_byte() {
        for (options, pointer) in [
            (&[1, 1, 1, 7][..], 23),           // no length byte
            (&[7, 0, 4, 0], 21),               // length below 2
            (&[7, 1, 4, 0], 21),               //
            (&[7, 5, 4, 0], 21),               // runs past the header
            (&[1, 130, 4, 0], 22),             // the same for an unknown type
            (&[7, 2, 0, 0], 21),               // no room for the pointer
            (&[7, 7, 3, 0, 0, 0, 0, 0], 22),   // pointer below 4
            (&[7, 7, 0, 0, 0, 0, 0, 0], 22),   //
            (&[7, 7, 5, 0, 0, 0, 0, 0], 22),   // room for less than an address
            (&[131, 6, 4, 0, 0, 0, 0, 0], 22), //
            (&[68, 3, 5, 0], 21),              // timestamp without flags
            (&[68, 8, 4, 0, 0, 0, 0, 0], 22),  // pointer below 5
            (&[68, 8, 6, 0, 0, 0, 0, 0], 22),  // room for less than a slot
            (&[68, 8, 5, 1, 0, 0, 0, 0], 22),  // the same for address and time
            (&[68, 8, 5, 2, 0, 0, 0, 0], 23),  // unknown flag
            (&[148, 3, 0, 0], 21),             // router alert of a wrong length
            (&[148, 5, 0, 0, 0, 0, 0, 0], 21), //
        ] {
            assert_eq!(walk(options).pop(), Some(Err(pointer)), "{options:?}");
        }
    }

    #[test]
    fn the_walk_ends_behind_a_fault() {
        let h = header(&[1, 7, 0, 1]);
        let mut options = Options::new(&h);
        assert!(options.next().is_some_and(|r| r.is_ok()));
        assert!(options.next().is_some_and(|r| r.is_err()));
        assert!(options.next().is_none());
    }

    #[test]
    fn later_fragments_carry_the_copied_options_padded() {
        let mut out = [0xaa; 40];
        let h = header(&[7, 7, 4, 0, 0, 0, 0, 148, 4, 0, 0, 1, 130, 3, 5, 0]);
        assert_eq!(copied(&h, &mut out), 8);
        assert_eq!(out[..8], [148, 4, 0, 0, 130, 3, 5, 0]);
        assert_eq!(copied(&header(&[]), &mut out), 0);
        let mut full = vec![130, 40];
        full.resize(40, 9);
        assert_eq!(copied(&header(&full), &mut out), 40);
        assert_eq!(out[..], full[..]);
    }

    #[test]
    fn a_source_route_ends_at_its_last_address() {
        for (options, end) in [
            (&[131, 7, 4, 1, 2, 3, 4, 0][..], Some([1, 2, 3, 4])),
            (&[1, 137, 11, 4, 1, 2, 3, 4, 5, 6, 7, 8], Some([5, 6, 7, 8])),
            (&[131, 11, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0], Some([5, 6, 7, 8])),
            (&[131, 7, 8, 1, 2, 3, 4, 0], None),
            (&[7, 7, 4, 1, 2, 3, 4, 0], None),
            // A timestamp option with a wrong pointer before the route: Click sums up with its last address, too.
            (&[68, 4, 2, 9, 131, 7, 4, 1, 2, 3, 4, 0], Some([1, 2, 3, 4])),
            (&[68, 40, 5, 0], None),
        ] {
            assert_eq!(final_dst(&header(options)), end.map(Ipv4Addr::from));
        }
    }

    #[test]
    fn no_bytes_make_it_panic_and_slots_stay_inside() {
        let sample = header(&[
            7, 7, 4, 0, 0, 0, 0, 1, 68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0, 131, 7, 4, 1, 2, 3, 4,
            148, 4, 0, 0, 0,
        ]);
        hammer(&sample, |bytes| {
            copied(bytes, &mut [0; 40]);
            let _ = final_dst(bytes);
            for item in Options::new(bytes).flatten() {
                let (slot, size) = match item.option {
                    Opt::RecordRoute(r) | Opt::LooseRoute(r) | Opt::StrictRoute(r) => (r.slot, 4),
                    Opt::Timestamp(t) => (t.slot, t.kind.slot_len()),
                    _ => (None, 0),
                };
                assert!(slot.is_none_or(|s| s + size <= item.at + item.bytes.len()));
            }
        });
    }
}
