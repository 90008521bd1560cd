//! Formats a time as a date.

use std::io::Write as _;

const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// Writes a time in seconds since the Unix epoch as `Tue Jul 24 15:53:30 2001`, in UTC.
pub fn push(seconds: u64, out: &mut Vec<u8>) {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let weekday = DAYS[((days + 4) % 7) as usize];
    let (mut year, mut day) = (1970, days);
    while day >= year_len(year) {
        day -= year_len(year);
        year += 1;
    }
    let mut month = 0;
    while day >= month_len(month, year) {
        day -= month_len(month, year);
        month += 1;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let (name, day) = (MONTHS[month], day + 1);
    // Writing to a vector cannot fail.
    let _ = write!(
        out,
        "{weekday} {name} {day:2} {hour:02}:{minute:02}:{second:02} {year}"
    );
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400)
}

fn year_len(year: u64) -> u64 {
    365 + u64::from(is_leap(year))
}

/// Days of a month, which counts from 0.
fn month_len(month: usize, year: u64) -> u64 {
    match month {
        1 => 28 + u64::from(is_leap(year)),
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    }
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
        ] {
            let mut out = Vec::new();
            super::push(seconds, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), text);
        }
    }
}
