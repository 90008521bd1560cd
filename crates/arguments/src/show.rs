//! Values and errors as Click writes them.

use std::io;
use std::time::Duration;

/// A time: `20us`, `50ms`, `1.500000s`.
pub fn interval(time: Duration) -> String {
    let (seconds, ns) = (time.as_secs(), time.subsec_nanos());
    if seconds > 0 && ns % 1000 == 0 {
        format!("{seconds}.{:06}s", ns / 1000)
    } else if seconds > 0 {
        format!("{seconds}.{ns:09}s")
    } else if ns % 1_000_000 == 0 {
        format!("{}ms", ns / 1_000_000)
    } else if ns % 1000 == 0 {
        format!("{}us", ns / 1000)
    } else {
        format!("{ns}ns")
    }
}

/// The system's text for an error, without its number.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_have_no_number() {
        let own = io::Error::other("it is no regular file");
        assert_eq!(reason(&own), "it is no regular file");
        // ENOENT of every Unix.
        let missing = io::Error::from_raw_os_error(2);
        assert_eq!(reason(&missing), "No such file or directory");
    }

    #[test]
    fn times_are_written_as_in_click() {
        for (time, shown) in [
            (Duration::ZERO, "0ms"),
            (Duration::from_nanos(100), "100ns"),
            (Duration::from_micros(20), "20us"),
            (Duration::from_millis(50), "50ms"),
            (Duration::from_micros(1250), "1250us"),
            (Duration::from_millis(1500), "1.500000s"),
            (Duration::from_nanos(1_000_000_100), "1.000000100s"),
            (Duration::from_secs(10), "10.000000s"),
        ] {
            assert_eq!(interval(time), shown);
        }
    }
}
