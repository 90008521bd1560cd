//! Suites of ciphers and authentication codes, by strongSwan's names.

use crate::HEADER;
use std::fmt;
use std::str::FromStr;
use zeroize::Zeroizing;

/// Length in bytes of an AES block, and of a CBC initialisation vector.
pub(crate) const BLOCK: usize = 16;

/// Encryption mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// AES-GCM (RFC 4106), with keys of this length in bytes.
    Gcm(usize),
    /// AES-GMAC (RFC 4543): authentication only.
    Gmac(usize),
    /// ChaCha20-Poly1305 (RFC 7634).
    ChaCha,
    /// AES-CBC (RFC 3602).
    Cbc(usize),
    /// None (RFC 2410).
    Null,
}

/// Authentication code, for ciphers that do not authenticate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// No separate code: the cipher authenticates.
    None,
    /// HMAC-SHA1-96 (RFC 2404).
    Sha1,
    /// HMAC-SHA-256-128 (RFC 4868).
    Sha256,
    /// HMAC-SHA-512-256 (RFC 4868).
    Sha512,
}

/// A cipher and an authentication code.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Suite {
    pub(crate) mode: Mode,
    pub(crate) code: Code,
}

const fn suite(mode: Mode, code: Code) -> Suite {
    Suite { mode, code }
}

/// All suites by name.
const SUITES: [(&str, Suite); 19] = [
    ("aes128gcm16", suite(Mode::Gcm(16), Code::None)),
    ("aes192gcm16", suite(Mode::Gcm(24), Code::None)),
    ("aes256gcm16", suite(Mode::Gcm(32), Code::None)),
    ("chacha20poly1305", suite(Mode::ChaCha, Code::None)),
    ("aes128gmac", suite(Mode::Gmac(16), Code::None)),
    ("aes192gmac", suite(Mode::Gmac(24), Code::None)),
    ("aes256gmac", suite(Mode::Gmac(32), Code::None)),
    ("aes128-sha1", suite(Mode::Cbc(16), Code::Sha1)),
    ("aes192-sha1", suite(Mode::Cbc(24), Code::Sha1)),
    ("aes256-sha1", suite(Mode::Cbc(32), Code::Sha1)),
    ("aes128-sha256", suite(Mode::Cbc(16), Code::Sha256)),
    ("aes192-sha256", suite(Mode::Cbc(24), Code::Sha256)),
    ("aes256-sha256", suite(Mode::Cbc(32), Code::Sha256)),
    ("aes128-sha512", suite(Mode::Cbc(16), Code::Sha512)),
    ("aes192-sha512", suite(Mode::Cbc(24), Code::Sha512)),
    ("aes256-sha512", suite(Mode::Cbc(32), Code::Sha512)),
    ("null-sha1", suite(Mode::Null, Code::Sha1)),
    ("null-sha256", suite(Mode::Null, Code::Sha256)),
    ("null-sha512", suite(Mode::Null, Code::Sha512)),
];

impl Suite {
    /// The names of all suites.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SUITES.iter().map(|(name, _)| *name)
    }

    /// Name of the suite.
    pub fn name(self) -> &'static str {
        let found = SUITES.iter().find(|(_, suite)| *suite == self);
        found.map_or("", |(name, _)| name)
    }

    /// Length of the cipher's key in bytes. For GCM, GMAC and ChaCha20 it includes four bytes of salt at the end (RFC
    /// 4106, 8.1).
    pub fn enc_key_len(self) -> usize {
        match self.mode {
            Mode::Gcm(len) | Mode::Gmac(len) => len + 4,
            Mode::ChaCha => 32 + 4,
            Mode::Cbc(len) => len,
            Mode::Null => 0,
        }
    }

    /// Length of the authentication key in bytes.
    pub fn auth_key_len(self) -> usize {
        match self.code {
            Code::None => 0,
            Code::Sha1 => 20,
            Code::Sha256 => 32,
            Code::Sha512 => 64,
        }
    }

    /// Number of bytes before the payload: header and initialisation vector.
    #[inline]
    pub fn head(self) -> usize {
        HEADER
            + match self.mode {
                Mode::Gcm(_) | Mode::Gmac(_) | Mode::ChaCha => 8,
                Mode::Cbc(_) => BLOCK,
                Mode::Null => 0,
            }
    }

    /// Length of the integrity check value in bytes.
    #[inline]
    pub fn icv(self) -> usize {
        match self.code {
            Code::None | Code::Sha256 => 16,
            Code::Sha1 => 12,
            Code::Sha512 => 32,
        }
    }

    /// Alignment in bytes of the payload with its trailer.
    #[inline]
    pub(crate) fn align(self) -> usize {
        match self.mode {
            Mode::Cbc(_) => BLOCK,
            _ => 4,
        }
    }
}

impl FromStr for Suite {
    type Err = String;

    fn from_str(text: &str) -> Result<Suite, String> {
        let found = SUITES.iter().find(|(name, _)| *name == text);
        found.map(|(_, suite)| *suite).ok_or_else(|| {
            let names: Vec<_> = Suite::names().collect();
            format!("there is no such suite; there are {}", names.join(", "))
        })
    }
}

impl fmt::Debug for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Keys as configured; they are wiped after use.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Keys {
    /// Key of the cipher, with its salt.
    pub enc: Zeroizing<Vec<u8>>,
    /// Key of the authentication code.
    pub auth: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for Keys {
    /// Prints nothing of the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys")
    }
}
