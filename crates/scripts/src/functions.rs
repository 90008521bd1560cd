//! The functions that every script offers as handlers: arithmetic, comparison, texts.

use super::number::{Number, boolean};
use super::sprintf::sprintf;
use arguments::units::whole_number;
use lang::args::{quote, unquote, unquoted_words, words};
use std::cmp::Ordering;

/// Largest number that `random` gives: C's `RAND_MAX`.
const RANDOM_MAX: u32 = 0x7fff_ffff;

/// The functions here, which need nothing but their argument.
pub const PURE: &[&str] = &[
    "add", "sub", "mul", "div", "idiv", "mod", "rem", "min", "max", "neg", "abs", "eq", "ne", "lt",
    "gt", "le", "ge", "not", "and", "or", "nand", "nor", "if", "in", "sprintf", "first", "length",
    "unquote", "htons", "htonl", "ntohs", "ntohl",
];

/// Calls a function of [`PURE`]; `None` if it is none of them.
pub(crate) fn pure(name: &str, argument: &str) -> Option<Result<String, String>> {
    Some(match name {
        "add" | "sub" | "mul" | "div" | "idiv" | "min" | "max" => fold(name, argument),
        "mod" | "rem" => remainder(name, argument),
        "neg" | "abs" => one_number(argument).map(|n| sign(name, n).to_string()),
        "eq" | "ne" | "lt" | "gt" | "le" | "ge" => compare(name, argument),
        "not" | "and" | "or" | "nand" | "nor" => logic(name, argument),
        "if" => choose(argument),
        "in" => Ok(member(argument)),
        "sprintf" => sprintf(&unquoted_words(argument)),
        "first" => Ok(first(argument).to_owned()),
        "length" => Ok(argument.len().to_string()),
        "unquote" => Ok(unquote(argument.trim_end()).into_owned()),
        "htons" | "ntohs" => swap(argument, |v| u32::from((v as u16).to_be())),
        "htonl" | "ntohl" => swap(argument, u32::to_be),
        _ => return None,
    })
}

/// The only word of an argument. White space behind it is part of it, as in Click, so that it is no number.
fn only_word(argument: &str) -> Option<String> {
    match <[String; 1]>::try_from(unquoted_words(argument)) {
        Ok([word]) if !argument.ends_with(char::is_whitespace) => Some(word),
        _ => None,
    }
}

fn fold(name: &str, argument: &str) -> Result<String, String> {
    // Only real numbers are divided, as in Click.
    let real = matches!(name, "div" | "idiv");
    let all = Number::parse_all(&unquoted_words(argument), real);
    let all = all.ok_or_else(|| "expected list of numbers".to_owned())?;
    let Some((&first, others)) = all.split_first() else {
        let sum = matches!(name, "add" | "sub");
        return Ok(if sum { "0" } else { "1" }.to_owned());
    };
    let step = |a: Number, b: Number| match name {
        "add" => a.apply(b, i64::checked_add, |a, b| a + b),
        "sub" => a.apply(b, i64::checked_sub, |a, b| a - b),
        "mul" => a.apply(b, i64::checked_mul, |a, b| a * b),
        "div" | "idiv" => Number::Real(a.real() / b.real()),
        "min" if b.compare(a) == Ordering::Less => b,
        "max" if b.compare(a) == Ordering::Greater => b,
        _ => a,
    };
    let result = others.iter().fold(first, |a, b| step(a, *b));
    Ok(match result {
        Number::Real(value) if name == "idiv" => truncated(value).to_string(),
        result => result.to_string(),
    })
}

/// The integer part of a number, if 64 bits can hold it; else Click's result on this kind of processor.
fn truncated(value: f64) -> i64 {
    let bound = -(i64::MIN as f64);
    if (-bound..bound).contains(&value) {
        value as i64
    } else {
        i64::MIN
    }
}

fn one_number(argument: &str) -> Result<Number, String> {
    let number = only_word(argument).and_then(|word| Number::parse(&word));
    number.ok_or_else(|| "expected one number".to_owned())
}

fn sign(name: &str, number: Number) -> Number {
    let flip = name == "neg" || number.real() < 0.0;
    if flip {
        Number::Int(0).apply(number, i64::checked_sub, |a, b| a - b)
    } else {
        number
    }
}

fn remainder(name: &str, argument: &str) -> Result<String, String> {
    let words = unquoted_words(argument);
    let both = match words.as_slice() {
        [a, b] => two_numbers(a, b),
        _ => None,
    };
    match (name, both) {
        (_, Some((Number::Int(_), Number::Int(0)))) => Ok(String::new()),
        (_, Some((Number::Int(a), Number::Int(b)))) => Ok(a.wrapping_rem(b).to_string()),
        ("rem", Some((_, b))) if b.real() == 0.0 => Err("division by zero".to_owned()),
        ("rem", Some((a, b))) => Ok(Number::Real(a.real() % b.real()).to_string()),
        _ => Err("expected two numbers".to_owned()),
    }
}

/// Two numbers: both integers, or both real, as in Click.
fn two_numbers(a: &str, b: &str) -> Option<(Number, Number)> {
    match (whole_number(a), whole_number(b)) {
        (Some(a), Some(b)) => Some((Number::Int(a), Number::Int(b))),
        _ => Some((Number::parse_real(a)?, Number::parse_real(b)?)),
    }
}

fn compare(name: &str, argument: &str) -> Result<String, String> {
    let words = unquoted_words(argument);
    let [a, b] = words.as_slice() else {
        return Err("expected two numbers".to_owned());
    };
    let order = match two_numbers(a, b) {
        Some((a, b)) => a.compare(b),
        None => a.as_bytes().cmp(b.as_bytes()),
    };
    let holds = match name {
        "eq" => order.is_eq(),
        "ne" => order.is_ne(),
        "lt" => order.is_lt(),
        "gt" => order.is_gt(),
        "le" => order.is_le(),
        _ => order.is_ge(),
    };
    Ok(holds.to_string())
}

fn logic(name: &str, argument: &str) -> Result<String, String> {
    let words = match name {
        "not" => only_word(argument).map(|word| vec![word]),
        _ => Some(unquoted_words(argument)),
    };
    let words = words.ok_or_else(|| "syntax error".to_owned())?;
    // The first word that decides ends the search, as in Click: words behind it may be anything.
    let decisive = matches!(name, "or" | "nor");
    let mut found = false;
    for word in &words {
        let value = boolean(word).ok_or_else(|| "syntax error".to_owned())?;
        found = value == decisive;
        if found {
            break;
        }
    }
    let result = match name {
        "or" | "nand" | "not" => found,
        _ => !found,
    };
    Ok(result.to_string())
}

fn choose(argument: &str) -> Result<String, String> {
    let mut words = unquoted_words(argument);
    let condition = words.first().and_then(|w| boolean(w));
    match (condition, words.len()) {
        (Some(true), 2..) => Ok(words.swap_remove(1)),
        (Some(false), 3..) => Ok(words.swap_remove(2)),
        (Some(_), _) => Ok(String::new()),
        (None, _) => Err("syntax error".to_owned()),
    }
}

fn member(argument: &str) -> String {
    let words = unquoted_words(argument);
    let found = words
        .split_first()
        .map(|(first, rest)| rest.contains(first));
    found.unwrap_or(false).to_string()
}

/// A number with its bytes in the other order, of its last 16 or 32 bits. Negative numbers are two's complements.
fn swap(argument: &str, swap: fn(u32) -> u32) -> Result<String, String> {
    let bounds = i64::from(i32::MIN)..=i64::from(u32::MAX);
    let value = only_word(argument).and_then(|word| whole_number(&word));
    let value = value.filter(|value| bounds.contains(value));
    let value = value.ok_or_else(|| "expected one integer of 32 bits".to_owned())?;
    Ok(swap(value as u32).to_string())
}

/// `random`: a number up to C's `RAND_MAX`, below a bound, or between two.
pub(crate) fn random(argument: &str, draw: &mut dyn FnMut() -> u32) -> Result<String, String> {
    let bounds: Option<Vec<i64>> = unquoted_words(argument)
        .iter()
        .map(|w| whole_number(w))
        .collect();
    let (low, high) = match bounds.as_deref() {
        Some([]) => return Ok((draw() & RANDOM_MAX).to_string()),
        Some([n]) => (0, n.saturating_sub(1)),
        Some([a, b]) => (*a, *b),
        _ => return Err("expected at most two integers".to_owned()),
    };
    let span = i128::from(high) - i128::from(low) + 1;
    if span <= 0 || span > 1 << 62 {
        return Err("empty range".to_owned());
    }
    let bits = (u128::from(draw()) << 32 | u128::from(draw())) as i128;
    Ok((i128::from(low) + bits % span).to_string())
}

/// The first word of a text, with its quotes.
fn first(text: &str) -> &str {
    words(text)
        .into_iter()
        .next()
        .map_or("", |word| &text[word])
}

/// Takes the first word off a text.
pub(crate) fn shift(text: &str) -> (String, String) {
    match words(text).into_iter().next() {
        Some(first) => (
            unquote(&text[first.clone()]).into_owned(),
            text[first.end..].trim_start().to_owned(),
        ),
        None => (String::new(), String::new()),
    }
}

/// Quoted text with any content.
pub(crate) fn quoted(text: &str) -> String {
    quote(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cases: &[(&str, &str)]) {
        for (call, expected) in cases {
            let (name, argument) = call.split_once(' ').unwrap_or((call, ""));
            let result = pure(name, argument).expect("it is a function");
            assert_eq!(result.as_deref(), Ok(*expected), "{call}");
        }
    }

    fn refused(call: &str) -> String {
        let (name, argument) = call.split_once(' ').unwrap_or((call, ""));
        pure(name, argument).expect("it is a function").unwrap_err()
    }

    #[test]
    fn arithmetic_keeps_integers_and_falls_back_to_doubles() {
        check(&[
            ("add 10 5 2", "17"),
            ("add 1 .5", "1.5"),
            ("sub 10 2 2", "6"),
            ("sub 5", "5"),
            ("add", "0"),
            ("max", "1"),
            ("min 10 6 20", "6"),
            ("max -1 6 3", "6"),
            ("max 1 2.5", "2.5"),
            ("mul 1 2 3", "6"),
            ("div 75 2.5 5", "6"),
            ("div 7 2", "3.5"),
            ("div 6 4 3", "0.5"),
            ("idiv 60 2 5", "6"),
            ("idiv 7 2", "3"),
            ("idiv 7.5 2", "3"),
            ("idiv 010 2", "5"),
            ("idiv 7 2 0.5", "7"),
            ("div 10000000000000", "1e+13"),
            ("div 0 -1", "-0"),
            ("div 1 -0", "-inf"),
            ("add 010 1e3 010", "1018"),
            ("mul 2.5 -0", "-0"),
            ("max 2.5 010", "10"),
            ("max 010 2.5", "8"),
            ("add 0b11 1_0", "13"),
            ("rem 010 2.5", "0"),
            ("rem 010 3", "2"),
            ("div 010", "10"),
            ("mod 7 3", "1"),
            ("rem 7 3", "1"),
            ("rem 7.5 2", "1.5"),
            ("neg 5", "-5"),
            ("neg -2.5", "2.5"),
            ("abs -5", "5"),
            ("abs 5", "5"),
            ("add 0x10 010", "24"),
            ("add 9223372036854775807 1", "9.22337203685e+18"),
            ("mod -9223372036854775808 -1", "0"),
            ("idiv -9223372036854775808 -1", "-9223372036854775808"),
        ]);
        check(&[("div 1 0", "inf"), ("mod 1 0", ""), ("mul", "1")]);
        check(&[("idiv 1 0", "-9223372036854775808")]);
        assert_eq!(refused("mod 1.5 2"), "expected two numbers");
        assert_eq!(refused("add 1 x"), "expected list of numbers");
        assert_eq!(refused("abs"), "expected one number");
    }

    #[test]
    fn comparison_is_of_numbers_or_else_of_bytes() {
        check(&[
            ("eq 10 0xA", "true"),
            ("eq 10x 10x", "true"),
            ("ne 10 10.0", "false"),
            ("lt 9 10", "true"),
            ("lt 9x 10", "false"),
            ("gt 2 1.5", "true"),
            ("le 9 8", "false"),
            ("ge 8 8", "true"),
            ("eq \"a b\" 'a b'", "true"),
            ("eq 010 8", "true"),
            ("eq 010 8.0", "false"),
            ("lt 010 9.5", "false"),
        ]);
        assert_eq!(refused("eq 1"), "expected two numbers");
    }

    #[test]
    fn booleans_are_combined() {
        check(&[
            ("not true", "false"),
            ("not 0", "true"),
            ("and true 1 yes", "true"),
            ("and true false", "false"),
            ("or false t", "true"),
            ("nand true true", "false"),
            ("nor false false", "true"),
            ("if true a b", "a"),
            ("if 0 a 'b c'", "b c"),
            ("in foo bar foo", "true"),
            ("in foo bar", "false"),
            ("in 10 0xA", "false"),
        ]);
        assert_eq!(refused("not maybe"), "syntax error");
        // Words behind the one that decides may be anything, as in Click.
        check(&[
            ("or true 2", "true"),
            ("and 0 x 1", "false"),
            ("nor 1 x", "false"),
            ("nand no x", "true"),
        ]);
        assert_eq!(refused("or false 2"), "syntax error");
        assert_eq!(refused("and true x"), "syntax error");
        check(&[("if true a", "a"), ("if false a", "")]);
        check(&[("if true", ""), ("if 0", ""), ("if true a b c", "a")]);
        assert_eq!(refused("if 7 a b"), "syntax error");
        assert_eq!(refused("if"), "syntax error");
    }

    #[test]
    fn texts_and_byte_orders() {
        check(&[
            ("length abcdef", "6"),
            ("length", "0"),
            ("first \"a b\" c", "\"a b\""),
            ("first 3", "3"),
            ("first", ""),
            ("if 1", ""),
            ("if 0", ""),
            ("or 1 maybe", "true"),
            ("unquote \"a b\"", "a b"),
            ("sprintf \"%05x\" 127", "0007f"),
            ("htons 1", "256"),
            ("ntohl 16777216", "1"),
        ]);
        check(&[
            ("ntohl -1", "4294967295"),
            ("htonl -7", "4194303999"),
            ("htonl 3232235521", "16820416"),
            ("htons -7", "63999"),
            ("htons 65536", "0"),
            ("ntohs 70000", "28689"),
        ]);
        for call in [
            "htons 4294967296",
            "htonl -2147483649",
            "htonl 1 ",
            "neg 1 ",
            "abs 1 2",
        ] {
            assert!(refused(call).starts_with("expected one "), "{call}");
        }
        assert_eq!(refused("not 1 "), "syntax error");
        assert_eq!(shift("foo bar  baz"), ("foo".into(), "bar  baz".into()));
        assert_eq!(shift(""), (String::new(), String::new()));
        assert_eq!(quoted("a b"), "\"a b\"");
    }

    #[test]
    fn random_numbers_stay_in_their_range() {
        let mut state = 7u32;
        let mut draw = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state
        };
        for _ in 0..200 {
            let mut get = |a: &str| random(a, &mut draw).map(|v| v.parse::<i64>());
            assert!(matches!(get(""), Ok(Ok(0..=0x7fff_ffff))));
            assert!(matches!(get("3"), Ok(Ok(0..=2))));
            assert!(matches!(get("-2 2"), Ok(Ok(-2..=2))));
        }
        assert!(random("0", &mut draw).is_err());
        assert!(random("a", &mut draw).is_err());
        assert!(random("-9223372036854775808 9223372036854775807", &mut draw).is_err());
    }
}
