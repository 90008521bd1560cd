//! End of a certificate's validity, read from its DER encoding (X.509, RFC 5280).
//!
//! The certificates are the cluster's own, but a file may hold anything.

use super::authority;
use super::home::{AUTHORITY, CERTIFICATE, Home};
use crate::view::Certificates;
use der::asn1::{GeneralizedTime, UtcTime};
use der::{AnyRef, Decode, Reader, SliceReader, Tag, Tagged};
use std::time::Duration;

/// Ends of the certificates that a server's folder has now.
pub(super) fn certificates(home: &Home) -> Certificates {
    let end_of = |name| end(&authority::certificate(&home.read(name).ok()?).ok()?);
    Certificates {
        server_ends: end_of(CERTIFICATE),
        authority_ends: end_of(AUTHORITY),
    }
}

/// End of a certificate's validity, in seconds since 1970; `None` if it cannot be read.
fn end(certificate: &[u8]) -> Option<i64> {
    let end = not_after(certificate).ok()?;
    i64::try_from(end.as_secs()).ok()
}

/// End of a certificate's validity since 1970.
fn not_after(certificate: &[u8]) -> der::Result<Duration> {
    let mut certificate = fields(AnyRef::from_der(certificate)?)?;
    let mut body = fields(certificate.decode()?)?;
    // The version, which those of version 1 lack, serial number, algorithm and issuer come before the validity.
    let skipped = if Tag::peek(&body)?.is_context_specific() {
        4
    } else {
        3
    };
    for _ in 0..skipped {
        body.decode::<AnyRef>()?;
    }
    let mut validity = fields(body.decode()?)?;
    validity.decode::<AnyRef>()?;
    let end: AnyRef = validity.decode()?;
    match end.tag() {
        Tag::UtcTime => Ok(end.decode_as::<UtcTime>()?.to_unix_duration()),
        _ => Ok(end.decode_as::<GeneralizedTime>()?.to_unix_duration()),
    }
}

/// Reader of a sequence's fields.
fn fields(sequence: AnyRef<'_>) -> der::Result<SliceReader<'_>> {
    sequence.tag().assert_eq(Tag::Sequence)?;
    SliceReader::new(sequence.value())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agreement::testing::Folder;
    use crate::agreement::wall_clock;

    #[test]
    fn a_servers_certificate_ends_after_its_days() {
        let folder = Folder::new("validity");
        let now = i64::try_from(wall_clock() / 1000).unwrap();
        let ends = certificates(&folder.home);
        for (end, days) in [(ends.server_ends, 825), (ends.authority_ends, 3650)] {
            let left = end.unwrap() - now;
            assert!((left - days * 86_400).abs() < 60, "{days}: {left}");
        }
    }

    /// A value's encoding in DER; contents of less than 128 bytes.
    fn value(tag: u8, contents: &[u8]) -> Vec<u8> {
        [&[tag, u8::try_from(contents.len()).unwrap()], contents].concat()
    }

    #[test]
    fn both_encodings_of_a_time_are_read_in_certificates_of_all_versions() {
        let (utc, generalized) = (0x17, 0x18);
        for (tag, time, right) in [
            (utc, "491231235959Z", Some(2_524_607_999)),
            (generalized, "20500101000000Z", Some(2_524_608_000)),
            (utc, "20500101000000Z", None),
        ] {
            let begin = value(utc, b"700101000000Z");
            let validity = value(0x30, &[begin, value(tag, time.as_bytes())].concat());
            let version = value(0xa0, &value(0x02, &[2]));
            let others = [value(0x02, &[1]), value(0x30, &[]), value(0x30, &[])].concat();
            for version in [vec![], version] {
                let body = value(0x30, &[version, others.clone(), validity.clone()].concat());
                assert_eq!(end(&value(0x30, &body)), right, "{time}");
            }
        }
    }

    #[test]
    fn no_bytes_of_a_certificate_are_read_past_their_end() {
        let folder = Folder::new("validity-cut");
        let pem = folder.home.read(CERTIFICATE).unwrap();
        let whole = authority::certificate(&pem).unwrap();
        for length in 0..whole.len() {
            // Lengths of outer values are wrong then.
            assert_eq!(end(&whole[..length]), None);
        }
        let mut bytes = whole.to_vec();
        for at in 0..bytes.len().min(200) {
            let kept = bytes[at];
            for byte in [0, 0x7f, 0x80, 0x84, 0xff] {
                bytes[at] = byte;
                let _ = end(&bytes);
            }
            bytes[at] = kept;
        }
        // Lengths with which a position overflows.
        for last in 0..=u8::MAX {
            let length = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, last];
            assert_eq!(end(&[&[0x30, 10, 0x30, 0x88][..], &length].concat()), None);
            assert_eq!(
                end(&[&[0x30, 12, 0x30, 10, 0x02, 0x88][..], &length].concat()),
                None
            );
        }
    }
}
