//! Types of argument values: their syntax and their error messages.

mod addresses;
mod rates;

use crate::names::names_of_call;
use crate::{Kind, Names};
pub(crate) use addresses::complete;
pub use rates::Bandwidth;
use std::borrow::Cow;

/// A type that an argument can have.
pub trait FromArg: Sized {
    /// The type in words: `true or false`.
    const KIND: &'static str;
    /// True if quotes and escapes are part of the value; else they are removed before.
    const QUOTED: bool = false;
    /// True if a value is a list of words, of which the first may be a name.
    const LIST: bool = false;
    /// Least and greatest value, for integer types.
    const BOUNDS: Option<(i128, i128)> = None;

    /// Parses an argument. The error is a phrase that follows the argument's name: `must be true or false`.
    fn from_arg(raw: &str, names: &Names) -> Result<Self, String>;

    /// Value to return instead of a wrong one; the configuration is refused in any case.
    fn stand_in() -> Self;

    /// The value in the syntax of an argument, for the reference.
    fn unparse(&self) -> String;
}

/// Parses the value of a handler call, which may use the names of that call. The error is a sentence.
pub fn parse<T: FromArg>(value: &str) -> Result<T, String> {
    T::from_arg(value.trim(), &names_of_call()).map_err(|wrong| format!("the value {wrong}"))
}

/// Parses a handler's value and assigns it. A wrong value changes nothing.
pub fn assign<T: FromArg>(setting: &mut T, value: &str) -> Result<(), String> {
    *setting = parse(value)?;
    Ok(())
}

/// A value that a handler can set.
pub trait Setting {
    /// Assigns a value from its text. A wrong value changes nothing.
    fn assign(&mut self, value: &str) -> Result<(), String>;
}

impl<T: FromArg> Setting for T {
    fn assign(&mut self, value: &str) -> Result<(), String> {
        assign(self, value)
    }
}

/// Parses a handler's value that must lie in a range.
pub fn parse_in<T: FromArg + PartialOrd + std::fmt::Display>(
    value: &str,
    range: std::ops::RangeInclusive<T>,
) -> Result<T, String> {
    let parsed = parse::<T>(value)?;
    match outside(&parsed, &range) {
        Some(wrong) => Err(format!("the value {wrong}")),
        None => Ok(parsed),
    }
}

/// Error text if a value is outside its range, in the words of [`FromArg::from_arg`].
pub(crate) fn outside<T: PartialOrd + std::fmt::Display>(
    value: &T,
    range: &std::ops::RangeInclusive<T>,
) -> Option<String> {
    let (least, most) = (range.start(), range.end());
    let wrong = || format!("must lie between {least} and {most}, not be {value}");
    (!range.contains(value)).then(wrong)
}

/// Click's error text for a value that is not a `T`.
pub(crate) fn as_click<T: FromArg>(raw: &str) -> String {
    match (T::BOUNDS, integer(raw)) {
        (None, _) => "parse error".to_owned(),
        (Some(_), None) => "invalid number".to_owned(),
        (Some((0, _)), Some(value)) if value < 0 => "invalid number".to_owned(),
        (Some((least, _)), Some(value)) if value < least => {
            format!("out of range, bound {least}")
        }
        (Some((_, most)), Some(_)) => format!("out of range, bound {most}"),
    }
}

fn must_be<T>(kind: &str, raw: &str) -> Result<T, String> {
    Err(if raw.is_empty() {
        format!("must be {kind}, and is empty")
    } else {
        format!("must be {kind}, not `{}`", shortened(raw))
    })
}

/// Error for a value that may be `name:kind`, or `name:kind/length`: names the device or entry that has no value of
/// these kinds.
fn unknown_name_or<T>(kind: &str, raw: &str, kinds: &[Kind], names: &Names) -> Result<T, String> {
    let before_length = raw.rsplit_once('/').map_or(raw, |(text, _)| text);
    let unknown = |text: &&str| kinds.iter().all(|&of| names.get(text, of).is_none());
    let texts = [raw, before_length].into_iter().filter(unknown);
    let mut found = texts.flat_map(|text| kinds.iter().filter_map(|of| of.name_in(text)));
    match found.next() {
        Some(name) => Err(format!(
            "must be {kind}, and no device or AddressInfo entry `{}` has one",
            shortened(name)
        )),
        None => must_be(kind, raw),
    }
}

/// The first 40 characters.
fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

impl FromArg for bool {
    const KIND: &'static str = "true or false";

    fn from_arg(raw: &str, _: &Names) -> Result<bool, String> {
        match raw {
            "true" | "yes" | "1" | "t" | "y" => Ok(true),
            "false" | "no" | "0" | "f" | "n" => Ok(false),
            _ => must_be(Self::KIND, raw),
        }
    }

    fn stand_in() -> bool {
        false
    }

    fn unparse(&self) -> String {
        self.to_string()
    }
}

/// The largest size that an argument may give: bytes, offsets, packets, entries. Sums of several sizes do not
/// overflow. Sizes that determine memory have a lower limit, see [`Capacity`].
pub const SIZE_MAX: usize = u32::MAX as usize;

/// Parses a decimal, `0x`, `0b` or octal (`0` first) number, as Click does.
fn integer(raw: &str) -> Option<i128> {
    let (negative, digits) = match raw.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, raw.strip_prefix('+').unwrap_or(raw)),
    };
    let digits = &*ungrouped(digits)?;
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, digits),
        _ => (10, digits),
    };
    // A second sign is none of a number.
    if !digits.starts_with(|c: char| c.is_ascii_hexdigit()) {
        return None;
    }
    let value = i128::from_str_radix(digits, radix).ok()?;
    Some(if negative { -value } else { value })
}

/// A whole number in a list of words, written as in arguments: decimal, `0x`, `0b` or octal (`0` first). `None` if the
/// word is no number, or one that the type cannot hold.
pub fn whole_number<T: TryFrom<i128>>(word: &str) -> Option<T> {
    integer(word).and_then(|value| T::try_from(value).ok())
}

/// A number without the underscores that group its digits (`1_000`); `None` if one does not stand between two digits.
pub(crate) fn ungrouped(number: &str) -> Option<Cow<'_, str>> {
    if !number.contains('_') {
        return Some(Cow::Borrowed(number));
    }
    let is_group = |group: &str| {
        let ends = [group.chars().next(), group.chars().last()];
        ends.into_iter()
            .all(|end| end.is_some_and(|c| c.is_ascii_hexdigit()))
    };
    let mut groups = number.split('_');
    groups
        .all(is_group)
        .then(|| Cow::Owned(number.replace('_', "")))
}

macro_rules! integers {
    ($($t:ty, $kind:literal, $most:expr;)*) => {$(
        impl FromArg for $t {
            const KIND: &'static str = $kind;
            const BOUNDS: Option<(i128, i128)> = Some((<$t>::MIN as i128, $most as i128));

            fn from_arg(raw: &str, _: &Names) -> Result<$t, String> {
                match integer(raw) {
                    Some(value) => <$t>::try_from(value).ok().filter(|&v| v <= $most).ok_or_else(|| {
                        format!("must lie between {} and {}, not be {value}", <$t>::MIN, $most)
                    }),
                    None => must_be(Self::KIND, raw),
                }
            }

            fn stand_in() -> $t {
                0
            }

            fn unparse(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

integers! {
    u8, "a number from 0 to 255", u8::MAX;
    u16, "a number from 0 to 65535", u16::MAX;
    u32, "a number", u32::MAX;
    u64, "a number", u64::MAX;
    usize, "a number", SIZE_MAX;
    i32, "a number", i32::MAX;
    i64, "a number", i64::MAX;
}

/// Number of packets, flows or entries for which memory is taken or reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Capacity(pub usize);

impl Capacity {
    /// The largest capacity.
    pub const MAX: Capacity = Capacity(1 << 24);
}

impl std::fmt::Display for Capacity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl FromArg for Capacity {
    const KIND: &'static str = "a number from 0 to 16777216";
    const BOUNDS: Option<(i128, i128)> = Some((0, Capacity::MAX.0 as i128));

    fn from_arg(raw: &str, _: &Names) -> Result<Capacity, String> {
        match integer(raw) {
            Some(value) => match usize::try_from(value) {
                Ok(n) if n <= Capacity::MAX.0 => Ok(Capacity(n)),
                _ => Err(format!(
                    "must lie between 0 and {}, not be {value}",
                    Capacity::MAX
                )),
            },
            None => must_be(Self::KIND, raw),
        }
    }

    fn stand_in() -> Capacity {
        Capacity(0)
    }

    fn unparse(&self) -> String {
        self.to_string()
    }
}

/// Bytes of the longest packet: a number, or `DEVICE:mtu` for the device's present MTU.
#[derive(Clone, Copy, Debug)]
pub struct Mtu {
    /// Maximum packet length from the network header on, in bytes.
    pub bytes: usize,
    /// True if the length is the device's MTU.
    pub of_device: bool,
}

impl Mtu {
    /// An MTU of a fixed number of bytes.
    pub const fn of(bytes: usize) -> Mtu {
        Mtu {
            bytes,
            of_device: false,
        }
    }
}

impl PartialEq for Mtu {
    fn eq(&self, other: &Mtu) -> bool {
        self.bytes == other.bytes
    }
}

impl PartialOrd for Mtu {
    fn partial_cmp(&self, other: &Mtu) -> Option<std::cmp::Ordering> {
        self.bytes.partial_cmp(&other.bytes)
    }
}

impl std::fmt::Display for Mtu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.bytes.fmt(f)
    }
}

impl FromArg for Mtu {
    const KIND: &'static str = "bytes, or DEVICE:mtu";
    const BOUNDS: Option<(i128, i128)> = Some((0, SIZE_MAX as i128));

    fn from_arg(raw: &str, names: &Names) -> Result<Mtu, String> {
        let device = raw.ends_with(":mtu").then(|| names.get(raw, Kind::Mtu));
        let text = device.flatten().unwrap_or(raw);
        match integer(text).map(usize::try_from) {
            Some(Ok(bytes)) if bytes <= SIZE_MAX => Ok(Mtu {
                bytes,
                of_device: device.is_some(),
            }),
            Some(_) => Err(format!("must lie between 0 and {SIZE_MAX}, not be {text}")),
            None => match Kind::Mtu.name_in(raw) {
                Some(name) => Err(format!(
                    "must be {}, and there is no device `{}`",
                    Self::KIND,
                    shortened(name)
                )),
                None => must_be(Self::KIND, raw),
            },
        }
    }

    fn stand_in() -> Mtu {
        Mtu::of(0)
    }

    fn unparse(&self) -> String {
        self.to_string()
    }
}

impl FromArg for f64 {
    const KIND: &'static str = "a number";

    fn from_arg(raw: &str, _: &Names) -> Result<f64, String> {
        raw.parse()
            .ok()
            .filter(|v: &f64| v.is_finite())
            .map_or_else(|| must_be(Self::KIND, raw), Ok)
    }

    fn stand_in() -> f64 {
        0.0
    }

    fn unparse(&self) -> String {
        self.to_string()
    }
}

impl FromArg for String {
    const KIND: &'static str = "text";
    const QUOTED: bool = true;

    fn from_arg(raw: &str, _: &Names) -> Result<String, String> {
        Ok(lang::args::unquote(raw).into_owned())
    }

    fn stand_in() -> String {
        String::new()
    }

    fn unparse(&self) -> String {
        self.clone()
    }
}

/// Bytes, which quotes and `\<..>` can write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl FromArg for Bytes {
    const KIND: &'static str = "text or bytes such as \\<00 ff>";
    const QUOTED: bool = true;

    fn from_arg(raw: &str, _: &Names) -> Result<Bytes, String> {
        Ok(Bytes(lang::args::unquote_bytes(raw).into_owned()))
    }

    fn stand_in() -> Bytes {
        Bytes::default()
    }

    fn unparse(&self) -> String {
        lang::args::quote(&String::from_utf8_lossy(&self.0))
    }
}

/// Workers of the router by number: `0`, `0-3`, `0 2 4`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cores(pub Vec<usize>);

impl FromArg for Cores {
    const KIND: &'static str = "workers such as 0, 0-3 or \"0 2\"";

    fn from_arg(raw: &str, _: &Names) -> Result<Cores, String> {
        let mut cores = Vec::new();
        for word in raw.split([' ', ':', ',']).filter(|w| !w.is_empty()) {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            match (first.parse::<usize>(), last.parse::<usize>()) {
                (Ok(first), Ok(last)) if first <= last && last < 1024 => cores.extend(first..=last),
                _ => return must_be(Self::KIND, raw),
            }
        }
        cores.sort_unstable();
        cores.dedup();
        if cores.is_empty() {
            must_be(Self::KIND, raw)
        } else {
            Ok(Cores(cores))
        }
    }

    fn stand_in() -> Cores {
        Cores(vec![0])
    }

    fn unparse(&self) -> String {
        let words: Vec<String> = self.0.iter().map(usize::to_string).collect();
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn parse<T: FromArg>(raw: &str) -> Result<T, String> {
        T::from_arg(raw, &Names::default())
    }

    #[test]
    fn underscores_group_digits() {
        assert_eq!(parse::<u32>("1_000_000"), Ok(1_000_000));
        assert_eq!(parse::<u32>("0x1_0"), Ok(16));
        assert_eq!(
            parse::<Duration>("+1_0.5 ms"),
            Ok(Duration::from_micros(10_500))
        );
        assert_eq!(parse::<u32>("0b1_1"), Ok(3));
        for wrong in ["0b2", "0b", "0x+1", "0x", "+-1", "08"] {
            assert!(parse::<u32>(wrong).is_err(), "{wrong}");
        }
        for wrong in ["_10", "10_", "1__0", "_", "x_1"] {
            assert!(
                parse::<u32>(wrong).is_err() && parse::<Duration>(wrong).is_err(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn numbers_are_decimal_hex_or_octal_and_stay_in_range() {
        assert_eq!(parse::<u16>("0x800"), Ok(2048));
        assert_eq!(parse::<u16>("010"), Ok(8));
        assert_eq!(parse::<i32>("-5"), Ok(-5));
        assert!(
            parse::<u8>("256")
                .unwrap_err()
                .contains("between 0 and 255")
        );
        assert!(parse::<u8>("twelve").unwrap_err().contains("not `twelve`"));
        assert_eq!(parse::<usize>("4294967295"), Ok(SIZE_MAX));
        assert_eq!(parse::<Capacity>("16777216"), Ok(Capacity::MAX));
        for text in ["4294967296", "18446744073709551615", "-1"] {
            let said = parse::<usize>(text).unwrap_err();
            assert!(said.contains("between 0 and 4294967295"), "{said}");
            let said = parse::<Capacity>(text).unwrap_err();
            assert!(said.contains("between 0 and 16777216"), "{said}");
        }
    }

    #[test]
    fn wrong_values_are_told_in_clicks_words_too() {
        assert_eq!(as_click::<u32>("many"), "invalid number");
        assert_eq!(as_click::<u8>("256"), "out of range, bound 255");
        assert_eq!(as_click::<u16>("-1"), "invalid number");
        assert_eq!(
            as_click::<i32>("-3000000000"),
            "out of range, bound -2147483648"
        );
        assert_eq!(as_click::<bool>("maybe"), "parse error");
    }

    #[test]
    fn cores_are_lists_and_ranges() {
        assert_eq!(parse::<Cores>("0-2 5"), Ok(Cores(vec![0, 1, 2, 5])));
        assert!(parse::<Cores>("3-1").is_err());
    }
}
