//! Numbers with a unit: times and bandwidths.

use super::{FromArg, must_be};
use crate::Names;
use std::time::Duration;

/// Splits a text into a number and its unit.
fn number_and_unit(raw: &str) -> Option<(f64, &str)> {
    let raw = raw.strip_prefix('+').unwrap_or(raw);
    let digits = |text: &str| {
        text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '_'))
            .unwrap_or(text.len())
    };
    let mut end = digits(raw);
    if let Some(power) = raw[end..].strip_prefix(['e', 'E']) {
        let sign = usize::from(power.starts_with(['-', '+']));
        match digits(&power[sign..]) {
            0 => {}
            length => end += 1 + sign + length,
        }
    }
    let number = super::ungrouped(&raw[..end])?;
    let value = number.parse::<f64>().ok().filter(|v| v.is_finite())?;
    Some((value, raw[end..].trim()))
}

impl FromArg for Duration {
    const KIND: &'static str = "a time such as 10, 1.5s, 20ms or 100us";

    fn from_arg(raw: &str, _: &Names) -> Result<Duration, String> {
        let seconds = number_and_unit(raw).and_then(|(value, unit)| {
            let scale = match unit {
                "" | "s" | "sec" => 1.0,
                "ms" | "msec" => 1e-3,
                "us" | "usec" => 1e-6,
                "ns" | "nsec" => 1e-9,
                "m" | "min" => 60.0,
                "h" | "hr" => 3600.0,
                "d" | "day" => 86400.0,
                _ => return None,
            };
            Some(value * scale)
        });
        seconds
            .and_then(|s| Duration::try_from_secs_f64(s).ok())
            .map_or_else(|| must_be(Self::KIND, raw), Ok)
    }

    fn stand_in() -> Duration {
        Duration::ZERO
    }

    fn unparse(&self) -> String {
        match self.as_nanos() {
            0 => "0".to_owned(),
            n if n % 1_000_000_000 == 0 => format!("{}s", n / 1_000_000_000),
            n if n % 1_000_000 == 0 => format!("{}ms", n / 1_000_000),
            n if n % 1000 == 0 => format!("{}us", n / 1000),
            n => format!("{n}ns"),
        }
    }
}

/// A bandwidth, in bytes per second as in Click; written `10Mbps` or `1.25MBps`, and shown as it was written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bandwidth(pub u64, Per);

/// Unit in which a bandwidth was written.
#[derive(Clone, Copy, Debug, Default)]
enum Per {
    #[default]
    Bits,
    Bytes,
}

impl Bandwidth {
    /// A bandwidth of `bytes` bytes per second, which is shown in bits.
    pub const fn of(bytes: u64) -> Bandwidth {
        Bandwidth(bytes, Per::Bits)
    }
}

impl PartialEq for Bandwidth {
    fn eq(&self, other: &Bandwidth) -> bool {
        self.0 == other.0
    }
}

impl PartialOrd for Bandwidth {
    fn partial_cmp(&self, other: &Bandwidth) -> Option<std::cmp::Ordering> {
        self.0.partial_cmp(&other.0)
    }
}

impl FromArg for Bandwidth {
    const KIND: &'static str = "a bandwidth such as 10Mbps or 125kBps";

    fn from_arg(raw: &str, _: &Names) -> Result<Bandwidth, String> {
        let rate = number_and_unit(raw).and_then(|(value, unit)| {
            let (unit, bytes, per) = match unit {
                "" => ("", 1.0, Per::Bits),
                u => match u.strip_suffix("bps").or(u.strip_suffix("b/s")) {
                    Some(prefix) => (prefix, 0.125, Per::Bits),
                    None => {
                        let prefix = u.strip_suffix("Bps").or(u.strip_suffix("B/s"))?;
                        (prefix, 1.0, Per::Bytes)
                    }
                },
            };
            let scale = match unit {
                "" => 1.0,
                "k" | "K" => 1e3,
                "M" => 1e6,
                "G" => 1e9,
                _ => return None,
            };
            Some((value * bytes * scale, per))
        });
        rate.filter(|(rate, _)| *rate < 1e18).map_or_else(
            || must_be(Self::KIND, raw),
            |(rate, per)| Ok(Bandwidth(rate as u64, per)),
        )
    }

    fn stand_in() -> Bandwidth {
        Bandwidth::default()
    }

    fn unparse(&self) -> String {
        let (number, unit) = match self.1 {
            Per::Bits => (8 * u128::from(self.0), "bps"),
            Per::Bytes => (u128::from(self.0), "Bps"),
        };
        let prefixes = [(1_000_000_000, "G"), (1_000_000, "M"), (1000, "k")];
        match prefixes.iter().find(|(of, _)| number.is_multiple_of(*of)) {
            Some((of, prefix)) if number > 0 => format!("{}{prefix}{unit}", number / of),
            _ => format!("{number}{unit}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse<T: FromArg>(raw: &str) -> Result<T, String> {
        T::from_arg(raw, &Names::default())
    }

    #[test]
    fn times_and_rates_have_units() {
        assert_eq!(parse::<Duration>("20ms"), Ok(Duration::from_millis(20)));
        assert_eq!(parse::<Duration>("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse::<Bandwidth>("10Mbps"), Ok(Bandwidth::of(1_250_000)));
        assert_eq!(parse::<Bandwidth>("2kBps"), Ok(Bandwidth::of(2000)));
        assert!(parse::<Duration>("3 parsecs").is_err());
        assert_eq!(Duration::from_micros(100).unparse(), "100us");
        let bits = ["0bps", "8bps", "384kbps", "2500Mbps", "10Gbps"];
        let bytes = ["0Bps", "10Bps", "10kBps", "125MBps", "1GBps"];
        for shown in bits.into_iter().chain(bytes) {
            assert_eq!(parse::<Bandwidth>(shown).unwrap().unparse(), shown);
        }
    }
}
