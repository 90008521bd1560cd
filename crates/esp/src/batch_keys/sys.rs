//! Expanded keys of intel-ipsec-mb, for suites whose packets it processes many at once.
#![allow(unsafe_code)]

use crate::locked::Locked;
use crate::mb::functions;
use crate::suite::{BLOCK, Code, Keys, Mode, Suite};
use tables::prefetch;
use zeroize::Zeroize;

/// Length in bytes of the longest block of a hash function.
const HASH_BLOCK: usize = 128;
/// Number of round keys of AES with the longest key.
pub(crate) const ROUND_KEYS: usize = 15;

/// A block of bytes with the alignment of vector instructions.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub(crate) struct Block(pub(crate) [u8; BLOCK]);

/// Expanded keys, in the library's format.
pub(crate) struct Expanded {
    pub(crate) encrypt: [Block; ROUND_KEYS],
    pub(crate) decrypt: [Block; ROUND_KEYS],
    /// Hash states after the key with its inner and its outer padding.
    pub(crate) inner: [u8; HASH_BLOCK],
    pub(crate) outer: [u8; HASH_BLOCK],
}

impl Drop for Expanded {
    fn drop(&mut self) {
        let blocks = self.encrypt.iter_mut().chain(&mut self.decrypt);
        blocks.for_each(|block| block.0.zeroize());
        self.inner.zeroize();
        self.outer.zeroize();
    }
}

/// The keys of an association whose packets are processed together with others of the suite.
pub(crate) struct BatchKeys {
    pub(crate) suite: Suite,
    kind: usize,
    pub(crate) keys: Locked<Expanded>,
}

/// AES-CBC or no cipher, with an HMAC; `None` for other suites, or if the library lacks it.
pub(crate) fn expand_batch_keys(suite: Suite, keys: &Keys) -> Option<BatchKeys> {
    let f = functions()?;
    let (code, one_block) = match suite.code {
        Code::None => return None,
        Code::Sha1 => (0, f.sha1_one_block?),
        Code::Sha256 => (1, f.sha256_one_block?),
        Code::Sha512 => (2, f.sha512_one_block?),
    };
    let (cipher, expand) = match suite.mode {
        Mode::Cbc(16) => (1, Some(f.keyexp_128?)),
        Mode::Cbc(24) => (2, Some(f.keyexp_192?)),
        Mode::Cbc(32) => (3, Some(f.keyexp_256?)),
        Mode::Null => (0, None),
        _ => return None,
    };
    if keys.enc.len() != suite.enc_key_len() || keys.auth.len() != suite.auth_key_len() {
        return None;
    }
    let none = [Block([0; BLOCK]); ROUND_KEYS];
    let mut expanded = Locked::new(Expanded {
        encrypt: none,
        decrypt: none,
        inner: [0; HASH_BLOCK],
        outer: [0; HASH_BLOCK],
    });
    if let Some(expand) = expand {
        let to = &mut *expanded;
        let (encrypt, decrypt) = (to.encrypt.as_mut_ptr(), to.decrypt.as_mut_ptr());
        // SAFETY: the key has as many bytes as the function reads (checked above). It writes at most as many blocks
        // as the longest key has, which are aligned as required.
        unsafe { expand(keys.enc.as_ptr().cast(), encrypt.cast(), decrypt.cast()) };
    }
    let mut padded = [0; HASH_BLOCK];
    for (pad, is_outer) in [(0x36, false), (0x5c, true)] {
        padded.fill(pad);
        let pairs = padded.iter_mut().zip(keys.auth.iter());
        pairs.for_each(|(byte, key)| *byte ^= key);
        let state = match is_outer {
            false => &mut expanded.inner,
            true => &mut expanded.outer,
        };
        // SAFETY: the function reads one block of the hash, and writes its state, which is shorter than a block.
        unsafe { one_block(padded.as_ptr().cast(), state.as_mut_ptr().cast()) };
    }
    padded.zeroize();
    Some(BatchKeys {
        suite,
        kind: 3 * cipher + code,
        keys: expanded,
    })
}

impl BatchKeys {
    /// Prefetches the keys.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch::whole(&*self.keys);
    }

    /// Index below 32 for cipher, key length and code: packets with the same index are processed together.
    #[inline]
    pub(crate) fn kind(&self) -> usize {
        self.kind
    }
}
