//! Formats a time as a date.

use std::io::Write as _;
use time::OffsetDateTime;

/// Writes a time in seconds since the Unix epoch as `Tue Jul 24 15:53:30 2001`, in UTC. A time after the year 9999 is
/// written in seconds.
pub fn push(seconds: u64, out: &mut Vec<u8>) {
    let time = i64::try_from(seconds).ok();
    let time = time.and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok());
    // Writing to a vector cannot fail.
    let _ = match time {
        Some(t) => write!(
            out,
            "{:.3} {:.3} {:2} {:02}:{:02}:{:02} {}",
            t.weekday(),
            t.month(),
            t.day(),
            t.hour(),
            t.minute(),
            t.second(),
            t.year()
        ),
        None => write!(out, "{seconds}"),
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn days_have_their_names() {
        for (seconds, text) in [
            (0, "Thu Jan  1 00:00:00 1970"),
            (951_782_399, "Mon Feb 28 23:59:59 2000"),
            (951_782_400, "Tue Feb 29 00:00:00 2000"),
            (996_022_410, "Wed Jul 25 00:53:30 2001"),
            (1_735_689_599, "Tue Dec 31 23:59:59 2024"),
            (253_402_300_799, "Fri Dec 31 23:59:59 9999"),
            (253_402_300_800, "253402300800"),
            (u64::MAX, "18446744073709551615"),
        ] {
            let mut out = Vec::new();
            super::push(seconds, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), text);
        }
    }
}
