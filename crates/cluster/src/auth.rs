//! The key of a cluster, and the link keys derived from it.
//!
//! All nodes share one secret, which signs heartbeats (HMAC-SHA-256). Frames of packets have keys of their own, one for
//! each link, each direction and each pair of epochs ([`Life`]) of the link's ends. Such a key is derived (HKDF, RFC
//! 5869) from the secret, the names of the cluster, the sender, the receiver and the link, and the two epochs. So a
//! recorded frame is not valid on another link, in the other direction, or after a restart.

use aegis::aegis128l::{self, Aegis128L};
use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

/// Length of the code that authenticates a frame or a heartbeat.
pub const CODE: usize = 16;
/// An authentication code.
pub type Code = [u8; CODE];
/// Maximum number of keys that a cluster has at a time.
pub const KEYS_MAX: usize = 2;

const SALT: &[u8] = b"Ashlar cluster, format 2";

/// A random number that identifies one end of a link from start to restart. An end never draws the same number again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Life(pub [u8; 16]);

/// A link and a direction. Both ends use the same names, even if they know different versions of the cluster file.
#[derive(Clone, Copy, Debug)]
pub struct LinkDirection<'a> {
    /// Name of the cluster.
    pub cluster: &'a str,
    /// Sender, and its epoch of the link.
    pub from: (&'a str, Life),
    /// Receiver, and its epoch of the link.
    pub to: (&'a str, Life),
    /// Number of the link among those between these two nodes.
    pub link: usize,
}

/// Sender and receiver of a heartbeat, by names.
#[derive(Clone, Copy, Debug)]
pub struct Ends<'a> {
    /// Name of the cluster.
    pub cluster: &'a str,
    /// Name of the sender.
    pub from: &'a str,
    /// Name of the receiver.
    pub to: &'a str,
}

/// A secret of 128 bits that all nodes of a cluster share.
#[derive(Clone)]
pub struct Key {
    secret: [u8; 16],
    beats: Hmac<Sha256>,
}

impl Key {
    /// A key from its bytes.
    pub fn new(secret: [u8; 16]) -> Key {
        let mut of_beats = hmac::digest::Key::<Hmac<Sha256>>::default();
        derive(&secret, &[b"heartbeats"], &mut of_beats);
        Key {
            secret,
            beats: Hmac::new(&of_beats),
        }
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
        Some(Key::new(bytes))
    }

    /// The code of a heartbeat between two nodes of a cluster.
    pub fn code(&self, ends: &Ends, heartbeat: &[u8]) -> Code {
        let whole = self.beats(ends).chain_update(heartbeat).finalize();
        let mut code = Code::default();
        code.copy_from_slice(&whole.as_bytes()[..CODE]);
        code
    }

    /// True if `code` authenticates a heartbeat between `ends`; compares in constant time.
    pub fn verify(&self, ends: &Ends, heartbeat: &[u8], code: &Code) -> bool {
        let whole = self.beats(ends).chain_update(heartbeat);
        whole.verify_truncated_left(code).is_ok()
    }

    /// Starts a MAC over the names of a heartbeat's ends. The heartbeat itself contains only node numbers, which
    /// another cluster file may assign differently.
    fn beats(&self, ends: &Ends) -> Hmac<Sha256> {
        let mut beats = self.beats.clone();
        for name in [ends.cluster, ends.from, ends.to] {
            beats.update(&(name.len() as u64).to_be_bytes());
            beats.update(name.as_bytes());
        }
        beats
    }

    /// The key of a link in one direction.
    pub fn of_link(&self, direction: &LinkDirection) -> FrameKey {
        let link = (direction.link as u64).to_be_bytes();
        let names = [direction.cluster, direction.from.0, direction.to.0].map(str::as_bytes);
        let [cluster, from, to] = names;
        let parts: [&[u8]; 7] = [
            b"frames",
            cluster,
            from,
            to,
            &link,
            &direction.from.1.0,
            &direction.to.1.0,
        ];
        let mut key = FrameKey(aegis128l::Key::default());
        derive(&self.secret, &parts, &mut key.0);
        key
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.secret == other.secret
    }
}

impl Eq for Key {}

impl fmt::Debug for Key {
    /// Prints nothing of the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Derives a key for a purpose given in parts. The length of each part is included, so different lists give different
/// bytes.
fn derive(secret: &[u8; 16], parts: &[&[u8]], key: &mut [u8]) {
    let mut info = Vec::new();
    for part in parts {
        info.extend_from_slice(&(part.len() as u64).to_be_bytes());
        info.extend_from_slice(part);
    }
    let whole = Hkdf::<Sha256>::new(Some(SALT), secret);
    whole
        .expand(&info, key)
        .expect("HKDF gives up to 8160 bytes");
}

/// The keys of a cluster: nodes send with the first and accept all, so that a cluster can change its key without loss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys(Vec<Key>);

impl Keys {
    /// Makes a set of the key to sign with, `first`, and another key that is also accepted.
    pub fn new(first: Key, other: Option<Key>) -> Keys {
        Keys([first].into_iter().chain(other).collect())
    }

    /// Parses one or two keys, each of 32 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Keys> {
        let keys: Option<Vec<Key>> = text.split_whitespace().map(Key::parse).collect();
        let keys = keys.filter(|keys| (1..=KEYS_MAX).contains(&keys.len()))?;
        Some(Keys(keys))
    }

    /// The keys as text that [`parse`](Self::parse) reads. The text is secret: never log or show it.
    pub fn secret_text(&self) -> String {
        let digits = |key: &Key| {
            let bytes = key.secret.iter();
            bytes.map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        let keys: Vec<String> = self.0.iter().map(digits).collect();
        keys.join(" ")
    }

    /// The key to sign with.
    pub fn first(&self) -> &Key {
        &self.0[0]
    }

    /// All keys that are accepted.
    pub fn iter(&self) -> impl Iterator<Item = &Key> {
        self.0.iter()
    }
}

/// Key for the frames of one link, in one direction and one pair of epochs. Frames use AEGIS-128L, of which only the
/// code is used. It was the fastest of those measured, for frames of all lengths, and its library compares codes in
/// constant time.
pub struct FrameKey(aegis128l::Key);

impl FrameKey {
    /// The code of a frame. A number must not be used twice under one key.
    #[inline]
    pub fn code(&self, number: u64, frame: &[u8]) -> Code {
        self.of(number).encrypt_in_place(&mut [], frame)
    }

    /// True if `code` is the code of a frame; takes constant time.
    #[inline]
    pub fn verify(&self, number: u64, frame: &[u8], code: &Code) -> bool {
        let opened = self.of(number).decrypt_in_place(&mut [], code, frame);
        opened.is_ok()
    }

    #[inline]
    fn of(&self, number: u64) -> Aegis128L<CODE> {
        let nonce = u128::from(number).to_be_bytes();
        Aegis128L::new(&self.0, &nonce)
    }
}

impl fmt::Debug for FrameKey {
    /// Prints nothing of the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FrameKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK_DIRECTION: LinkDirection = LinkDirection {
        cluster: "t",
        from: ("a", Life([1; 16])),
        to: ("b", Life([2; 16])),
        link: 0,
    };

    #[test]
    fn each_link_direction_and_life_has_a_key_of_its_own() {
        let key = Key::new([7; 16]);
        let frame = [5; 80];
        let code = key.of_link(&LINK_DIRECTION).code(9, &frame);
        assert!(key.of_link(&LINK_DIRECTION).verify(9, &frame, &code));
        let others = [
            LinkDirection {
                cluster: "u",
                ..LINK_DIRECTION
            },
            LinkDirection {
                from: LINK_DIRECTION.to,
                to: LINK_DIRECTION.from,
                ..LINK_DIRECTION
            },
            LinkDirection {
                link: 1,
                ..LINK_DIRECTION
            },
            LinkDirection {
                to: ("c", LINK_DIRECTION.to.1),
                ..LINK_DIRECTION
            },
            LinkDirection {
                from: ("a", Life([3; 16])),
                ..LINK_DIRECTION
            },
            LinkDirection {
                to: ("b", Life([3; 16])),
                ..LINK_DIRECTION
            },
            // The same letters, but split differently between the two names.
            LinkDirection {
                cluster: "",
                from: ("ta", LINK_DIRECTION.from.1),
                ..LINK_DIRECTION
            },
        ];
        for direction in others {
            assert!(
                !key.of_link(&direction).verify(9, &frame, &code),
                "{direction:?}"
            );
        }
        assert!(
            !Key::new([8; 16])
                .of_link(&LINK_DIRECTION)
                .verify(9, &frame, &code)
        );
    }

    #[test]
    fn a_code_is_of_one_number_and_of_all_bytes_of_a_frame_and_its_length() {
        let key = Key::new([7; 16]).of_link(&LINK_DIRECTION);
        let frame: Vec<u8> = (0..1500u32).map(|n| n as u8).collect();
        for length in [0, 1, 15, 16, 60, 64, 65, 1500] {
            let mut frame = frame[..length].to_vec();
            let mut code = key.code(1, &frame);
            assert!(key.verify(1, &frame, &code));
            assert!(!key.verify(2, &frame, &code));
            for byte in 0..length {
                frame[byte] ^= 0x10;
                assert!(!key.verify(1, &frame, &code), "byte {byte} of {length}");
                frame[byte] ^= 0x10;
            }
            for byte in 0..CODE {
                code[byte] ^= 1;
                assert!(!key.verify(1, &frame, &code), "byte {byte} of the code");
                code[byte] ^= 1;
            }
            frame.push(0);
            assert!(!key.verify(1, &frame, &code), "longer than {length}");
        }
    }

    #[test]
    fn heartbeats_are_signed_with_the_key() {
        let (key, other) = (Key::new([1; 16]), Key::new([2; 16]));
        let ends = Ends {
            cluster: "t",
            from: "a",
            to: "b",
        };
        let code = key.code(&ends, b"beat");
        assert!(key.verify(&ends, b"beat", &code));
        assert!(!key.verify(&ends, b"bead", &code) && !other.verify(&ends, b"beat", &code));
        for (cluster, from, to) in [
            ("u", "a", "b"),
            ("t", "b", "a"),
            ("ta", "", "b"),
            ("t", "ab", ""),
        ] {
            let ends = Ends { cluster, from, to };
            assert!(!key.verify(&ends, b"beat", &code), "{ends:?}");
        }
    }

    #[test]
    fn keys_are_32_hexadecimal_digits_each_and_are_never_printed() {
        let digits = "000102030405060708090a0b0c0d0e0f";
        let wrong = [
            "",
            "00",
            "g00102030405060708090a0b0c0d0e0f",
            "é00102030405060708090a0b0c0d0e0",
        ];
        assert!(wrong.iter().all(|text| Key::parse(text).is_none()));
        assert!(Key::parse(&"A".repeat(33)).is_none());
        let two = format!("{digits} {}", "F".repeat(32));
        let keys = Keys::parse(&two).expect("two keys");
        assert_eq!(keys.secret_text(), two.to_lowercase());
        assert_eq!(keys.first(), &Key::parse(digits).expect("32 digits"));
        assert!(Keys::parse("").is_none() && Keys::parse(&format!("{two} {digits}")).is_none());
        assert_eq!(format!("{keys:?}"), "Keys([Key(..), Key(..)])");
        assert_eq!(
            format!("{:?}", keys.first().of_link(&LINK_DIRECTION)),
            "FrameKey(..)"
        );
    }
}
