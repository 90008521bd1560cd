//! Ciphers that encrypt and authenticate in one step (AEAD), as ESP uses them.

use crate::HEADER;
use crate::protection::{Cipher, Job, NONCE};
use crate::suite::{Mode, Suite};

/// Bytes of a tag.
pub(crate) const TAG: usize = 16;
/// Bytes before the encrypted text: header and initialisation vector.
const HEAD: usize = HEADER + 8;

/// An AEAD cipher with its key.
pub(crate) trait Aead: Send + Sync {
    /// Encrypts in place, and writes the tag.
    fn encrypt(&self, nonce: &[u8; NONCE], aad: &[u8], data: &mut [u8], tag: &mut [u8; TAG]);

    /// Decrypts in place and checks the tag. If the tag is wrong, the data is meaningless afterwards.
    fn decrypt(&self, nonce: &[u8; NONCE], aad: &[u8], data: &mut [u8], tag: &[u8; TAG]) -> bool;

    /// Prefetches the key.
    fn prefetch(&self) {}
}

/// The AEAD cipher as ESP uses it.
pub(crate) fn combined<A: Aead + 'static>(suite: Suite, aead: A) -> Box<dyn Cipher> {
    match suite.mode {
        Mode::Gmac(_) => Box::new(Gmac(aead)),
        _ => Box::new(Combined(aead)),
    }
}

/// Encrypts the text, and authenticates header and text (RFC 4106, RFC 7634).
struct Combined<A>(A);

impl<A: Aead> Cipher for Combined<A> {
    fn encrypt(&self, jobs: &mut [Job<'_>]) {
        for job in jobs {
            let (nonce, long) = (job.nonce, job.long_aad());
            let (front, text, tag) = job.parts(HEAD);
            let aad = long.as_ref().map_or(&front[..HEADER], |long| long);
            if let Some(tag) = tag.first_chunk_mut() {
                self.0.encrypt(&nonce, aad, text, tag);
            }
        }
    }

    fn decrypt(&self, jobs: &mut [Job<'_>]) {
        for job in jobs {
            let (nonce, long) = (job.nonce, job.long_aad());
            let (front, text, tag) = job.parts(HEAD);
            let aad = long.as_ref().map_or(&front[..HEADER], |long| long);
            let tag = tag.first_chunk();
            if !tag.is_some_and(|tag| self.0.decrypt(&nonce, aad, text, tag)) {
                job.forged();
            }
        }
    }

    fn prefetch(&self) {
        self.0.prefetch();
    }
}

/// Authenticates everything and encrypts nothing (RFC 4543).
struct Gmac<A>(A);

impl<A: Aead> Gmac<A> {
    /// Calls `then` with the authenticated data, in one piece, and the tag.
    fn with<R>(job: &mut Job<'_>, then: impl FnOnce(&[u8; NONCE], &[u8], &mut [u8]) -> R) -> R {
        let (nonce, long) = (job.nonce, job.long_aad());
        let (_, text, tag) = job.parts(0);
        match long {
            Some(long) => then(&nonce, &[&long, &text[HEADER..]].concat(), tag),
            None => then(&nonce, text, tag),
        }
    }
}

impl<A: Aead> Cipher for Gmac<A> {
    fn encrypt(&self, jobs: &mut [Job<'_>]) {
        for job in jobs {
            Self::with(job, |nonce, whole, tag| {
                if let Some(tag) = tag.first_chunk_mut() {
                    self.0.encrypt(nonce, whole, &mut [], tag);
                }
            });
        }
    }

    fn decrypt(&self, jobs: &mut [Job<'_>]) {
        for job in jobs {
            let right = Self::with(job, |nonce, whole, tag| {
                let tag = tag.first_chunk();
                tag.is_some_and(|tag| self.0.decrypt(nonce, whole, &mut [], tag))
            });
            if !right {
                job.forged();
            }
        }
    }

    fn prefetch(&self) {
        self.0.prefetch();
    }
}
