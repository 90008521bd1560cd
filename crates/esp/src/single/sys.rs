//! intel-ipsec-mb's calls for one packet, with expanded keys.
//!
//! They only read the library's table of functions. Version 1.3 stores "no error" in one word for all threads. This
//! costs workers on several cores some time, but is harmless, as no thread reads it.
#![allow(unsafe_code)]

use crate::aead::{Aead, TAG, combined};
use crate::constant_time::is_same;
use crate::locked::Locked;
use crate::mb::functions;
use crate::mb::library::{IMB_MGR, chacha20_poly1305_context_data, gcm_context_data, gcm_key_data};
use crate::protection::{Cipher, NONCE};
use crate::suite::{Keys, Mode, Suite};
use std::mem::MaybeUninit;
use tables::prefetch;
use zeroize::Zeroize;

// The library reads GCM keys as aligned data.
const _: () = assert!(align_of::<gcm_key_data>() == 64);

type Crypt = unsafe extern "C" fn(
    *const gcm_key_data,
    *mut gcm_context_data,
    *mut u8,
    *const u8,
    u64,
    *const u8,
    *const u8,
    u64,
    *mut u8,
    u64,
);

/// An expanded key of AES-GCM.
struct Gcm {
    key: Locked<gcm_key_data>,
    encrypt: Crypt,
    decrypt: Crypt,
}

impl Drop for Gcm {
    fn drop(&mut self) {
        let key = std::ptr::from_mut(&mut *self.key).cast::<MaybeUninit<u8>>();
        // SAFETY: its own bytes, which nothing else reads any more.
        unsafe { std::slice::from_raw_parts_mut(key, size_of::<gcm_key_data>()) }.zeroize();
    }
}

/// AES-GCM with a key of 16, 24 or 32 bytes; `None` if the library lacks it.
fn gcm(key: &[u8]) -> Option<Gcm> {
    let f = functions()?;
    let (expand, encrypt, decrypt) = match key.len() {
        16 => (f.gcm128_pre?, f.gcm128_enc?, f.gcm128_dec?),
        24 => (f.gcm192_pre?, f.gcm192_enc?, f.gcm192_dec?),
        32 => (f.gcm256_pre?, f.gcm256_enc?, f.gcm256_dec?),
        _ => return None,
    };
    // SAFETY: it is an array of bytes, for which zero is valid.
    let mut expanded = Locked::of(Box::new(unsafe { std::mem::zeroed::<gcm_key_data>() }));
    // SAFETY: the key has as many bytes as the function reads, and `expanded` is the structure that it writes.
    unsafe { expand(key.as_ptr().cast(), &mut *expanded) };
    Some(Gcm {
        key: expanded,
        encrypt,
        decrypt,
    })
}

impl Gcm {
    #[inline(always)]
    fn run(
        &self,
        crypt: Crypt,
        nonce: &[u8; NONCE],
        aad: &[u8],
        data: &mut [u8],
        tag: &mut [u8; TAG],
    ) {
        let mut context = MaybeUninit::<gcm_context_data>::uninit();
        let text = data.as_mut_ptr();
        // SAFETY: all lengths are those of the slices, and processing in place is allowed. The function reads 12
        // bytes of nonce and writes 16 bytes of tag, and it writes the context before reading it.
        unsafe {
            crypt(
                &*self.key,
                context.as_mut_ptr(),
                text,
                text,
                data.len() as u64,
                nonce.as_ptr(),
                aad.as_ptr(),
                aad.len() as u64,
                tag.as_mut_ptr(),
                TAG as u64,
            );
        }
    }
}

impl Aead for Gcm {
    #[inline]
    fn encrypt(&self, nonce: &[u8; NONCE], aad: &[u8], data: &mut [u8], tag: &mut [u8; TAG]) {
        self.run(self.encrypt, nonce, aad, data, tag);
    }

    #[inline]
    fn decrypt(&self, nonce: &[u8; NONCE], aad: &[u8], data: &mut [u8], tag: &[u8; TAG]) -> bool {
        let mut own = [0; TAG];
        self.run(self.decrypt, nonce, aad, data, &mut own);
        is_same(&own, tag)
    }

    #[inline]
    fn prefetch(&self) {
        prefetch::whole(&*self.key);
    }
}

type Update = unsafe extern "C" fn(
    *const std::ffi::c_void,
    *mut chacha20_poly1305_context_data,
    *mut std::ffi::c_void,
    *const std::ffi::c_void,
    u64,
);

/// A key of ChaCha20-Poly1305.
struct ChaCha {
    key: Locked<zeroize::Zeroizing<[u8; 32]>>,
    functions: &'static IMB_MGR,
    encrypt: Update,
    decrypt: Update,
}

// SAFETY: the functions are only called, and their manager is only read (see `Functions`).
unsafe impl Send for ChaCha {}
// SAFETY: as above.
unsafe impl Sync for ChaCha {}

/// ChaCha20-Poly1305; `None` if the library lacks it.
fn chacha(key: &[u8; 32]) -> Option<ChaCha> {
    let functions = functions()?;
    functions.chacha20_poly1305_init?;
    functions.chacha20_poly1305_finalize?;
    Some(ChaCha {
        key: Locked::new(zeroize::Zeroizing::new(*key)),
        functions,
        encrypt: functions.chacha20_poly1305_enc_update?,
        decrypt: functions.chacha20_poly1305_dec_update?,
    })
}

impl ChaCha {
    fn run(
        &self,
        update: Update,
        nonce: &[u8; NONCE],
        aad: &[u8],
        data: &mut [u8],
        tag: &mut [u8; TAG],
    ) {
        let mut context = MaybeUninit::<chacha20_poly1305_context_data>::uninit();
        let (init, finalize) = (
            self.functions.chacha20_poly1305_init,
            self.functions.chacha20_poly1305_finalize,
        );
        let (Some(init), Some(finalize)) = (init, finalize) else {
            unreachable!("`chacha` has looked");
        };
        let key = self.key.as_ptr().cast();
        let text = data.as_mut_ptr();
        // SAFETY: as in `Gcm::run`; `init` writes the context before the others read it.
        unsafe {
            init(
                key,
                context.as_mut_ptr(),
                nonce.as_ptr().cast(),
                aad.as_ptr().cast(),
                aad.len() as u64,
            );
            update(
                key,
                context.as_mut_ptr(),
                text.cast(),
                text.cast(),
                data.len() as u64,
            );
            finalize(context.as_mut_ptr(), tag.as_mut_ptr().cast(), TAG as u64);
        }
    }
}

impl Aead for ChaCha {
    fn encrypt(&self, nonce: &[u8; NONCE], aad: &[u8], data: &mut [u8], tag: &mut [u8; TAG]) {
        self.run(self.encrypt, nonce, aad, data, tag);
    }

    fn decrypt(&self, nonce: &[u8; NONCE], aad: &[u8], data: &mut [u8], tag: &[u8; TAG]) -> bool {
        let mut own = [0; TAG];
        self.run(self.decrypt, nonce, aad, data, &mut own);
        is_same(&own, tag)
    }
}

/// The ciphers of a suite whose packets are processed one by one.
pub(crate) fn cipher(suite: Suite, keys: &Keys) -> Option<Box<dyn Cipher>> {
    let (key, _) = keys.enc.split_last_chunk::<4>()?;
    Some(match suite.mode {
        Mode::Gcm(_) | Mode::Gmac(_) => combined(suite, gcm(key)?),
        Mode::ChaCha => combined(suite, chacha(key.first_chunk()?)?),
        Mode::Cbc(_) | Mode::Null => return None,
    })
}
