//! Ciphers with keys, whatever library implements them.

use crate::hmac::{Authenticator, BLOCK, Cbc};
use crate::job::Job;
use crate::locked::Locked;
use crate::suite::{Code, Mode};
use crate::{HEADER, Keys, Suite, mb};
use aes::{Aes128, Aes192, Aes256};
use aes_gcm::{AeadInOut, AesGcm, KeyInit, aead::consts::U12};
use chacha20poly1305::ChaCha20Poly1305;

/// Bytes of a nonce: four of salt, eight of the packet's initialisation vector.
pub(crate) const NONCE: usize = 12;
/// Bytes of a tag.
pub(crate) const TAG: usize = 16;
/// Bytes before the text: header and initialisation vector.
const HEAD: usize = HEADER + 8;

/// A suite's ciphers with the keys of an association.
pub(crate) trait Cipher: Send + Sync {
    /// Seals packets of the association.
    fn seal(&self, jobs: &mut [Job<'_>]);

    /// Decrypts packets of the association, and reports which are forged.
    fn open(&self, jobs: &mut [Job<'_>]);

    /// Prefetches the keys.
    fn prefetch(&self) {}
}

/// A cipher that protects and authenticates at once, with its key.
pub(crate) trait Aead: Send + Sync {
    /// Encrypts in place, and writes the tag.
    fn seal(&self, nonce: &[u8; NONCE], aad: &[u8], data: &mut [u8], tag: &mut [u8; TAG]);

    /// Decrypts in place. If the tag is wrong, the data has no meaning afterwards.
    fn open(&self, nonce: &[u8; NONCE], aad: &[u8], data: &mut [u8], tag: &[u8; TAG]) -> bool;

    /// Prefetches the key.
    fn prefetch(&self) {}
}

/// The ciphers of an association; none if the keys are not of this suite.
pub(crate) fn cipher(suite: Suite, keys: &Keys) -> Option<Box<dyn Cipher>> {
    mb::cipher(suite, keys).or_else(|| portable(suite, keys))
}

/// Portable ciphers, for every processor.
pub(crate) fn portable(suite: Suite, keys: &Keys) -> Option<Box<dyn Cipher>> {
    let code = || match suite.code {
        Code::None => None,
        Code::Sha1 => Authenticator::sha1(&keys.auth),
        Code::Sha256 => Authenticator::sha256(&keys.auth),
        Code::Sha512 => Authenticator::sha512(&keys.auth),
    };
    Some(match suite.mode {
        Mode::Gcm(_) | Mode::Gmac(_) | Mode::ChaCha => {
            let (key, _) = keys.enc.split_last_chunk::<4>()?;
            match (suite.mode, key.len()) {
                (Mode::ChaCha, _) => combined(
                    suite,
                    Locked::new(ChaCha20Poly1305::new_from_slice(key).ok()?),
                ),
                (_, 16) => combined(suite, gcm::<Aes128>(key)?),
                (_, 24) => combined(suite, gcm::<Aes192>(key)?),
                _ => combined(suite, gcm::<Aes256>(key)?),
            }
        }
        Mode::Cbc(_) => Box::new(Chain {
            cipher: Some(Cbc::new(&keys.enc)?),
            code: code()?,
        }),
        Mode::Null => Box::new(Chain {
            cipher: None,
            code: code()?,
        }),
    })
}

type Gcm<C> = Locked<AesGcm<C, U12>>;

fn gcm<C>(key: &[u8]) -> Option<Gcm<C>>
where
    AesGcm<C, U12>: KeyInit,
{
    Some(Locked::new(AesGcm::new_from_slice(key).ok()?))
}

/// The cipher in the form in which ESP uses it.
pub(crate) fn combined<A: Aead + 'static>(suite: Suite, aead: A) -> Box<dyn Cipher> {
    match suite.mode {
        Mode::Gmac(_) => Box::new(Gmac(aead)),
        _ => Box::new(Combined(aead)),
    }
}

impl<C> Aead for Locked<C>
where
    C: AeadInOut<NonceSize = U12, TagSize = aes_gcm::aead::consts::U16> + Send + Sync,
{
    fn seal(&self, nonce: &[u8; NONCE], aad: &[u8], data: &mut [u8], tag: &mut [u8; TAG]) {
        let sealed = self.encrypt_inout_detached(&(*nonce).into(), aad, data.into());
        // Encryption fails for data of many gigabytes only.
        *tag = sealed.map_or([0; TAG], Into::into);
    }

    fn open(&self, nonce: &[u8; NONCE], aad: &[u8], data: &mut [u8], tag: &[u8; TAG]) -> bool {
        let opened =
            self.decrypt_inout_detached(&(*nonce).into(), aad, data.into(), &(*tag).into());
        opened.is_ok()
    }
}

/// Text is encrypted, and header and text are authenticated (RFC 4106, RFC 7634).
struct Combined<A>(A);

impl<A: Aead> Cipher for Combined<A> {
    fn seal(&self, jobs: &mut [Job<'_>]) {
        for job in jobs {
            let (nonce, long) = (job.nonce, job.long_aad());
            let (front, text, tag) = job.parts(HEAD);
            let aad = long.as_ref().map_or(&front[..HEADER], |long| long);
            if let Some(tag) = tag.first_chunk_mut() {
                self.0.seal(&nonce, aad, text, tag);
            }
        }
    }

    fn open(&self, jobs: &mut [Job<'_>]) {
        for job in jobs {
            let (nonce, long) = (job.nonce, job.long_aad());
            let (front, text, tag) = job.parts(HEAD);
            let aad = long.as_ref().map_or(&front[..HEADER], |long| long);
            let tag = tag.first_chunk();
            if !tag.is_some_and(|tag| self.0.open(&nonce, aad, text, tag)) {
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
    fn seal(&self, jobs: &mut [Job<'_>]) {
        for job in jobs {
            Self::with(job, |nonce, whole, tag| {
                if let Some(tag) = tag.first_chunk_mut() {
                    self.0.seal(nonce, whole, &mut [], tag);
                }
            });
        }
    }

    fn open(&self, jobs: &mut [Job<'_>]) {
        for job in jobs {
            let right = Self::with(job, |nonce, whole, tag| {
                let tag = tag.first_chunk();
                tag.is_some_and(|tag| self.0.open(nonce, whole, &mut [], tag))
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

/// A cipher, if there is one, and then an authentication code over its result.
struct Chain {
    cipher: Option<Cbc>,
    code: Authenticator,
}

impl Cipher for Chain {
    fn seal(&self, jobs: &mut [Job<'_>]) {
        for job in jobs {
            let high = job.high();
            let (_, text, code) = job.parts(0);
            if let Some(cipher) = &self.cipher {
                // The vector's block has a number, and is encrypted before the text.
                cipher.encrypt(&mut text[HEADER..]);
            }
            self.code
                .sign([text, high.as_ref().map_or(&[], |high| high)], code);
        }
    }

    fn open(&self, jobs: &mut [Job<'_>]) {
        for job in jobs {
            let high = job.high();
            let (_, text, code) = job.parts(0);
            if !self
                .code
                .verify([text, high.as_ref().map_or(&[], |high| high)], code)
            {
                job.forged();
                continue;
            }
            let rest = text[HEADER..].split_first_chunk_mut::<BLOCK>();
            if let (Some(cipher), Some((vector, text))) = (&self.cipher, rest) {
                cipher.decrypt(vector, text);
            }
        }
    }
}

/// True if two codes are the same, in a time that does not depend on them. Their lengths are multiples of four.
#[inline]
pub(crate) fn is_same(one: &[u8], other: &[u8]) -> bool {
    let pairs = one.as_chunks::<4>().0.iter().zip(other.as_chunks::<4>().0);
    let differ = pairs.fold(0, |differ, (a, b)| {
        differ | u32::from_ne_bytes(*a) ^ u32::from_ne_bytes(*b)
    });
    one.len() == other.len() && subtle::ConstantTimeEq::ct_eq(&differ, &0).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Rng;

    #[test]
    fn codes_are_the_same_or_differ_in_a_bit() {
        let mut rng = Rng::seed(4);
        for len in [0, 12, 16, 32] {
            let code = rng.bytes(len);
            assert!(is_same(&code, &code.clone()));
            for bit in 0..8 * len {
                let mut other = code.clone();
                other[bit / 8] ^= 1 << (bit % 8);
                assert!(!is_same(&code, &other) && !is_same(&other, &code));
            }
        }
        assert!(!is_same(&[0; 12], &[0; 16]));
    }
}
