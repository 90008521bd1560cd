//! Protection of packets by an association: its keys, anti-replay window and counters; and jobs for a cipher.

use crate::batch_keys::BatchKeys;
use crate::window::Window;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes of a nonce: four of salt, eight of the packet's initialisation vector.
pub(crate) const NONCE: usize = 12;

/// Reason why a packet is not encrypted or decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The packet cannot belong to this association: it is too short, or its lengths or padding are wrong.
    Malformed,
    /// The packet is a duplicate, or older than the window.
    Replayed,
    /// The packet was made or changed without the key.
    Forged,
    /// The association has reached a hard limit, or has no more sequence numbers.
    Expired,
}

/// Content of a decrypted packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Start of the payload, relative to the ESP header.
    pub start: usize,
    /// End of the payload; padding for traffic-flow confidentiality may precede it.
    pub end: usize,
    /// Protocol number of the payload.
    pub next: u8,
    /// The packet's sequence number.
    pub number: u64,
}

/// A suite's ciphers with the keys of an association.
pub(crate) trait Cipher: Send + Sync {
    /// Encrypts packets of the association.
    fn encrypt(&self, jobs: &mut [Job<'_>]);

    /// Decrypts packets of the association, and reports forged ones.
    fn decrypt(&self, jobs: &mut [Job<'_>]);

    /// Prefetches the keys.
    fn prefetch(&self) {}
}

/// A packet of an association that is to be encrypted or decrypted.
pub struct Job<'p> {
    pub(crate) protection: &'p Protection,
    /// Bytes from the ESP header to the end of the authentication code.
    pub(crate) packet: &'p mut [u8],
    /// Start of the authentication code.
    pub(crate) text_end: usize,
    pub(crate) number: u64,
    /// Nonce, for ciphers that need one.
    pub(crate) nonce: [u8; NONCE],
    pub(crate) fault: Option<Fault>,
}

impl Job<'_> {
    /// Bytes before the encrypted text, the text, and the code.
    #[inline(always)]
    pub(crate) fn parts(&mut self, head: usize) -> (&mut [u8], &mut [u8], &mut [u8]) {
        let (front, code) = self.packet.split_at_mut(self.text_end);
        let (front, text) = front.split_at_mut(head);
        (front, text, code)
    }

    /// Additional authenticated data: SPI and 64-bit sequence number (RFC 4106, 5); `None` if the header holds all of
    /// it.
    #[inline(always)]
    pub(crate) fn long_aad(&self) -> Option<[u8; 12]> {
        self.protection.esn.then(|| {
            let mut aad = [0; 12];
            aad[..4].copy_from_slice(&self.protection.spi.to_be_bytes());
            aad[4..].copy_from_slice(&self.number.to_be_bytes());
            aad
        })
    }

    /// Upper half of the sequence number, if it is authenticated.
    #[inline]
    pub(crate) fn high(&self) -> Option<[u8; 4]> {
        let high = (self.number >> 32) as u32;
        self.protection.esn.then_some(high.to_be_bytes())
    }

    #[inline]
    pub(crate) fn forged(&mut self) {
        self.fault = Some(Fault::Forged);
    }

    /// Index of the suite among those that process several packets at once; `None` for other suites.
    #[inline]
    pub(crate) fn kind(&self) -> Option<usize> {
        self.protection.batch_keys.as_ref().map(|keys| keys.kind())
    }

    /// Content of a decrypted packet.
    #[inline]
    pub(crate) fn opened(&self) -> Result<Opened, Fault> {
        match self.fault {
            Some(fault) => Err(fault),
            None => self
                .protection
                .decrypted_content(&self.packet[..self.text_end], self.number),
        }
    }
}

/// Counters that workers share, on a cache line of their own.
#[repr(align(64))]
#[derive(Default)]
pub(crate) struct Shared {
    /// Outbound: the next unused sequence number, and the first one assigned here.
    pub(crate) next: AtomicU64,
    pub(crate) first: AtomicU64,
    /// Number of packets that were assigned no sequence number here: inbound ones, and those that another association
    /// with the same keys has counted.
    pub(crate) packets: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// Time of last use, in nanoseconds.
    pub(crate) used: AtomicU64,
}

/// Keys, window and counters of an association.
pub(crate) struct Protection {
    pub(crate) spi: u32,
    /// True if sequence numbers have 64 bits.
    pub(crate) esn: bool,
    /// Bytes before the encrypted text; see [`crate::Suite`].
    pub(crate) head: usize,
    pub(crate) cipher: Box<dyn Cipher>,
    /// Keys for processing many packets at once, if the suite gains from that.
    pub(crate) batch_keys: Option<BatchKeys>,
    pub(crate) window: Window,
    pub(crate) shared: Shared,
    pub(crate) replayed: AtomicU64,
    pub(crate) forged: AtomicU64,
}

impl Protection {
    /// Counts accepted packets.
    #[inline]
    pub(crate) fn count(&self, packets: u64, bytes: u64, now: u64) {
        self.shared.packets.fetch_add(packets, Relaxed);
        self.shared.bytes.fetch_add(bytes, Relaxed);
        self.shared.used.store(now, Relaxed);
    }

    /// Marks the sequence numbers of authentic packets as seen. A number that was marked meanwhile means a replay.
    #[inline]
    pub(crate) fn take_numbers(&self, jobs: &mut [Job<'_>]) {
        let number = |job: &Job<'_>| job.fault.is_none().then_some(job.number);
        let authentic = jobs.iter().filter(|job| job.fault.is_none()).count();
        if authentic < jobs.len() {
            let forged = jobs.len() - authentic;
            self.forged.fetch_add(forged as u64, Relaxed);
        }
        self.window.take_all(jobs, number, |job| {
            if job.fault.is_none() {
                job.fault = Some(Fault::Replayed);
                self.replayed.fetch_add(1, Relaxed);
            }
        });
    }

    /// Content of a decrypted packet, up to the authentication code.
    #[inline]
    pub(crate) fn decrypted_content(&self, packet: &[u8], number: u64) -> Result<Opened, Fault> {
        let [text @ .., len, next] = packet else {
            return Err(Fault::Malformed);
        };
        let end = text.len().checked_sub(usize::from(*len));
        let end = end
            .filter(|end| *end >= self.head)
            .ok_or(Fault::Malformed)?;
        let pad = text[end..].iter().zip(1..=u8::MAX);
        if !pad.into_iter().all(|(byte, value)| *byte == value) {
            return Err(Fault::Malformed);
        }
        Ok(Opened {
            start: self.head,
            end,
            next: *next,
            number,
        })
    }
}
