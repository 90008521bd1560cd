//! Processing of a packet's options by routers and hosts (RFC 791, 3.1; RFC 1122, 3.2.1.8 and 3.2.2.6; RFC 1812,
//! 4.2.2.2 and 5.3.13).

use std::net::Ipv4Addr;
use wire::ipv4_options::{Opt, Options, Route, Timestamp, TimestampKind, slot_addr};
use wire::{Ipv4, ipv4};

/// Offset in the user annotations of the header offset at which this router has recorded its address in a source route;
/// 0 if it has not.
pub(crate) const SOURCE_ROUTED: usize = 18;

/// Milliseconds since midnight UT, for the timestamp option.
pub(crate) fn day_ms(timestamp: u64) -> u32 {
    (timestamp / 1_000_000 % 86_400_000) as u32
}

/// Records this router's address and the time in the record route and timestamp options of `header`. Returns true if
/// the header has changed; the caller updates the checksum. `mine` contains all addresses of the router, `me` the one
/// to record.
///
/// # Errors
///
/// The offset of an invalid byte; options before it may have changed.
pub(crate) fn record(
    header: &mut [u8],
    me: Ipv4Addr,
    mine: &[Ipv4Addr],
    time: u32,
) -> Result<bool, u8> {
    let mut before = [0; ipv4::MAX_LEN];
    let before = &mut before[..header.len().min(ipv4::MAX_LEN)];
    before.copy_from_slice(&header[..before.len()]);
    let mut changed = false;
    for item in Options::new(before) {
        match item.map_err(|bad| bad.pointer)?.option {
            Opt::RecordRoute(Route {
                pointer_at,
                slot: Some(slot),
            }) => {
                header[slot..slot + 4].copy_from_slice(&me.octets());
                header[pointer_at] += 4;
                changed = true;
            }
            Opt::Timestamp(option) => changed |= stamp(header, option, me, mine, time)?,
            _ => {}
        }
    }
    Ok(changed)
}

fn stamp(
    header: &mut [u8],
    option: Timestamp,
    me: Ipv4Addr,
    mine: &[Ipv4Addr],
    time: u32,
) -> Result<bool, u8> {
    let flags_at = option.pointer_at + 1;
    let Some(slot) = option.slot else {
        if option.kind == TimestampKind::Prespecified {
            return Ok(false); // the option names other routers, so no room is missing
        }
        if option.overflow == 15 {
            return Err(flags_at as u8);
        }
        header[flags_at] += 0x10;
        return Ok(true);
    };
    let time_at = match option.kind {
        TimestampKind::Time => slot,
        TimestampKind::AddrTime => {
            header[slot..slot + 4].copy_from_slice(&me.octets());
            slot + 4
        }
        TimestampKind::Prespecified => {
            let asked = slot_addr(header, slot);
            if asked != me && !mine.contains(&asked) {
                return Ok(false);
            }
            slot + 4
        }
    };
    header[time_at..time_at + 4].copy_from_slice(&time.to_be_bytes());
    header[option.pointer_at] += option.kind.slot_len() as u8;
    Ok(true)
}

/// Source route of a reply: the recorded part of the packet's route, reversed (RFC 1812, 4.3.2.6; RFC 1122, 3.2.2.6).
pub(crate) struct Reversed {
    /// First destination of the reply.
    pub(crate) first: Ipv4Addr,
    bytes: [u8; ipv4::MAX_LEN - ipv4::MIN_LEN],
    len: usize,
}

impl Reversed {
    /// Route back to the source of a packet, if a part of its source route was travelled. `own` is the offset of the
    /// address that this router has recorded, or 0.
    pub(crate) fn of(header: &[u8], own: usize) -> Option<Reversed> {
        let mut found = Options::new(header).map_while(Result::ok);
        let (item, route) = found.find_map(|item| match item.option {
            Opt::LooseRoute(route) | Opt::StrictRoute(route) => Some((item, route)),
            _ => None,
        })?;
        let end = route.slot.unwrap_or(item.at + item.bytes.len());
        let end = if own == 0 { end } else { own.min(end) };
        let passed = end.saturating_sub(item.at + 3) / 4;
        let slot = |i: usize| slot_addr(header, item.at + 3 + 4 * i);
        let first = slot(passed.checked_sub(1)?);
        let mut bytes = [0; ipv4::MAX_LEN - ipv4::MIN_LEN];
        let len = 3 + 4 * passed;
        bytes[..3].copy_from_slice(&[item.bytes[0], len as u8, 4]);
        let source = Ipv4Addr::from([header[12], header[13], header[14], header[15]]);
        let back = (0..passed - 1).rev().map(slot).chain([source]);
        for (place, address) in bytes[3..].chunks_exact_mut(4).zip(back) {
            place.copy_from_slice(&address.octets());
        }
        Some(Reversed { first, bytes, len })
    }

    /// Reversed route as in Click: the reply goes directly to the source, although its option lists the packet's whole
    /// path.
    pub(crate) fn of_click(header: &[u8]) -> Option<Reversed> {
        let mut found = Options::new(header).map_while(Result::ok);
        let (item, route) = found.find_map(|item| match item.option {
            Opt::LooseRoute(route) | Opt::StrictRoute(route) => Some((item, route)),
            _ => None,
        })?;
        let end = route.slot.unwrap_or(item.at + item.bytes.len());
        let passed = end.saturating_sub(item.at + 3) / 4;
        let len = 3 + 4 * passed;
        let mut bytes = [0; ipv4::MAX_LEN - ipv4::MIN_LEN];
        bytes[..3].copy_from_slice(&[item.bytes[0], len as u8, 4]);
        let back = (0..passed)
            .rev()
            .map(|i| slot_addr(header, item.at + 3 + 4 * i));
        for (place, address) in bytes[3..].chunks_exact_mut(4).zip(back) {
            place.copy_from_slice(&address.octets());
        }
        let first = Ipv4Addr::from([header[12], header[13], header[14], header[15]]);
        Some(Reversed { first, bytes, len })
    }

    /// Bytes of the option.
    pub(crate) fn option(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Bytes of the option, padded to a multiple of 4 bytes.
    pub(crate) fn padded(&self) -> &[u8] {
        &self.bytes[..self.len.next_multiple_of(4)]
    }
}

/// Recomputes the checksum of a header.
pub(super) fn fill_checksum(header: &mut [u8]) {
    Ipv4::new_unchecked(header).fill_checksum();
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::ipv4_options::{LSRR, RR, SSRR, TS};

    const ME: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);

    fn with(options: &[u8]) -> Vec<u8> {
        let mut header = vec![0; 20];
        header[12..16].copy_from_slice(&[192, 0, 2, 1]);
        header.extend(options);
        header.resize(header.len().next_multiple_of(4), 0);
        header[0] = 0x40 | (header.len() / 4) as u8;
        header
    }

    fn recorded(options: &[u8]) -> Result<Vec<u8>, u8> {
        let mut header = with(options);
        record(&mut header, ME, &[OTHER], 0x0102_0304)?;
        Ok(header[20..20 + options.len()].to_vec())
    }

    #[test]
    fn record_route_takes_addresses_until_it_is_full() {
        let empty = [RR, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0];
        let one = [RR, 11, 8, 10, 0, 0, 1, 0, 0, 0, 0];
        let two = [RR, 11, 12, 10, 0, 0, 1, 10, 0, 0, 1];
        assert_eq!(recorded(&empty), Ok(one.to_vec()));
        assert_eq!(recorded(&one), Ok(two.to_vec()));
        assert_eq!(recorded(&two), Ok(two.to_vec()), "full: passed as it is");
        assert_eq!(recorded(&[RR, 11, 7, 0, 0, 0, 0, 0, 0, 0, 0]), {
            Ok(vec![RR, 11, 11, 0, 0, 0, 10, 0, 0, 1, 0])
        });
        assert_eq!(
            recorded(&[RR, 11, 10, 0, 0, 0, 0, 0, 0, 0, 0]),
            Err(22),
            "some room, not enough: the pointer is at fault"
        );
    }

    #[test]
    fn timestamps_are_written_as_their_flag_says() {
        assert_eq!(
            recorded(&[TS, 8, 5, 0, 0, 0, 0, 0]),
            Ok(vec![TS, 8, 9, 0, 1, 2, 3, 4])
        );
        assert_eq!(
            recorded(&[TS, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
            Ok(vec![TS, 12, 13, 1, 10, 0, 0, 1, 1, 2, 3, 4])
        );
        for mine in [ME, OTHER] {
            let [a, b, c, d] = mine.octets();
            assert_eq!(
                recorded(&[TS, 12, 5, 3, a, b, c, d, 0, 0, 0, 0]),
                Ok(vec![TS, 12, 13, 3, a, b, c, d, 1, 2, 3, 4])
            );
        }
        let foreign = [TS, 12, 5, 3, 192, 0, 2, 9, 0, 0, 0, 0];
        assert_eq!(recorded(&foreign), Ok(foreign.to_vec()));
    }

    #[test]
    fn a_full_timestamp_option_counts_who_found_no_room_up_to_fifteen() {
        for overflow in 0..15u8 {
            let full = [TS, 8, 9, overflow << 4, 9, 9, 9, 9];
            let counted = [TS, 8, 9, (overflow + 1) << 4, 9, 9, 9, 9];
            assert_eq!(recorded(&full), Ok(counted.to_vec()));
        }
        assert_eq!(recorded(&[TS, 8, 9, 0xf0, 9, 9, 9, 9]), Err(23));
    }

    #[test]
    fn bad_options_are_pointed_at_and_unknown_ones_pass() {
        assert_eq!(recorded(&[RR, 2]), Err(21));
        assert_eq!(recorded(&[1, RR, 40, 4]), Err(22));
        assert_eq!(recorded(&[TS, 8, 5, 2, 0, 0, 0, 0]), Err(23));
        assert_eq!(
            recorded(&[0x94, 4, 0, 0, 30, 2]),
            Ok(vec![0x94, 4, 0, 0, 30, 2])
        );
    }

    #[test]
    fn the_way_back_is_the_recorded_route_backwards() {
        // Passed: 1.1.1.1, 2.2.2.2; remaining: 3.3.3.3.
        let route = |kind, pointer| with(&[kind, 15, pointer, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]);
        let back = Reversed::of(&route(LSRR, 12), 0).unwrap();
        assert_eq!(back.first, Ipv4Addr::new(2, 2, 2, 2));
        assert_eq!(back.option(), [LSRR, 11, 4, 1, 1, 1, 1, 192, 0, 2, 1]);
        assert_eq!(back.padded().len(), 12);
        let back = Reversed::of(&route(SSRR, 8), 0).unwrap();
        assert_eq!(back.first, Ipv4Addr::new(1, 1, 1, 1));
        assert_eq!(back.option(), [SSRR, 7, 4, 192, 0, 2, 1]);
        let all = Reversed::of(&route(LSRR, 16), 0).unwrap();
        assert_eq!(all.first, Ipv4Addr::new(3, 3, 3, 3));
        assert_eq!(all.option().len(), 15);
        let own = Reversed::of(&route(LSRR, 12), 20 + 3 + 4).unwrap();
        assert_eq!(own.first, Ipv4Addr::new(1, 1, 1, 1), "without ourselves");
        assert!(Reversed::of(&route(LSRR, 4), 0).is_none());
        assert!(Reversed::of(&route(LSRR, 8), 23).is_none());
        assert!(Reversed::of(&with(&[RR, 7, 8, 1, 1, 1, 1]), 0).is_none());
    }
}
