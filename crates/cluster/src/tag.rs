//! The tag behind the addresses of an internal frame: for the resequencer, and against forged and replayed frames.
//!
//! ```text
//!  0 addresses             12     24 flow sequence           2
//! 12 ethertype 0x88b5       2     26 SipHash-2-4, or 0       8
//! 14 link sequence          8     34 the packet's ethertype  2
//! 22 flow tag               2     36 packet
//! ```
//!
//! The flow's numbers are written by the input node and stay. The link's are written for each internal link, and the
//! digest with them: it covers the addresses, the tag and the packet's IP header, so that nobody without the key
//! can send a packet anywhere else, or say that it comes next.
//!
//! Every worker counts for itself: the upper 8 bits of a link sequence are the worker's number. The rest begins at
//! the time of its start, in sixteenths of a microsecond: no life of a node sends a number of an earlier one. If its
//! clock was set back meanwhile, its peers' heartbeats say so ([`Lane::pass`]).

use crate::address;
use crate::auth::Key;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// IEEE 802's first ethertype for local experiments.
pub const ETHERTYPE: u16 = 0x88b5;
/// Bytes that a tag adds to a frame.
pub const ADDED: usize = 22;
/// Where the packet begins.
pub const PACKET: usize = address::LEN + LEN;
/// Workers of a node that may send on one link.
pub const LANES: usize = 256;
/// How far behind the newest of its lane a frame may come: several times what a receive queue of a worker that is late
/// holds while others go on (an AF_PACKET socket some 40,000 short frames). A lane takes 64 KiB for it.
pub const WINDOW: u64 = (WORDS as u64 - 1) * EACH;

/// Bytes of the tag with both ethertypes.
const LEN: usize = 24;
/// Bytes of the packet under the digest: the addresses of IPv6, too.
const COVERED: usize = 40;
const DIGEST: usize = 26;
const INNER: usize = 34;
const LANE_SHIFT: u32 = 56;
/// Words of a window, and numbers of each.
const WORDS: usize = 8192;
const EACH: u64 = 16;

/// What a tag says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The lane of the link, and the number of the frame there.
    pub link: u64,
    /// Low bits of the flow's hash.
    pub flow: u16,
    /// Number of the packet among those with this tag, from this input to this output node.
    pub sequence: u16,
    /// The packet's ethertype.
    pub ethertype: u16,
}

/// Why a frame has no good tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// It has none.
    Malformed,
    /// The digest is not that of the key.
    Forged,
}

impl Tag {
    /// Writes the tag to a frame that has room for it at 12, and its addresses and the packet in place. What is too
    /// short is left alone.
    pub fn write(&self, frame: &mut [u8], key: Option<&Key>) {
        let Some(head) = frame.first_chunk_mut::<PACKET>() else {
            return;
        };
        head[12..14].copy_from_slice(&ETHERTYPE.to_be_bytes());
        head[14..22].copy_from_slice(&self.link.to_be_bytes());
        head[22..24].copy_from_slice(&self.flow.to_be_bytes());
        head[24..26].copy_from_slice(&self.sequence.to_be_bytes());
        head[INNER..].copy_from_slice(&self.ethertype.to_be_bytes());
        let digest = digest(frame, key);
        frame[DIGEST..INNER].copy_from_slice(&digest.to_be_bytes());
    }

    /// Reads the tag of a frame, if who wrote it has the key. Without a key the digest must be 0.
    pub fn parse(frame: &[u8], key: Option<&Key>) -> Result<Tag, Bad> {
        let head: &[u8; PACKET] = frame.first_chunk().ok_or(Bad::Malformed)?;
        let short = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        if short(12) != ETHERTYPE {
            return Err(Bad::Malformed);
        }
        if head[DIGEST..INNER] != digest(frame, key).to_be_bytes() {
            return Err(Bad::Forged);
        }
        let link = head[14..].first_chunk().ok_or(Bad::Malformed)?;
        Ok(Tag {
            link: u64::from_be_bytes(*link),
            flow: short(22),
            sequence: short(24),
            ethertype: short(INNER),
        })
    }
}

/// The digest that a frame should have; the frame holds a whole head.
fn digest(frame: &[u8], key: Option<&Key>) -> u64 {
    let Some(key) = key else { return 0 };
    // A link may pad a short frame, with zeros.
    let (mut covered, end) = ([0; COVERED], frame.len().min(PACKET + COVERED));
    covered[..end - PACKET].copy_from_slice(&frame[PACKET..end]);
    key.digest(&[&frame[..DIGEST], &frame[INNER..PACKET], &covered])
}

/// Numbers the frames that a worker sends on one link. The greater of two of a worker is the newer one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lane {
    next: u64,
}

impl Lane {
    /// Of a worker below [`LANES`], from a time of day in nanoseconds.
    pub fn new(worker: usize, day: u64) -> Lane {
        let lane = (worker % LANES) as u64;
        Lane {
            next: lane << LANE_SHIFT | sixteenths(day),
        }
    }

    /// Goes on behind all that was sent before `day`, a time of day in nanoseconds.
    pub fn pass(&mut self, day: u64) {
        let lane = self.next >> LANE_SHIFT;
        self.next = self.next.max(lane << LANE_SHIFT | sixteenths(day));
    }

    /// The number of the next frame.
    #[inline]
    pub fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// A time of day in nanoseconds as the number of a frame.
fn sixteenths(day: u64) -> u64 {
    (day / 1000 * 16) & ((1 << LANE_SHIFT) - 1)
}

/// Which frames of one lane have come: each is taken once (after RFC 6479), whichever worker receives it.
#[derive(Debug)]
pub struct Window {
    newest: AtomicU64,
    /// Lower bits: which numbers have come. Upper bits: in which round through all words, so that none is taken for
    /// another's.
    seen: [AtomicU64; WORDS],
}

impl Default for Window {
    fn default() -> Window {
        Window {
            newest: AtomicU64::new(0),
            seen: [const { AtomicU64::new(0) }; WORDS],
        }
    }
}

impl Window {
    /// Takes a number that is new and not too old. Only of frames whose digest is right.
    #[inline]
    pub fn take(&self, number: u64) -> bool {
        let number = number & ((1 << LANE_SHIFT) - 1);
        let newest = self.newest.fetch_max(number, Ordering::Relaxed);
        if newest.saturating_sub(number) >= WINDOW {
            return false;
        }
        let (place, bit) = (number / EACH, 1 << (number % EACH));
        let word = &self.seen[place as usize % WORDS];
        let round = place / WORDS as u64;
        let take = |was: u64| match was >> EACH {
            known if known == round => (was & bit == 0).then_some(was | bit),
            known if known < round => Some(round << EACH | bit),
            _ => None, // later ones have come, on another worker
        };
        word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .is_ok()
    }
}

/// The windows of all lanes of a link, for all workers that receive it.
#[derive(Debug)]
pub struct Windows(Box<[OnceLock<Box<Window>>; LANES]>);

impl Default for Windows {
    fn default() -> Windows {
        Windows(Box::new([const { OnceLock::new() }; LANES]))
    }
}

impl Windows {
    /// Takes a link sequence that is new and not too old in its lane. The first frame of a lane makes room for it.
    #[inline]
    pub fn take(&self, link: u64) -> bool {
        let lane = (link >> LANE_SHIFT) as usize % LANES;
        self.0[lane].get_or_init(Box::default).take(link)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const TAG: Tag = Tag {
        link: 3 << LANE_SHIFT | 77,
        flow: 0x1234,
        sequence: 9,
        ethertype: 0x0800,
    };

    fn frame(key: Option<&Key>) -> Vec<u8> {
        let mut frame: Vec<u8> = (0..PACKET as u8 + 100).collect();
        TAG.write(&mut frame, key);
        frame
    }

    #[test]
    fn what_is_written_is_read_again() {
        let key = Key::new([1; 16]);
        for key in [None, Some(&key)] {
            assert_eq!(Tag::parse(&frame(key), key), Ok(TAG));
        }
        assert_eq!(PACKET - 14, ADDED);
    }

    #[test]
    fn each_bit_of_addresses_tag_and_ip_header_is_under_the_key() {
        let key = Key::new([1; 16]);
        let mut frame = frame(Some(&key));
        for bit in 0..(PACKET + COVERED) * 8 {
            frame[bit / 8] ^= 1 << (bit % 8);
            assert!(Tag::parse(&frame, Some(&key)).is_err(), "bit {bit}");
            frame[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(
            Tag::parse(&frame, Some(&Key::new([2; 16]))),
            Err(Bad::Forged)
        );
        assert_eq!(Tag::parse(&frame, None), Err(Bad::Forged));
    }

    #[test]
    fn frames_too_short_for_a_tag_have_none() {
        for length in 0..PACKET {
            let mut short = frame(None);
            short.truncate(length);
            assert_eq!(Tag::parse(&short, None), Err(Bad::Malformed));
            TAG.write(&mut short, None);
        }
        assert_eq!(Tag::parse(&frame(None)[..PACKET], None), Ok(TAG));
    }

    #[test]
    fn each_number_is_taken_once_and_old_ones_never() {
        let window = Window::default();
        let (mut taken, mut newest) = (HashSet::new(), 0u64);
        let mut state = 1u64;
        for _ in 0..200_000 {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let (low, high) = (state >> 33, state >> 60);
            let number = match high {
                0 => newest + low % 3000,
                1 if low % 16 == 0 => newest + low % (2 * WINDOW),
                1..8 => newest + low % 5,
                8 => newest.saturating_sub(low % (2 * WINDOW)),
                _ => newest.saturating_sub(low % 1200),
            };
            let wanted = number > newest || newest - number < WINDOW && !taken.contains(&number);
            assert_eq!(window.take(number), wanted, "{number} after {newest}");
            if wanted {
                taken.insert(number);
            }
            newest = newest.max(number);
        }
        assert!(taken.len() > 50_000);
    }

    #[test]
    fn workers_and_lives_never_send_the_same_number() {
        let windows = Windows::default();
        let day = 1_800_000_000_000_000_000;
        let mut lanes: Vec<Lane> = (0..3).map(|worker| Lane::new(worker, day)).collect();
        let mut old = Vec::new();
        for _ in 0..500 {
            for lane in &mut lanes {
                old.push(lane.number());
            }
        }
        assert!(old.iter().all(|&number| windows.take(number)));
        let mut again = Lane::new(1, day + 1_000_000_000);
        assert!(windows.take(again.number()));
        assert!(old.iter().all(|&number| !windows.take(number)));
    }

    #[test]
    fn each_number_is_taken_once_by_whichever_worker() {
        let window = Window::default();
        let taken = || (1..20_000u64).filter(|&n| window.take(n)).count();
        let all = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..3).map(|_| scope.spawn(taken)).collect();
            let counts = workers.into_iter().map(|w| w.join().expect("it ends"));
            counts.sum::<usize>()
        });
        assert_eq!(all, 19_999);
    }

    #[test]
    fn a_worker_may_be_late_by_all_that_its_queue_holds() {
        let windows = Windows::default();
        let start = Lane::new(3, 1_800_000_000_000_000_000).number();
        // Of two flows of a lane one comes to each worker, and the second worker begins when the first has ended.
        let backlog = 2 * 40_000;
        let take = |first: u64| {
            let numbers = (start + first..start + backlog).step_by(2);
            numbers.filter(|&number| windows.take(number)).count()
        };
        assert_eq!([take(1), take(0)], [40_000; 2]);
        assert_eq!([take(1), take(0)], [0; 2], "replayed");
    }

    #[test]
    fn a_life_goes_on_behind_an_earlier_one_that_was_at_a_later_time() {
        let (day, hour) = (1_800_000_000_000_000_000, 3_600_000_000_000);
        let windows = Windows::default();
        let mut before = Lane::new(2, day);
        assert!(windows.take(before.number()));
        let mut after = Lane::new(2, day - hour);
        assert!(!windows.take(after.number()));
        after.pass(day + hour);
        let number = after.number();
        assert!(windows.take(number) && number >> LANE_SHIFT == 2);
        after.pass(day);
        assert_eq!(after.number(), number + 1, "it never goes back");
    }

    #[test]
    fn a_short_frame_may_be_padded_on_its_way() {
        let key = Key::new([3; 16]);
        let mut frame = [[7; PACKET].as_slice(), &[0x45; 21]].concat();
        TAG.write(&mut frame, Some(&key));
        frame.resize(60, 0);
        assert_eq!(Tag::parse(&frame, Some(&key)), Ok(TAG));
        frame[59] = 1;
        assert_eq!(Tag::parse(&frame, Some(&key)), Err(Bad::Forged));
    }
}
