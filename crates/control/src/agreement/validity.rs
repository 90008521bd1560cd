//! End of a certificate's validity, read from its DER encoding (X.509, RFC 5280).
//!
//! The certificates are the cluster's own, but a file may hold anything: every length is checked.

use super::authority;
use super::home::{AUTHORITY, CERTIFICATE, Home};
use crate::view::Certificates;
use time::{Date, Month, PrimitiveDateTime, Time};
use tokio_rustls::rustls::pki_types::CertificateDer;

/// Tags of DER.
const SEQUENCE: u8 = 0x30;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const VERSION: u8 = 0xa0;

/// Ends of the certificates that a server's folder has now.
pub(super) fn certificates(home: &Home) -> Certificates {
    let end_of = |name| end(&authority::certificate(&home.read(name).ok()?).ok()?);
    Certificates {
        server_ends: end_of(CERTIFICATE),
        authority_ends: end_of(AUTHORITY),
    }
}

/// End of a certificate's validity, in seconds since 1970; `None` if it cannot be read.
fn end(certificate: &CertificateDer) -> Option<i64> {
    let (_, certificate, _) = value(certificate).filter(|(tag, ..)| *tag == SEQUENCE)?;
    let (_, mut body, _) = value(certificate).filter(|(tag, ..)| *tag == SEQUENCE)?;
    if value(body)?.0 == VERSION {
        body = value(body)?.2;
    }
    // Serial number, algorithm and issuer come before the validity.
    for _ in 0..3 {
        body = value(body)?.2;
    }
    let (_, validity, _) = value(body).filter(|(tag, ..)| *tag == SEQUENCE)?;
    let (_, _, rest) = value(validity)?;
    let (tag, text, _) = value(rest)?;
    moment(tag, std::str::from_utf8(text).ok()?)
}

/// First value of some bytes: its tag, its contents, and the bytes behind it.
fn value(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut length = usize::from(first);
    if first & 0x80 != 0 {
        let digits = usize::from(first & 0x7f);
        if digits == 0 || digits > 4 {
            return None;
        }
        let (number, behind) = rest.split_at_checked(digits)?;
        length = number
            .iter()
            .fold(0, |sum, digit| (sum << 8) | usize::from(*digit));
        rest = behind;
    }
    let (contents, behind) = rest.split_at_checked(length)?;
    Some((tag, contents, behind))
}

/// Seconds since 1970 of a time in UTC: `YYMMDDhhmmssZ`, or with four digits of the year.
fn moment(tag: u8, text: &str) -> Option<i64> {
    let digits = text.strip_suffix('Z')?;
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match (tag, digits.len()) {
        (UTC_TIME, 12) => {
            let year: i32 = digits[..2].parse().ok()?;
            (
                if year < 50 { 2000 + year } else { 1900 + year },
                &digits[2..],
            )
        }
        (GENERALIZED_TIME, 14) => (digits[..4].parse().ok()?, &digits[4..]),
        _ => return None,
    };
    let field = |at: usize| rest[2 * at..2 * at + 2].parse::<u8>().ok();
    let date = Date::from_calendar_date(year, Month::try_from(field(0)?).ok()?, field(1)?).ok()?;
    let time = Time::from_hms(field(2)?, field(3)?, field(4)?).ok()?;
    let moment = PrimitiveDateTime::new(date, time).assume_utc();
    Some(moment.unix_timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agreement::testing::Folder;
    use crate::agreement::{authority, home, wall_clock};

    #[test]
    fn a_servers_certificate_ends_after_its_days() {
        let folder = Folder::new("validity");
        let now = i64::try_from(wall_clock() / 1000).unwrap();
        for (name, days) in [(home::CERTIFICATE, 825), (home::AUTHORITY, 3650)] {
            let pem = folder.home.read(name).unwrap();
            let certificate = authority::certificate(&pem).unwrap();
            let left = end(&certificate).unwrap() - now;
            assert!((left - days * 86_400).abs() < 60, "{name}: {left}");
        }
    }

    #[test]
    fn times_have_two_or_four_digits_of_the_year() {
        assert_eq!(moment(UTC_TIME, "700101000000Z"), Some(0));
        assert_eq!(moment(UTC_TIME, "491231235959Z"), Some(2_524_607_999));
        assert_eq!(
            moment(GENERALIZED_TIME, "20500101000000Z"),
            Some(2_524_608_000)
        );
        for (tag, text) in [
            (UTC_TIME, "20500101000000Z"),
            (UTC_TIME, "701301000000Z"),
            (UTC_TIME, "700101000000"),
            (UTC_TIME, "7001010000é"),
            (SEQUENCE, "700101000000Z"),
        ] {
            assert_eq!(moment(tag, text), None, "{text}");
        }
    }

    #[test]
    fn no_bytes_of_a_certificate_are_read_past_their_end() {
        let folder = Folder::new("validity-cut");
        let pem = folder.home.read(home::CERTIFICATE).unwrap();
        let whole = authority::certificate(&pem).unwrap();
        for length in 0..whole.len() {
            // Lengths of outer values are wrong then.
            assert_eq!(end(&CertificateDer::from(whole[..length].to_vec())), None);
        }
        let mut bytes = whole.to_vec();
        for at in 0..bytes.len().min(200) {
            let kept = bytes[at];
            for byte in [0, 0x7f, 0x80, 0x84, 0xff] {
                bytes[at] = byte;
                let _ = end(&CertificateDer::from(bytes.clone()));
            }
            bytes[at] = kept;
        }
    }
}
