//! Values as Click's handlers write them.

use std::time::Duration;

/// A time: `20us`, `50ms`, `1.5s`.
pub(crate) fn interval(time: Duration) -> String {
    let (seconds, ns) = (time.as_secs(), time.subsec_nanos());
    if seconds > 0 || ns == 0 {
        format!("{}s", trimmed(format!("{seconds}.{ns:09}")))
    } else if ns % 1_000_000 == 0 {
        format!("{}ms", ns / 1_000_000)
    } else if ns % 1000 == 0 {
        format!("{}us", ns / 1000)
    } else {
        format!("{ns}ns")
    }
}

/// A decimal without zeros at its end.
fn trimmed(number: String) -> String {
    number
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        for (time, shown) in [
            (Duration::ZERO, "0s"),
            (Duration::from_micros(20), "20us"),
            (Duration::from_millis(50), "50ms"),
            (Duration::from_millis(1500), "1.5s"),
            (Duration::from_secs(10), "10s"),
        ] {
            assert_eq!(interval(time), shown);
        }
    }
}
