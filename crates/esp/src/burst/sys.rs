//! intel-ipsec-mb's calls for many packets at once.
//!
//! Each worker has a manager of its own. It processes all packets of a call before it returns (the library's burst
//! interface for ciphers and hashes).
#![allow(unsafe_code)]

use crate::HEADER;
use crate::batch_keys::{BatchKeys, Block, ROUND_KEYS};
use crate::constant_time::is_same;
use crate::locked::Locked;
use crate::mb::functions;
use crate::mb::library::{self, IMB_JOB, IMB_MGR};
use crate::protection::Job;
use crate::suite::{BLOCK, Code, Mode, Suite};
use std::ops::Range;
use std::ptr;
use zeroize::Zeroize;

/// Length of the longest authentication code in bytes.
const CODE: usize = 32;
/// Length in bytes of the longest packet that the library accepts: it has 16-bit lengths.
pub(crate) const LEN_MAX: usize = 65_520;
/// Maximum number of packets given to the library at once.
pub(crate) const BURST: usize = 128;

/// A cache line.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([u8; 64]);

/// Authentication codes of a packet to decrypt: the computed one, and the one received.
#[derive(Clone, Copy)]
struct Codes {
    own: [u8; CODE],
    given: [u8; CODE],
}

/// A worker's job manager for many packets. Its copies of keys are wiped when it is dropped.
pub(crate) struct Manager {
    /// The library's job manager. It contains pointers into itself, so it is never moved.
    memory: Locked<[Line]>,
    /// Jobs of a burst.
    jobs: Box<[IMB_JOB]>,
    codes: Box<[Codes]>,
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.memory.iter_mut().for_each(|line| line.0.zeroize());
    }
}

impl Manager {
    pub(crate) fn new() -> Option<Manager> {
        functions()?;
        // SAFETY: the function has no arguments and only returns a number.
        let len = unsafe { library::imb_get_mb_mgr_size() };
        let lines = vec![Line([0; 64]); len.div_ceil(size_of::<Line>())];
        let mut memory = Locked::of(lines.into_boxed_slice());
        // SAFETY: the memory has the size and alignment that the library requires, and no other owner.
        unsafe {
            let manager = library::imb_set_pointers_mb_mgr(memory.as_mut_ptr().cast(), 0, 1);
            if manager.is_null() {
                return None;
            }
            library::init_mb_mgr_auto(manager, ptr::null_mut());
        }
        let codes = Codes {
            own: [0; CODE],
            given: [0; CODE],
        };
        Some(Manager {
            memory,
            // SAFETY: a job consists of numbers, pointers and optional functions; for all of these zero is valid.
            jobs: (0..BURST).map(|_| unsafe { std::mem::zeroed() }).collect(),
            codes: [codes; BURST].into(),
        })
    }

    /// Encrypts packets of one kind, at most [`BURST`], each with its own keys.
    pub(crate) fn encrypt(&mut self, kind: usize, jobs: &mut [Job<'_>]) {
        let (mut n, mut of) = (0, None);
        for (keys, job, place) in places(kind, jobs, &mut self.jobs) {
            add_high(job);
            let (packet, end) = (job.packet.as_mut_ptr(), job.text_end);
            assert!(end + keys.suite.icv() <= job.packet.len(), "{NO_ROOM}");
            if matches!(keys.suite.mode, Mode::Cbc(_)) {
                // The vector's block contains a number, and is encrypted before the text, with a vector of zeros.
                set_cipher(
                    place,
                    &keys.keys.encrypt,
                    packet,
                    HEADER..end,
                    ZEROS.0.as_ptr(),
                );
            }
            set_code(
                place,
                keys,
                job.high().is_some(),
                packet,
                end,
                packet.wrapping_add(end),
            );
            (n, of) = (n + 1, Some(keys.suite));
        }
        // SAFETY: the first `n` jobs were filled for packets of this suite, which stay borrowed during the call.
        unsafe {
            self.encipher(of, n, library::IMB_DIR_ENCRYPT);
            self.sign(of, n);
        }
    }

    /// Decrypts packets of one kind, at most [`BURST`], each with its own keys.
    pub(crate) fn decrypt(&mut self, kind: usize, jobs: &mut [Job<'_>]) {
        let (mut n, mut of) = (0, None);
        let places_and_codes = places(kind, jobs, &mut self.jobs).zip(&mut self.codes);
        for ((keys, job, place), codes) in places_and_codes {
            let code = &job.packet[job.text_end..];
            assert!(code.len() >= keys.suite.icv(), "{NO_ROOM}");
            codes.given[..code.len()].copy_from_slice(code);
            add_high(job);
            let (packet, own) = (job.packet.as_mut_ptr(), codes.own.as_mut_ptr());
            set_code(place, keys, job.high().is_some(), packet, job.text_end, own);
            (n, of) = (n + 1, Some(keys.suite));
        }
        // SAFETY: as in `encrypt`; the buffers for codes hold the longest one.
        unsafe { self.sign(of, n) };
        let (mut right, mut codes) = (0, self.codes.iter());
        for job in of_kind(kind, jobs) {
            let (Some(codes), len) = (codes.next(), job.packet.len() - job.text_end) else {
                break;
            };
            if !is_same(&codes.own[..len], &codes.given[..len]) {
                job.forged();
                continue;
            }
            let text = HEADER + BLOCK;
            let (Some(keys), Some(place)) =
                (job.protection.batch_keys.as_ref(), self.jobs.get_mut(right))
            else {
                break;
            };
            if matches!(keys.suite.mode, Mode::Cbc(_)) {
                let packet = job.packet.as_mut_ptr();
                let vector = packet.wrapping_add(HEADER);
                set_cipher(
                    place,
                    &keys.keys.decrypt,
                    packet,
                    text..job.text_end,
                    vector,
                );
                right += 1;
            }
        }
        // SAFETY: as in `encrypt`, for the first `right` packets, which are authentic.
        unsafe { self.encipher(of, right, library::IMB_DIR_DECRYPT) };
    }

    fn manager(&mut self) -> *mut IMB_MGR {
        self.memory.as_mut_ptr().cast()
    }

    /// Encrypts or decrypts, if the suite has a cipher.
    ///
    /// # Safety
    /// The first `n` jobs were filled by [`set_cipher`] for this suite, and the memory that they point to is valid.
    unsafe fn encipher(
        &mut self,
        suite: Option<Suite>,
        n: usize,
        way: library::IMB_CIPHER_DIRECTION,
    ) {
        let Some(Mode::Cbc(key_len)) = suite.map(|suite| suite.mode) else {
            return;
        };
        let manager = self.manager();
        // SAFETY: the manager is this worker's and initialised; the jobs are as the function requires (see above).
        let done = unsafe {
            (*manager).submit_cipher_burst_nocheck.map(|submit| {
                let (jobs, n) = (self.jobs.as_mut_ptr(), n as u32);
                submit(
                    manager,
                    jobs,
                    n,
                    library::IMB_CIPHER_CBC,
                    way,
                    key_len as u32,
                )
            })
        };
        all_done(n, done);
    }

    /// Makes codes.
    ///
    /// # Safety
    /// The first `n` jobs were filled by [`set_code`] for this suite, and the memory that they point to is valid.
    unsafe fn sign(&mut self, suite: Option<Suite>, n: usize) {
        let hash = match suite.map(|suite| suite.code) {
            Some(Code::Sha1) => library::IMB_AUTH_HMAC_SHA_1,
            Some(Code::Sha256) => library::IMB_AUTH_HMAC_SHA_256,
            Some(Code::Sha512) => library::IMB_AUTH_HMAC_SHA_512,
            Some(Code::None) | None => return,
        };
        let manager = self.manager();
        // SAFETY: as in `encipher`.
        let done = unsafe {
            (*manager)
                .submit_hash_burst_nocheck
                .map(|submit| submit(manager, self.jobs.as_mut_ptr(), n as u32, hash))
        };
        all_done(n, done);
    }
}

/// Panics if the library has not processed all jobs: the packets would leave unchanged.
#[inline]
fn all_done(n: usize, done: Option<u32>) {
    assert_eq!(
        done,
        Some(n as u32),
        "intel-ipsec-mb has left packets undone"
    );
}

/// Panic message for a job that was not made by an association: associations pad text to blocks and leave room for
/// the code.
const NO_ROOM: &str = "a packet has no room for what intel-ipsec-mb writes";

/// An initialisation vector of zeros.
static ZEROS: Block = Block([0; BLOCK]);

/// Packets of one kind.
#[inline]
fn of_kind<'j, 'p>(kind: usize, jobs: &'j mut [Job<'p>]) -> impl Iterator<Item = &'j mut Job<'p>> {
    jobs.iter_mut().filter(move |job| {
        job.protection
            .batch_keys
            .as_ref()
            .is_some_and(|keys| keys.kind() == kind)
    })
}

/// Packets of one kind with their keys, each with an entry in the library's list of jobs.
#[inline]
fn places<'j, 'p>(
    kind: usize,
    jobs: &'j mut [Job<'p>],
    places: &'j mut [IMB_JOB],
) -> impl Iterator<Item = (&'p BatchKeys, &'j mut Job<'p>, &'j mut IMB_JOB)> {
    let with_keys = jobs.iter_mut().filter_map(move |job| {
        let keys = job.protection.batch_keys.as_ref();
        keys.filter(|keys| keys.kind() == kind)
            .map(|keys| (keys, job))
    });
    with_keys
        .zip(places)
        .map(|((keys, job), place)| (keys, job, place))
}

/// Writes the upper half of a packet's sequence number, if it is authenticated, after the text, where the code will
/// be.
#[inline]
fn add_high(job: &mut Job<'_>) {
    if let Some(high) = job.high() {
        job.packet[job.text_end..][..high.len()].copy_from_slice(&high);
    }
}

/// Sets a job's cipher for a part of a packet, in place.
#[inline]
fn set_cipher(
    place: &mut IMB_JOB,
    keys: &[Block; ROUND_KEYS],
    packet: *mut u8,
    part: Range<usize>,
    vector: *const u8,
) {
    // The library's unchecked calls write whole blocks.
    let is_whole = part.len() <= LEN_MAX && part.len().is_multiple_of(BLOCK);
    assert!(part.start <= part.end && is_whole, "{NO_ROOM}");
    let keys = keys.as_ptr().cast();
    (place.enc_keys, place.dec_keys) = (keys, keys);
    place.__bindgen_anon_1.src = packet;
    place.__bindgen_anon_2.dst = packet.wrapping_add(part.start);
    place.__bindgen_anon_3.cipher_start_src_offset_in_bytes = part.start as u64;
    place.__bindgen_anon_4.msg_len_to_cipher_in_bytes = part.len() as u64;
    (place.iv, place.iv_len_in_bytes) = (vector, BLOCK as u64);
}

/// Sets a job's authentication: the bytes it covers, and the place of the code.
#[inline]
fn set_code(
    place: &mut IMB_JOB,
    keys: &BatchKeys,
    with_high: bool,
    packet: *mut u8,
    text_end: usize,
    code: *mut u8,
) {
    let len = text_end + if with_high { size_of::<u32>() } else { 0 };
    place.__bindgen_anon_1.src = packet;
    place.hash_start_src_offset_in_bytes = 0;
    place.__bindgen_anon_5.msg_len_to_hash_in_bytes = len as u64;
    place.auth_tag_output = code;
    place.auth_tag_output_len_in_bytes = keys.suite.icv() as u64;
    let states = &keys.keys;
    place.u.HMAC._hashed_auth_key_xor_ipad = states.inner.as_ptr();
    place.u.HMAC._hashed_auth_key_xor_opad = states.outer.as_ptr();
}
