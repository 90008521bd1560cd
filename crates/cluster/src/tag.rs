//! The tag after the addresses of an internal frame: for the resequencer, and against forged and replayed frames.
//!
//! ```text
//!  0 addresses             12     38 flow tag                2
//! 12 ethertype 0x88b5       2     40 flow sequence           2
//! 14 code, or 0            16     42 the packet's ethertype  2
//! 30 link sequence          8     44 packet
//! ```
//!
//! The input node writes the flow's tag and sequence number, which stay unchanged. The link sequence and the code are
//! written anew for each internal link. The code is an authentication tag of AEGIS-128L; nothing is encrypted. Its key
//! is that of the link, its direction and its epoch ([`Life`](crate::auth::Life)), and its nonce is the link sequence.
//! The code covers all other bytes of the frame and the frame's length, so that only a holder of the key can send,
//! change or reorder packets. The bytes before the code are copied over the code's place while it is computed, so that
//! the covered bytes lie in one piece.
//!
//! Each worker has its own sequence: the upper 8 bits of a link sequence are the worker's number, its *lane*. A frame
//! with a code is never shorter than Ethernet's minimum, so it is never padded.

use crate::address;
use crate::auth::{Code, FrameKey};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// IEEE 802's first ethertype for local experiments.
pub const ETHERTYPE: u16 = 0x88b5;
/// Number of bytes that a tag adds to a frame.
pub const ADDED: usize = 30;
/// Offset of the packet.
pub const PACKET: usize = address::LEN + LEN;
/// Number of workers of a node that may send on one link.
pub const LANES: usize = 256;
/// Maximum lag of a frame behind the newest of its lane. It is several times the content of a late worker's receive
/// queue while other workers go on (an AF_PACKET socket holds some 40,000 short frames). It takes 64 KiB per lane.
pub const WINDOW: u64 = (WORDS as u64 - 1) * EACH;

/// Bytes of the tag with both ethertypes.
const LEN: usize = 32;
/// Offset of the code: after an Ethernet header.
const CODE_AT: usize = 14;
/// Start of the bytes that the code covers; a copy of the Ethernet header is placed there first.
const COVERED: usize = LINK - CODE_AT;
const LINK: usize = 30;
const INNER: usize = 42;
const LANE_SHIFT: u32 = 56;
/// Number of words of a window; [`EACH`] is the number of frame numbers per word.
const WORDS: usize = 8192;
const EACH: u64 = 16;

/// The shortest IP packet fills Ethernet's shortest frame.
const _: () = assert!(PACKET + 20 >= 60);

/// Content of a tag.
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

/// Reason why a frame has no valid tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// The frame has no tag.
    Malformed,
    /// The code was made with another key.
    Forged,
}

impl Tag {
    /// Writes the tag at offset 12 of a frame that has room for it and already contains the addresses and the packet.
    /// A frame that is too short is left alone.
    #[inline]
    pub fn write(&self, frame: &mut [u8], key: Option<&FrameKey>) {
        let Some(head) = frame.first_chunk_mut::<PACKET>() else {
            return;
        };
        head[12..14].copy_from_slice(&ETHERTYPE.to_be_bytes());
        head[LINK..38].copy_from_slice(&self.link.to_be_bytes());
        head[38..40].copy_from_slice(&self.flow.to_be_bytes());
        head[40..42].copy_from_slice(&self.sequence.to_be_bytes());
        head[INNER..].copy_from_slice(&self.ethertype.to_be_bytes());
        let code = match key {
            None => Code::default(),
            Some(key) => {
                head.copy_within(..CODE_AT, COVERED);
                key.code(self.link, &frame[COVERED..])
            }
        };
        frame[CODE_AT..LINK].copy_from_slice(&code);
    }

    /// Reads the tag of a frame without a code.
    pub fn read(frame: &[u8]) -> Result<Tag, Bad> {
        let head = frame.first_chunk().ok_or(Bad::Malformed)?;
        let tag = Tag::of(head)?;
        match head[CODE_AT..LINK] == Code::default() {
            true => Ok(tag),
            false => Err(Bad::Forged),
        }
    }

    /// Reads the tag and checks it with any of the keys. Overwrites the code. A refused frame is also modified.
    #[inline]
    pub fn open(frame: &mut [u8], keys: &[FrameKey]) -> Result<Tag, Bad> {
        let head: &mut [u8; PACKET] = frame.first_chunk_mut().ok_or(Bad::Malformed)?;
        let tag = Tag::of(head)?;
        let mut code = Code::default();
        code.copy_from_slice(&head[CODE_AT..LINK]);
        head.copy_within(..CODE_AT, COVERED);
        let mut keys = keys.iter();
        if !keys.any(|key| key.verify(tag.link, &frame[COVERED..], &code)) {
            return Err(Bad::Forged);
        }
        frame[CODE_AT..LINK].fill(0);
        Ok(tag)
    }

    /// Decodes the tag without its code.
    #[inline]
    fn of(head: &[u8; PACKET]) -> Result<Tag, Bad> {
        let short = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let link = head[LINK..].first_chunk().ok_or(Bad::Malformed)?;
        match short(12) {
            ETHERTYPE => Ok(Tag {
                link: u64::from_be_bytes(*link),
                flow: short(38),
                sequence: short(40),
                ethertype: short(INNER),
            }),
            _ => Err(Bad::Malformed),
        }
    }
}

/// A lane's newest number, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Newest(AtomicU64);

/// Frame numbers that all workers have used on one link.
#[derive(Debug)]
pub struct Lanes(Box<[Newest; LANES]>);

impl Default for Lanes {
    fn default() -> Lanes {
        Lanes(Box::new([const { Newest(AtomicU64::new(0)) }; LANES]))
    }
}

impl Lanes {
    /// Unique number of a worker's next frame.
    #[inline]
    pub fn next(&self, worker: usize) -> u64 {
        let lane = worker % LANES;
        let before = self.0[lane].0.fetch_add(1, Ordering::Relaxed);
        number(lane, before + 1)
    }

    /// The newest number of a lane on which frames were sent; `turn` selects the lane. 0: none.
    pub fn newest(&self, turn: u64) -> u64 {
        let lanes = self.0.iter().enumerate();
        let numbers = lanes.map(|(lane, newest)| (lane, newest.0.load(Ordering::Relaxed)));
        let used = numbers.filter(|&(_, newest)| newest > 0);
        let count = used.clone().count().max(1);
        let mut from = used.skip(turn as usize % count);
        from.next().map_or(0, |(lane, newest)| number(lane, newest))
    }
}

fn number(lane: usize, count: u64) -> u64 {
    (lane as u64) << LANE_SHIFT | count & ((1 << LANE_SHIFT) - 1)
}

/// The lane of a number.
pub(crate) fn lane(number: u64) -> usize {
    (number >> LANE_SHIFT) as usize % LANES
}

/// Arrived frame numbers of one lane: each is accepted once (after RFC 6479), whichever worker receives it.
#[derive(Debug)]
pub struct Window {
    newest: AtomicU64,
    /// For each word: in the lower bits, the frame numbers that have arrived; in the upper bits, the round through all
    /// words, so that numbers of different rounds are not confused.
    received_bits: [AtomicU64; WORDS],
}

impl Default for Window {
    fn default() -> Window {
        Window {
            newest: AtomicU64::new(0),
            received_bits: [const { AtomicU64::new(0) }; WORDS],
        }
    }
}

impl Window {
    /// Accepts a number if it is new and not too old. Call it only for frames whose code is valid.
    #[inline]
    pub fn take(&self, number: u64) -> bool {
        let number = number & ((1 << LANE_SHIFT) - 1);
        let newest = self.newest.fetch_max(number, Ordering::Relaxed);
        if newest.saturating_sub(number) >= WINDOW {
            return false;
        }
        let (place, bit) = (number / EACH, 1 << (number % EACH));
        let word = &self.received_bits[place as usize % WORDS];
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
    /// Accepts a link sequence if it is new and not too old in its lane. The first frame of a lane allocates the
    /// lane's window.
    #[inline]
    pub fn take(&self, link: u64) -> bool {
        self.0[lane(link)].get_or_init(Box::default).take(link)
    }

    /// The newest arrived number of the lane that `link` belongs to; 0 if none has arrived.
    pub fn newest(&self, link: u64) -> u64 {
        let window = self.0[lane(link)].get();
        let newest = window.map_or(0, |window| window.newest.load(Ordering::Relaxed));
        match newest {
            0 => 0,
            newest => number(lane(link), newest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{Key, Life, LinkDirection};
    use std::collections::HashSet;

    const TAG: Tag = Tag {
        link: 3 << LANE_SHIFT | 77,
        flow: 0x1234,
        sequence: 9,
        ethertype: 0x0800,
    };

    fn key(secret: u8) -> FrameKey {
        Key::new([secret; 16]).of_link(&LinkDirection {
            cluster: "t",
            from: ("a", Life([1; 16])),
            to: ("b", Life([2; 16])),
            link: 0,
        })
    }

    fn frame(key: Option<&FrameKey>) -> Vec<u8> {
        let mut frame: Vec<u8> = (0..PACKET as u8 + 100).collect();
        TAG.write(&mut frame, key);
        frame
    }

    fn open(frame: &[u8], keys: &[FrameKey]) -> Result<Tag, Bad> {
        Tag::open(&mut frame.to_vec(), keys)
    }

    #[test]
    fn written_bytes_parse_to_the_same_values() {
        assert_eq!(Tag::read(&frame(None)), Ok(TAG));
        let keys = [key(2), key(1)];
        let mut sealed = frame(Some(&keys[1]));
        assert_eq!(Tag::read(&sealed), Err(Bad::Forged), "it has a code");
        assert_eq!(Tag::open(&mut sealed, &keys), Ok(TAG));
        assert_eq!(sealed, frame(None), "all but the code is as it was");
        assert_eq!(PACKET - 14, ADDED);
    }

    #[test]
    fn each_bit_of_a_frame_and_its_length_are_under_the_key() {
        let keys = [key(1)];
        let mut frame = frame(Some(&keys[0]));
        for bit in 0..frame.len() * 8 {
            frame[bit / 8] ^= 1 << (bit % 8);
            assert!(open(&frame, &keys).is_err(), "bit {bit}");
            frame[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(open(&frame, &keys), Ok(TAG));
        assert_eq!(open(&frame, &[key(2)]), Err(Bad::Forged));
        assert_eq!(open(&frame, &[]), Err(Bad::Forged));
        assert_eq!(open(&frame[..frame.len() - 1], &keys), Err(Bad::Forged));
        frame.push(0);
        assert_eq!(open(&frame, &keys), Err(Bad::Forged));
    }

    #[test]
    fn frames_too_short_for_a_tag_have_none() {
        for length in 0..PACKET {
            let mut short = frame(None);
            short.truncate(length);
            assert_eq!(Tag::read(&short), Err(Bad::Malformed));
            assert_eq!(Tag::open(&mut short, &[key(1)]), Err(Bad::Malformed));
            TAG.write(&mut short, None);
        }
        assert_eq!(Tag::read(&frame(None)[..PACKET]), Ok(TAG));
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
    fn workers_never_send_the_same_number_and_each_tells_how_far_it_is() {
        let (lanes, windows) = (Lanes::default(), Windows::default());
        assert_eq!(lanes.newest(5), 0);
        for _ in 0..500 {
            for worker in [0, 1, 255] {
                let number = lanes.next(worker);
                assert!(windows.take(number));
                assert_eq!(windows.newest(number), number);
            }
        }
        lanes.next(1);
        let told: Vec<u64> = (0..4).map(|turn| lanes.newest(turn)).collect();
        assert_eq!(told, [500, 1 << 56 | 501, 255 << 56 | 500, 500]);
        assert_eq!(windows.newest(told[1]), told[1] - 1, "one is on its way");
        assert_eq!(windows.newest(7 << 56), 0);
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
        let start = number(3, 1 << 40);
        // Each of a lane's two flows arrives at another worker, and the second worker starts when the first has
        // finished.
        let backlog = 2 * 40_000;
        let take = |first: u64| {
            let numbers = (start + first..start + backlog).step_by(2);
            numbers.filter(|&number| windows.take(number)).count()
        };
        assert_eq!([take(1), take(0)], [40_000; 2]);
        assert_eq!([take(1), take(0)], [0; 2], "replayed");
    }
}
