//! Values as Click's handlers write them.

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

#[cfg(test)]
mod tests {
    use super::*;

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
