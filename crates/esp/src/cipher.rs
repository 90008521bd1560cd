//! Ciphers with keys, independent of the library that implements them.

use crate::aead::{Aead, TAG, combined};
use crate::hmac::{Authenticator, Cbc};
use crate::locked::Locked;
use crate::protection::{Cipher, Job, NONCE};
use crate::suite::{BLOCK, Code, Keys, Mode, Suite};
use crate::{HEADER, single};
use aes::{Aes128, Aes192, Aes256};
use aes_gcm::{AeadInOut, AesGcm, KeyInit, aead::consts::U12};
use chacha20poly1305::ChaCha20Poly1305;

/// The ciphers of an association; `None` if the keys do not fit the suite.
pub(crate) fn cipher(suite: Suite, keys: &Keys) -> Option<Box<dyn Cipher>> {
    single::cipher(suite, keys).or_else(|| portable(suite, keys))
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

impl<C> Aead for Locked<C>
where
    C: AeadInOut<NonceSize = U12, TagSize = aes_gcm::aead::consts::U16> + Send + Sync,
{
    fn encrypt(&self, nonce: &[u8; NONCE], aad: &[u8], data: &mut [u8], tag: &mut [u8; TAG]) {
        let sealed = self.encrypt_inout_detached(&(*nonce).into(), aad, data.into());
        // Encryption fails only for data of many gigabytes.
        *tag = sealed.map_or([0; TAG], Into::into);
    }

    fn decrypt(&self, nonce: &[u8; NONCE], aad: &[u8], data: &mut [u8], tag: &[u8; TAG]) -> bool {
        let opened =
            self.decrypt_inout_detached(&(*nonce).into(), aad, data.into(), &(*tag).into());
        opened.is_ok()
    }
}

/// An optional cipher, followed by an authentication code over its result.
struct Chain {
    cipher: Option<Cbc>,
    code: Authenticator,
}

impl Cipher for Chain {
    fn encrypt(&self, jobs: &mut [Job<'_>]) {
        for job in jobs {
            let high = job.high();
            let (_, text, code) = job.parts(0);
            if let Some(cipher) = &self.cipher {
                // The vector's block contains a number, and is encrypted before the text.
                cipher.encrypt(&mut text[HEADER..]);
            }
            self.code
                .sign([text, high.as_ref().map_or(&[], |high| high)], code);
        }
    }

    fn decrypt(&self, jobs: &mut [Job<'_>]) {
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
