//! HMAC, and AES in CBC mode, which is combined with it.

use crate::constant_time::is_same;
use crate::locked::Locked;
use crate::suite::BLOCK;
use aes::cipher::{Array, BlockModeDecrypt, BlockModeEncrypt, InnerIvInit};
use aes::{Aes128, Aes192, Aes256};
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::{Sha256, Sha512};

/// HMAC with its key. The code of a packet is the beginning of the digest.
pub(crate) enum Authenticator {
    Sha1(Locked<Hmac<Sha1>>),
    Sha256(Locked<Hmac<Sha256>>),
    Sha512(Locked<Hmac<Sha512>>),
}

impl Authenticator {
    pub(crate) fn sha1(key: &[u8]) -> Option<Authenticator> {
        let made = Hmac::new_from_slice(key).ok()?;
        Some(Authenticator::Sha1(Locked::new(made)))
    }

    pub(crate) fn sha256(key: &[u8]) -> Option<Authenticator> {
        let made = Hmac::new_from_slice(key).ok()?;
        Some(Authenticator::Sha256(Locked::new(made)))
    }

    pub(crate) fn sha512(key: &[u8]) -> Option<Authenticator> {
        let made = Hmac::new_from_slice(key).ok()?;
        Some(Authenticator::Sha512(Locked::new(made)))
    }

    /// Writes the authentication code of a message, given in two parts.
    pub(crate) fn sign(&self, parts: [&[u8]; 2], code: &mut [u8]) {
        fn digest<M: Mac + Clone>(keyed: &M, parts: [&[u8]; 2], code: &mut [u8]) {
            let mut mac = keyed.clone();
            parts.iter().for_each(|part| mac.update(part));
            let whole = mac.finalize().into_bytes();
            code.copy_from_slice(&whole[..code.len()]);
        }
        match self {
            Authenticator::Sha1(keyed) => digest(&**keyed, parts, code),
            Authenticator::Sha256(keyed) => digest(&**keyed, parts, code),
            Authenticator::Sha512(keyed) => digest(&**keyed, parts, code),
        }
    }

    /// True if a code is valid.
    pub(crate) fn verify(&self, parts: [&[u8]; 2], code: &[u8]) -> bool {
        let mut own = [0; 32];
        let own = &mut own[..code.len()];
        self.sign(parts, own);
        is_same(own, code)
    }
}

/// AES with its key, for CBC mode.
pub(crate) enum Cbc {
    Aes128(Locked<Aes128>),
    Aes192(Locked<Aes192>),
    Aes256(Locked<Aes256>),
}

impl Cbc {
    pub(crate) fn new(key: &[u8]) -> Option<Cbc> {
        Some(match key.len() {
            16 => Cbc::Aes128(Locked::new(Aes128::new_from_slice(key).ok()?)),
            24 => Cbc::Aes192(Locked::new(Aes192::new_from_slice(key).ok()?)),
            _ => Cbc::Aes256(Locked::new(Aes256::new_from_slice(key).ok()?)),
        })
    }

    /// Encrypts whole blocks in place. The first block is encrypted with a vector of zeros, and so becomes an
    /// unpredictable vector for the blocks that follow.
    pub(crate) fn encrypt(&self, blocks: &mut [u8]) {
        let blocks = Array::cast_slice_from_core_mut(blocks.as_chunks_mut::<BLOCK>().0);
        let zero = [0; BLOCK].into();
        match self {
            Cbc::Aes128(key) => {
                cbc::Encryptor::inner_iv_init(&**key, &zero).encrypt_blocks(blocks);
            }
            Cbc::Aes192(key) => {
                cbc::Encryptor::inner_iv_init(&**key, &zero).encrypt_blocks(blocks);
            }
            Cbc::Aes256(key) => {
                cbc::Encryptor::inner_iv_init(&**key, &zero).encrypt_blocks(blocks);
            }
        }
    }

    /// Decrypts whole blocks in place.
    pub(crate) fn decrypt(&self, iv: &[u8; BLOCK], blocks: &mut [u8]) {
        let blocks = Array::cast_slice_from_core_mut(blocks.as_chunks_mut::<BLOCK>().0);
        let iv = &(*iv).into();
        match self {
            Cbc::Aes128(key) => {
                cbc::Decryptor::inner_iv_init(&**key, iv).decrypt_blocks(blocks);
            }
            Cbc::Aes192(key) => {
                cbc::Decryptor::inner_iv_init(&**key, iv).decrypt_blocks(blocks);
            }
            Cbc::Aes256(key) => {
                cbc::Decryptor::inner_iv_init(&**key, iv).decrypt_blocks(blocks);
            }
        }
    }
}
