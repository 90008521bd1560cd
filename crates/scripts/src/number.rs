//! Numbers of scripts: integers stay integers, everything else is a double, printed with up to 12
//! digits.

use arguments::units::whole_number;
use std::cmp::Ordering;
use std::time::Duration;

/// A number of a script.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Int(i64),
    Real(f64),
}

impl Number {
    /// An integer as in arguments, or a real number.
    pub(crate) fn parse(text: &str) -> Option<Number> {
        let int = whole_number(text).map(Number::Int);
        int.or_else(|| Number::parse_real(text))
    }

    /// Parses a list of numbers, all `real` if asked. From the first word that is no integer on, all numbers are real:
    /// before it, `010` is eight, and after it, ten, as in Click.
    pub(crate) fn parse_all(words: &[String], mut real: bool) -> Option<Vec<Number>> {
        let parse = |word: &String| {
            let int = whole_number(word).filter(|_| !real).map(Number::Int);
            real = int.is_none();
            int.or_else(|| Number::parse_real(word))
        };
        words.iter().map(parse).collect()
    }

    /// A real number: a decimal fraction, or a hexadecimal integer.
    pub(crate) fn parse_real(text: &str) -> Option<Number> {
        if let Some(value) = whole_number::<i128>(text).filter(|_| text.contains(['x', 'X'])) {
            return Some(Number::Real(value as f64));
        }
        let numeric = |b: u8| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'+' | b'e' | b'E');
        if !text.bytes().all(numeric) {
            return None;
        }
        let value = text.parse::<f64>().ok();
        value.filter(|v| v.is_finite()).map(Number::Real)
    }

    pub(crate) fn real(self) -> f64 {
        match self {
            Number::Int(value) => value as f64,
            Number::Real(value) => value,
        }
    }

    pub(crate) fn compare(self, other: Number) -> Ordering {
        match (self, other) {
            (Number::Int(a), Number::Int(b)) => a.cmp(&b),
            _ => self
                .real()
                .partial_cmp(&other.real())
                .unwrap_or(Ordering::Equal),
        }
    }

    /// An operation; integers that overflow become doubles.
    pub(crate) fn apply(
        self,
        other: Number,
        whole: fn(i64, i64) -> Option<i64>,
        real: fn(f64, f64) -> f64,
    ) -> Number {
        if let (Number::Int(a), Number::Int(b)) = (self, other)
            && let Some(value) = whole(a, b)
        {
            return Number::Int(value);
        }
        Number::Real(real(self.real(), other.real()))
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Number::Int(value) => write!(f, "{value}"),
            Number::Real(value) => f.write_str(&general(*value, 12)),
        }
    }
}

/// A double with `digits` significant digits, the shorter of plain and exponent form, as C's `%g`.
pub(crate) fn general(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        let sign = if value.is_nan() && value.is_sign_negative() {
            "-"
        } else {
            ""
        };
        return format!("{sign}{}", value.to_string().to_ascii_lowercase());
    }
    let digits = digits.max(1);
    let scientific = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trim(mantissa), exponent.abs());
    }
    let places = (digits as i32 - 1 - exponent).max(0) as usize;
    trim(&format!("{value:.places$}")).to_owned()
}

/// A fraction without zeros at its end.
fn trim(text: &str) -> &str {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    }
}

/// A time in seconds: with 6 digits behind the point, or 9 if they are needed.
pub(crate) fn timestamp(time: Duration) -> String {
    match time.subsec_nanos() {
        nanos if nanos % 1000 == 0 => format!("{}.{:06}", time.as_secs(), nanos / 1000),
        nanos => format!("{}.{nanos:09}", time.as_secs()),
    }
}

/// Parses a boolean of a script.
pub(crate) fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" | "yes" | "t" | "y" | "1" => Some(true),
        "false" | "no" | "f" | "n" | "0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_decimal_hex_or_octal() {
        let integers = [("10", 10), ("0xA", 10), ("012", 10), ("-3", -3), ("+4", 4)];
        for (text, value) in [integers.as_slice(), &[("0b11", 3), ("1_0", 10)]].concat() {
            assert_eq!(Number::parse(text), Some(Number::Int(value)), "{text}");
        }
        for text in ["", "10x", "0x", "-", "1.2.3", "inf", "nan", "--1", "0x-1"] {
            assert_eq!(Number::parse(text), None, "{text}");
        }
        assert_eq!(Number::parse("2.5"), Some(Number::Real(2.5)));
        assert_eq!(Number::parse(".5"), Some(Number::Real(0.5)));
        assert_eq!(Number::parse_real("010"), Some(Number::Real(10.0)));
        assert_eq!(Number::parse_real("0x10"), Some(Number::Real(16.0)));
        assert_eq!(Number::parse_real("1_0"), None);
    }

    #[test]
    fn doubles_have_12_digits_and_no_needless_ones() {
        for (value, text) in [
            (6.0, "6"),
            (0.5, "0.5"),
            (0.1 + 0.2, "0.3"),
            (1e12, "1e+12"),
            (123_456_789_012.0, "123456789012"),
            (1e-5, "1e-05"),
            (-0.0001, "-0.0001"),
            (2.0 / 3.0, "0.666666666667"),
            (999_999_999_999.9, "1e+12"),
        ] {
            assert_eq!(Number::Real(value).to_string(), text);
        }
    }

    #[test]
    fn times_have_six_or_nine_digits() {
        assert_eq!(timestamp(Duration::from_millis(1500)), "1.500000");
        assert_eq!(
            timestamp(Duration::from_nanos(2_000_000_001)),
            "2.000000001"
        );
    }
}
