//! A security association: keys, numbers, window, lifetimes, and what seals and opens packets.

use crate::outer::Outer;
use crate::path_mtu::{self, PathMtu};
use crate::protection::{Fault, Job, NONCE, Protection, Shared};
use crate::spec::{Direction, Limits, Spec};
use crate::suite::{Code, Keys};
use crate::window::Window;
use crate::{HEADER, cipher, together};
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use tables::prefetch;

/// After how many nanoseconds the kernel is shown again that the other end is elsewhere.
const SHOW_AGAIN: u64 = 1_000_000_000;

/// A clock that is right shows no earlier time: 2026 begins, in nanoseconds since the Unix epoch. Vectors count up from
/// the time when an association was made, so they come twice where the clock begins anew at every start.
pub const CLOCK_MIN: u64 = 1_767_225_600_000_000_000;

/// The last of extended sequence numbers that is used.
const NUMBER_MAX: u64 = u64::MAX >> 1;

/// A security association, shared by all workers.
pub struct Sa {
    spec: Spec,
    icv: usize,
    /// Length in bytes, a power of two, of which the encrypted part is a multiple.
    align: usize,
    /// Four bytes that come before the vector in a nonce, where there is one.
    salt: [u8; 4],
    protection: Protection,
    /// Precomputed part of the outer header.
    outer: Outer,
    /// Added to a sequence number, it makes an initialisation vector.
    base: u64,
    made: u64,
    /// Fingerprint of the keys: tells them from others without revealing them.
    fingerprint: [u8; 32],
    ended: AtomicBool,
    /// Last time at which the kernel was told of the other end's new address, in nanoseconds since the Unix epoch; 0 =
    /// never.
    shown: AtomicU64,
    path: PathMtu,
}

impl Sa {
    /// An association made at `now`, in nanoseconds since the Unix epoch.
    ///
    /// Initialisation vectors count up from that time. So even an association made anew with the same keys after a
    /// restart has other ones, up to a thousand million packets a second. This matters as with GCM two packets with the
    /// same vector and key reveal both.
    ///
    /// # Errors
    /// A sentence: a parameter is wrong.
    pub fn new(spec: Spec, keys: &Keys, now: u64) -> Result<Sa, String> {
        if spec.spi < 256 {
            return Err("the SPI must be at least 256: those below are reserved".to_owned());
        }
        if spec.window > crate::window::MAX {
            return Err(format!("the window must be at most {}", crate::window::MAX));
        }
        if spec.esn && spec.window == 0 && spec.direction == Direction::In {
            return Err("extended sequence numbers need a window".to_owned());
        }
        if spec.pad > 0 && spec.tunnel.is_none() {
            // Without an inner IP header no length says where the payload ends.
            return Err("`pad` is for tunnels only".to_owned());
        }
        let suite = spec.suite;
        for (name, given, needed) in [
            ("ENC_KEY", keys.enc.len(), suite.enc_key_len()),
            ("AUTH_KEY", keys.auth.len(), suite.auth_key_len()),
        ] {
            if given != needed {
                return Err(match needed {
                    0 => format!("{} needs no {name}", suite.name()),
                    _ => format!(
                        "{name} must have {needed} bytes for {}, which are {} hexadecimal digits, and has {given}",
                        suite.name(),
                        2 * needed
                    ),
                });
            }
        }
        let cipher = cipher::cipher(suite, keys).ok_or("a key is not one of this suite")?;
        let outer = Outer::new(spec.tunnel, spec.udp)?;
        let shared = Shared::default();
        shared.next.store(1, Relaxed);
        shared.first.store(1, Relaxed);
        Ok(Sa {
            icv: suite.icv(),
            align: suite.align(),
            salt: keys.enc.last_chunk().copied().unwrap_or_default(),
            protection: Protection {
                spi: spec.spi,
                esn: spec.esn,
                head: suite.head(),
                cipher,
                together: together::together(suite, keys),
                window: Window::new(spec.window),
                shared,
                replayed: AtomicU64::new(0),
                forged: AtomicU64::new(0),
            },
            outer,
            base: now,
            made: now,
            fingerprint: fingerprint(keys),
            ended: AtomicBool::new(false),
            shown: AtomicU64::new(0),
            path: PathMtu::default(),
            spec,
        })
    }

    /// Parameters of the association.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// True if the association has this specification and these keys.
    pub fn is(&self, spec: &Spec, keys: &Keys) -> bool {
        self.spec == *spec && self.fingerprint == fingerprint(keys)
    }

    /// True if its sequence numbers must never repeat with the same keys, even across restarts.
    pub fn seals_by_count(&self) -> bool {
        self.spec.direction == Direction::Out && self.spec.suite.code == Code::None
    }

    /// True if another association has the same keys, so that their numbers must not be the same.
    pub fn has_keys_of(&self, other: &Sa) -> bool {
        self.fingerprint == other.fingerprint
    }

    /// Outer header of the association's packets.
    pub fn outer(&self) -> &Outer {
        &self.outer
    }

    /// Time of creation, in nanoseconds since the Unix epoch.
    pub fn made(&self) -> u64 {
        self.made
    }

    /// Time of last use, in nanoseconds; 0 = never.
    pub fn used(&self) -> u64 {
        self.protection.shared.used.load(Relaxed)
    }

    /// Packets and bytes that the association has encrypted or decrypted.
    pub fn counts(&self) -> (u64, u64) {
        (self.packets(), self.protection.shared.bytes.load(Relaxed))
    }

    fn packets(&self) -> u64 {
        let shared = &self.protection.shared;
        // Each number is of one packet, so taking numbers counts the packets that are sealed.
        let sealed = shared
            .next
            .load(Relaxed)
            .saturating_sub(shared.first.load(Relaxed));
        shared.packets.load(Relaxed) + sealed
    }

    /// The last sequence number that was assigned, or the greatest that has been received.
    pub fn number(&self) -> u64 {
        match self.spec.direction {
            Direction::Out => self.protection.shared.next.load(Relaxed) - 1,
            Direction::In => self.protection.window.top(),
        }
    }

    /// Packets refused as replayed and as forged.
    pub fn refused(&self) -> (u64, u64) {
        (
            self.protection.replayed.load(Relaxed),
            self.protection.forged.load(Relaxed),
        )
    }

    /// The next packet gets this sequence number: for a peer that has seen others, before a restart.
    pub fn start_at(&self, number: u64) {
        // Behind the last one that is used none is given out, and there is room to count those who ask.
        let number = number.clamp(1, NUMBER_MAX + 1);
        self.protection.shared.next.store(number, Relaxed);
        self.protection.shared.first.store(number, Relaxed);
    }

    /// Marks all numbers up to this one as seen, for an association that was used before a restart.
    pub fn begin_after(&self, number: u64) {
        self.protection.window.begin_after(number);
    }

    /// Continues an association with the same keys: numbers, window and counts. Remaining users of the old one may take
    /// up to `ahead` more numbers.
    pub fn go_on(&self, old: &Sa, ahead: u64) {
        let next = old.protection.shared.next.load(Relaxed);
        if next > 1 {
            self.start_at(next.saturating_add(ahead));
        }
        self.protection.window.go_on(&old.protection.window);
        let (packets, bytes) = old.counts();
        self.count(packets, bytes, old.used());
    }

    fn beyond(&self, limits: &Limits, now: u64) -> bool {
        let over = |limit: u64, is: u64| limit != 0 && is >= limit;
        over(limits.packets, self.packets())
            || over(limits.bytes, self.protection.shared.bytes.load(Relaxed))
            || over(
                limits.seconds,
                now.saturating_sub(self.made) / 1_000_000_000,
            )
    }

    /// True if the soft lifetime has expired: the association should be renewed.
    pub fn is_soft_expired(&self, now: u64) -> bool {
        self.is_hard_expired(now) || self.beyond(&self.spec.lifetime.soft, now)
    }

    /// True if the hard lifetime has expired: the association must not be used.
    #[inline]
    pub fn is_hard_expired(&self, now: u64) -> bool {
        self.ended.load(Relaxed)
            || self.spec.lifetime.hard != Limits::default()
                && self.beyond(&self.spec.lifetime.hard, now)
    }

    /// True if a packet may show the kernel that the other end is elsewhere: one in a second.
    #[inline]
    pub fn may_show_move(&self, now: u64) -> bool {
        let shown = self.shown.load(Relaxed);
        shown == 0 || now.saturating_sub(shown) >= SHOW_AGAIN
    }

    /// Records that a packet has shown a move of the peer.
    pub fn show_move(&self, now: u64) {
        self.shown.store(now.max(1), Relaxed);
    }

    /// Counts packets that were let in.
    #[inline]
    pub fn count(&self, packets: u64, bytes: u64, now: u64) {
        self.protection.count(packets, bytes, now);
    }

    /// Takes sequence numbers for `packets` packets with `bytes` bytes in all; returns the first. A worker takes those
    /// of a burst at once, so limits are kept up to a burst of each worker.
    #[inline]
    pub fn take(&self, packets: u64, bytes: u64, now: u64) -> Result<u64, Fault> {
        if self.is_hard_expired(now) {
            return Err(Fault::Expired);
        }
        let first = self.protection.shared.next.fetch_add(packets, Relaxed);
        let last = first.saturating_add(packets.saturating_sub(1));
        if last > u64::from(u32::MAX) && (!self.spec.esn || last > NUMBER_MAX) {
            // Sequence numbers must not wrap around (RFC 4303, 3.3.3).
            self.ended.store(true, Relaxed);
            return Err(Fault::Expired);
        }
        self.protection.shared.bytes.fetch_add(bytes, Relaxed);
        self.protection.shared.used.store(now, Relaxed);
        Ok(first)
    }

    /// Bytes before a payload, from the header on.
    #[inline]
    pub fn head(&self) -> usize {
        self.protection.head
    }

    /// Bytes behind a payload of this length: padding, trailer and integrity check value.
    #[inline]
    pub fn tail(&self, payload: usize) -> usize {
        let padded = payload.max(usize::from(self.spec.pad)) + 2;
        // No division, as one by a number that is not known would be.
        ((padded + self.align - 1) & !(self.align - 1)) - payload + self.icv
    }

    /// Bytes of the longest sealed packet that the path carries, if a recent message told it.
    #[inline]
    pub fn path_mtu(&self) -> usize {
        self.path.get()
    }

    /// Forgets a path MTU that was learnt long ago: the path may have become wider (RFC 1191, 6.3). Times are in
    /// nanoseconds.
    pub fn forget_path_mtu(&self, now: u64) {
        self.path.forget(now);
    }

    /// Records a reported path MTU (RFC 4301, 8.2.1). A value below the minimum of every path is ignored.
    pub fn learn_path_mtu(&self, mtu: usize, now: u64) {
        let is_v4 = self
            .outer
            .tunnel()
            .is_none_or(|tunnel| tunnel.dst.is_ipv4());
        let least = if is_v4 {
            path_mtu::MIN
        } else {
            wire::ipv6::MIN_MTU
        };
        self.path.learn(mtu.max(least), now);
    }

    /// Length of the longest inner packet whose encrypted form fits the path MTU, in bytes.
    pub fn longest_inside(&self) -> usize {
        let room = self
            .path_mtu()
            .saturating_sub(self.outer.tunnel_len() + self.protection.head);
        let fits = |len: &usize| len + self.tail(*len) <= room;
        (0..=room)
            .rev()
            .take(usize::from(self.spec.pad) + 2 * self.align + self.icv + 2)
            .find(fits)
            .unwrap_or(0)
    }

    /// Prefetches the association for a packet that needs it soon.
    #[inline]
    pub fn prefetch(&self) {
        prefetch::whole(self);
    }

    /// Prefetches the keys. Call it some time after [`prefetch`](Self::prefetch).
    #[inline]
    pub fn prefetch_keys(&self) {
        match &self.protection.together {
            Some(keys) => keys.prefetch(),
            None => self.protection.cipher.prefetch(),
        }
    }

    #[inline(always)]
    fn nonce(&self, vector: [u8; 8]) -> [u8; NONCE] {
        let mut nonce = [0; NONCE];
        nonce[..4].copy_from_slice(&self.salt);
        nonce[4..].copy_from_slice(&vector);
        nonce
    }

    /// Prepares a packet to be sealed in place by [`Ciphers::seal`](crate::Ciphers::seal), and adds it to the others:
    /// `packet` has [`head`](Self::head) bytes before the payload and its [`tail`](Self::tail) behind; `next` says what
    /// it is.
    ///
    /// # Panics
    ///
    /// If the lengths are others.
    #[inline(always)] // it is the loop of who calls it, and hands its result over in registers
    pub fn frame<'p>(
        &'p self,
        packet: &'p mut [u8],
        payload: usize,
        next: u8,
        number: u64,
        jobs: &mut Vec<Job<'p>>,
    ) {
        assert_eq!(
            packet.len(),
            self.protection.head + payload + self.tail(payload)
        );
        let text_end = packet.len() - self.icv;
        let header = u64::from(self.protection.spi) << 32 | u64::from(number as u32);
        let vector = self.base.wrapping_add(number).to_be_bytes();
        let (front, rest) = packet.split_at_mut(self.protection.head);
        front[..HEADER].copy_from_slice(&header.to_be_bytes());
        if let Some((own, zeros)) = front[HEADER..].split_first_chunk_mut() {
            *own = vector;
            if !zeros.is_empty() {
                zeros.fill(0);
            }
        }
        let after = &mut rest[payload..text_end - self.protection.head];
        // Padding for traffic-flow confidentiality, then 1, 2, 3 ... up to the trailer.
        let wanted = usize::from(self.spec.pad).saturating_sub(payload);
        let pad = match wanted {
            0 => after,
            _ => {
                let (zeros, pad) = after.split_at_mut(wanted);
                zeros.fill(0);
                pad
            }
        };
        if let [pad @ .., len, last] = pad {
            (*len, *last) = (pad.len() as u8, next);
            let mut value = 0;
            for byte in pad {
                value += 1;
                *byte = value;
            }
        }
        jobs.push(Job {
            protection: &self.protection,
            packet,
            text_end,
            number,
            nonce: self.nonce(vector),
            fault: None,
        });
    }

    /// Checks if a packet may be opened in place by [`Ciphers::open`](crate::Ciphers::open): it reaches from its header
    /// to its end. If so, it is added to the others. On a fault, its former content is lost.
    #[inline(always)] // as in `frame`
    pub fn admit<'p>(&'p self, packet: &'p mut [u8], jobs: &mut Vec<Job<'p>>) -> Result<(), Fault> {
        let text_end = packet.len().saturating_sub(self.icv);
        let text_len = text_end.checked_sub(self.protection.head);
        if text_len.is_none_or(|len| len < 2 || len & (self.align - 1) != 0) {
            return Err(Fault::Malformed);
        }
        let (Some(&[_, _, _, _, low @ ..]), vector) = (
            packet.first_chunk::<HEADER>(),
            packet[HEADER..].first_chunk(),
        ) else {
            return Err(Fault::Malformed);
        };
        let (low, vector) = (u32::from_be_bytes(low), vector.copied().unwrap_or_default());
        let number = if self.spec.esn {
            self.protection.window.extend(low)
        } else {
            Some(u64::from(low))
        };
        match number.filter(|number| self.protection.window.might_take(*number)) {
            Some(number) => {
                jobs.push(Job {
                    protection: &self.protection,
                    packet,
                    text_end,
                    number,
                    nonce: self.nonce(vector),
                    fault: None,
                });
                Ok(())
            }
            None => {
                self.protection.replayed.fetch_add(1, Relaxed);
                Err(Fault::Replayed)
            }
        }
    }
}

fn fingerprint(keys: &Keys) -> [u8; 32] {
    let both = Sha256::new()
        .chain_update(&*keys.enc)
        .chain_update(&*keys.auth);
    both.finalize().into()
}

impl fmt::Debug for Sa {
    /// Prints nothing of the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sa").field(&self.spec).finish()
    }
}

#[cfg(test)]
#[path = "sa_tests.rs"]
mod tests;
