//! The key of a cluster: who has it can speak on internal links.

use siphasher::sip::SipHasher24;
use std::fmt;
use std::hash::Hasher;

/// A secret of 128 bits that all nodes of a cluster share.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 16]);

impl Key {
    /// A key from its bytes.
    pub fn new(bytes: [u8; 16]) -> Key {
        Key(bytes)
    }

    /// A key from 32 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Key> {
        let digits: Option<Vec<u8>> = text
            .chars()
            .map(|c| c.to_digit(16).map(|digit| digit as u8))
            .collect();
        let digits = digits.filter(|digits| digits.len() == 32)?;
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair[0] << 4 | pair[1];
        }
        Some(Key(bytes))
    }

    /// SipHash-2-4 of the parts, one after the other: a code of 64 bits that only who has the key can make.
    pub fn digest(&self, parts: &[&[u8]]) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        for part in parts {
            hasher.write(part);
        }
        hasher.finish()
    }
}

impl fmt::Debug for Key {
    /// Says nothing of the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_the_vector_of_siphashs_paper() {
        // Appendix A of the paper: key 00..0f, message 00..0e.
        let key = Key::parse("000102030405060708090a0b0c0d0e0f").expect("32 digits");
        let message: Vec<u8> = (0..15).collect();
        assert_eq!(key.digest(&[&message]), 0xa129_ca61_49be_45e5);
        assert_eq!(
            key.digest(&[&message[..4], &message[4..]]),
            0xa129_ca61_49be_45e5
        );
    }

    #[test]
    fn a_key_is_32_hexadecimal_digits_and_is_never_printed() {
        let wrong = [
            "",
            "00",
            "g00102030405060708090a0b0c0d0e0f",
            "é00102030405060708090a0b0c0d0e0",
        ];
        assert!(wrong.iter().all(|text| Key::parse(text).is_none()));
        assert!(Key::parse(&"A".repeat(33)).is_none());
        assert_eq!(format!("{:?}", Key::new([7; 16])), "Key(..)");
    }
}
