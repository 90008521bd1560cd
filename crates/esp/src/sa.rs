//! A security association: keys, numbers, window, lifetimes, and what seals and opens packets.

use crate::aead::{self, Aead, NONCE, TAG};
use crate::hmac::{Authenticator, BLOCK, Cbc};
use crate::outer::{Outer, Tunnel};
use crate::suite::{Cipher, Code};
use crate::window::Window;
use crate::{HEADER, Keys, Suite};
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Which way packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the network to this router.
    In,
    /// From this router to the network.
    Out,
}

/// Why a packet is not sealed or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It cannot be a packet of this association: too short, or its lengths or padding are wrong.
    Malformed,
    /// It came before, or is older than the window.
    Replayed,
    /// Somebody without the key made or changed it.
    Forged,
    /// The association has reached a hard limit, or has no more sequence numbers.
    Expired,
}

/// How much an association may be used; 0 = without limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Packets.
    pub packets: u64,
    /// Bytes of inner packets.
    pub bytes: u64,
    /// Seconds since it was made.
    pub seconds: u64,
}

/// When to renew an association, and when to use it no longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetime {
    /// It should be renewed.
    pub soft: Limits,
    /// It is used no longer.
    pub hard: Limits,
}

/// What an association is, without its keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Which way its packets go.
    pub direction: Direction,
    /// Security parameters index, at least 256 (RFC 4303, 2.1).
    pub spi: u32,
    /// By which policies name it: all associations that take turns have the same.
    pub reqid: u32,
    /// What protects its packets.
    pub suite: Suite,
    /// The tunnel's ends and manners; none in transport mode.
    pub tunnel: Option<Tunnel>,
    /// UDP ports of the sender and the receiver (RFC 3948).
    pub udp: Option<(u16, u16)>,
    /// Whether sequence numbers have 64 bits.
    pub esn: bool,
    /// Size of the anti-replay window; 0 = none.
    pub window: u32,
    /// Payloads are padded to so many bytes at least, so that nobody sees how long packets are (RFC 4303, 2.7).
    pub pad: u16,
    /// When it ends.
    pub lifetime: Lifetime,
}

/// After how many nanoseconds the kernel is shown again that the other end is elsewhere.
const SHOW_AGAIN: u64 = 1_000_000_000;

/// What protects packets, with its keys.
enum Transform {
    Aead(Box<dyn Aead>, [u8; 4]),
    Gmac(Box<dyn Aead>, [u8; 4]),
    Cbc(Cbc, Authenticator),
    Null(Authenticator),
}

/// Counts that workers share, on a cache line of their own.
#[repr(align(64))]
#[derive(Default)]
struct Shared {
    /// Outbound: the sequence number that nobody has taken.
    next: AtomicU64,
    packets: AtomicU64,
    bytes: AtomicU64,
    /// When it was last used, in nanoseconds.
    used: AtomicU64,
}

/// A clock that is right shows no earlier time: 2026 begins, in nanoseconds since the Unix epoch. Vectors count up from the
/// time when an association was made, so they come twice where the clock begins anew at every start.
pub const CLOCK_MIN: u64 = 1_767_225_600_000_000_000;

/// The last of extended sequence numbers that is used.
const NUMBER_MAX: u64 = u64::MAX >> 1;

/// A security association, shared by all workers.
pub struct Sa {
    spec: Spec,
    transform: Transform,
    /// What is known of the outer header before a packet comes.
    outer: Outer,
    /// Added to a sequence number, it makes an initialisation vector.
    base: u64,
    made: u64,
    /// Tells its keys from others without knowing them.
    fingerprint: [u8; 32],
    window: Window,
    shared: Shared,
    replayed: AtomicU64,
    forged: AtomicU64,
    ended: AtomicBool,
    /// When the kernel was last shown that the other end is elsewhere, in nanoseconds since the Unix epoch; 0 = never.
    shown: AtomicU64,
}

/// What is inside of an opened packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Where the payload begins, from the header on.
    pub start: usize,
    /// Where it ends; padding for traffic-flow confidentiality may come before.
    pub end: usize,
    /// What it is: a protocol's number.
    pub next: u8,
    /// The packet's sequence number.
    pub number: u64,
}

impl Sa {
    /// An association that is made at a time, given in nanoseconds since the Unix epoch; the error says what is wrong.
    ///
    /// Initialisation vectors count up from that time. So even an association with the same keys, made anew after a
    /// restart, has other ones, as long as no more than a thousand million packets leave in a second: with GCM, two packets
    /// with the same vector and key give both away.
    pub fn new(spec: Spec, keys: &Keys, now: u64) -> Result<Sa, String> {
        if spec.spi < 256 {
            return Err("the SPI must be at least 256: those below are reserved".to_owned());
        }
        if spec.window > crate::window::MAX {
            return Err(format!("the window must be at most {}", crate::window::MAX));
        }
        if spec.esn && spec.window == 0 && spec.direction == Direction::In {
            return Err(
                "extended sequence numbers need a window, by which they are told".to_owned(),
            );
        }
        if spec.pad > 0 && spec.tunnel.is_none() {
            // Nothing inside would say where the payload ends.
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
        let transform = Transform::new(suite, keys).ok_or("a key is not one of this suite")?;
        let outer = Outer::new(&spec)?;
        let shared = Shared::default();
        shared.next.store(1, Relaxed);
        Ok(Sa {
            transform,
            outer,
            base: now,
            made: now,
            fingerprint: fingerprint(keys),
            window: Window::new(spec.window),
            shared,
            replayed: AtomicU64::new(0),
            forged: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            shown: AtomicU64::new(0),
            spec,
        })
    }

    /// What it is.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Whether it is what a specification and keys say.
    pub fn is(&self, spec: &Spec, keys: &Keys) -> bool {
        self.spec == *spec && self.fingerprint == fingerprint(keys)
    }

    /// Whether it seals by numbers of which none may come twice with the same keys, whatever is restarted.
    pub fn seals_by_count(&self) -> bool {
        self.spec.direction == Direction::Out
            && matches!(self.transform, Transform::Aead(..) | Transform::Gmac(..))
    }

    /// Whether another association has the same keys, so that their numbers must not be the same.
    pub fn has_keys_of(&self, other: &Sa) -> bool {
        self.fingerprint == other.fingerprint
    }

    /// The header around its packets.
    pub fn outer(&self) -> &Outer {
        &self.outer
    }

    /// When it was made, in nanoseconds since the Unix epoch.
    pub fn made(&self) -> u64 {
        self.made
    }

    /// When it was last used; 0 = never.
    pub fn used(&self) -> u64 {
        self.shared.used.load(Relaxed)
    }

    /// Packets and bytes that it has protected or let in.
    pub fn counts(&self) -> (u64, u64) {
        let shared = &self.shared;
        (shared.packets.load(Relaxed), shared.bytes.load(Relaxed))
    }

    /// The last sequence number that was given out, or the greatest that has come.
    pub fn number(&self) -> u64 {
        match self.spec.direction {
            Direction::Out => self.shared.next.load(Relaxed) - 1,
            Direction::In => self.window.top(),
        }
    }

    /// Packets refused as replayed and as forged.
    pub fn refused(&self) -> (u64, u64) {
        (self.replayed.load(Relaxed), self.forged.load(Relaxed))
    }

    /// The next packet gets this sequence number: for a peer that has seen others, before a restart.
    pub fn start_at(&self, number: u64) {
        // Behind the last one that is used none is given out, and there is room to count those who ask.
        self.shared
            .next
            .store(number.clamp(1, NUMBER_MAX + 1), Relaxed);
    }

    /// All numbers up to this one have come: for an association that was used before a restart.
    pub fn begin_after(&self, number: u64) {
        self.window.begin_after(number);
    }

    /// Goes on where an association with the same keys was: numbers, window and counts. Who still uses that one may take
    /// up to `ahead` numbers more.
    pub fn go_on(&self, old: &Sa, ahead: u64) {
        let next = old.shared.next.load(Relaxed);
        if next > 1 {
            self.start_at(next.saturating_add(ahead));
        }
        self.window.go_on(&old.window);
        let (packets, bytes) = old.counts();
        self.count(packets, bytes, old.used());
    }

    fn beyond(&self, limits: &Limits, now: u64) -> bool {
        let shared = &self.shared;
        let over = |limit: u64, is: u64| limit != 0 && is >= limit;
        over(limits.packets, shared.packets.load(Relaxed))
            || over(limits.bytes, shared.bytes.load(Relaxed))
            || over(
                limits.seconds,
                now.saturating_sub(self.made) / 1_000_000_000,
            )
    }

    /// Whether it should be renewed.
    pub fn is_soft_expired(&self, now: u64) -> bool {
        self.is_hard_expired(now) || self.beyond(&self.spec.lifetime.soft, now)
    }

    /// Whether it is used no longer.
    #[inline]
    pub fn is_hard_expired(&self, now: u64) -> bool {
        self.ended.load(Relaxed)
            || self.spec.lifetime.hard != Limits::default()
                && self.beyond(&self.spec.lifetime.hard, now)
    }

    /// Whether a packet may show the kernel that the other end is elsewhere: one in a second.
    #[inline]
    pub fn may_show_move(&self, now: u64) -> bool {
        let shown = self.shown.load(Relaxed);
        shown == 0 || now.saturating_sub(shown) >= SHOW_AGAIN
    }

    /// A packet has shown it.
    pub fn show_move(&self, now: u64) {
        self.shown.store(now.max(1), Relaxed);
    }

    /// Counts packets that were let in.
    #[inline]
    pub fn count(&self, packets: u64, bytes: u64, now: u64) {
        self.shared.packets.fetch_add(packets, Relaxed);
        self.shared.bytes.fetch_add(bytes, Relaxed);
        self.shared.used.store(now, Relaxed);
    }

    /// Takes numbers for so many packets in a row, of so many bytes; the first is returned. A worker takes those of a burst
    /// at once, so limits are kept up to a burst of each worker.
    #[inline]
    pub fn take(&self, packets: u64, bytes: u64, now: u64) -> Result<u64, Fault> {
        if self.is_hard_expired(now) {
            return Err(Fault::Expired);
        }
        let first = self.shared.next.fetch_add(packets, Relaxed);
        let last = first.saturating_add(packets.saturating_sub(1));
        if last > u64::from(u32::MAX) && (!self.spec.esn || last > NUMBER_MAX) {
            // They must not go round (RFC 4303, 3.3.3).
            self.ended.store(true, Relaxed);
            return Err(Fault::Expired);
        }
        self.count(packets, bytes, now);
        Ok(first)
    }

    /// Bytes before a payload, from the header on.
    #[inline]
    pub fn head(&self) -> usize {
        self.spec.suite.head()
    }

    /// Bytes behind a payload of this length: padding, trailer and integrity check value.
    #[inline]
    pub fn tail(&self, payload: usize) -> usize {
        let suite = self.spec.suite;
        let padded = payload.max(usize::from(self.spec.pad)) + 2;
        padded.next_multiple_of(suite.align()) - payload + suite.icv()
    }

    /// Seals a packet in place: `packet` has [`head`](Self::head) bytes before the payload and its
    /// [`tail`](Self::tail) behind; `next` says what it is.
    ///
    /// # Panics
    ///
    /// If the lengths are others.
    #[inline]
    pub fn seal(&self, packet: &mut [u8], payload: usize, next: u8, number: u64) {
        let (suite, head) = (self.spec.suite, self.head());
        assert_eq!(packet.len(), head + payload + self.tail(payload));
        let text_end = packet.len() - suite.icv();
        packet[..4].copy_from_slice(&self.spec.spi.to_be_bytes());
        packet[4..8].copy_from_slice(&(number as u32).to_be_bytes());
        let iv = self.base.wrapping_add(number);
        // Padding for traffic-flow confidentiality, then 1, 2, 3 ... up to the trailer.
        let after = head + payload;
        let wanted = usize::from(self.spec.pad).saturating_sub(payload);
        packet[after..after + wanted].fill(0);
        let pad = &mut packet[after + wanted..text_end];
        let len = pad.len() - 2;
        for (byte, value) in pad[..len].iter_mut().zip(1..) {
            *byte = value;
        }
        (pad[len], pad[len + 1]) = (len as u8, next);
        match &self.transform {
            Transform::Aead(cipher, salt) => {
                let vector = iv.to_be_bytes();
                packet[HEADER..head].copy_from_slice(&vector);
                let mut aad = [0; 12];
                let aad = self.aad(number, &mut aad);
                let nonce = nonce(salt, &vector);
                let tag = cipher.seal(&nonce, aad, &mut packet[head..text_end]);
                packet[text_end..].copy_from_slice(&tag);
            }
            Transform::Gmac(cipher, salt) => {
                let vector = iv.to_be_bytes();
                packet[HEADER..head].copy_from_slice(&vector);
                let whole = self.authenticated(&packet[..text_end], number);
                let tag = cipher.seal(&nonce(salt, &vector), &whole, &mut []);
                packet[text_end..].copy_from_slice(&tag);
            }
            Transform::Cbc(cipher, code) => {
                let vector = &mut packet[HEADER..head];
                vector.fill(0);
                vector[..8].copy_from_slice(&iv.to_be_bytes());
                cipher.encrypt(&mut packet[HEADER..text_end]);
                self.sign(code, packet, text_end, number);
            }
            Transform::Null(code) => self.sign(code, packet, text_end, number),
        }
    }

    fn sign(&self, code: &Authenticator, packet: &mut [u8], text_end: usize, number: u64) {
        let (text, icv) = packet.split_at_mut(text_end);
        let high = ((number >> 32) as u32).to_be_bytes();
        code.sign([text, if self.spec.esn { &high } else { &[] }], icv);
    }

    /// Opens a packet in place, from its header to its end. What it held is not inside of it any more if there is a fault.
    /// The packet's number is taken: it will not open again.
    #[inline]
    pub fn open(&self, packet: &mut [u8]) -> Result<Opened, Fault> {
        let (suite, head) = (self.spec.suite, self.head());
        let text_end = packet.len().checked_sub(suite.icv());
        let text_end = text_end
            .filter(|end| *end >= head + 2)
            .ok_or(Fault::Malformed)?;
        if !(text_end - head).is_multiple_of(suite.align()) {
            return Err(Fault::Malformed);
        }
        let &[low] = packet[4..8].as_chunks().0 else {
            return Err(Fault::Malformed);
        };
        let low = u32::from_be_bytes(low);
        let number = if self.spec.esn {
            self.window.extend(low)
        } else {
            Some(u64::from(low))
        };
        let Some(number) = number.filter(|number| self.window.might_take(*number)) else {
            self.replayed.fetch_add(1, Relaxed);
            return Err(Fault::Replayed);
        };
        if !self.decrypt(packet, text_end, number) {
            self.forged.fetch_add(1, Relaxed);
            return Err(Fault::Forged);
        }
        if !self.window.take(number) {
            self.replayed.fetch_add(1, Relaxed);
            return Err(Fault::Replayed);
        }
        let (len, next) = (usize::from(packet[text_end - 2]), packet[text_end - 1]);
        let end = (text_end - 2).checked_sub(len).filter(|end| *end >= head);
        let end = end.ok_or(Fault::Malformed)?;
        let pad = packet[end..text_end - 2].iter().zip(1..=u8::MAX);
        if !pad.into_iter().all(|(byte, value)| *byte == value) {
            return Err(Fault::Malformed);
        }
        Ok(Opened {
            start: head,
            end,
            next,
            number,
        })
    }

    fn decrypt(&self, packet: &mut [u8], text_end: usize, number: u64) -> bool {
        let head = self.head();
        let high = ((number >> 32) as u32).to_be_bytes();
        let high: &[u8] = if self.spec.esn { &high } else { &[] };
        match &self.transform {
            Transform::Aead(cipher, salt) => {
                let (front, behind) = packet.split_at_mut(head);
                let (text, tag) = behind.split_at_mut(text_end - head);
                let (Some(vector), Some(tag)) = (front.last_chunk(), tag.first_chunk::<TAG>())
                else {
                    return false;
                };
                let mut aad = [0; 12];
                cipher.open(&nonce(salt, vector), self.aad(number, &mut aad), text, tag)
            }
            Transform::Gmac(cipher, salt) => {
                let (front, tag) = packet.split_at(text_end);
                let whole = self.authenticated(front, number);
                let (Some(vector), Some(tag)) = (front[..head].last_chunk(), tag.first_chunk())
                else {
                    return false;
                };
                cipher.open(&nonce(salt, vector), &whole, &mut [], tag)
            }
            Transform::Cbc(cipher, code) => {
                let (text, icv) = packet.split_at_mut(text_end);
                if !code.verify([text, high], icv) {
                    return false;
                }
                let (front, text) = text.split_at_mut(head);
                let Some(vector) = front.last_chunk::<BLOCK>() else {
                    return false;
                };
                cipher.decrypt(vector, text);
                true
            }
            Transform::Null(code) => {
                let (text, icv) = packet.split_at(text_end);
                code.verify([text, high], icv)
            }
        }
    }

    /// What GCM authenticates beside the text: SPI and the whole sequence number (RFC 4106, 5).
    #[inline]
    fn aad<'a>(&self, number: u64, bytes: &'a mut [u8; 12]) -> &'a [u8] {
        bytes[..4].copy_from_slice(&self.spec.spi.to_be_bytes());
        if self.spec.esn {
            bytes[4..].copy_from_slice(&number.to_be_bytes());
            bytes
        } else {
            bytes[4..8].copy_from_slice(&(number as u32).to_be_bytes());
            &bytes[..8]
        }
    }

    /// What GMAC authenticates, in one piece: all of it, with the whole sequence number (RFC 4543, 4).
    fn authenticated(&self, front: &[u8], number: u64) -> Vec<u8> {
        let mut aad = [0; 12];
        [self.aad(number, &mut aad), &front[HEADER..]].concat()
    }
}

fn fingerprint(keys: &Keys) -> [u8; 32] {
    let both = Sha256::new()
        .chain_update(&*keys.enc)
        .chain_update(&*keys.auth);
    both.finalize().into()
}

#[inline]
fn nonce(salt: &[u8; 4], vector: &[u8; 8]) -> [u8; NONCE] {
    let mut nonce = [0; NONCE];
    nonce[..4].copy_from_slice(salt);
    nonce[4..].copy_from_slice(vector);
    nonce
}

impl Transform {
    fn new(suite: Suite, keys: &Keys) -> Option<Transform> {
        let code = || match suite.code {
            Code::None => None,
            Code::Sha1 => Authenticator::sha1(&keys.auth),
            Code::Sha256 => Authenticator::sha256(&keys.auth),
            Code::Sha512 => Authenticator::sha512(&keys.auth),
        };
        let salted = || keys.enc.split_last_chunk::<4>();
        Some(match suite.cipher {
            Cipher::Gcm(_) => {
                let (key, salt) = salted()?;
                Transform::Aead(aead::gcm(key)?, *salt)
            }
            Cipher::Gmac(_) => {
                let (key, salt) = salted()?;
                Transform::Gmac(aead::gcm(key)?, *salt)
            }
            Cipher::ChaCha => {
                let (key, salt) = salted()?;
                Transform::Aead(aead::chacha(key)?, *salt)
            }
            Cipher::Cbc(_) => Transform::Cbc(Cbc::new(&keys.enc)?, code()?),
            Cipher::Null => Transform::Null(code()?),
        })
    }
}

impl fmt::Debug for Sa {
    /// Says nothing of the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sa").field(&self.spec).finish()
    }
}

#[cfg(test)]
#[path = "sa_tests.rs"]
mod tests;
