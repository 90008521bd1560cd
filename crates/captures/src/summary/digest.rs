//! MD5 digests of payloads as text.

/// Digits of a digest's short form, which is base 64 from the lowest bits of the first byte on.
const DIGITS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@";

/// The digest of a payload.
pub(super) fn md5(payload: &[u8]) -> [u8; 16] {
    md5::compute(payload).0
}

/// Writes a digest in 22 characters.
pub(super) fn push_short(digest: &[u8; 16], out: &mut Vec<u8>) {
    let mut bits = u128::from_le_bytes(*digest);
    for _ in 0..22 {
        out.push(DIGITS[(bits & 63) as usize]);
        bits >>= 6;
    }
}

/// Writes a digest in 32 hexadecimal digits.
pub(super) fn push_hex(digest: &[u8; 16], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    for byte in digest {
        out.extend([HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_have_the_digits_of_dumps() {
        let text = |push: fn(&[u8; 16], &mut Vec<u8>), payload: &[u8]| {
            let mut out = Vec::new();
            push(&md5(payload), &mut out);
            String::from_utf8(out).expect("digits are ASCII")
        };
        assert_eq!(text(push_short, b""), "u3bJz@iaYsq6aMaMSJVq_b");
        assert_eq!(text(push_hex, b""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(text(push_short, b"hi there\n"), "sy@Uze03MHB84qQruJ_zma");
    }
}
