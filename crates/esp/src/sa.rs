//! A security association: keys, sequence numbers, window and lifetimes; it prepares packets for encryption and
//! decryption.

use crate::outer::Outer;
use crate::path_mtu::{self, PathMtu};
use crate::protection::{Fault, Job, NONCE, Protection, Shared};
use crate::spec::{Direction, Limits, Spec};
use crate::suite::{Code, Keys};
use crate::window::Window;
use crate::{HEADER, batch_keys, cipher};
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use tables::prefetch;

/// Nanoseconds after which the kernel is notified again of a peer's new address.
const SHOW_INTERVAL_NS: u64 = 1_000_000_000;

/// Least plausible wall-clock time, in nanoseconds since the Unix epoch: the beginning of 2026. Initialisation
/// vectors count up from an association's creation time, so they would repeat if the clock restarted at each boot.
pub const CLOCK_MIN: u64 = 1_767_225_600_000_000_000;

/// The greatest extended sequence number that is used.
const SEQUENCE_MAX: u64 = u64::MAX >> 1;

/// A security association, shared by all workers.
pub struct Sa {
    spec: Spec,
    icv: usize,
    /// Alignment in bytes of the encrypted part, a power of two.
    align: usize,
    /// Salt: four bytes before the vector in a nonce, for ciphers with a nonce.
    salt: [u8; 4],
    protection: Protection,
    /// Precomputed part of the outer header.
    outer: Outer,
    /// Offset that turns a sequence number into an initialisation vector.
    base: u64,
    created_at: u64,
    /// Hash of the keys, for comparison without revealing them.
    fingerprint: [u8; 32],
    ended: AtomicBool,
    /// Last time at which the kernel was notified of the peer's new address, in nanoseconds since the Unix epoch; 0 =
    /// never.
    address_reported_at: AtomicU64,
    path: PathMtu,
}

impl Sa {
    /// Makes an association at `now`, in nanoseconds since the Unix epoch.
    ///
    /// Initialisation vectors count up from that time. So an association with the same keys after a restart uses
    /// different ones, for up to a thousand million packets a second. This matters because two packets with the same
    /// vector and key reveal both in GCM.
    ///
    /// # Errors
    /// A parameter is invalid; a sentence.
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
            // Without an inner IP header, no length field tells where the payload ends.
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
                batch_keys: batch_keys::expand_batch_keys(suite, keys),
                window: Window::new(spec.window),
                shared,
                replayed: AtomicU64::new(0),
                forged: AtomicU64::new(0),
            },
            outer,
            base: now,
            created_at: now,
            fingerprint: fingerprint(keys),
            ended: AtomicBool::new(false),
            address_reported_at: AtomicU64::new(0),
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

    /// True if its sequence numbers must never repeat with the same keys, not even across restarts.
    pub fn seals_by_count(&self) -> bool {
        self.spec.direction == Direction::Out && self.spec.suite.code == Code::None
    }

    /// True if another association has the same keys, so that their sequence numbers must differ.
    pub fn has_keys_of(&self, other: &Sa) -> bool {
        self.fingerprint == other.fingerprint
    }

    /// Outer header of the association's packets.
    pub fn outer(&self) -> &Outer {
        &self.outer
    }

    /// Time of creation, in nanoseconds since the Unix epoch.
    pub fn created_at(&self) -> u64 {
        self.created_at
    }

    /// Time of last use, in nanoseconds; 0 = never.
    pub fn last_used_at(&self) -> u64 {
        self.protection.shared.used.load(Relaxed)
    }

    /// Number of packets and bytes that the association has encrypted or decrypted.
    pub fn counts(&self) -> (u64, u64) {
        (self.packets(), self.protection.shared.bytes.load(Relaxed))
    }

    fn packets(&self) -> u64 {
        let shared = &self.protection.shared;
        // Each sequence number belongs to one packet, so the numbers count the encrypted packets.
        let sealed = shared
            .next
            .load(Relaxed)
            .saturating_sub(shared.first.load(Relaxed));
        shared.packets.load(Relaxed) + sealed
    }

    /// The last sequence number that was assigned, or the greatest that was received.
    pub fn number(&self) -> u64 {
        match self.spec.direction {
            Direction::Out => self.protection.shared.next.load(Relaxed) - 1,
            Direction::In => self.protection.window.top(),
        }
    }

    /// Number of packets refused as replayed, and as forged.
    pub fn refused(&self) -> (u64, u64) {
        (
            self.protection.replayed.load(Relaxed),
            self.protection.forged.load(Relaxed),
        )
    }

    /// Sets the next sequence number, for a peer that has seen earlier ones before a restart.
    pub fn start_at(&self, number: u64) {
        // No number is assigned beyond the last usable one; counting refused requests needs some room above it.
        let number = number.clamp(1, SEQUENCE_MAX + 1);
        self.protection.shared.next.store(number, Relaxed);
        self.protection.shared.first.store(number, Relaxed);
    }

    /// Marks all sequence numbers up to this one as seen, for an association that was used before a restart.
    pub fn begin_after(&self, number: u64) {
        self.protection.window.begin_after(number);
    }

    /// Continues an association with the same keys: sequence numbers, window and counters. Remaining users of the old
    /// one may use up to `ahead` more numbers.
    pub fn go_on(&self, old: &Sa, ahead: u64) {
        let next = old.protection.shared.next.load(Relaxed);
        if next > 1 {
            self.start_at(next.saturating_add(ahead));
        }
        self.protection.window.go_on(&old.protection.window);
        let (packets, bytes) = old.counts();
        self.count(packets, bytes, old.last_used_at());
    }

    fn exceeds(&self, limits: &Limits, now: u64) -> bool {
        let over = |limit: u64, is: u64| limit != 0 && is >= limit;
        over(limits.packets, self.packets())
            || over(limits.bytes, self.protection.shared.bytes.load(Relaxed))
            || over(
                limits.seconds,
                now.saturating_sub(self.created_at) / 1_000_000_000,
            )
    }

    /// True if the soft lifetime has expired: the association should be renewed.
    pub fn is_soft_expired(&self, now: u64) -> bool {
        self.is_hard_expired(now) || self.exceeds(&self.spec.lifetime.soft, now)
    }

    /// True if the hard lifetime has expired: the association must not be used.
    #[inline]
    pub fn is_hard_expired(&self, now: u64) -> bool {
        self.ended.load(Relaxed)
            || self.spec.lifetime.hard != Limits::default()
                && self.exceeds(&self.spec.lifetime.hard, now)
    }

    /// True if the kernel may be notified of a peer's new address by a packet: once per second.
    #[inline]
    pub fn may_show_move(&self, now: u64) -> bool {
        let shown = self.address_reported_at.load(Relaxed);
        shown == 0 || now.saturating_sub(shown) >= SHOW_INTERVAL_NS
    }

    /// Records that the kernel was notified of a peer's new address.
    pub fn show_move(&self, now: u64) {
        self.address_reported_at.store(now.max(1), Relaxed);
    }

    /// Counts accepted packets.
    #[inline]
    pub fn count(&self, packets: u64, bytes: u64, now: u64) {
        self.protection.count(packets, bytes, now);
    }

    /// Assigns sequence numbers to `packets` packets with `bytes` bytes in all; returns the first. A worker does this
    /// once per burst, so limits may be exceeded by a burst of each worker.
    #[inline]
    pub fn take(&self, packets: u64, bytes: u64, now: u64) -> Result<u64, Fault> {
        if self.is_hard_expired(now) {
            return Err(Fault::Expired);
        }
        let first = self.protection.shared.next.fetch_add(packets, Relaxed);
        let last = first.saturating_add(packets.saturating_sub(1));
        if last > u64::from(u32::MAX) && (!self.spec.esn || last > SEQUENCE_MAX) {
            // Sequence numbers must not wrap around (RFC 4303, 3.3.3).
            self.ended.store(true, Relaxed);
            return Err(Fault::Expired);
        }
        self.protection.shared.bytes.fetch_add(bytes, Relaxed);
        self.protection.shared.used.store(now, Relaxed);
        Ok(first)
    }

    /// Number of bytes before a payload, from the ESP header on.
    #[inline]
    pub fn head(&self) -> usize {
        self.protection.head
    }

    /// Number of bytes after a payload of this length: padding, trailer and integrity check value.
    #[inline]
    pub fn trailer_len(&self, payload: usize) -> usize {
        let padded = payload.max(usize::from(self.spec.pad)) + 2;
        // Computed without a division, which would be slow for a variable divisor.
        ((padded + self.align - 1) & !(self.align - 1)) - payload + self.icv
    }

    /// Length in bytes of the longest encrypted packet that the path carries, if a recent message reported it.
    #[inline]
    pub fn path_mtu(&self) -> usize {
        self.path.get()
    }

    /// Forgets a path MTU that was learnt long ago: the path may have a greater one now (RFC 1191, 6.3). Times are in
    /// nanoseconds.
    pub fn forget_path_mtu(&self, now: u64) {
        self.path.expire(now);
    }

    /// Records a reported path MTU (RFC 4301, 8.2.1). A value below the minimum of every path is ignored.
    pub fn learn_path_mtu(&self, mtu: usize, now: u64) {
        let is_v4 = self
            .outer
            .tunnel()
            .is_none_or(|tunnel| tunnel.dst.is_ipv4());
        let least = if is_v4 {
            path_mtu::PATH_MTU_MIN
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
        let fits = |len: &usize| len + self.trailer_len(*len) <= room;
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

    /// Prefetches the keys. Call it some time after [`prefetch`](Self::prefetch), because it follows pointers loaded
    /// by that.
    #[inline]
    pub fn prefetch_keys(&self) {
        match &self.protection.batch_keys {
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

    /// Prepares a packet to be encrypted in place by [`Ciphers::encrypt`](crate::Ciphers::encrypt), and adds it to the
    /// jobs. `packet` has [`head`](Self::head) bytes before the payload and [`trailer_len`](Self::trailer_len) bytes
    /// after it; `next` is the payload's protocol number.
    ///
    /// # Panics
    ///
    /// The lengths differ from these.
    #[inline(always)] // part of the caller's loop: its result stays in registers
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
            self.protection.head + payload + self.trailer_len(payload)
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

    /// Checks if a packet may be decrypted in place by [`Ciphers::open`](crate::Ciphers::open), and adds it to the
    /// jobs if so. `packet` reaches from the ESP header to its end. On a fault, its former content is lost.
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
