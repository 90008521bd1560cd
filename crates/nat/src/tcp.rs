//! State of a connection, and shifts of its sequence numbers.

use super::key::{TransportPosition, patch};
use wire::{checksum, tcp};

/// Packets seen from each side of a mapping. TCP uses the low four bits. UDP uses the low two as flags, and the top two
/// as a packet counter that stops at three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress(u8);

const DATA: u8 = 1;
const DONE: u8 = 4;

/// Lifetimes of mappings, by index in a rewriter's classes.
pub mod class {
    /// TCP without data in both directions.
    pub const NO_DATA: usize = 0;
    /// TCP with data in both directions.
    pub const CONNECTED: usize = 1;
    /// TCP that has ended.
    pub const DONE: usize = 2;
    /// UDP, and protocols without connections.
    pub const CONNECTIONLESS: usize = 3;
    /// UDP in both directions, at least three packets.
    pub const STREAMING: usize = 4;
}

impl Progress {
    /// Records a TCP segment from `side`. Returns the flow class, which sets the mapping's lifetime. With
    /// `as_click`, data reopens a finished connection, as in Click.
    #[inline]
    pub fn tcp(&mut self, side: usize, segment: &[u8], as_click: bool) -> usize {
        if let Some(&[offset, flags]) = segment.get(12..14) {
            let data = segment.len() > usize::from(offset >> 4) * 4;
            if flags & tcp::RST != 0 {
                self.0 |= DONE | DONE << 1;
            } else if flags & tcp::FIN != 0 {
                self.0 |= DONE << side;
            } else if flags & tcp::SYN != 0 || as_click && data {
                self.0 &= !(DONE << side);
            }
            if data {
                self.0 |= DATA << side;
            }
        }
        if self.0 & (DONE | DONE << 1) == DONE | DONE << 1 {
            class::DONE
        } else if self.0 & (DATA | DATA << 1) == DATA | DATA << 1 {
            class::CONNECTED
        } else {
            class::NO_DATA
        }
    }

    /// Records a packet of another protocol from `side`. Returns the flow class, which sets the mapping's lifetime.
    #[inline]
    pub fn plain(&mut self, side: usize) -> usize {
        self.0 |= DATA << side;
        self.0 = self.0.saturating_add(if self.0 < 0xc0 { 0x40 } else { 0 });
        if self.0 == 0xc3 {
            class::STREAMING
        } else {
            class::CONNECTIONLESS
        }
    }
}

/// Distance in sequence numbers beyond the last step after which a sender no longer sends earlier numbers.
const FAR: u32 = 1 << 30;

/// Number of recorded steps. Older steps are merged.
const STEPS: usize = 8;

/// Sequence-number shifts of one direction. Each step changes the shift from a sequence number on.
#[derive(Clone, Debug, Default)]
pub struct Shifts {
    before: i32,
    /// First sequence number of each step, before rewriting, and the shift from there on.
    steps: Vec<(u32, i32)>,
}

fn reached(number: u32, from: u32) -> bool {
    number.wrapping_sub(from) as i32 >= 0
}

impl Shifts {
    /// Adds `by` to the shift of sequence numbers from `from` on, counted before rewriting.
    pub fn add(&mut self, from: u32, by: i32) {
        // A retransmitted segment contains the same command: its step is replaced.
        self.steps.retain(|&(f, _)| f != from);
        let shift = self.shift_at(from).wrapping_add(by);
        self.steps.push((from, shift));
        if self.steps.len() > STEPS {
            self.before = self.steps.remove(0).1;
        }
    }

    fn shift_at(&self, number: u32) -> i32 {
        let step = self.steps.iter().rev().find(|s| reached(number, s.0));
        step.map_or(self.before, |s| s.1)
    }

    /// Merges all steps into the last once `number` is far beyond them.
    pub fn age(&mut self, number: u32) {
        if let Some(&(from, shift)) = self.steps.last()
            && reached(number, from.wrapping_add(FAR))
        {
            self.before = shift;
            self.steps.clear();
        }
    }

    /// Rewritten form of a sequence number.
    pub fn to_rewritten(&self, number: u32) -> u32 {
        number.wrapping_add_signed(self.shift_at(number))
    }

    /// Original form of a rewritten sequence number, such as one that the peer acknowledges.
    pub fn to_original(&self, number: u32) -> u32 {
        let seen = |s: &&(u32, i32)| reached(number, s.0.wrapping_add_signed(s.1));
        let shift = self
            .steps
            .iter()
            .rev()
            .find(seen)
            .map_or(self.before, |s| s.1);
        number.wrapping_add_signed(shift.wrapping_neg())
    }
}

/// Sequence-number shifts of both directions; `None` for most mappings.
pub type BothShifts = Option<Box<[Shifts; 2]>>;

/// Shifts the sequence numbers of a segment from `side`, and its acknowledgement and SACK blocks (RFC 2018).
pub fn shift(datagram: &mut [u8], place: TransportPosition, side: usize, shifts: &mut [Shifts; 2]) {
    let segment = &mut datagram[place.at..];
    let len = segment.get(12).map_or(0, |o| usize::from(o >> 4) * 4);
    if !(tcp::MIN_LEN..=segment.len()).contains(&len) {
        return;
    }
    let header = &mut segment[..len];
    let old = checksum::sum(header);
    if let Some(number) = header[4..].first_chunk() {
        shifts[side].age(u32::from_be_bytes(*number));
    }
    change(header, 4, |n| shifts[side].to_rewritten(n));
    change(header, 8, |n| shifts[1 - side].to_original(n));
    let mut at = tcp::MIN_LEN;
    while let Some((kind, len)) = option(header, at) {
        if kind == tcp::OPT_SACK {
            let edges = (at + 2..at + len).step_by(4).filter(|e| e + 4 <= at + len);
            edges.for_each(|edge| change(header, edge, |n| shifts[1 - side].to_original(n)));
        }
        at += len;
    }
    let new = checksum::sum(header);
    patch(datagram, place, old, new);
}

/// Restores the original sequence numbers in the header of a segment from `side`, which an ICMP error quotes.
pub fn unshift(datagram: &mut [u8], place: TransportPosition, side: usize, shifts: &[Shifts; 2]) {
    let end = datagram.len().min(place.at + 12);
    let header = &mut datagram[place.at..end];
    let old = checksum::sum(header);
    change(header, 4, |n| shifts[side].to_original(n));
    change(header, 8, |n| shifts[1 - side].to_rewritten(n));
    let new = checksum::sum(header);
    patch(datagram, place, old, new);
}

fn change(header: &mut [u8], at: usize, to: impl Fn(u32) -> u32) {
    if let Some(bytes) = header.get_mut(at..).and_then(|h| h.first_chunk_mut()) {
        *bytes = to(u32::from_be_bytes(*bytes)).to_be_bytes();
    }
}

/// Kind and length of the option at `at`; `None` at the end or where the options are malformed.
fn option(header: &[u8], at: usize) -> Option<(u8, usize)> {
    let kind = *header.get(at)?;
    let len = match kind {
        0 => return None,
        1 => 1,
        _ => usize::from(*header.get(at + 1)?),
    };
    let sound = len >= 1 && (kind == 1 || len >= 2) && at + len <= header.len();
    sound.then_some((kind, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shifted_behind_a_change_and_back_again() {
        let mut shifts = Shifts::default();
        shifts.add(30, -12);
        shifts.add(30, -12);
        assert_eq!(
            [1, 29, 30, 36].map(|n| shifts.to_rewritten(n)),
            [1, 29, 18, 24]
        );
        assert_eq!(
            [1, 10, 17, 18, 20].map(|n| shifts.to_original(n)),
            [1, 10, 17, 30, 32]
        );
        shifts.add(100, 5);
        assert_eq!(
            (shifts.to_rewritten(100), shifts.to_original(93)),
            (93, 100)
        );
    }

    #[test]
    fn old_steps_count_as_if_they_had_always_been() {
        let mut shifts = Shifts::default();
        for i in 1..=20 {
            shifts.add(i * 1000, 1);
        }
        assert_eq!(shifts.to_rewritten(20_000), 20_020);
        assert_eq!(shifts.to_original(20_020), 20_000);
        assert_eq!(shifts.to_rewritten(0), 12);
        assert!(shifts.steps.len() <= STEPS);
    }

    #[test]
    fn steps_far_behind_the_sender_are_forgotten() {
        let mut shifts = Shifts::default();
        shifts.add(30, -12);
        shifts.add(60, -12);
        shifts.age(1_000_000_000);
        assert_eq!((shifts.to_rewritten(0), shifts.to_original(0)), (0, 0));
        shifts.age(1_100_000_000);
        assert_eq!(
            (shifts.to_rewritten(100), shifts.to_original(76)),
            (76, 100)
        );
        assert_eq!((shifts.to_rewritten(24), shifts.to_original(0)), (0, 24));
    }

    #[test]
    fn a_connection_is_done_after_a_reset_or_a_fin_from_either_side() {
        let segment = |flags: u8, data: &[u8]| {
            let mut s = vec![0; 20];
            (s[12], s[13]) = (0x50, flags);
            s.extend(data);
            s
        };
        let mut p = Progress::default();
        assert_eq!(p.tcp(0, &segment(tcp::SYN, b""), false), class::NO_DATA);
        assert_eq!(p.tcp(0, &segment(tcp::ACK, b"x"), false), class::NO_DATA);
        assert_eq!(p.tcp(1, &segment(tcp::ACK, b"x"), false), class::CONNECTED);
        assert_eq!(p.tcp(1, &segment(tcp::FIN, b""), false), class::CONNECTED);
        assert_eq!(p.tcp(0, &segment(tcp::FIN, b""), false), class::DONE);
        assert_eq!(p.tcp(0, &segment(tcp::ACK, b"x"), false), class::DONE);
        assert_eq!(p.tcp(0, &segment(tcp::ACK, b"x"), true), class::CONNECTED);
        assert_eq!(p.tcp(0, &segment(tcp::FIN, b"x"), true), class::DONE);
        let mut p = Progress::default();
        assert_eq!(p.tcp(0, &segment(tcp::RST, b""), false), class::DONE);
    }

    #[test]
    fn three_packets_in_both_directions_are_a_stream() {
        let mut p = Progress::default();
        assert_eq!(p.plain(0), class::CONNECTIONLESS);
        assert_eq!(p.plain(0), class::CONNECTIONLESS);
        assert_eq!(p.plain(1), class::STREAMING);
        assert_eq!(p.plain(1), class::STREAMING);
        let mut p = Progress::default();
        assert!((0..300).all(|_| p.plain(0) == class::CONNECTIONLESS));
    }
}
