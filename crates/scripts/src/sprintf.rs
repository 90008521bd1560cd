//! `sprintf`: C's format strings, with words as arguments.

use super::number::{Number, general};
use arguments::units::whole_number;

/// Widest field and highest precision.
const WIDTH_MAX: usize = 1000;

/// A conversion of a format.
#[derive(Default)]
struct Field {
    left: bool,
    zero: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
}

/// Formats the words that follow the first, which is the format.
///
/// # Errors
///
/// `syntax error` for every mistake, as in Click.
pub(crate) fn sprintf(words: &[String]) -> Result<String, String> {
    let Some((format, arguments)) = words.split_first() else {
        return Ok(String::new());
    };
    formatted(format, arguments).map_err(|_| "syntax error".to_owned())
}

fn formatted(format: &str, arguments: &[String]) -> Result<String, String> {
    let mut arguments = arguments.iter();
    let mut next = || {
        let next = arguments.next();
        next.map(String::as_str)
            .ok_or_else(|| "too few arguments".to_owned())
    };
    let mut out = String::new();
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        if chars.next_if_eq(&'%').is_some() {
            out.push('%');
            continue;
        }
        let field = field(&mut chars, &mut next)?;
        while chars.next_if(|c| matches!(c, 'l' | 'h' | 'q')).is_some() {}
        let conversion = chars.next().ok_or_else(|| "bad format".to_owned())?;
        out.push_str(&field.convert(conversion, next()?)?);
    }
    match next() {
        Ok(_) => Err("too many arguments".to_owned()),
        Err(_) => Ok(out),
    }
}

fn field<'a>(
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
    next: &mut dyn FnMut() -> Result<&'a str, String>,
) -> Result<Field, String> {
    let mut field = Field::default();
    while let Some(flag) = chars.next_if(|c| matches!(c, '-' | '0' | '+' | ' ' | '#')) {
        match flag {
            '-' => field.left = true,
            '0' => field.zero = true,
            '+' => field.plus = true,
            ' ' => field.space = true,
            _ => field.alternate = true,
        }
    }
    let mut size = |chars: &mut std::iter::Peekable<std::str::Chars<'_>>| {
        let value = if chars.next_if_eq(&'*').is_some() {
            whole_number(next()?).ok_or_else(|| "expected width".to_owned())?
        } else {
            let mut value = 0i128;
            while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
                value = (value * 10 + i128::from(digit)).min(1 << 40);
                chars.next();
            }
            value
        };
        let value = usize::try_from(value).ok().filter(|v| *v <= WIDTH_MAX);
        value.ok_or_else(|| format!("width is not between 0 and {WIDTH_MAX}"))
    };
    field.width = size(chars)?;
    if chars.next_if_eq(&'.').is_some() {
        field.precision = Some(size(chars)?);
    }
    Ok(field)
}

impl Field {
    fn convert(&self, conversion: char, argument: &str) -> Result<String, String> {
        let bad = |what: &str| format!("expected {what} for %{conversion}");
        Ok(match conversion {
            's' => {
                let most = self.precision.unwrap_or(usize::MAX);
                self.pad("", &argument.chars().take(most).collect::<String>(), false)
            }
            'c' => {
                let c = whole_number(argument).map(|code: u8| char::from(code));
                let c = c.ok_or_else(|| bad("integer"))?;
                self.pad("", &c.to_string(), false)
            }
            'd' | 'i' => {
                let value: i64 = whole_number(argument).ok_or_else(|| bad("integer"))?;
                self.digits(self.sign(value < 0), value.unsigned_abs().to_string())
            }
            'u' | 'x' | 'X' | 'o' => {
                let signed = whole_number(argument).map(|value: i64| value as u64);
                let value = signed.or_else(|| whole_number(argument));
                let value = value.ok_or_else(|| bad("integer"))?;
                let prefix = |text| {
                    if self.alternate && value != 0 {
                        text
                    } else {
                        ""
                    }
                };
                match conversion {
                    'u' => self.digits("", value.to_string()),
                    'x' => self.digits(prefix("0x"), format!("{value:x}")),
                    'X' => self.digits(prefix("0X"), format!("{value:X}")),
                    _ => self.digits(prefix("0"), format!("{value:o}")),
                }
            }
            'e' | 'E' | 'f' | 'F' | 'g' | 'G' => {
                let value = Number::parse(argument).ok_or_else(|| bad("number"))?.real();
                let text = self.real(conversion.to_ascii_lowercase(), value.abs());
                let text = match conversion.is_ascii_uppercase() {
                    true => text.to_ascii_uppercase(),
                    false => text,
                };
                self.pad(self.sign(value.is_sign_negative()), &text, self.zero)
            }
            other => return Err(format!("unknown conversion %{other}")),
        })
    }

    fn real(&self, conversion: char, value: f64) -> String {
        let places = self.precision.unwrap_or(6);
        match conversion {
            'f' => format!("{value:.places$}"),
            'g' => general(value, places),
            _ => {
                let text = format!("{value:.places$e}");
                let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
                let exponent: i32 = exponent.parse().unwrap_or(0);
                let sign = if exponent < 0 { '-' } else { '+' };
                format!("{mantissa}e{sign}{:02}", exponent.abs())
            }
        }
    }

    fn sign(&self, negative: bool) -> &'static str {
        match (negative, self.plus, self.space) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        }
    }

    fn digits(&self, prefix: &str, digits: String) -> String {
        match self.precision {
            Some(least) => self.pad(prefix, &format!("{digits:0>least$}"), false),
            None => self.pad(prefix, &digits, self.zero),
        }
    }

    fn pad(&self, prefix: &str, text: &str, zero: bool) -> String {
        let have = prefix.len() + text.chars().count();
        let missing = self.width.saturating_sub(have);
        match (self.left, zero) {
            (true, _) => format!("{prefix}{text}{}", " ".repeat(missing)),
            (_, true) => format!("{prefix}{}{text}", "0".repeat(missing)),
            _ => format!("{}{prefix}{text}", " ".repeat(missing)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(words: &[&str]) -> Result<String, String> {
        let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        sprintf(&words)
    }

    #[test]
    fn conversions_are_those_of_c() {
        for (words, text) in [
            (
                &["%d|%5d|%-5d|%05d", "7", "7", "7", "-7"][..],
                "7|    7|7    |-0007",
            ),
            (
                &["%x %X %#x %o %u", "255", "255", "255", "8", "9"],
                "ff FF 0xff 10 9",
            ),
            (&["%s:%5s:%.2s", "a", "b", "cde"], "a:    b:cd"),
            (&["%c%%", "65"], "A%"),
            (
                &["%.2f %e %g %G", "3.14159", "1500", "0.5", "1e-9"],
                "3.14 1.500000e+03 0.5 1E-09",
            ),
            (
                &["%+d % d %.3d %*d", "1", "2", "3", "4", "5"],
                "+1  2 003    5",
            ),
            (&["%lld %x", "1", "-1"], "1 ffffffffffffffff"),
        ] {
            assert_eq!(format(words).as_deref(), Ok(text));
        }
    }

    #[test]
    fn arguments_must_fit_the_format() {
        for words in [
            &["%d"][..],
            &["%d", "x"],
            &["%y", "1"],
            &["a", "1"],
            &["%"],
            &["%99999d", "1"],
            &["%*d", "-1", "1"],
            &["%f", "x"],
        ] {
            assert_eq!(format(words), Err("syntax error".to_owned()), "{words:?}");
        }
        assert_eq!(format(&[]), Ok(String::new()));
    }
}
