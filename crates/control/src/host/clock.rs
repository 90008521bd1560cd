//! The machine's clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970 on the machine's clock, also after somebody or NTP has set it.
pub fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
