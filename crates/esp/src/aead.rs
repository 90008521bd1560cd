//! Ciphers that protect and authenticate at once, whichever library they are of.

use crate::locked::Locked;
use aes::{Aes128, Aes192, Aes256};
use aes_gcm::{AeadInOut, AesGcm, KeyInit, aead::consts::U12};
use chacha20poly1305::ChaCha20Poly1305;

/// Bytes of a nonce: four of salt, eight of the packet's initialisation vector.
pub(crate) const NONCE: usize = 12;
/// Bytes of a tag.
pub(crate) const TAG: usize = 16;

/// A cipher with its key.
pub(crate) trait Aead: Send + Sync {
    /// Encrypts in place, and gives the tag.
    fn seal(&self, nonce: &[u8; NONCE], aad: &[u8], data: &mut [u8]) -> [u8; TAG];

    /// Decrypts in place. If the tag is wrong, what is left of the data means nothing.
    fn open(&self, nonce: &[u8; NONCE], aad: &[u8], data: &mut [u8], tag: &[u8; TAG]) -> bool;
}

/// The library that is used, by name.
pub fn library() -> &'static str {
    #[cfg(ipsec_mb)]
    if mb_is_there() {
        return "intel-ipsec-mb";
    }
    "RustCrypto"
}

#[cfg(ipsec_mb)]
fn mb_is_there() -> bool {
    crate::mb::is_there()
}

/// AES-GCM with a key of 16, 24 or 32 bytes.
pub(crate) fn gcm(key: &[u8]) -> Option<Box<dyn Aead>> {
    #[cfg(ipsec_mb)]
    if let Some(fast) = crate::mb::gcm(key) {
        return Some(fast);
    }
    portable_gcm(key)
}

/// ChaCha20-Poly1305.
pub(crate) fn chacha(key: &[u8]) -> Option<Box<dyn Aead>> {
    #[cfg(ipsec_mb)]
    if let Some(fast) = key.first_chunk().and_then(crate::mb::chacha) {
        return Some(fast);
    }
    portable_chacha(key)
}

pub(crate) fn portable_gcm(key: &[u8]) -> Option<Box<dyn Aead>> {
    Some(match key.len() {
        16 => Box::new(Locked::new(
            AesGcm::<Aes128, U12>::new_from_slice(key).ok()?,
        )),
        24 => Box::new(Locked::new(
            AesGcm::<Aes192, U12>::new_from_slice(key).ok()?,
        )),
        _ => Box::new(Locked::new(
            AesGcm::<Aes256, U12>::new_from_slice(key).ok()?,
        )),
    })
}

pub(crate) fn portable_chacha(key: &[u8]) -> Option<Box<dyn Aead>> {
    let cipher = ChaCha20Poly1305::new_from_slice(key).ok()?;
    Some(Box::new(Locked::new(cipher)))
}

impl<C> Aead for Locked<C>
where
    C: AeadInOut<NonceSize = U12, TagSize = aes_gcm::aead::consts::U16> + Send + Sync,
{
    fn seal(&self, nonce: &[u8; NONCE], aad: &[u8], data: &mut [u8]) -> [u8; TAG] {
        let sealed = self.encrypt_inout_detached(&(*nonce).into(), aad, data.into());
        // It refuses texts of many gigabytes only.
        sealed.map_or([0; TAG], Into::into)
    }

    fn open(&self, nonce: &[u8; NONCE], aad: &[u8], data: &mut [u8], tag: &[u8; TAG]) -> bool {
        let opened =
            self.decrypt_inout_detached(&(*nonce).into(), aad, data.into(), &(*tag).into());
        opened.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Rng;

    /// The library for this processor and the portable one are of one mind.
    #[test]
    fn libraries_agree_about_every_length() {
        let mut rng = Rng::seed(4106);
        type Make = fn(&[u8]) -> Option<Box<dyn Aead>>;
        let pairs: [(usize, Make, Make); 4] = [
            (16, gcm, portable_gcm),
            (24, gcm, portable_gcm),
            (32, gcm, portable_gcm),
            (32, chacha, portable_chacha),
        ];
        for (len, fast, portable) in pairs {
            let key = rng.bytes(len);
            let (fast, portable) = (fast(&key).unwrap(), portable(&key).unwrap());
            for len in (0..200).chain([1420, 9000]) {
                let nonce: [u8; NONCE] = rng.bytes(NONCE).try_into().unwrap();
                let aad_len = rng.below(40);
                let (aad, text) = (rng.bytes(aad_len), rng.bytes(len));
                let (mut one, mut two) = (text.clone(), text.clone());
                let tag = fast.seal(&nonce, &aad, &mut one);
                assert_eq!(tag, portable.seal(&nonce, &aad, &mut two));
                assert_eq!(one, two);
                assert!(fast.open(&nonce, &aad, &mut one, &tag));
                assert!(portable.open(&nonce, &aad, &mut two, &tag));
                assert!(one == text && two == text);
                let mut wrong = tag;
                wrong[rng.below(TAG)] ^= 1 << rng.below(8);
                assert!(!fast.open(&nonce, &aad, &mut one, &wrong));
                assert!(!portable.open(&nonce, &aad, &mut two, &wrong));
            }
        }
    }
}
